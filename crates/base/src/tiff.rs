//! Reads TIFF directories (TIFF 6.0 and BigTIFF): their entries and values.
//!
//! Picture headers, the picture decoder and the cube reader all use this module. A [`TiffFile`] provides the
//! bytes of the file and creates the errors.
#![deny(clippy::indexing_slicing)]

use shardpack_format::{Error, to_usize};
use std::borrow::Cow;

/// A file with TIFF directories. The implementation reads the bytes and determines the type of the errors.
pub trait TiffFile {
    /// Error for a failed read or an invalid directory.
    type Error;

    /// Maximum number of entries in a directory. A picture has a few dozen.
    const MAX_ENTRIES: u64 = 4_096;

    /// Returns the length in bytes.
    fn bytes(&self) -> u64;

    /// Reads `len` bytes of the header or of a directory.
    ///
    /// # Errors
    /// If the bytes are beyond the end of the file, or cannot be read.
    fn directory(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Self::Error>;

    /// Reads the bytes that hold the values of `tag`.
    ///
    /// # Errors
    /// If the bytes are beyond the end of the file, if `len` is too large, or if they cannot be read.
    fn values(&self, tag: u16, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Self::Error>;

    /// Creates the error for a file that violates the format.
    fn broken(&self, what: String, expected: String, found: String) -> Self::Error;
}

impl TiffFile for [u8] {
    type Error = Error;

    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn directory(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Error> {
        part(self, offset, len).ok_or_else(|| past_end(self, "a directory ends", offset, len))
    }

    fn values(&self, tag: u16, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Error> {
        part(self, offset, len).ok_or_else(|| past_end(self, &format!("the values of tag {tag} end"), offset, len))
    }

    fn broken(&self, what: String, expected: String, found: String) -> Error {
        Error::format(what, expected, found)
    }
}

/// Creates the error for a part that ends after the end of the file.
fn past_end(file: &[u8], what: &str, offset: u64, len: u64) -> Error {
    let (end, size) = (offset.saturating_add(len), file.len());
    Error::malformed(format!("the TIFF is truncated: {what} at byte {end}, but the file has only {size} bytes"))
}

fn part(file: &[u8], offset: u64, len: u64) -> Option<Cow<'_, [u8]>> {
    let end = usize::try_from(offset.checked_add(len)?).ok()?;
    file.get(usize::try_from(offset).ok()?..end).map(Cow::Borrowed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TiffWords {
    big_endian: bool,
    big_tiff: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TiffEntry {
    tag: u16,
    kind: u16,
    count: u64,
    /// The values, or their offset in the file if they do not fit into these 4 bytes (8 bytes in a BigTIFF).
    field: [u8; 8],
}

/// A TIFF directory, which contains the tags of one page.
#[derive(Debug)]
pub struct TiffDirectory<'a, F: TiffFile + ?Sized> {
    file: &'a F,
    words: TiffWords,
    offset: u64,
    entries: Vec<TiffEntry>,
    /// Offset of the field that links to the next directory.
    link: u64,
}

/// The values of a tag.
#[derive(Debug, Clone)]
pub struct TiffValues<'a> {
    words: TiffWords,
    kind: u16,
    bytes: Cow<'a, [u8]>,
}

impl<'a, F: TiffFile + ?Sized> TiffDirectory<'a, F> {
    /// Reads the first directory of a file.
    ///
    /// # Errors
    /// If the file has no directory.
    pub fn first(file: &'a F) -> Result<Self, F::Error> {
        let head = file.directory(0, file.bytes().min(16))?;
        let bad =
            || file.broken("TIFF header".into(), "a complete header".into(), format!("`{}`", head.escape_ascii()));
        let words = TiffWords::of(&head).ok_or_else(bad)?;
        let offset = words.first(&head).ok_or_else(bad)?;
        if offset == 0 {
            return Err(file.broken("offset of the first TIFF directory".into(), "8 or more".into(), "0".into()));
        }
        if words.big_tiff {
            let width = words.uint(head.get(4..6).ok_or_else(bad)?);
            if width != 8 {
                return Err(file.broken("size of a BigTIFF offset".into(), "8 bytes".into(), width.to_string()));
            }
        }
        Self::read(file, words, offset)
    }

    fn read(file: &'a F, words: TiffWords, offset: u64) -> Result<Self, F::Error> {
        let (count_bytes, entry_bytes) = (words.count_bytes(), words.entry_bytes());
        let count = words.uint(&file.directory(offset, count_bytes)?);
        if count == 0 || count > F::MAX_ENTRIES {
            let expected = format!("1 to {}", F::MAX_ENTRIES);
            return Err(file.broken("number of entries in a TIFF directory".into(), expected, count.to_string()));
        }
        // These sums cannot overflow, because the entry count was read from an offset in the file.
        let (start, table_bytes) = (offset + count_bytes, count * entry_bytes as u64);
        let table = file.directory(start, table_bytes)?;
        let entries = table.chunks_exact(entry_bytes).filter_map(|bytes| words.entry(bytes)).collect();
        Ok(Self { file, words, offset, entries, link: start + table_bytes })
    }

    /// Reads the next directory, or returns `None` after the last one. Malformed files can contain a loop,
    /// which this function does not detect.
    ///
    /// # Errors
    /// If the next directory cannot be read.
    pub fn next(&self) -> Result<Option<Self>, F::Error> {
        let bytes = self.words.offset_bytes();
        // Some writers omit the final link if it would be at the end of the file.
        if self.link.saturating_add(bytes) > self.file.bytes() {
            return Ok(None);
        }
        let next = self.words.uint(&self.file.directory(self.link, bytes)?);
        if next == 0 { Ok(None) } else { Self::read(self.file, self.words, next).map(Some) }
    }

    /// Returns the directory's offset in the file.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the file that contains this directory.
    #[must_use]
    pub const fn file(&self) -> &'a F {
        self.file
    }

    /// Returns whether the file is big-endian.
    #[must_use]
    pub const fn big_endian(&self) -> bool {
        self.words.big_endian
    }

    /// Reads the values of `tag`, or returns `None` if the directory has no such tag. Values of an unknown
    /// type are returned without bytes.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn values(&self, tag: u16) -> Result<Option<TiffValues<'a>>, F::Error> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        let bytes = entry.count.checked_mul(value_width(entry.kind).unwrap_or(0)).ok_or_else(|| {
            let (what, most) = (format!("value count of TIFF tag {tag}"), self.file.bytes());
            self.file.broken(what, format!("at most {most} (the file size in bytes)"), entry.count.to_string())
        })?;
        Ok(Some(TiffValues { words: self.words, kind: entry.kind, bytes: self.bytes(entry, bytes)? }))
    }

