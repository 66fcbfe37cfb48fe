//! A folder of files that are read, wherever it is.

use crate::error::{Error, Result};
use crate::read_at::{Ends, ReadAt, read_ends, read_whole};
use crate::traffic::Traffic;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A folder of files: on a disk, in an object store, behind HTTP.
pub trait Storage: Send + Sync + Debug {
    /// The folder as the user would name it, for messages.
    fn path(&self) -> &Path;

    /// Opens a file: one directly in the folder, or in a folder directly below it.
    ///
    /// # Errors
    /// `Io` if it cannot be opened; `Usage` if it is not a regular file, or would leave the folder.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Names of the entries directly in the folder, sorted, those of folders included.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed; of kind `Unsupported` if the storage never lists.
    fn names(&self) -> Result<Vec<String>>;

    /// Reads a whole file of at most `max_bytes`.
    ///
    /// # Errors
    /// As [`open`](Self::open); of kind `FileTooLarge` if it is larger.
    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        read_whole(&*self.open(name)?, &self.path().join(name), max_bytes)
    }

    /// The size of a file, and up to `head` and `tail` bytes from its ends.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        read_ends(&*self.open(name)?, &self.path().join(name), head, tail)
    }

    /// Bytes that readers should announce ([`ReadAt::advise_soon`]) ahead of those that they read:
    /// enough for a network to have many requests on their way. The storage holds no more than that
    /// in memory of its own. 0, the default, where the system reads ahead by itself.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Tells the storage that this file will be opened soon. A hint: it waits for nothing.
    fn advise_open(&self, name: &str) {
        let _ = name;
    }

    /// Counts of the requests to a network so far; zeros, the default, where there is none.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// All files below the folder, at any depth and in no order: a dataset may be packed from them.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed; of kind `Unsupported`, the default, if the storage never
    /// lists.
    fn list(&self) -> Result<Vec<Listed>> {
        Err(Error::io(self.path(), "list", ErrorKind::Unsupported.into()))
    }

    /// Opens a file that was listed, without a request. If another file has taken its place, reading
    /// it fails. Bytes held for readers are freed when it is dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        self.open(&listed.name)
    }
}

/// A file of a storage, as a listing has it.
///
/// ```
/// use shardpack_io::Listed;
/// let listed = Listed { name: "cat/1.jpg".into(), bytes: 7, modified_ns: 0, e_tag: Some("\"abc\"".into()) };
/// assert_eq!(listed.name, "cat/1.jpg");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path below the folder, with `/`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in ns since 1970.
    pub modified_ns: i64,
    /// What tells its content from any other of the same name, if the storage knows.
    pub e_tag: Option<String>,
}
