//! The trait for reading files from storage.

use crate::error::{Error, Result};
use crate::read_at::{Ends, ReadAt, read_ends, read_whole};
use crate::traffic::Traffic;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Fails with `Usage` if a file is neither in the folder itself nor in one of its direct subfolders.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.split('/').count() > 2 || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(Error::usage(format!(
            "the file {name:?} must be in the dataset's folder or in one of its direct subfolders"
        )));
    }
    Ok(())
}

/// A folder of files on a disk, in an object store, or behind an HTTP server.
pub trait Storage: Send + Sync + Debug {
    /// Returns the path of the folder as the user wrote it, for messages.
    fn path(&self) -> &Path;

    /// Opens a file in the folder itself or in one of its direct subfolders.
    ///
    /// # Errors
    /// `Io` if it cannot be opened; `Usage` if it is not a regular file, or if the name leads out of the folder.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Returns the sorted names of the entries directly in the folder, including subfolders.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed. The error has the kind `Unsupported` if this storage never lists.
    fn names(&self) -> Result<Vec<String>>;

    /// Reads a whole file of at most `max_bytes`.
    ///
    /// # Errors
    /// Same as [`open`](Self::open). If the file is larger, the error has the kind `FileTooLarge`.
    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        read_whole(&*self.open(name)?, &self.path().join(name), max_bytes)
    }

    /// Returns the size of a file, up to `head` bytes from its start, and up to `tail` bytes from its end.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        read_ends(&*self.open(name)?, &self.path().join(name), head, tail)
    }

    /// Returns the number of bytes that readers should announce ([`ReadAt::advise_soon`]) ahead of their reads.
    /// Announcements keep many network requests in flight. The storage keeps at most this many bytes in memory. The
    /// default, 0, means that the operating system reads ahead on its own.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Tells the storage that this file will be opened soon. Returns without waiting.
    fn advise_open(&self, name: &str) {
        let _ = name;
    }

    /// Returns the network statistics so far. The default implementation, for storage without a network, returns
    /// zeros.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Lists all files below the folder, at any depth and in no particular order, so that a dataset can be
    /// packed from them.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed. The default implementation always fails with the kind `Unsupported`.
    fn list(&self) -> Result<Vec<Listed>> {
        Err(Error::io(self.path(), "list", ErrorKind::Unsupported))
    }

    /// Opens a file from the listing without a network request. Reads fail if the file has been replaced since it was
    /// listed. Dropping the file frees the bytes that the storage keeps in memory for its readers.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        self.open(&listed.name)
    }
}

/// A file in the list that [`Storage::list`] returns.
///
/// ```
/// use shardpack_io::Listed;
/// let listed = Listed { name: "cat/1.jpg".into(), bytes: 7, modified_ns: 0, e_tag: Some("\"abc\"".into()) };
/// assert_eq!(listed.name, "cat/1.jpg");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path relative to the folder, with `/` as the separator.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Tag that changes whenever the content of the file changes, if the storage has such tags.
    pub e_tag: Option<String>,
}
