//! Values that stay on a device: read once, when a loader opens, and decoded from there in every
//! epoch ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).

use super::value::RecordValue;
use std::fmt;
use std::io;

/// Takes values to the device, from several threads at a time.
///
/// First [`reserve`](Self::reserve), once; then [`keep`](Self::keep) for all values; then
/// [`seal`](Self::seal). Only then slots are made and rows prepared.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Bytes that a value of so many stored bytes takes on the device, at most.
    fn value_bytes(&self, stored_bytes: u64) -> u64;

    /// Bytes of the device that are free, and all of them.
    ///
    /// # Errors
    /// The device's.
    fn free_bytes(&self) -> io::Result<(u64, u64)>;

    /// Takes so many bytes of the device for all values.
    ///
    /// # Errors
    /// Whatever keeps them from being had.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Copies values to the device. Of each its number, by which slots know it; `None` if it is not
    /// for the device, or there is no room for it: its record is read whenever a batch needs it. Of a
    /// picture only the bytes and the limits count.
    ///
    /// # Errors
    /// The device's.
    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>>;

    /// Nothing more is kept.
    fn seal(&self);

    /// Bytes that are taken on the device for values.
    fn device_bytes(&self) -> u64;

    /// Bytes that are taken on the host for what is known of them.
    fn host_bytes(&self) -> u64;
}