    /// Reads the first value of `tag` as an unsigned integer. Returns `None` if the directory has no such tag
    /// or if the tag has no values. Any further values are not read.
    ///
    /// # Errors
    /// If the value cannot be read, or is not an integer.
    pub fn integer(&self, tag: u16) -> Result<Option<u64>, F::Error> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        let width = self.integer_width(tag, entry.kind)?;
        if entry.count == 0 {
            return Ok(None);
        }
        let is_inline = entry.count.saturating_mul(width) <= self.words.offset_bytes();
        let value = match is_inline {
            true => self.words.uint(entry.field.get(..to_usize(width)).unwrap_or_default()),
            false => self.words.uint(&self.file.values(tag, self.elsewhere(entry), width)?),
        };
        Ok(Some(value))
    }

    /// Same as [`integer`](Self::integer), but returns `default` instead of `None`.
    ///
    /// # Errors
    /// Same as [`integer`](Self::integer).
    pub fn integer_or(&self, tag: u16, default: u64) -> Result<u64, F::Error> {
        Ok(self.integer(tag)?.unwrap_or(default))
    }

    /// Reads all values of `tag` as unsigned integers, or returns `None` if the directory has no such tag.
    ///
    /// # Errors
    /// If the values cannot be read, or are not integers.
    pub fn integers(&self, tag: u16) -> Result<Option<TiffValues<'a>>, F::Error> {
        if let Some(entry) = self.entry(tag) {
            self.integer_width(tag, entry.kind)?;
        }
        self.values(tag)
    }

    fn entry(&self, tag: u16) -> Option<&TiffEntry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    fn integer_width(&self, tag: u16, kind: u16) -> Result<u64, F::Error> {
        integer_width(kind).ok_or_else(|| {
            let what = format!("type of TIFF tag {tag}");
            self.file.broken(what, "an integer type".into(), format!("type {kind}"))
        })
    }

    fn elsewhere(&self, entry: &TiffEntry) -> u64 {
        self.words.uint(entry.field.get(..to_usize(self.words.offset_bytes())).unwrap_or_default())
    }

    fn bytes(&self, entry: &TiffEntry, bytes: u64) -> Result<Cow<'a, [u8]>, F::Error> {
        match bytes <= self.words.offset_bytes() {
            true => Ok(Cow::Owned(entry.field.iter().copied().take(to_usize(bytes)).collect())),
            false => self.file.values(entry.tag, self.elsewhere(entry), bytes),
        }
    }
}

