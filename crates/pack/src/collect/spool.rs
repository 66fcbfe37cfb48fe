//! The spool is an unnamed file that stores records until they are copied into the dataset.
//!
//! The file is on the same file system as the dataset. Because it has no name, the operating system frees its
//! space even if the process is killed.

use super::error::{CollectError, Result};
use shardpack_io::Cause;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    out: PathBuf,
    end: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Spool {
    pub(super) fn create(out: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(out).map_err(CollectError::io("create a temporary file in", out))?;
        Ok(Self { file, out: out.to_owned(), end: AtomicU64::new(0) })
    }

    /// Appends a record. After an error, the space for this record stays unused.
    pub(super) fn append(&self, record: &[u8]) -> Result<Span> {
        let bytes = record.len() as u64;
        let offset = self.end.fetch_add(bytes, Ordering::Relaxed);
        self.file
            .write_all_at(record, offset)
            .map_err(CollectError::io("write to the temporary file in", &self.out))?;
        Ok(Span { offset, bytes })
    }

    pub(super) fn read(&self, span: Span) -> Result<Vec<u8>, Cause> {
        let mut record = vec![0; usize::try_from(span.bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
        self.file.read_exact_at(&mut record, span.offset)?;
        Ok(record)
    }

    #[cfg(test)]
    pub(super) fn overwrite(&self, span: Span, bytes: &[u8]) {
        self.file.write_all_at(bytes, span.offset).unwrap();
    }
}
