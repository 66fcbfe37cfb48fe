//! A folder of files for reading, on any medium.

use crate::error::{Error, Result};
use crate::read_at::{Ends, ReadAt, read_ends, read_whole};
use crate::traffic::Traffic;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A folder of files: on a disk, in an object store, behind HTTP.
pub trait Storage: Send + Sync + Debug {
    /// Returns the folder, as the user named it, for messages.
    fn path(&self) -> &Path;

    /// Opens a file in the folder, or in a folder directly below it.
    ///
    /// # Errors
    /// `Io` if it cannot be opened; `Usage` if it is not a regular file, or if the name leads out of the folder.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Returns the names of the entries directly in the folder, including folders, sorted.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed; of kind `Unsupported` if the storage never lists.
    fn names(&self) -> Result<Vec<String>>;

    /// Reads a whole file of at most `max_bytes`.
    ///
    /// # Errors
    /// Same as [`open`](Self::open); of kind `FileTooLarge` if it is larger.
    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        read_whole(&*self.open(name)?, &self.path().join(name), max_bytes)
    }

    /// Returns the size of a file, and up to `head` and `tail` bytes from its ends.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        read_ends(&*self.open(name)?, &self.path().join(name), head, tail)
    }

    /// Returns the bytes that readers should announce ([`ReadAt::advise_soon`]) ahead of their reads, enough
    /// to keep many network requests under way. The storage holds at most this many bytes itself. The
    /// default, 0, means that the system reads ahead.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Tells the storage that this file will be opened soon. Waits for nothing.
    fn advise_open(&self, name: &str) {
        let _ = name;
    }

    /// Returns the counts of network requests so far; zeros, the default, without a network.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Lists all files below the folder, at any depth and in no particular order, so that a dataset can be
    /// packed from them.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed. The default implementation always fails with the kind
    /// `Unsupported`, because the storage does not support listing.
    fn list(&self) -> Result<Vec<Listed>> {
        Err(Error::io(self.path(), "list", ErrorKind::Unsupported))
    }

    /// Opens a listed file, without a request. Reading fails if the file has been replaced since. Dropping
    /// the file frees the bytes held for readers.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        self.open(&listed.name)
    }
}

/// A file in the listing of a storage.
///
/// ```
/// use shardpack_io::Listed;
/// let listed = Listed { name: "cat/1.jpg".into(), bytes: 7, modified_ns: 0, e_tag: Some("\"abc\"".into()) };
/// assert_eq!(listed.name, "cat/1.jpg");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path below the folder, separated by `/`.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change, in ns since 1970.
    pub modified_ns: i64,
    /// Tag that changes with the file's content, if the storage has one.
    pub e_tag: Option<String>,
}
