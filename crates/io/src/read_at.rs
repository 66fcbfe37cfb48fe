//! Reads bytes at any offset.

use crate::cause::Cause;
use crate::error::{Error, Result};
use std::fmt::Debug;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// Maximum number of retries, one millisecond apart, for a network file that is not ready.
const PATIENCE: u32 = 1000;

/// Bytes that can be read at any offset, by many threads at once.
///
/// An implementation may return fewer bytes than requested, and may fail with `Interrupted` or `WouldBlock`.
/// [`read_exact_at`] retries in these cases.
pub trait ReadAt: Send + Sync + Debug {
    /// Returns the length in bytes, which is fixed when the file is opened.
    fn len(&self) -> u64;

    /// Returns whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads up to `buffer.len()` bytes from `offset` on, and returns the number of bytes read. Returns 0 only at the
    /// end of the file.
    ///
    /// # Errors
    /// The error of the operating system or of the store.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause>;

    /// Reads like [`read_at`](Self::read_at), but may skip the storage's own check of the bytes. A caller that finds
    /// wrong bytes must read them again with `read_at`. The default implementation calls `read_at`.
    ///
    /// # Errors
    /// Same as [`read_at`](Self::read_at).
    fn read_unchecked_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.read_at(buffer, offset)
    }

    /// Tells the operating system that the file will be read from front to back. Failures are ignored.
    fn advise_sequential(&self) {}

    /// Tells the operating system or the store that these bytes will soon be read once. Failures are ignored. If the
    /// same bytes are announced twice, a store keeps them until they have been read twice.
    fn advise_soon(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Returns whether the byte at `offset` can be read without waiting for a disk. Returns `None` if this is
    /// unknown, for example on a network, where advice may have no effect.
    fn is_cached(&self, offset: u64) -> Option<bool> {
        let _ = offset;
        None
    }

    /// Asks the operating system to drop the file's pages from its cache. Failures are ignored.
    fn drop_cached(&self) {}
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        let mut rest = self.get(shardpack_format::to_usize(offset)..).unwrap_or_default();
        Ok(rest.read(buffer)?)
    }
}

/// Fills `buffer` with the bytes from `offset` on, in as many reads as needed.
///
/// # Errors
/// `Io` if the file ends too early or cannot be read.
pub fn read_exact_at(file: &dyn ReadAt, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    fill(path, buffer, offset, |rest, at| file.read_at(rest, at))
}

/// Fills `buffer` with [`ReadAt::read_unchecked_at`]. A caller that finds wrong bytes must call [`read_exact_at`].
///
/// # Errors
/// Same as [`read_exact_at`].
pub fn read_exact_unchecked_at(file: &dyn ReadAt, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    fill(path, buffer, offset, |rest, at| file.read_unchecked_at(rest, at))
}

fn fill(
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
    read: impl Fn(&mut [u8], u64) -> Result<usize, Cause>,
) -> Result<()> {
    let mut patience = PATIENCE;
    let mut done = 0_usize;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(done as u64);
        let fail = |source| Error::Io { path: path.into(), action: "read", offset: Some(at), source };
        match read(rest, at) {
            Ok(0) => {
                let why = format!("the file ends {} bytes too early", rest.len());
                return Err(fail(Cause::new(ErrorKind::UnexpectedEof, why)));
            }
            Ok(n) => done += n.min(rest.len()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock && patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => return Err(fail(e)),
        }
    }
    Ok(())
}

/// The first and the last bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// First bytes of the file: as many as requested, or all if the file is shorter.
    pub head: Vec<u8>,
    /// Last bytes of the file: as many as requested, or all if the file is shorter.
    pub tail: Vec<u8>,
}

/// Reads up to `head` bytes from the start of a file and up to `tail` bytes from its end.
///
/// # Errors
/// Same as [`read_exact_at`].
pub fn read_ends(file: &dyn ReadAt, path: &Path, head: u64, tail: u64) -> Result<Ends> {
    let bytes = file.len();
    let read = |offset: u64, count: u64| {
        let mut piece = zeros(count).map_err(|e| Error::io(path, "read", e))?;
        read_exact_at(file, path, &mut piece, offset).map(|()| piece)
    };
    let tail = tail.min(bytes);
    Ok(Ends { bytes, head: read(0, head.min(bytes))?, tail: read(bytes - tail, tail)? })
}

fn zeros(bytes: u64) -> io::Result<Vec<u8>> {
    let mut zeros = Vec::new();
    let count = shardpack_format::to_usize(bytes);
    zeros.try_reserve_exact(count).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    zeros.resize(count, 0);
    Ok(zeros)
}

/// Reads a whole file of at most `max_bytes`.
///
/// # Errors
/// Same as [`read_exact_at`]. If the file is larger, the error has the kind `FileTooLarge`, and no memory is allocated.
pub fn read_whole(file: &dyn ReadAt, path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let bytes = file.len();
    if bytes > max_bytes {
        let why = format!("the file has {bytes} bytes, but at most {max_bytes} are allowed");
        return Err(Error::io(path, "read", Cause::new(ErrorKind::FileTooLarge, why)));
    }
    let mut all = zeros(bytes).map_err(|e| Error::io(path, "read", e))?;
    read_exact_at(file, path, &mut all, 0)?;
    Ok(all)
}

/// Reads a file from front to back.
#[derive(Debug)]
pub struct Reader<F> {
    file: F,
    offset: u64,
}

impl<F> Reader<F> {
    /// Creates a reader at the first byte.
    pub const fn new(file: F) -> Self {
        Self { file, offset: 0 }
    }
}

impl<T: ReadAt + ?Sized, F: std::ops::Deref<Target = T>> Read for Reader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset = self.offset.saturating_add(read as u64);
        Ok(read)
    }
}
