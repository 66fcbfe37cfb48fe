//! The trait for writing whole objects to storage.

use crate::error::Result;
use crate::storage::Storage;
use std::io::{ErrorKind, Read};

/// Storage for writing objects. Each object appears whole or not at all. The implementation retries requests and
/// keeps credentials out of messages.
pub trait Objects: Storage {
    /// Writes all bytes of `source` as one object, and returns the number of bytes. An existing object with that
    /// name stays in place until the new one is complete. Calls `on_sent` on this thread each time the store has
    /// received a part, with the number of its bytes.
    ///
    /// # Errors
    /// `Io` if the source cannot be read, the store does not respond, or it rejects the request. If only the
    /// response to the last request is lost, the complete object may exist. Sending it again does no harm.
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64>;

    /// Writes a small object unless an object with that name exists. Returns true if the object contains
    /// `bytes` afterwards.
    ///
    /// # Errors
    /// `Io` if the store does not respond, rejects the request, or does not support conditional writes.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// Writes `new` as a small object if there is no object with that name, or if the existing object contains
    /// `old`. Returns true if the object contains `new` afterwards.
    ///
    /// # Errors
    /// Same as [`create`](Self::create).
    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool>;

    /// Removes an object if it exists.
    ///
    /// # Errors
    /// `Io` if the store does not respond or rejects the request.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes an object that contains exactly `bytes`, and keeps any other object. Also removes it after the requests
    /// of the caller have been cancelled, but then waits for the store only briefly. The default implementation is for
    /// storage whose requests cannot be cancelled.
    ///
    /// # Errors
    /// Same as [`remove`](Self::remove).
    fn release(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self.read(name, bytes.len() as u64) {
            Ok(found) if found == bytes => self.remove(name),
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::FileTooLarge) => Err(e),
            _ => Ok(()),
        }
    }
}
