//! Objects that are written whole.

use crate::error::Result;
use crate::storage::Storage;
use std::io::Read;

/// A storage that objects are written to. Each appears whole or not at all. Retries, and messages
/// that hold no credential, are up to the implementation.
pub trait Objects: Storage {
    /// Writes an object of all bytes of `source`, and returns their number. It replaces an object of
    /// its name, which is there until the end.
    ///
    /// # Errors
    /// `Io` if the source cannot be read, or the store does not answer or refuses. If the answer to
    /// the last request is lost, the object may be there, whole: to send it again does no harm.
    fn send(&self, name: &str, source: &mut dyn Read) -> Result<u64>;

    /// Writes a small object unless one of its name is there. Returns whether it holds `bytes` now.
    ///
    /// # Errors
    /// `Io` if the store does not answer, refuses, or knows no such condition.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// Writes a small object in the place of one that holds `old`, or of none. Returns whether it
    /// holds `new` now.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool>;

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// `Io` if the store does not answer, or refuses.
    fn remove(&self, name: &str) -> Result<()>;
}
