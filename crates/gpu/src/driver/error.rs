//! The error type for devices and the CUDA driver.

use cudarc::driver::result::DriverError;

/// Why a device cannot be used, or why an operation on it failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No CUDA driver was found.
    #[error("no CUDA driver: libcuda.so.1 was not found")]
    NoDriver,
    /// There is no device with this index.
    #[error("there is no CUDA device {ordinal}: this machine has {count}, numbered from 0")]
    NoDevice {
        /// Requested index.
        ordinal: u32,
        /// Number of devices.
        count: u32,
    },
    /// The driver or the device is too old for the kernels.
    #[error("{what} is {}.{}, but the kernels need {}.{} or higher", found.0, found.1, expected.0, expected.1)]
    TooOld {
        /// The version that is too low: the driver's CUDA version or the device's compute capability.
        what: &'static str,
        /// Minimum version.
        expected: (u32, u32),
        /// Version found.
        found: (u32, u32),
    },
    /// The host cannot pin this much memory.
    #[error("cannot pin {needed} bytes of host memory")]
    Unpinned {
        /// Requested bytes.
        needed: u64,
    },
    /// The device memory is full.
    #[error("{what}: {needed} bytes are needed, but only {free} of {total} bytes are free on the device")]
    OutOfMemory {
        /// Purpose of the allocation.
        what: &'static str,
        /// Requested bytes.
        needed: u64,
        /// Free device memory in bytes.
        free: u64,
        /// Total device memory in bytes.
        total: u64,
    },
    /// A range is outside its memory.
    #[error("{what}: {count} bytes at offset {offset} exceed the size of {len} bytes")]
    Range {
        /// Name of the memory, for messages.
        what: &'static str,
        /// Size of the memory in bytes.
        len: u64,
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        count: u64,
    },
    /// This process is a fork of the process that opened the device.
    #[error("this CUDA device was opened in the parent process and cannot be used after a fork")]
    Forked,
    /// Threads are still filling memory that is to be uploaded or reused.
    #[error("the staging memory is still being filled")]
    Lent,
    /// Any other driver error.
    #[error("{call}: {name}: {text}")]
    Driver {
        /// Name of the driver call that failed.
        call: &'static str,
        /// The driver's name for the error.
        name: String,
        /// The driver's message.
        text: String,
    },
}

impl GpuError {
    /// Returns a function that converts a driver error of `call`.
    pub(super) fn of(call: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |error| {
            let words = |found: Result<&std::ffi::CStr, DriverError>| {
                found.map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
            };
            Self::Driver { call, name: words(error.error_name()), text: words(error.error_string()) }
        }
    }
}

/// Fails unless `count` bytes at `offset` are within `len` bytes of memory.
pub(super) fn within(what: &'static str, len: usize, offset: usize, count: usize) -> Result<(), GpuError> {
    match offset.checked_add(count) {
        Some(end) if end <= len => Ok(()),
        _ => Err(GpuError::Range { what, len: len as u64, offset: offset as u64, count: count as u64 }),
    }
}
