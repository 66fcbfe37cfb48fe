//! An object as a file that can be read at any offset.

use crate::client::Client;
use object_store::path::Path as Key;
use shardpack_io::ReadAt;
use std::io;
use std::sync::Arc;

/// Which object it is: what any later answer must say, too.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) id: u64,
    pub(crate) key: Key,
    pub(crate) size: u64,
    pub(crate) e_tag: Option<String>,
    pub(crate) modified: i64,
}

impl Pin {
    /// The ETag that says of all bytes that they are the same; a weak one does not.
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}

/// An open object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) client: Arc<Client>,
    pub(crate) pin: Arc<Pin>,
    /// Whether the pin is known by nobody else: then what is held of it goes with this.
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

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.client.read(&self.pin, buffer, offset)
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        self.client.announce(&self.pin, offset..offset.saturating_add(bytes));
    }
}
