//! The trait for the file system to which datasets are written. Tests implement it to make any operation fail, return
//! wrong results, or crash afterwards.

use crate::cause::Cause;
use crate::error::Result;
use crate::holder::Holder;
use crate::read_at::ReadAt;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A file system with folders, append-only files, and names that can be made durable. All paths are full paths.
///
/// # Errors
/// Every operation returns the error of the operating system. [`is_unsupported`] recognises the errors for
/// operations that the file system does not offer.
pub trait FileSystem: Send + Sync + Debug {
    /// Creates a folder and its missing parents, and makes them durable.
    ///
    /// # Errors
    /// As described at [`FileSystem`].
    fn create_dir_all(&self, folder: &Path) -> Result<(), Cause>;

    /// Returns the names of the entries in a folder, sorted.
    ///
    /// # Errors
    /// Of kind `NotFound` if there is no such folder.
    fn names(&self, folder: &Path) -> Result<Vec<String>, Cause>;

    /// Opens a regular file for reading. Fails on all other files, including symlinks.
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

    /// Renames a file, and replaces any existing file with the new name.
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

    /// Tries to take the lock file `path`, and creates it if needed. Returns `None` if another process holds
    /// the lock. An exclusive holder writes its name into the file. Fails on a symlink.
    ///
    /// # Errors
    /// As described at [`FileSystem`].
    fn lock(&self, path: &Path, mode: LockMode, holder: &Holder) -> Result<Option<Box<dyn FileLock>>, Cause>;

    /// Returns the number of free bytes that this user may write, if known.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
}

/// An open file that can only grow.
pub trait GrowingFile: Send + Sync + Debug {
    /// Appends bytes to the end.
    ///
    /// # Errors
    /// The operating system's error.
    fn append(&self, bytes: &[u8]) -> Result<(), Cause>;

    /// Makes the content durable. After a failure, it is unknown which bytes are on disk, so do not call it again.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync(&self) -> Result<(), Cause>;
}

/// A lock that is released on drop.
pub trait FileLock: Send + Sync + Debug {
    /// Returns true if the lock consists only of its file, as on file systems without locks. The lock then remains if
    /// its holder is killed.
    fn is_by_name(&self) -> bool {
        false
    }
}

/// The kind of a lock: shared or exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Shared with other holders. The last holder removes the lock file.
    Shared,
    /// Held by a single holder, which removes the lock file when it drops the lock.
    Exclusive,
}

/// Returns whether the error means that the file system does not offer the operation, rather than that the
/// operation failed.
#[must_use]
pub fn is_unsupported(error: &Cause) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
        || matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}
