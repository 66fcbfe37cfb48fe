//! Streams: what is copied and computed in order. Events: places in that order.
#![allow(unsafe_code)]

use super::error::GpuError;
use super::{Device, Launch, Module};
use cudarc::driver::{result, sys};
use shardpack_loader::stage::StreamHandle;
use std::ffi::c_void;

/// A queue of copies and kernels, done one after the other.
#[derive(Debug)]
pub struct Stream {
    pub(super) device: Device,
    pub(super) handle: sys::CUstream,
}

// SAFETY: the driver takes a stream from any thread, and from several at a time.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, which does not wait for the default stream.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let handle =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(GpuError::of("cuStreamCreate"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// A new stream whose kernels go before those that others have not begun: for short ones that
    /// somebody waits for.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn urgent(device: &Device) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let of = GpuError::of("cuStreamCreateWithPriority");
        let (_, greatest) = result::stream::get_priority_range().map_err(of)?;
        let kind = result::stream::StreamKind::NonBlocking;
        let handle =
            result::stream::create_with_priority(kind, greatest).map_err(GpuError::of("cuStreamCreateWithPriority"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Launches a kernel of `module`. Nobody outside of this crate can: the addresses among the
    /// parameters are the word of whoever wrote them.
    ///
    /// # Errors
    /// `Driver` if there is no such kernel, or the driver refuses. What the kernel itself does
    /// wrong is an error of a later call.
    pub(crate) fn run(&self, module: &Module, launch: &Launch) -> Result<(), GpuError> {
        if !launch.has_work() {
            return Ok(());
        }
        let ([x, y, z], [a, b, c]) = (launch.grid, launch.block);
        let kernel = module.kernel(launch.kernel)?;
        let _current = self.device.bind()?;
        let mut params = [launch.params.words().as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the kernel is of a module that is not unloaded before all is done, and takes one struct, of which
        // the driver copies as many bytes as the kernel declares: `Params` has room for the
        // largest. What kernels do with the numbers in it is said at the head of `driver`.
        unsafe { result::launch_kernel(kernel, (x, y, z), (a, b, c), 0, self.handle, &mut params) }
            .map_err(GpuError::of("cuLaunchKernel"))
    }

    /// Milliseconds of a kernel by itself: the median of several runs between two marks.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn time(&self, module: &Module, launch: &Launch, [begin, end]: &[Event; 2]) -> Result<f32, GpuError> {
        let mut times = [0.0_f32; 9];
        for time in &mut times {
            begin.record(self)?;
            self.run(module, launch)?;
            end.record(self)?;
            end.synchronize()?;
            *time = begin.milliseconds_to(end)?;
        }
        times.sort_by(f32::total_cmp);
        let [.., median, _, _, _, _] = times;
        Ok(median)
    }

    /// Lets what comes next wait until `event` has happened.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles live.
        unsafe { result::stream::wait_event(self.handle, event.handle, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(GpuError::of("cuStreamWaitEvent"))
    }

    /// Waits on the host until all is done.
    ///
    /// # Errors
    /// `Driver` if something that was launched has failed, or the device is lost.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: the handle lives.
        unsafe { result::stream::synchronize(self.handle) }.map_err(GpuError::of("cuStreamSynchronize"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(_current) = self.device.bind() else { return };
        // SAFETY: created in `new`, destroyed once; the driver keeps what is still in it.
        _ = unsafe { result::stream::destroy(self.handle) };
    }
}

/// A place in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    handle: sys::CUevent,
}

// SAFETY: the driver takes an event from any thread, and from several at a time.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event, which has happened until it is recorded. Waiting for it lets the thread sleep.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        Self::with(device, sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)
    }

    fn with(device: &Device, flags: sys::CUevent_flags) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let handle = result::event::create(flags).map_err(GpuError::of("cuEventCreate"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Happens once all that was put into `stream` so far is done.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles live.
        unsafe { result::event::record(self.handle, stream.handle) }.map_err(GpuError::of("cuEventRecord"))
    }

    /// Happens once all that somebody else put into a stream of the same context so far is done.
    /// `false` if the stream is being captured: then nothing of it is done now, and the event would
    /// become a part of what is captured.
    ///
    /// # Errors
    /// `Driver` if the driver refuses.
    pub fn record_foreign(&self, stream: StreamHandle) -> Result<bool, GpuError> {
        let _current = self.device.bind()?;
        let stream =
            std::ptr::with_exposed_provenance_mut::<sys::CUstream_st>(usize::try_from(stream.handle()).unwrap_or(0));
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut status = none;
        // SAFETY: the stream lives: whoever made its handle has promised it.
        let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) };
        asked.result().map_err(GpuError::of("cuStreamIsCapturing"))?;
        if status != none {
            return Ok(false);
        }
        // SAFETY: as above; and our event lives.
        unsafe { result::event::record(self.handle, stream) }.map_err(GpuError::of("cuEventRecord"))?;
        Ok(true)
    }

    /// Waits on the host until it has happened.
    ///
    /// # Errors
    /// `Driver` if something that was launched has failed, or the device is lost.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: the handle lives.
        unsafe { result::event::synchronize(self.handle) }.map_err(GpuError::of("cuEventSynchronize"))
    }

    /// Milliseconds from `self` to `later`, both of which have happened.
    ///
    /// # Errors
    /// `Driver` if one of them was never recorded, or has not happened.
    pub fn milliseconds_to(&self, later: &Self) -> Result<f32, GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles live.
        unsafe { result::event::elapsed(self.handle, later.handle) }.map_err(GpuError::of("cuEventElapsedTime"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_current) = self.device.bind() else { return };
        // SAFETY: created in `with`, destroyed once; the driver keeps it while it is in use.
        _ = unsafe { result::event::destroy(self.handle) };
    }
}