impl<'a> TiffValues<'a> {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        value_width(self.kind).map_or(0, |width| self.bytes.len() / to_usize(width))
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns value `at` as an unsigned integer.
    #[must_use]
    pub fn integer(&self, at: usize) -> Option<u64> {
        self.value(at, to_usize(integer_width(self.kind)?)).map(|bytes| self.words.uint(bytes))
    }

    /// Returns value `at` as a float. The value may be an integer, a rational or a float.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "colours need few digits")]
    pub fn float(&self, at: usize) -> Option<f64> {
        match self.kind {
            5 => {
                let (above, below) = self.value(at, 8)?.split_at(4);
                Some(self.words.uint(above) as f64 / self.words.uint(below) as f64)
            }
            11 => Some(f32::from_bits(self.words.uint(self.value(at, 4)?) as u32).into()),
            12 => Some(f64::from_bits(self.words.uint(self.value(at, 8)?))),
            6 | 8 | 9 | 17 => None,
            _ => self.integer(at).map(|value| value as f64),
        }
    }

    /// Returns all values if they are float64, and `None` otherwise.
    #[must_use]
    pub fn doubles(&self) -> Option<Vec<f64>> {
        (self.kind == 12).then(|| (0..self.len()).filter_map(|at| self.float(at)).collect())
    }

    /// Returns the values as text, up to the first zero byte, or `None` if the values are not text.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let text = self.bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        matches!(self.kind, 1 | 2 | 7).then(|| String::from_utf8_lossy(text).trim().to_owned())
    }

    /// Returns the bytes of the values as they are in the file.
    #[must_use]
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        self.bytes
    }

    /// If the first `count` values are all equal, returns that value. Otherwise returns `None`.
    #[must_use]
    pub fn same(&self, count: usize) -> Option<u64> {
        let first = self.integer(0)?;
        (1..count.min(self.len())).all(|at| self.integer(at) == Some(first)).then_some(first)
    }

    fn value(&self, at: usize, width: usize) -> Option<&[u8]> {
        self.bytes.get(at.checked_mul(width)?..)?.get(..width)
    }
}

/// Returns the size of an integer in bytes, or `None` for other types. Signed types count as integers too, because
/// some writers use them for numbers that are never negative.
const fn integer_width(kind: u16) -> Option<u64> {
    match kind {
        1 | 3 | 4 | 6 | 7 | 8 | 9 | 13 | 16 | 17 | 18 => value_width(kind),
        _ => None,
    }
}

const fn value_width(kind: u16) -> Option<u64> {
    Some(match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16..=18 => 8,
        _ => return None,
    })
}

/// Returns whether `head` is the beginning of a TIFF file.
#[must_use]
pub fn is_tiff(head: &[u8]) -> bool {
    TiffWords::of(head).is_some()
}

impl TiffWords {
    fn of(head: &[u8]) -> Option<Self> {
        let (big_endian, big_tiff) = match head.get(..4)? {
            b"II\x2a\0" => (false, false),
            b"MM\0\x2a" => (true, false),
            b"II\x2b\0" => (false, true),
            b"MM\0\x2b" => (true, true),
            _ => return None,
        };
        Some(Self { big_endian, big_tiff })
    }

