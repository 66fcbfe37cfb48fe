//! Identity of an object that is read.

use object_store::path::Path as Key;

/// One version of an object: every later answer must have the same version.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) id: u64,
    pub(crate) key: Key,
    pub(crate) size: u64,
    pub(crate) e_tag: Option<String>,
    /// Seconds since 1970.
    pub(crate) modified: i64,
}

impl Pin {
    /// A strong ETag, which guarantees that all bytes are equal; `None` for a weak ETag.
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}
