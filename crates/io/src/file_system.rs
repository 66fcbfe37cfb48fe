//! The file system to which datasets are written, as a trait: tests can make any operation fail, return false
//! results, or crash afterwards.

use crate::cause::Cause;
use crate::error::Result;
use crate::holder::Holder;
use crate::read_at::ReadAt;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Folders with growing files and durable names. All paths are full paths.
///
/// # Errors
/// Every operation returns the operating system's error. [`is_unsupported`] recognises operations that the
/// file system lacks.
pub trait FileSystem: Send + Sync + Debug {
    /// Creates a folder and its missing parents, durably.
    ///
    /// # Errors
    /// As described at [`FileSystem`]; the same holds for all other methods.
    fn create_dir_all(&self, folder: &Path) -> Result<(), Cause>;

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such folder.
    fn names(&self, folder: &Path) -> Result<Vec<String>, Cause>;

    /// Opens a regular file for reading. Fails on anything else, including a symlink.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadAt>, Cause>;

    /// Creates a file.
    ///
    /// # Errors
    /// Of kind `AlreadyExists` if the name is taken, even by a symlink.
    fn create_new(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause>;

    /// Opens an existing file for appending. Fails on a symlink.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn append(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause>;

    /// Renames a file, replacing any existing one.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Cause>;

    /// Removes a file.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such file.
    fn remove(&self, path: &Path) -> Result<(), Cause>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Of kind `DirectoryNotEmpty` if it is not empty.
    fn remove_dir(&self, folder: &Path) -> Result<(), Cause>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// As described at [`FileSystem`].
    fn sync_dir(&self, folder: &Path) -> Result<(), Cause>;

    /// Tries to take the lock file `path`, which is created if needed; `None` if another process
    /// holds it. An exclusive holder writes its name into the file. Fails on a symlink.
    ///
    /// # Errors
    /// As described at [`FileSystem`].
    fn lock(&self, path: &Path, mode: LockMode, holder: &Holder) -> Result<Option<Box<dyn FileLock>>, Cause>;

    /// Returns the free bytes for this user, if known.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

/// An open file that only grows.
pub trait GrowingFile: Send + Sync + Debug {
    /// Appends bytes to the end.
    ///
    /// # Errors
    /// The operating system's error.
    fn append(&self, bytes: &[u8]) -> Result<(), Cause>;

    /// Makes the content durable. Never retry after a failure, because the content of the disk is then unknown.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync(&self) -> Result<(), Cause>;
}

/// A lock, released on drop.
pub trait FileLock: Send + Sync + Debug {
    /// Returns whether the existence of the file is the lock, because the file system has no locks. Such a
    /// lock outlives a killed holder.
    fn is_by_name(&self) -> bool {
        false
    }
}

/// Mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Shared with other holders. The last one removes the lock file.
    Shared,
    /// Held by one holder. Dropping the lock removes its file.
    Exclusive,
}

/// Returns whether the file system lacks the operation, rather than failed at it.
#[must_use]
pub fn is_unsupported(error: &Cause) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
        || matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}
