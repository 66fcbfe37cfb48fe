//! What this crate asks of an object store, and the two kinds of places that a dataset goes to.

use crate::bucket::Bucket;
use crate::fs::{Disk, Ends, StdFs};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Objects in one folder of a store, by their names. Retries, and words that hold no credential, are
/// up to the implementation: `shardpack_store::Upload` does.
///
/// What is not there is an error of the kind `NotFound`, except to [`remove`](Self::remove).
pub trait Objects: Send + Sync {
    /// Names in the folder, those of folders in it too.
    ///
    /// # Errors
    /// If the store does not answer, or refuses; so in all that follow.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A whole object; an error if it has more than `max_bytes`.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn read(&self, name: &str, max_bytes: u64) -> io::Result<Vec<u8>>;
    /// The size of an object, and up to `head` and `tail` bytes from its ends.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn read_ends(&self, name: &str, head: u64, tail: u64) -> io::Result<Ends>;
    /// Writes an object of all that `source` gives, whole or not at all, and says how many bytes that
    /// were. It replaces one of its name.
    ///
    /// # Errors
    /// As [`list`](Self::list), and those of the source.
    fn send(&self, name: &str, source: &mut dyn Read) -> io::Result<u64>;
    /// Writes a small object unless one of its name is there. True if it holds `bytes` now.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;
    /// Writes a small object in the place of one that holds `old`, and only of that one. True if it
    /// holds `new` now.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> io::Result<bool>;
    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Where a dataset goes. Made from a path, or from a [`Bucket`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Output {
    /// A folder.
    Folder(PathBuf),
    /// A place in an object store.
    Bucket(Bucket),
}

impl Output {
    /// The folder, or the name of the place in the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Bucket(bucket) => bucket.name(),
        }
    }

    /// The folder of this machine where files are written first: the folder itself, or the spool.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Bucket(bucket) => bucket.spool(),
        }
    }

    pub(crate) fn disk(&self) -> Disk<'_> {
        match self {
            Self::Folder(_) => Disk(&StdFs),
            Self::Bucket(bucket) => Disk(bucket),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Output {
    fn from(path: &P) -> Self {
        Self::Folder(path.as_ref().to_owned())
    }
}

impl From<Bucket> for Output {
    fn from(bucket: Bucket) -> Self {
        Self::Bucket(bucket)
    }
}
