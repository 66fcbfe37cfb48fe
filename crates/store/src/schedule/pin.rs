//! Identifies the version of an object that is being read.

use object_store::path::Path as Key;

/// One version of an object. All later responses must belong to the same version.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) id: u64,
    pub(crate) key: Key,
    pub(crate) size: u64,
    pub(crate) e_tag: Option<String>,
    /// Time of the last change, in seconds since 1970.
    pub(crate) modified: i64,
}

impl Pin {
    /// Returns the ETag if it is strong. Equal strong ETags guarantee equal bytes.
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}
