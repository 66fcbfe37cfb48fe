//! An object in a store, read as a file with random access.

use crate::cache::{CachedObject, PageCheck};
use crate::client::Client;
use crate::schedule::Pin;
use shardpack_io::{Cause, ReadAt, Result};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Object {
    client: Arc<Client>,
    pin: Arc<Pin>,
    /// The object's entry in the cache, or `None` if it cannot be cached.
    cached: Option<CachedObject>,
    /// True if only one reader uses the pin. Dropping this value then frees the object's bytes in memory.
    is_alone: bool,
}

impl Object {
    pub(crate) fn new(client: &Arc<Client>, pin: Arc<Pin>, is_alone: bool) -> Self {
        let cached = client.folder().cache_of(&pin).map(|(_, cached)| cached);
        Self { client: Arc::clone(client), pin, cached, is_alone }
    }
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
        self.client.read(&self.pin, self.cached.as_ref().map(|cached| (cached, PageCheck::All)), buffer, offset)
    }

    fn read_unchecked_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.client.read(&self.pin, self.cached.as_ref().map(|cached| (cached, PageCheck::None)), buffer, offset)
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        self.client.announce(&self.pin, self.cached.as_ref(), offset..offset.saturating_add(bytes));
    }

    /// Returns `None` if the byte is not in the cache on the local disk.
    fn is_cached(&self, offset: u64) -> Option<bool> {
        self.client.is_in_memory(self.cached.as_ref()?, offset)
    }
}
