//! Streams, which order copies and kernels, and events, which mark points in that order.
#![allow(unsafe_code)]

use super::error::GpuError;
use super::{Device, Launch, Module};
use cudarc::driver::{result, sys};
use shardpack_loader::stage::StreamHandle;
use std::ffi::c_void;

/// A queue of copies and kernels, executed in order.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) device: Device,
    pub(super) handle: sys::CUstream,
}

// SAFETY: the driver accepts a stream from any thread, and from several threads at the same time.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream that does not wait for the default stream.
    pub(crate) fn new(device: &Device) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let handle =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(GpuError::of("cuStreamCreate"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Creates a high-priority stream: its kernels run before the kernels of other streams that have not begun yet.
    /// It is for short kernels whose result a caller awaits.
    pub(crate) fn urgent(device: &Device) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let of = GpuError::of("cuStreamCreateWithPriority");
        let (_, greatest) = result::stream::get_priority_range().map_err(of)?;
        let kind = result::stream::StreamKind::NonBlocking;
        let handle =
            result::stream::create_with_priority(kind, greatest).map_err(GpuError::of("cuStreamCreateWithPriority"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Launches a kernel. The function is private to the crate, because it trusts the addresses in the parameters.
    ///
    /// # Errors
    /// `Driver` if there is no such kernel or a driver call fails. A fault of the kernel itself is reported as an
    /// error of a later call.
    pub(crate) fn run(&self, module: &Module, launch: &Launch) -> Result<(), GpuError> {
        if !launch.has_work() {
            return Ok(());
        }
        let ([x, y, z], [a, b, c]) = (launch.grid, launch.block);
        let kernel = module.kernel(launch.kernel)?;
        let _current = self.device.bind()?;
        let mut params = [launch.params.words().as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the module of the kernel is not unloaded before all work is done. The kernel takes one struct, and
        // the driver copies as many bytes as the kernel declares. `Params` is large enough for the largest struct.
        // The documentation of `driver` explains why the numbers in it are safe.
        unsafe { result::launch_kernel(kernel, (x, y, z), (a, b, c), 0, self.handle, &mut params) }
            .map_err(GpuError::of("cuLaunchKernel"))
    }

    /// Times a kernel that runs alone on the device, using the two events. Returns the median of several runs, in
    /// milliseconds.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
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

    /// Makes later work in the stream wait for `event`.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles are live.
        unsafe { result::stream::wait_event(self.handle, event.handle, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(GpuError::of("cuStreamWaitEvent"))
    }

    /// Waits on the host until all work in the stream is done.
    ///
    /// # Errors
    /// `Driver` if an earlier launch has failed or the device is lost.
    pub(crate) fn synchronize(&self) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: the handle is live.
        unsafe { result::stream::synchronize(self.handle) }.map_err(GpuError::of("cuStreamSynchronize"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(_current) = self.device.bind() else { return };
        // SAFETY: the stream was created in `new` and is destroyed once; the driver completes the work that
        // is still in it.
        _ = unsafe { result::stream::destroy(self.handle) };
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    device: Device,
    handle: sys::CUevent,
}

// SAFETY: the driver accepts an event from any thread, and from several threads at the same time.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event, which counts as done until it is recorded. Threads sleep while they wait for it.
    pub(crate) fn new(device: &Device) -> Result<Self, GpuError> {
        Self::with(device, sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)
    }

    fn with(device: &Device, flags: sys::CUevent_flags) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let handle = result::event::create(flags).map_err(GpuError::of("cuEventCreate"))?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Records the event in `stream`. The event occurs when all work that is now in the stream is done.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles are live.
        unsafe { result::event::record(self.handle, stream.handle) }.map_err(GpuError::of("cuEventRecord"))
    }

    /// Records the event in another library's stream of the same context. The event occurs when all work that is now
    /// in that stream is done. Returns `false` if the stream is being captured, because its work does not run now,
    /// and the event would become part of the capture.
    pub(crate) fn record_foreign(&self, stream: StreamHandle) -> Result<bool, GpuError> {
        let _current = self.device.bind()?;
        let stream =
            std::ptr::with_exposed_provenance_mut::<sys::CUstream_st>(usize::try_from(stream.handle()).unwrap_or(0));
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut status = none;
        // SAFETY: the stream is live, as the creator of its handle promised.
        let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) };
        asked.result().map_err(GpuError::of("cuStreamIsCapturing"))?;
        if status != none {
            return Ok(false);
        }
        // SAFETY: as above; the event of `self` is live too.
        unsafe { result::event::record(self.handle, stream) }.map_err(GpuError::of("cuEventRecord"))?;
        Ok(true)
    }

    /// Waits on the host until the event has occurred.
    ///
    /// # Errors
    /// `Driver` if an earlier launch has failed or the device is lost.
    pub(crate) fn synchronize(&self) -> Result<(), GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: the handle is live.
        unsafe { result::event::synchronize(self.handle) }.map_err(GpuError::of("cuEventSynchronize"))
    }

    /// Returns the milliseconds from `self` to `later`. Both events must have occurred.
    ///
    /// # Errors
    /// `Driver` if either event was never recorded or has not occurred.
    pub(crate) fn milliseconds_to(&self, later: &Self) -> Result<f32, GpuError> {
        let _current = self.device.bind()?;
        // SAFETY: both handles are live.
        unsafe { result::event::elapsed(self.handle, later.handle) }.map_err(GpuError::of("cuEventElapsedTime"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_current) = self.device.bind() else { return };
        // SAFETY: the event was created in `with` and is destroyed once; the driver keeps the event while it is in use.
        _ = unsafe { result::event::destroy(self.handle) };
    }
}
