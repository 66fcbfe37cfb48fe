//! Identity of an object being read.

use object_store::path::Path as Key;

/// One version of an object. All later answers must come from the same version.
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
    /// Returns the ETag if it is a strong one, which guarantees that equal tags mean equal bytes.
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}
