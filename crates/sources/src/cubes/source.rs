//! File access for the cube readers. Reads are checked against the file length, and errors name the file.

use super::error::{CubeError, Result};
use super::run::CubeRun;
use crate::files::OpenFile;
use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// An open regular file. Apart from streams, every read specifies its offset.
pub(super) struct CubeFile {
    file: Arc<OpenFile>,
    path: PathBuf,
    len: u64,
    run: CubeRun,
    /// Buffer of an earlier cube, reused for this cube's first large piece.
    spare: Mutex<Vec<u8>>,
}

impl fmt::Debug for CubeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CubeFile").field("path", &self.path).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Minimum size of a piece that uses the spare memory, in bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Number of bytes to read or decode between two checks for cancellation. The number is small in tests, so that even
/// small files consist of many pieces.
pub(super) const PIECE_BYTES: usize = if cfg!(test) { 64 << 10 } else { 8 << 20 };

/// Maximum ratio by which deflate can expand data. A file that claims more is damaged.
pub(super) const MAX_DEFLATE_RATIO: u64 = 1032;

impl CubeFile {
    /// Opens a regular file. Fails for a FIFO or a device, because reading it could block forever.
    pub(super) fn open(path: &Path, run: &CubeRun) -> Result<Self> {
        let file = run.files().open(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput if path.is_dir() => {
                CubeError::usage(path, "expected a regular file, found a folder")
            }
            ErrorKind::InvalidInput => CubeError::usage(path, error),
            _ => CubeError::io(path, "cannot open", error),
        })?;
        let len = file.len();
        Ok(Self { file: Arc::new(file), path: path.to_owned(), len, run: run.clone(), spare: Mutex::default() })
    }

    /// Wraps bytes in memory. Messages show `path` as their path.
    pub(super) fn held(path: &Path, bytes: Vec<u8>, run: &CubeRun) -> Self {
        let file = OpenFile::held(path, bytes);
        let len = file.len();
        Self { file: Arc::new(file), path: path.to_owned(), len, run: run.clone(), spare: Mutex::default() }
    }

    /// Returns a second handle to the same file, without the spare memory.
    pub(super) fn share(&self) -> Self {
        Self {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            len: self.len,
            run: self.run.clone(),
            spare: Mutex::default(),
        }
    }

    pub(super) fn with_spare(mut self, spare: Vec<u8>) -> Self {
        self.spare = Mutex::new(spare);
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Checks that the range `[offset, offset + len)` lies in the file. Call it before allocating memory for the range.
    pub(super) fn check_range(&self, what: &str, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(self.damaged(format_args!(
                "the file is truncated or damaged: it has {} bytes, too few for the {what} ({len} bytes at offset \
                 {offset})",
                self.len
            ))),
        }
    }

    /// Reads exactly the bytes `[offset, offset + len)`, straight into memory of that size.
    pub(super) fn read_at(&self, what: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.check_range(what, offset, len)?;
        let mut bytes = self.alloc(what, len)?;
        self.seek(offset)?;
        let mut left = len;
        while left > 0 {
            self.check_cancel()?;
            let piece = left.min(PIECE_BYTES as u64);
            // Read from the file itself, because that fills new memory without zeroing it first.
            let read = match self.file.file() {
                Some(file) => { file }.take(piece).read_to_end(&mut bytes),
                None => (&*self.file).take(piece).read_to_end(&mut bytes),
            };
            let read = read.map_err(|error| self.io("cannot read", error))?;
            if read as u64 != piece {
                return Err(self.shrunk(what));
            }
            left -= piece;
        }
        Ok(bytes)
    }

    pub(super) fn fill_at(&self, what: &'static str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_range(what, offset, out.len() as u64)?;
        self.seek(offset)?;
        for piece in out.chunks_mut(PIECE_BYTES) {
            self.check_cancel()?;
            (&*self.file).read_exact(piece).map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => self.shrunk(what),
                _ => self.io("cannot read", error),
            })?;
        }
        Ok(())
    }

    /// Appends up to `len` bytes from `reader` to `out`, within its capacity, and returns their number. Checks
    /// for cancellation, because a few bytes may inflate to many.
    pub(super) fn append(&self, reader: &mut impl Read, len: u64, out: &mut Vec<u8>) -> io::Result<u64> {
        let mut left = len;
        while left > 0 {
            self.run.check()?;
            let piece = left.min(PIECE_BYTES as u64);
            let read = reader.take(piece).read_to_end(out)? as u64;
            left -= read;
            if read < piece {
                break;
            }
        }
        Ok(len - left)
    }

    /// Reads the first `len` bytes, or fewer if the file is shorter.
    pub(super) fn prefix(&self, len: u64) -> Result<Vec<u8>> {
        self.read_at("first bytes", 0, len.min(self.len))
    }

    /// Returns a stream over the range `[offset, offset + len)`. Use one stream at a time, because they share
    /// the file position.
    pub(super) fn stream(&self, offset: u64, len: u64) -> Result<Take<CubeStream<'_>>> {
        self.seek(offset)?;
        Ok(CubeStream(self).take(len))
    }

    pub(super) const fn whole(&self) -> CubeStream<'_> {
        CubeStream(self)
    }

    #[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "only HDF5 needs a handle of its own"))]
    pub(super) const fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    pub(super) const fn run(&self) -> &CubeRun {
        &self.run
    }

    fn seek(&self, offset: u64) -> Result<()> {
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(offset)).map(|_| ()).map_err(|error| self.io("cannot seek", error))
    }

    /// Fails if the run is cancelled. Loops that do not read call this.
    pub(super) fn check_cancel(&self) -> Result<()> {
        if self.run.is_cancelled() { Err(CubeError::cancelled(&self.path)) } else { Ok(()) }
    }

    /// Allocates `len` zeros. Fails if memory runs out.
    pub(super) fn zeros(&self, what: &'static str, len: u64) -> Result<Vec<u8>> {
        let mut bytes = self.alloc(what, len)?;
        bytes.resize(usize::try_from(len).map_err(|_| self.out_of_memory(what))?, 0);
        Ok(bytes)
    }

    /// Resizes `bytes` to `len`, in place if the capacity suffices.
    pub(super) fn resize(&self, what: &'static str, bytes: &mut Vec<u8>, len: u64) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| self.out_of_memory(what))?;
        bytes.try_reserve_exact(len.saturating_sub(bytes.len())).map_err(|_| self.out_of_memory(what))?;
        bytes.resize(len, 0);
        Ok(())
    }

    /// Allocates an empty buffer with a capacity of `len` bytes. Fails if memory runs out.
    pub(super) fn alloc(&self, what: &str, len: u64) -> Result<Vec<u8>> {
        let count = usize::try_from(len).map_err(|_| self.out_of_memory(what))?;
        let mut bytes = if count >= LARGE_BYTES { self.take_spare() } else { Vec::new() };
        bytes.clear();
        bytes.try_reserve_exact(count).map_err(|_| self.out_of_memory(what))?;
        Ok(bytes)
    }

    fn take_spare(&self) -> Vec<u8> {
        std::mem::take(&mut self.spare.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn io(&self, what: &'static str, error: std::io::Error) -> CubeError {
        CubeError::io(&self.path, what, error)
    }

    pub(super) fn format(
        &self,
        what: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> CubeError {
        CubeError::format(&self.path, what, expected, found)
    }

    pub(super) fn damaged(&self, reason: impl fmt::Display) -> CubeError {
        CubeError::damaged(&self.path, reason)
    }

    pub(super) fn unsupported(&self, reason: impl fmt::Display) -> CubeError {
        CubeError::unsupported(&self.path, reason)
    }

    pub(super) fn usage(&self, reason: impl fmt::Display) -> CubeError {
        CubeError::usage(&self.path, reason)
    }

    pub(super) fn limit(&self, what: impl fmt::Display, limit: u64, found: u64) -> CubeError {
        CubeError::limit(&self.path, what, limit, found)
    }

    fn shrunk(&self, what: &str) -> CubeError {
        self.damaged(format_args!(
            "cannot read the {what}: the file was truncated while it was being read (it had {} bytes)",
            self.len
        ))
    }

    fn out_of_memory(&self, what: &str) -> CubeError {
        let text = format!("not enough memory for the {what}");
        self.io("cannot read", std::io::Error::new(ErrorKind::OutOfMemory, text))
    }
}

/// A stream from the current file position. Every read checks for cancellation first.
#[derive(Clone, Copy)]
pub(super) struct CubeStream<'a>(&'a CubeFile);

impl Read for CubeStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.run.check()?;
        (&*self.0.file).read(out)
    }
}

impl Seek for CubeStream<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self.0.file).seek(to)
    }
}
