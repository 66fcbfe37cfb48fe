//! Reads parts of a file, or of bytes in memory, by offset.

use super::{Files, OpenFile};
use shardpack_format::to_usize;
use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Size of the first read in bytes, enough for the header of nearly every picture, including its thumbnail and
/// profile. The kernel reads further ahead in any case.
const HEAD_BYTES: usize = 16 << 10;

/// Bytes of known length that can be read at any offset.
pub(crate) trait ReadAt {
    fn len(&self) -> u64;

    /// Reads exactly `len` bytes at `offset`. Fails with `UnexpectedEof`, before allocating memory, if there are fewer.
    fn read_at(&self, offset: u64, len: u64) -> io::Result<Cow<'_, [u8]>>;

    fn head(&self, len: u64) -> io::Result<Cow<'_, [u8]>> {
        self.read_at(0, len.min(self.len()))
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, len: u64) -> io::Result<Cow<'_, [u8]>> {
        slice(self, offset, len).map(Cow::Borrowed).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

fn slice(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(len)?).ok()?)
}

/// A file of known size with its first bytes in memory.
#[derive(Debug)]
pub(crate) struct FileAt {
    file: OpenFile,
    len: u64,
    head: Vec<u8>,
}

impl FileAt {
    pub(crate) fn open(files: &Files, path: &Path, len: u64) -> io::Result<Self> {
        let file = files.open(path)?;
        let mut head = vec![0; to_usize(len).min(HEAD_BYTES)];
        file.read_exact_at(&mut head, 0)?;
        Ok(Self { file, len, head })
    }
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: u64) -> io::Result<Cow<'_, [u8]>> {
        if let Some(bytes) = slice(&self.head, offset, len) {
            return Ok(Cow::Borrowed(bytes));
        }
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let len = usize::try_from(len).map_err(|_| ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
        bytes.resize(len, 0);
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(Cow::Owned(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_slice_agree() {
        let bytes: Vec<u8> = (0..=250).cycle().take(HEAD_BYTES + 1000).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, &bytes).unwrap();
        let file = FileAt::open(&Files::default(), &path, bytes.len() as u64).unwrap();
        let head = HEAD_BYTES as u64;
        for (offset, len) in
            [(0, 10), (head - 5, 5), (head - 5, 6), (head, 1000), (head, 1001), (head + 1001, 0), (7, u64::MAX)]
        {
            let [a, b] = [file.read_at(offset, len), bytes[..].read_at(offset, len)];
            assert_eq!(a.map_err(|e| e.kind()), b.map_err(|e| e.kind()), "{offset} {len}");
        }
        assert_eq!(file.head(u64::MAX).unwrap(), bytes);
        assert_eq!(
            FileAt::open(&Files::default(), &path, bytes.len() as u64 * 2)
                .unwrap()
                .read_at(head, 2000)
                .unwrap_err()
                .kind(),
            ErrorKind::UnexpectedEof
        );
    }
}
