//! A device and its primary context, which all libraries of the process share.
#![allow(unsafe_code)]

use super::error::GpuError;
use cudarc::driver::{result, sys};
use std::marker::PhantomData;
use std::sync::Arc;

/// A CUDA device.
///
/// ```
/// use shardpack_gpu::{Device, GpuError};
/// match Device::open(0) {
///     Ok(device) => assert!(device.properties().multiprocessors > 0),
///     Err(GpuError::NoDriver | GpuError::NoDevice { .. }) => {} // Then the host decodes.
///     Err(other) => println!("{other}"),
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    context: Arc<Context>,
}

/// Name, size and capabilities of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Index of the device.
    pub ordinal: u32,
    /// Name, as the driver reports it.
    pub name: String,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Size of the device memory in bytes.
    pub memory_bytes: u64,
}

/// CUDA version of driver 525, the first driver that accepts PTX 8.0.
const DRIVER: (u32, u32) = (12, 0);
/// Lowest compute capability that the kernels support.
const CAPABILITY: (u32, u32) = (7, 5);

fn driver_version() -> Result<(u32, u32), GpuError> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer that may be written.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(GpuError::of("cuDriverGetVersion"))?;
    let version = u32::try_from(version).unwrap_or(0);
    Ok((version / 1000, version % 1000 / 10))
}

fn at_least(what: &'static str, expected: (u32, u32), found: (u32, u32)) -> Result<(), GpuError> {
    if found < expected { Err(GpuError::TooOld { what, expected, found }) } else { Ok(()) }
}

/// The primary context of a device, which this value retains.
#[derive(Debug)]
struct Context {
    device: sys::CUdevice,
    handle: sys::CUcontext,
    properties: Properties,
    /// Process that opened the device. A fork inherits the handles but cannot use them.
    pid: u32,
}

// SAFETY: a context may be made current in any thread, and in several threads at the same time.
unsafe impl Send for Context {}
// SAFETY: as above; the value never changes.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        // SAFETY: the context was retained once in `open` and is released once here. `drop` cannot return an error.
        _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Context {
    fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Device {
    /// Opens a device by its index. Uses the primary context of the device, which other libraries of the process share.
    ///
    /// # Errors
    /// `NoDriver` if there is no driver; `NoDevice` if there is no device with this index; `TooOld` if the
    /// driver or the device is too old for the kernels; `Driver` if a driver call fails.
    pub fn open(ordinal: u32) -> Result<Self, GpuError> {
        // SAFETY: this loads the driver library and runs its initialisers. The call must come first, because every
        // other call panics if there is no driver.
        if !unsafe { sys::is_culib_present() } {
            return Err(GpuError::NoDriver);
        }
        // A driver without a device fails here.
        match result::init() {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => {
                return Err(GpuError::NoDevice { ordinal, count: 0 });
            }
            // The library found is not the driver, but a stub for linking.
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_STUB_LIBRARY => return Err(GpuError::NoDriver),
            other => other.map_err(GpuError::of("cuInit"))?,
        }
        let count = result::device::get_count().map_err(GpuError::of("cuDeviceGetCount"))?;
        let count = u32::try_from(count).unwrap_or(0);
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let Some(number) = number else { return Err(GpuError::NoDevice { ordinal, count }) };
        let device = result::device::get(number).map_err(GpuError::of("cuDeviceGet"))?;
        let attribute = |which| {
            // SAFETY: `device` came from the driver.
            let value = unsafe { result::device::get_attribute(device, which) };
            value.map(|v| u32::try_from(v).unwrap_or(0)).map_err(GpuError::of("cuDeviceGetAttribute"))
        };
        use sys::CUdevice_attribute_enum as A;
        let properties = Properties {
            ordinal,
            name: result::device::get_name(device).map_err(GpuError::of("cuDeviceGetName"))?,
            multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            capability: (
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device) }.map_err(GpuError::of("cuDeviceTotalMem"))?
                as u64,
        };
        at_least("the driver's CUDA version", DRIVER, driver_version()?)?;
        at_least("the device's compute capability", CAPABILITY, properties.capability)?;
        // SAFETY: as above; released when the last owner is dropped.
        let handle =
            unsafe { result::primary_ctx::retain(device) }.map_err(GpuError::of("cuDevicePrimaryCtxRetain"))?;
        let pid = std::process::id();
        Ok(Self { context: Arc::new(Context { device, handle, properties, pid }) })
    }

    /// Returns the properties of the device.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.context.properties
    }

    /// Returns the free and the total device memory in bytes.
    ///
    /// # Errors
    /// `Driver` if a driver call fails.
    pub fn free_bytes(&self) -> Result<(u64, u64), GpuError> {
        let _current = self.bind()?;
        let (free, total) = result::mem_get_info().map_err(GpuError::of("cuMemGetInfo"))?;
        Ok((free as u64, total as u64))
    }

    /// Waits for all work of this process on the device.
    ///
    /// # Errors
    /// `Driver` if an earlier launch has failed or the device is lost.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        let _current = self.bind()?;
        result::ctx::synchronize().map_err(GpuError::of("cuCtxSynchronize"))
    }

    /// Returns true if this process is a fork of the process that opened the device.
    pub(crate) fn is_forked(&self) -> bool {
        self.context.is_forked()
    }

    /// Makes the context current in this thread until the returned value is dropped. Driver calls require this, and
    /// the caller's thread may be using another device. Returns an error in a fork of the process that opened the
    /// device, because driver calls would crash there.
    pub(super) fn bind(&self) -> Result<Current, GpuError> {
        if self.context.is_forked() {
            return Err(GpuError::Forked);
        }
        // SAFETY: the context lives as long as `self`.
        let pushed = unsafe { sys::cuCtxPushCurrent_v2(self.context.handle) };
        pushed.result().map_err(GpuError::of("cuCtxPushCurrent"))?;
        Ok(Current {
            former: relaxed(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED),
            of_thread: PhantomData,
        })
    }
}

/// Sets this thread's mode for stream captures, which limits its calls during a capture, and returns the previous mode.
/// By default, no thread may wait or allocate while any thread captures a stream. Relaxing this is safe, because none
/// of this crate's work is in a stream that another library captures.
fn relaxed(mut mode: sys::CUstreamCaptureMode) -> sys::CUstreamCaptureMode {
    // SAFETY: the pointer is to a mode that may be read and written. An error does not change it.
    _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    mode
}

/// Keeps a context current in this thread. Dropping it restores the context that was current before.
#[must_use]
#[derive(Debug)]
pub(super) struct Current {
    former: sys::CUstreamCaptureMode,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        relaxed(self.former);
        let mut popped = std::ptr::null_mut();
        // SAFETY: `bind` pushed the context in this thread, and the value cannot leave the thread. `drop`
        // cannot return an error.
        _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_an_error() {
        let error = Device::open(4096).unwrap_err();
        assert!(matches!(error, GpuError::NoDriver | GpuError::NoDevice { ordinal: 4096, .. }), "{error}");
    }

    #[test]
    fn old_drivers_and_devices_are_errors() {
        assert_eq!(at_least("the driver's CUDA version", DRIVER, (12, 0)), Ok(()));
        assert_eq!(at_least("the driver's CUDA version", DRIVER, (13, 0)), Ok(()));
        let error = at_least("the driver's CUDA version", DRIVER, (11, 8)).unwrap_err();
        assert_eq!(error.to_string(), "the driver's CUDA version is 11.8, but the kernels need 12.0 or higher");
        assert!(at_least("the device's compute capability", CAPABILITY, (7, 0)).is_err());
    }
}
