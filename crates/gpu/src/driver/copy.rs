//! Copies bytes between host and device, in stream order.
#![allow(unsafe_code)]

use super::block::Block;
use super::error::{GpuError, within};
use super::memory::{Memory, Pinned};
use super::stream::Stream;
use cudarc::driver::result;
use std::ops::Range;

impl Stream {
    /// Copies `range` of `from` into `to`, starting at byte `at`.
    ///
    /// # Errors
    /// `Range` if a range exceeds its memory; `Driver` if a driver call fails.
    pub(crate) fn upload(
        &self,
        from: &mut Pinned,
        range: Range<usize>,
        to: &Memory,
        at: usize,
    ) -> Result<(), GpuError> {
        let count = range.len();
        within("pinned memory", from.len(), range.start, count)?;
        within("device memory", to.len(), at, count)?;
        if count == 0 {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: both ranges are within their memory. `from` hands out no bytes and is not freed until the event
        // that `used_by` records has occurred. `to` is not freed before the device is idle.
        unsafe {
            let from = std::slice::from_raw_parts(from.start().as_ptr().add(range.start), count);
            result::memcpy_htod_async(to.address() + at as u64, from, self.handle)
        }
        .map_err(GpuError::of("cuMemcpyHtoDAsync"))?;
        from.used_by(self)
    }

    /// Copies `range` of `from` into `to`, starting at byte `at`.
    ///
    /// # Errors
    /// `Range` if a range exceeds its memory; `Driver` if a driver call fails.
    pub(crate) fn download(
        &self,
        from: &Memory,
        range: Range<usize>,
        to: &mut Pinned,
        at: usize,
    ) -> Result<(), GpuError> {
        let count = range.len();
        within("device memory", from.len(), range.start, count)?;
        within("pinned memory", to.len(), at, count)?;
        if count == 0 {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: as for `upload`. The call uses only the address and the length of the slice.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to.start().as_ptr().add(at), count);
            result::memcpy_dtoh_async(to, from.address() + range.start as u64, self.handle)
        }
        .map_err(GpuError::of("cuMemcpyDtoHAsync"))?;
        to.used_by(self)
    }

    /// Copies bytes from unpinned host memory to the device, and waits for the copy.
    ///
    /// # Errors
    /// `Range` if `to` is too short; `Driver` if a driver call fails.
    pub(crate) fn write(&self, from: &[u8], to: &Memory, at: usize) -> Result<(), GpuError> {
        within("device memory", to.len(), at, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: the range is within its memory. `from` is borrowed until the copy is done.
        let copied = unsafe { result::memcpy_htod_async(to.address() + at as u64, from, self.handle) };
        self.synchronize()?;
        copied.map_err(GpuError::of("cuMemcpyHtoDAsync"))
    }

    /// Copies bytes from the device to unpinned host memory, and waits for the copy.
    ///
    /// # Errors
    /// `Range` if `from` is too short; `Driver` if a driver call fails.
    pub(crate) fn read(&self, from: &Memory, at: usize, to: &mut [u8]) -> Result<(), GpuError> {
        within("device memory", from.len(), at, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: the range is within its memory. `to` is borrowed until the copy is done.
        let copied = unsafe { result::memcpy_dtoh_async(to, from.address() + at as u64, self.handle) };
        self.synchronize()?;
        copied.map_err(GpuError::of("cuMemcpyDtoHAsync"))
    }

    /// Sets all bytes of `range` to zero.
    ///
    /// # Errors
    /// `Range` if `memory` is too short; `Driver` if a driver call fails.
    pub(crate) fn zero(&self, memory: &Memory, range: Range<usize>) -> Result<(), GpuError> {
        within("device memory", memory.len(), range.start, range.len())?;
        if range.is_empty() {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: the range is within its memory, which is not freed before the device is idle.
        unsafe { result::memset_d8_async(memory.address() + range.start as u64, 0, range.len(), self.handle) }
            .map_err(GpuError::of("cuMemsetD8Async"))
    }
}
