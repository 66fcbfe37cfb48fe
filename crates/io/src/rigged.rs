//! Storage for tests that calls a hook at each step.

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::memory::MemoryStorage;
use crate::read_at::ReadAt;
use crate::storage::Storage;
use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Hooks that a test attaches to the steps of [`RiggedStorage`], to count or delay them, to shorten reads, or to make
/// them fail. The default methods do nothing.
pub trait Rig: Send + Sync + Debug {
    /// Called before the file `name` is opened.
    ///
    /// # Errors
    /// Any error returned here becomes the error of the open.
    fn open(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Ok(())
    }

    /// Called before a range of the file is read. Returns the maximum number of bytes that the read may return.
    ///
    /// # Errors
    /// Any error returned here becomes the error of the read.
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<u64> {
        let _ = name;
        Ok(range.end - range.start)
    }

    /// Called after the file was closed, or after it could not be opened.
    fn close(&self, name: &str) {
        let _ = name;
    }

    /// Called when a reader announces that it will read a range.
    fn announce(&self, name: &str, range: Range<u64>) {
        let _ = (name, range);
    }

    /// Called when a reader announces that it will open a file.
    fn announce_open(&self, name: &str) {
        let _ = name;
    }

    /// Result of [`ReadAt::is_cached`] for the storage's files.
    fn is_cached(&self, name: &str, offset: u64) -> Option<bool> {
        let _ = (name, offset);
        None
    }

    /// Result of [`Storage::read_ahead_bytes`] for the storage.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }
}

/// Storage that calls a test's hooks at each step.
#[derive(Debug)]
pub struct RiggedStorage<R> {
    storage: Arc<dyn Storage>,
    /// The test's hooks.
    pub rig: Arc<R>,
}

impl<R: Rig> RiggedStorage<R> {
    /// Adds hooks to `storage`.
    pub fn new(storage: impl Storage + 'static, rig: R) -> Self {
        Self { storage: Arc::new(storage), rig: Arc::new(rig) }
    }

    /// Loads the files of a folder into memory and adds hooks to this storage.
    pub fn of_folder(folder: &Path, rig: R) -> Self {
        Self::new(MemoryStorage::of_folder(folder), rig)
    }
}

impl<R: Rig + 'static> Storage for RiggedStorage<R> {
    fn path(&self) -> &Path {
        self.storage.path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.rig.open(name).map_err(|error| Error::io(self.path().join(name), "open", error))?;
        let file = self.storage.open(name).inspect_err(|_| self.rig.close(name))?;
        Ok(Arc::new(RiggedFile { name: name.to_owned(), file, rig: Arc::clone(&self.rig) }))
    }

    fn names(&self) -> Result<Vec<String>> {
        self.storage.names()
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.rig.read_ahead_bytes()
    }

    fn advise_open(&self, name: &str) {
        self.rig.announce_open(name);
    }
}

#[derive(Debug)]
struct RiggedFile<R: Rig> {
    name: String,
    file: Arc<dyn ReadAt>,
    rig: Arc<R>,
}

impl<R: Rig> Drop for RiggedFile<R> {
    fn drop(&mut self) {
        self.rig.close(&self.name);
    }
}

impl<R: Rig> ReadAt for RiggedFile<R> {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.len());
        let most = self.rig.read(&self.name, offset.min(end)..end)?;
        let most = buffer.len().min(shardpack_format::to_usize(most));
        self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), offset)
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        self.rig.announce(&self.name, offset..offset.saturating_add(bytes));
    }

    fn is_cached(&self, offset: u64) -> Option<bool> {
        debug_assert!(offset < self.len(), "byte {offset} of {}", self.len());
        self.rig.is_cached(&self.name, offset)
    }
}

/// The fault that [`Faults`] injects into storage operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault. Operations are only counted.
    None,
    /// Each read returns only one byte.
    OneByte,
    /// Each read returns a piece of pseudo-random size, with EINTR and EAGAIN in between.
    Pieces,
    /// The k-th operation (an open or a read) fails once with EIO.
    FailAt(u64),
}

/// Hooks that inject a fault and count operations.
#[derive(Debug)]
pub struct Faults {
    /// The injected fault.
    pub fault: Fault,
    /// Number of opens and reads.
    pub operations: AtomicU64,
    /// Number of open files.
    pub open: AtomicUsize,
    /// Maximum number of open files. Further opens fail with EMFILE.
    pub max_open: usize,
}

impl Faults {
    /// Creates hooks that inject a fault and do not limit the number of open files.
    #[must_use]
    pub const fn new(fault: Fault) -> Self {
        Self { fault, operations: AtomicU64::new(0), open: AtomicUsize::new(0), max_open: usize::MAX }
    }

    fn count(&self) -> io::Result<u64> {
        let k = self.operations.fetch_add(1, Ordering::SeqCst);
        if self.fault == Fault::FailAt(k) { Err(io::Error::from_raw_os_error(5)) } else { Ok(k) }
    }
}

impl Rig for Faults {
    fn open(&self, _: &str) -> io::Result<()> {
        self.count()?;
        if self.open.load(Ordering::SeqCst) >= self.max_open {
            return Err(io::Error::from_raw_os_error(24));
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn read(&self, _: &str, range: Range<u64>) -> io::Result<u64> {
        let k = self.count()?;
        match self.fault {
            Fault::OneByte => Ok(1),
            // Of 16 operations, four are interrupted, one is not ready, and the others return 1 to 97 bytes.
            Fault::Pieces => match k % 4 {
                1 => Err(ErrorKind::Interrupted.into()),
                3 if k % 16 == 3 => Err(ErrorKind::WouldBlock.into()),
                _ => Ok((k.wrapping_mul(2_654_435_761) >> 7) % 97 + 1),
            },
            Fault::None | Fault::FailAt(_) => Ok(range.end - range.start),
        }
    }

    fn close(&self, _: &str) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}
