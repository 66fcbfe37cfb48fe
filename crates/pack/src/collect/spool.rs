//! The spool is an unnamed file that stores records until they are copied into the dataset.
//!
//! The file is on the same file system as the dataset. Because it has no name, the operating system frees its
//! space even if the process is killed.

use super::error::{CollectError, Result};
use shardpack_io::Cause;
use std::fs::File;
use std::io;
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
        write_all_at(&self.file, record, offset)
            .map_err(CollectError::io("write to the temporary file in", &self.out))?;
        Ok(Span { offset, bytes })
    }

    pub(super) fn read(&self, span: Span) -> Result<Vec<u8>, Cause> {
        let mut record = vec![0; usize::try_from(span.bytes).map_err(|_| io::ErrorKind::OutOfMemory)?];
        read_exact_at(&self.file, &mut record, span.offset)?;
        Ok(record)
    }

    #[cfg(test)]
    pub(super) fn overwrite(&self, span: Span, bytes: &[u8]) {
        write_all_at(&self.file, bytes, span.offset).unwrap();
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = bytes.get_mut(read..).unwrap_or_default();
                offset += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}
