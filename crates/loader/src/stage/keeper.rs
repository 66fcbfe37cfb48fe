//! Keeps values on a device. They are read once, when a loader opens, and decoded on the device in every epoch
//! ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).

use super::value::RecordValue;
use std::fmt;
use std::io;

/// Copies values to the device, from several threads at a time.
///
/// The loader calls [`reserve`](Self::reserve) once, then [`keep`](Self::keep) for all values, and then
/// [`seal`](Self::seal). Only then does it create slots and prepare rows.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Returns the maximum number of device bytes for a value of `stored_bytes` bytes.
    fn value_bytes(&self, stored_bytes: u64) -> u64;

    /// Returns the free and the total device memory, in bytes.
    ///
    /// # Errors
    /// An error if the device fails.
    fn free_bytes(&self) -> io::Result<(u64, u64)>;

    /// Reserves `bytes` of device memory for all values.
    ///
    /// # Errors
    /// An error if the memory cannot be reserved.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Copies values to the device. Returns for each value the number by which slots refer to it, or `None` if the
    /// device cannot keep the value or has no room for it. The loader then reads the record whenever a batch needs
    /// the value. For a picture, only its bytes and limits are used.
    ///
    /// # Errors
    /// An error if the device fails.
    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>>;

    /// Records that all values have been copied.
    fn seal(&self);

    /// Returns the number of device bytes that the values use.
    fn device_bytes(&self) -> u64;

    /// Returns the number of host bytes that hold information about the values.
    fn host_bytes(&self) -> u64;
}
