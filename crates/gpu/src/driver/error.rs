//! What can go wrong between the host and the device.

use cudarc::driver::result::DriverError;

/// Why the device did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no CUDA driver.
    #[error("CUDA driver: expected libcuda.so.1, found none")]
    NoDriver,
    /// There are not so many devices.
    #[error("CUDA device: expected a number below {count}, found: {ordinal}")]
    NoDevice {
        /// The number that was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A driver or a device that the kernels are not for.
    #[error("{what}: expected {}.{} or later, found: {}.{}", expected.0, expected.1, found.0, found.1)]
    TooOld {
        /// What it is, and the number by which it counts.
        what: &'static str,
        /// The first one that will do.
        expected: (u32, u32),
        /// What there is.
        found: (u32, u32),
    },
    /// The host has not so much memory that it can pin.
    #[error("pinned memory: {needed} bytes needed, which the host cannot pin")]
    Unpinned {
        /// Bytes that were asked for.
        needed: u64,
    },
    /// The device's memory is full.
    #[error("{what}: {needed} bytes needed, {free} of {total} free on the device")]
    OutOfMemory {
        /// What was to be allocated.
        what: &'static str,
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes of the device's memory that are free.
        free: u64,
        /// Bytes of the device's memory.
        total: u64,
    },
    /// A range that is not within its memory.
    #[error("{what}: expected a range within {len} bytes, found: {count} bytes at {offset}")]
    Range {
        /// The memory.
        what: &'static str,
        /// Its bytes.
        len: u64,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        count: u64,
    },
    /// The device was opened by a process of which this one is a fork.
    #[error("CUDA device: expected the process that opened it, found a fork of that process")]
    Forked,
    /// Memory that is to be uploaded, or used again, while threads still fill it.
    #[error("staging memory: expected nobody who fills it, found parts that are lent")]
    Lent,
    /// Anything else that the driver says.
    #[error("{call}: {name}: {text}")]
    Driver {
        /// What was being done.
        call: &'static str,
        /// The driver's name for the error.
        name: String,
        /// Its words.
        text: String,
    },
}

impl GpuError {
    /// What the driver says about a call.
    pub(super) fn of(call: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |error| {
            let words = |found: Result<&std::ffi::CStr, DriverError>| {
                found.map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
            };
            Self::Driver { call, name: words(error.error_name()), text: words(error.error_string()) }
        }
    }
}

/// Whether `count` bytes at `offset` are within `len`.
pub(super) fn within(what: &'static str, len: usize, offset: usize, count: usize) -> Result<(), GpuError> {
    match offset.checked_add(count) {
        Some(end) if end <= len => Ok(()),
        _ => Err(GpuError::Range { what, len: len as u64, offset: offset as u64, count: count as u64 }),
    }
}
