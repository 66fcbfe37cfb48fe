//! The file system that datasets are written to, behind a trait: tests make any operation of it
//! fail, lie, or be the last before a crash.

use crate::holder::Holder;
use crate::read_at::ReadAt;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Folders with files that grow and get durable names. All paths are whole paths.
///
/// # Errors
/// Every operation fails as the operating system says. An operation that a file system does not
/// have at all is told by [`is_unsupported`].
pub trait FileSystem: Send + Sync + Debug {
    /// Creates a folder and its missing parents, durably.
    ///
    /// # Errors
    /// Those of [`FileSystem`], as for all that follow.
    fn create_dir_all(&self, folder: &Path) -> io::Result<()>;

    /// Names in a folder, sorted.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a regular file to read it. Fails on anything else, a symlink included.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadAt>>;

    /// Creates a file.
    ///
    /// # Errors
    /// Of kind `AlreadyExists` if the name is taken, even by a symlink.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn GrowingFile>>;

    /// Opens an existing file to append to it. Fails on a symlink.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn GrowingFile>>;

    /// Renames a file, and replaces an existing one.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Of kind `DirectoryNotEmpty` if it is not empty.
    fn remove_dir(&self, folder: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Those of [`FileSystem`].
    fn sync_dir(&self, folder: &Path) -> io::Result<()>;

    /// Tries to take the lock `path`, a file that is created if needed; `None` if another holds it.
    /// An exclusive holder leaves its name in the file. Fails on a symlink.
    ///
    /// # Errors
    /// Those of [`FileSystem`].
    fn lock(&self, path: &Path, mode: LockMode, holder: &Holder) -> io::Result<Option<Box<dyn FileLock>>>;

    /// Free bytes for this user, if the system tells.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

/// An open file that only grows.
pub trait GrowingFile: Send + Sync + Debug {
    /// Writes behind the last byte.
    ///
    /// # Errors
    /// As the operating system says.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content durable. After a failure the content of the disk is unknown: never try
    /// again.
    ///
    /// # Errors
    /// As the operating system says.
    fn sync(&self) -> io::Result<()>;
}

/// A lock that is held until it is dropped.
pub trait FileLock: Send + Sync + Debug {
    /// Whether the file system has no locks, so that the name of the file is the lock: it outlives a
    /// holder that is killed.
    fn is_by_name(&self) -> bool {
        false
    }
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Together with other shared holders. The last one removes the lock file.
    Shared,
    /// Alone. The lock file is removed when the lock is dropped.
    Exclusive,
}

/// Returns whether the file system does not have such an operation at all, as opposed to one that
/// failed.
#[must_use]
pub fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
        || matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}
