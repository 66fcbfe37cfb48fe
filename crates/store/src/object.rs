//! An object in a store, read as a file with random access.

use crate::client::Client;
use crate::schedule::Pin;
use shardpack_io::{Cause, ReadAt, Result};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) client: Arc<Client>,
    pub(crate) pin: Arc<Pin>,
    /// True if only one reader uses the pin. Dropping this value then frees the object's bytes in memory.
    pub(crate) is_alone: bool,
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.is_alone {
            self.client.forget(&self.pin);
        }
    }
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.pin.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.client.read(&self.pin, buffer, offset)
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        self.client.announce(&self.pin, offset..offset.saturating_add(bytes));
    }
}
