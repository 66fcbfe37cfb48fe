//! Values that stay on a device: read once, when a loader opens, and decoded there in every epoch
//! ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).

use super::value::RecordValue;
use std::fmt;
use std::io;

/// Copies values to the device, from several threads at a time.
///
/// Call [`reserve`](Self::reserve) once, then [`keep`](Self::keep) for all values, then [`seal`](Self::seal).
/// Only after that are slots made and rows prepared.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Returns the maximum device bytes for a value of `stored_bytes`.
    fn value_bytes(&self, stored_bytes: u64) -> u64;

    /// Returns the free and total bytes of device memory.
    ///
    /// # Errors
    /// An error if the device fails.
    fn free_bytes(&self) -> io::Result<(u64, u64)>;

    /// Reserves `bytes` of device memory for all values.
    ///
    /// # Errors
    /// An error if the memory cannot be reserved.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Copies values to the device, and returns the number by which slots refer to each. `None` if the device
    /// cannot keep a value or has no room; its record is then read whenever a batch needs it. Only the bytes
    /// and limits of a picture are used.
    ///
    /// # Errors
    /// An error if the device fails.
    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>>;

    /// Ends the copying.
    fn seal(&self);

    /// Returns the device bytes for values.
    fn device_bytes(&self) -> u64;

    /// Returns the host bytes for information about the values.
    fn host_bytes(&self) -> u64;
}
