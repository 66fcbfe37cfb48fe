//! An open file on this machine, in a store, or in memory.

use shardpack_io::{Cause, ReadAt};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Minimum size of a read, because a store charges per request and each takes a round trip.
const WINDOW_BYTES: u64 = 64 << 10;

/// An open object, shared by its readers.
#[derive(Debug)]
pub(super) struct OpenObject {
    pub(super) bytes: Arc<dyn ReadAt>,
    /// Offset and bytes of the last small read. The read was extended to the size of the window.
    window: Mutex<(u64, Vec<u8>)>,
}

impl OpenObject {
    pub(super) fn new(bytes: Arc<dyn ReadAt>) -> Arc<Self> {
        Arc::new(Self { bytes, window: Mutex::default() })
    }

    /// Reads at least one byte, unless `offset` is past the end. Bytes in the window are not requested again,
    /// because the store discards bytes once they have been read.
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, Cause> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, piece) = &mut *window;
        let has = offset >= *start && offset - *start < piece.len() as u64;
        if !has {
            if out.len() as u64 >= WINDOW_BYTES {
                drop(window);
                return self.bytes.read_at(out, offset);
            }
            let len = WINDOW_BYTES.min(self.bytes.len().saturating_sub(offset));
            *start = offset;
            piece.clear();
            piece.resize(usize::try_from(len).unwrap_or(0), 0);
            let read = self.bytes.read_at(piece, offset);
            piece.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        let from = usize::try_from(offset - *start).ok().and_then(|at| piece.get(at..)).unwrap_or_default();
        let count = from.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }
}

/// The first read error of a store, which concerns the store rather than one of its files. Clones
/// share this error.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstFailure(Arc<Mutex<Option<(PathBuf, Cause)>>>);

impl FirstFailure {
    pub(super) fn note(&self, path: &Path, cause: Cause) -> Cause {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| (path.to_owned(), cause.clone()));
        cause
    }

    pub(super) fn get(&self) -> Option<(PathBuf, Cause)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An open file or object. Like a file, it has a single read position. All streaming readers share this position.
#[derive(Debug)]
pub(crate) struct OpenFile {
    inner: Inner,
    path: PathBuf,
}

#[derive(Debug)]
enum Inner {
    File(File, u64),
    Object { object: Arc<OpenObject>, position: AtomicU64, failure: FirstFailure },
}

impl OpenFile {
    pub(super) fn of_file(path: &Path, file: File, bytes: u64) -> Self {
        Self { inner: Inner::File(file, bytes), path: path.to_owned() }
    }

    pub(super) fn of_object(path: &Path, object: Arc<OpenObject>, failure: FirstFailure) -> Self {
        Self { inner: Inner::Object { object, position: AtomicU64::new(0), failure }, path: path.to_owned() }
    }

    pub(crate) fn held(path: &Path, bytes: Vec<u8>) -> Self {
        let object = OpenObject::new(Arc::new(bytes));
        let inner = Inner::Object { object, position: AtomicU64::new(0), failure: FirstFailure::default() };
        Self { inner, path: path.to_owned() }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.inner {
            Inner::File(_, len) => *len,
            Inner::Object { object, .. } => object.bytes.len(),
        }
    }

    pub(crate) const fn file(&self) -> Option<&File> {
        match &self.inner {
            Inner::File(file, _) => Some(file),
            Inner::Object { .. } => None,
        }
    }

    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.inner {
            Inner::File(file, _) => file.read_at(out, offset),
            Inner::Object { object, failure, .. } => {
                Ok(object.read_at(out, offset).map_err(|cause| failure.note(&self.path, cause))?)
            }
        }
    }
}

impl Read for &OpenFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &self.inner {
            Inner::File(file, _) => {
                let mut file = file;
                file.read(out)
            }
            Inner::Object { position, .. } => {
                let at = position.load(Ordering::Relaxed);
                let read = self.read_at(out, at)?;
                position.store(at.saturating_add(read as u64), Ordering::Relaxed);
                Ok(read)
            }
        }
    }
}

impl Seek for &OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &self.inner {
            Inner::File(file, _) => {
                let mut file = file;
                file.seek(to)
            }
            Inner::Object { object, position, .. } => {
                let at = match to {
                    SeekFrom::Start(at) => Some(at),
                    SeekFrom::End(by) => object.bytes.len().checked_add_signed(by),
                    SeekFrom::Current(by) => position.load(Ordering::Relaxed).checked_add_signed(by),
                };
                let at = at.ok_or(ErrorKind::InvalidInput)?;
                position.store(at, Ordering::Relaxed);
                Ok(at)
            }
        }
    }
}
