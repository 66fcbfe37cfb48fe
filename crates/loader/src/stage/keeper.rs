//! Values that stay on a device: read once, when a loader opens, and decoded there in every epoch
//! ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).

use super::value::RecordValue;
use std::fmt;
use std::io;

/// Copies values to the device, from several threads at a time.
///
/// Call [`reserve`](Self::reserve) once, then [`keep`](Self::keep) for all values, then
/// [`seal`](Self::seal). Slots are made and rows prepared only after that.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Maximum device bytes for a value of `stored_bytes`.
    fn value_bytes(&self, stored_bytes: u64) -> u64;

    /// Free and total bytes of device memory.
    ///
    /// # Errors
    /// An error if the device fails.
    fn free_bytes(&self) -> io::Result<(u64, u64)>;

    /// Reserves `bytes` of device memory for all values.
    ///
    /// # Errors
    /// Any reason why the memory cannot be reserved.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Copies values to the device. Returns a number for each, by which slots refer to it; `None` if it
    /// cannot be kept on the device, or there is no room for it: its record is then read whenever a
    /// batch needs it. For a picture only the bytes and the limits are used.
    ///
    /// # Errors
    /// An error if the device fails.
    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>>;

    /// Ends the copying.
    fn seal(&self);

    /// Bytes on the device for values.
    fn device_bytes(&self) -> u64;

    /// Bytes on the host for information about them.
    fn host_bytes(&self) -> u64;
}
