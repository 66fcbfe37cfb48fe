//! Allocates device memory, and host memory that the device accesses directly.
#![allow(unsafe_code)]

use super::Device;
use super::block::Block;
use super::error::GpuError;
use super::stream::{Event, Stream};
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::ptr::NonNull;

#[derive(Debug)]
pub(crate) struct Memory {
    device: Device,
    address: sys::CUdeviceptr,
    len: usize,
}

impl Memory {
    /// Allocates `len` bytes, or one byte if `len` is 0. Their content is unspecified.
    ///
    /// # Errors
    /// `OutOfMemory`, with the needed and the free bytes; `Driver` if a driver call fails.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        // SAFETY: the memory is freed once, in `drop`.
        match unsafe { result::malloc_sync(len.max(1)) } {
            Ok(address) => Ok(Self { device: device.clone(), address, len }),
            Err(error) => Err(refused(device, error, len)),
        }
    }

    /// Returns the address to pass to kernels.
    #[must_use]
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Wait for work that still uses the memory before freeing it. In a fork, there is nothing to free.
        let Ok(_current) = self.device.bind() else { return };
        _ = self.device.synchronize();
        // SAFETY: the memory was allocated in `new` and is freed once.
        _ = unsafe { result::free_sync(self.address) };
    }
}

/// Pinned host memory, which the device accesses directly.
#[derive(Debug)]
pub(crate) struct Pinned {
    device: Device,
    bytes: NonNull<u8>,
    len: usize,
    /// Event recorded after the last copy.
    copied: Event,
    is_copying: bool,
}

// SAFETY: the value owns its bytes, like a `Box`.
unsafe impl Send for Pinned {}
// SAFETY: shared access only reads the value.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates `len` zero bytes, or one byte if `len` is 0. Pinning takes time: 168 ms for 256 MiB on one machine.
    ///
    /// # Errors
    /// `Unpinned` if the host cannot pin this much memory; `Driver` if a driver call fails.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        // The memory is valid in every context of the process. It is cached by the host, which reads its own writes.
        // SAFETY: freed once, in `drop`.
        let bytes = match unsafe { result::malloc_host(len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) } {
            Ok(bytes) => bytes.cast::<u8>(),
            Err(error) => return Err(unpinned(error, len)),
        };
        let Some(bytes) = NonNull::new(bytes) else {
            return Err(GpuError::Unpinned { needed: len as u64 });
        };
        // SAFETY: this number of bytes was allocated, and no other code has the pointer.
        unsafe { bytes.write_bytes(0, len.max(1)) };
        let copied = match Event::new(device) {
            Ok(event) => event,
            Err(error) => {
                // SAFETY: the memory was allocated above and has not been used yet.
                _ = unsafe { result::free_host(bytes.as_ptr().cast::<c_void>()) };
                return Err(error);
            }
        };
        Ok(Self { device: device.clone(), bytes, len, copied, is_copying: false })
    }

    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Waits for the last copy from or to the memory, then returns the content for writing.
    ///
    /// # Errors
    /// `Driver` if an earlier launch has failed or the device is lost.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8], GpuError> {
        if self.is_copying {
            self.copied.synchronize()?;
            self.is_copying = false;
        }
        // SAFETY: `len` bytes were allocated and written; no copy is in progress, and `self` is borrowed
        // exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) })
    }

    /// Records that a copy was started on `stream`. If recording fails, waits for the copy instead.
    pub(super) fn used_by(&mut self, stream: &Stream) -> Result<(), GpuError> {
        match self.copied.record(stream) {
            Ok(()) => {
                self.is_copying = true;
                Ok(())
            }
            Err(error) => {
                _ = stream.synchronize();
                Err(error)
            }
        }
    }
}

// SAFETY: the bytes were allocated and written in `new`, and belong to the value until it is dropped;
// `bytes_mut` waits for the last copy.
unsafe impl Block for Pinned {
    fn start(&self) -> NonNull<u8> {
        self.bytes
    }

    fn size(&self) -> usize {
        self.len
    }

    fn settle(&mut self) -> Result<(), GpuError> {
        self.bytes_mut().map(drop)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Ok(_current) = self.device.bind() else { return };
        if self.is_copying {
            _ = self.copied.synchronize();
        }
        // SAFETY: the memory was allocated in `new` and is freed once; no copy is in progress.
        _ = unsafe { result::free_host(self.bytes.as_ptr().cast::<c_void>()) };
    }
}

const fn is_full(error: result::DriverError) -> bool {
    matches!(error.0, sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

fn refused(device: &Device, error: result::DriverError, len: usize) -> GpuError {
    if !is_full(error) {
        return GpuError::of("cuMemAlloc")(error);
    }
    let (free, total) = device.free_bytes().unwrap_or((0, device.properties().memory_bytes));
    GpuError::OutOfMemory { what: "device memory", needed: len as u64, free, total }
}

fn unpinned(error: result::DriverError, len: usize) -> GpuError {
    match is_full(error) {
        true => GpuError::Unpinned { needed: len as u64 },
        false => GpuError::of("cuMemHostAlloc")(error),
    }
}
