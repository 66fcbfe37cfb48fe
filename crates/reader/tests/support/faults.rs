//! A storage whose reads come in pieces, are interrupted, or fail at the k-th operation.

use shardpack_io::{Error, ReadAt, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// One byte per read.
    OneByte,
    /// Pieces of pseudo-random sizes, EINTR and EAGAIN between them.
    Pieces,
    /// EIO at the k-th operation (opens and reads count), and never again.
    FailAt(u64),
}

/// Files in memory.
#[derive(Debug)]
pub struct FaultyStorage {
    pub files: Vec<(String, Arc<Vec<u8>>)>,
    pub fault: Fault,
    pub operations: Arc<AtomicU64>,
    pub open: Arc<AtomicUsize>,
    /// Opens beyond this many files fail with EMFILE.
    pub max_open: usize,
}

impl FaultyStorage {
    pub fn of(dir: &Path, fault: Fault) -> Self {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, Arc::new(std::fs::read(&path).unwrap())));
        }
        files.sort();
        Self::with(files, fault)
    }

    pub fn with(files: Vec<(String, Arc<Vec<u8>>)>, fault: Fault) -> Self {
        Self { files, fault, operations: Arc::default(), open: Arc::default(), max_open: usize::MAX }
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn count(operations: &AtomicU64, fault: Fault) -> io::Result<u64> {
    let k = operations.fetch_add(1, Ordering::SeqCst);
    if fault == Fault::FailAt(k) { Err(eio()) } else { Ok(k) }
}

impl Storage for FaultyStorage {
    fn path(&self) -> &Path {
        Path::new("faulty")
    }

    fn open(&self, name: &str) -> shardpack_io::Result<Arc<dyn ReadAt>> {
        let path = PathBuf::from("faulty").join(name);
        let fail = |source| Error::io(path.clone(), "open", source);
        count(&self.operations, self.fault).map_err(fail)?;
        if self.open.load(Ordering::SeqCst) >= self.max_open {
            return Err(fail(io::Error::from_raw_os_error(24)));
        }
        let file = self.files.iter().find(|(n, _)| n == name);
        let (_, bytes) = file.ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(FaultyFile {
            bytes: Arc::clone(bytes),
            fault: self.fault,
            operations: Arc::clone(&self.operations),
            open: Arc::clone(&self.open),
        }))
    }

    fn names(&self) -> shardpack_io::Result<Vec<String>> {
        Ok(self.files.iter().map(|(n, _)| n.clone()).collect())
    }
}

#[derive(Debug)]
struct FaultyFile {
    bytes: Arc<Vec<u8>>,
    fault: Fault,
    operations: Arc<AtomicU64>,
    open: Arc<AtomicUsize>,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadAt for FaultyFile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let k = count(&self.operations, self.fault)?;
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let mut n = rest.len().min(buffer.len());
        match self.fault {
            Fault::OneByte => n = n.min(1),
            Fault::Pieces => {
                // Odd operations are interrupted, the others give 1 to 97 bytes.
                match k % 4 {
                    1 => return Err(io::ErrorKind::Interrupted.into()),
                    3 if k % 16 == 3 => return Err(io::ErrorKind::WouldBlock.into()),
                    _ => n = n.min((k.wrapping_mul(2_654_435_761) >> 7) as usize % 97 + 1),
                }
            }
            Fault::None | Fault::FailAt(_) => {}
        }
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}