    fn uint(self, bytes: &[u8]) -> u64 {
        let push = |acc: u64, &byte: &u8| acc << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
    }

    fn first(self, head: &[u8]) -> Option<u64> {
        head.get(if self.big_tiff { 8..16 } else { 4..8 }).map(|bytes| self.uint(bytes))
    }

    const fn count_bytes(self) -> u64 {
        if self.big_tiff { 8 } else { 2 }
    }

    const fn entry_bytes(self) -> usize {
        if self.big_tiff { 20 } else { 12 }
    }

    /// Returns the size in bytes of an offset, and of an entry's field for values.
    const fn offset_bytes(self) -> u64 {
        if self.big_tiff { 8 } else { 4 }
    }

    fn entry(self, bytes: &[u8]) -> Option<TiffEntry> {
        let (head, value) = bytes.split_at_checked(if self.big_tiff { 12 } else { 8 })?;
        let short = |range| head.get(range).and_then(|bytes| u16::try_from(self.uint(bytes)).ok());
        let mut field = [0; 8];
        field.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        Some(TiffEntry { tag: short(0..2)?, kind: short(2..4)?, count: self.uint(head.get(4..)?), field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_values_in_its_entries_and_elsewhere() {
        let mut file = b"II\x2a\0\x08\0\0\0\x03\0".to_vec();
        file.extend(b"\0\x01\x03\0\x01\0\0\0\x20\0\0\0");
        file.extend(b"\x02\x01\x03\0\x03\0\0\0\x32\0\0\0");
        file.extend(b"\x0e\x01\x02\0\x03\0\0\0ab\0\0");
        file.extend([0; 4]);
        file.extend([8, 0, 8, 0, 8, 0]);
        let directory = TiffDirectory::first(file.as_slice()).unwrap();
        assert_eq!((directory.integer(256).unwrap(), directory.integer_or(257, 7).unwrap()), (Some(32), 7));
        let bits = directory.integers(258).unwrap().unwrap();
        assert_eq!((bits.len(), bits.same(3), directory.integer(258).unwrap()), (3, Some(8), Some(8)));
        assert_eq!(directory.values(270).unwrap().unwrap().text().as_deref(), Some("ab"));
        assert!(
            directory.integer(270).unwrap_err().to_string().contains("type of TIFF tag 270: expected an integer type")
        );
        assert!(directory.next().unwrap().is_none());
        file.truncate(file.len() - 1);
        let directory = TiffDirectory::first(file.as_slice()).unwrap();
        assert!(directory.integers(258).is_err());
        assert_eq!(directory.integer(258).unwrap(), Some(8));
        assert!(TiffDirectory::first(&file[..20]).is_err());
    }

    #[test]
    fn entries_of_all_four_kinds_of_files_are_read() {
        let heads: [(&[u8], &[u8]); 4] = [
            (b"II\x2a\0\x08\0\0\0", b"\0\x01\x03\0\x01\0\0\0\x20\0\0\0"),
            (b"MM\0\x2a\0\0\0\x08", b"\x01\0\0\x03\0\0\0\x01\0\x20\0\0"),
            (b"II\x2b\0\x08\0\0\0\x08\0\0\0\0\0\0\0", b"\0\x01\x03\0\x01\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0"),
            (b"MM\0\x2b\0\x08\0\0\0\0\0\0\0\0\0\x08", b"\x01\0\0\x03\0\0\0\0\0\0\0\x01\0\x20\0\0\0\0\0\0"),
        ];
        for (head, entry) in heads {
            let words = TiffWords::of(head).unwrap();
            assert_eq!((words.first(head), words.entry_bytes()), (Some(8), entry.len()));
            let found = words.entry(entry).unwrap();
            assert_eq!((found.tag, found.kind, found.count), (256, 3, 1));
            assert_eq!(words.uint(&found.field[..2]), 32);
            assert_eq!(words.first(&head[..4]), None);
            assert!(words.entry(&entry[..7]).is_none());
        }
        assert!(!is_tiff(b"II\x2a") && !is_tiff(b"II\0\x2a") && !is_tiff(b""));
    }
}
