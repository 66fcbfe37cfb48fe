//! File access of this module: reads that know the file's length, and errors that know its name.

use super::error::{CubeError, Result};
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

/// An open regular file. All reads name the offset, so there is no position to keep.
pub(super) struct Source {
    file: File,
    path: PathBuf,
    len: u64,
    /// Memory of an earlier cube, for the first large piece of this one.
    spare: Cell<Vec<u8>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Pieces smaller than this are not worth the spare memory.
const LARGE_BYTES: usize = 1 << 20;

impl Source {
    /// Opens a regular file. A FIFO or a device is refused before `open` could block on it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(|error| CubeError::io(path, "cannot open", error))?;
        if !meta.is_file() {
            let found = if meta.is_dir() { "a folder" } else { "something else" };
            return Err(CubeError::usage(path, "source", "a regular file", found));
        }
        let file = File::open(path).map_err(|error| CubeError::io(path, "cannot open", error))?;
        let len = file.metadata().map_err(|error| CubeError::io(path, "cannot read its size", error))?.len();
        Ok(Self { file, path: path.to_owned(), len, spare: Cell::default() })
    }

    /// The same source, with memory to use before any is taken from the system.
    pub(super) fn with_spare(mut self, spare: Vec<u8>) -> Self {
        self.spare = Cell::new(spare);
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Checks that `[offset, offset + len)` lies in the file: to be called before memory is taken for it.
    pub(super) fn check_range(&self, what: &str, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(self.format(
                what,
                format_args!("{len} bytes at offset {offset}"),
                format_args!("a file of {} bytes", self.len),
            )),
        }
    }

    /// Exactly the bytes `[offset, offset + len)`, read straight into memory of that size.
    pub(super) fn read_at(&self, what: &'static str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.check_range(what, offset, len)?;
        let mut bytes = self.alloc(what, len)?;
        let read = self.stream(offset, len)?.read_to_end(&mut bytes).map_err(|error| self.io(what, error))?;
        if read as u64 != len {
            return Err(self.shrunk(what));
        }
        Ok(bytes)
    }

    /// Fills `out` from `offset`.
    pub(super) fn fill_at(&self, what: &'static str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_range(what, offset, out.len() as u64)?;
        let mut stream = self.stream(offset, out.len() as u64)?;
        stream.read_exact(out).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.shrunk(what),
            _ => self.io(what, error),
        })
    }

    /// At most `len` bytes from `offset`: what there is.
    pub(super) fn prefix(&self, len: u64) -> Result<Vec<u8>> {
        self.read_at("first bytes", 0, len.min(self.len))
    }

    /// A stream over `[offset, offset + len)`. One at a time: streams share the file's position.
    pub(super) fn stream(&self, offset: u64, len: u64) -> Result<Take<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset)).map_err(|error| self.io("cannot seek", error))?;
        Ok(file.take(len))
    }

    /// The file itself, for readers that seek on their own.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Empty memory for `len` bytes; an error instead of an abort where the machine does not have it.
    pub(super) fn alloc(&self, what: &'static str, len: u64) -> Result<Vec<u8>> {
        let count = usize::try_from(len).map_err(|_| self.out_of_memory(what))?;
        let mut bytes = if count >= LARGE_BYTES { self.spare.take() } else { Vec::new() };
        bytes.clear();
        bytes.try_reserve_exact(count).map_err(|_| self.out_of_memory(what))?;
        Ok(bytes)
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

    pub(super) fn unsupported(
        &self,
        what: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> CubeError {
        CubeError::unsupported(&self.path, what, expected, found)
    }

    pub(super) fn usage(
        &self,
        what: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> CubeError {
        CubeError::usage(&self.path, what, expected, found)
    }

    pub(super) fn limit(&self, what: impl fmt::Display, limit: u64, found: u64) -> CubeError {
        CubeError::limit(&self.path, what, limit, found)
    }

    fn shrunk(&self, what: &'static str) -> CubeError {
        self.format(what, format_args!("a file of {} bytes, as when it was opened", self.len), "a shorter one")
    }

    fn out_of_memory(&self, what: &'static str) -> CubeError {
        self.io(what, std::io::Error::from(ErrorKind::OutOfMemory))
    }
}
