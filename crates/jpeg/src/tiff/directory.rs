//! The first directory of a TIFF, in memory: its entries and their values (TIFF 6.0, BigTIFF).

use shardpack_format::{Error, Result};

/// Most entries of a directory. A photograph has dozens.
const MAX_ENTRIES: u64 = 4096;

/// The order of bytes of a file, and the widths of its counts, offsets and entries.
#[derive(Debug, Clone, Copy)]
struct Words {
    big_endian: bool,
    big_tiff: bool,
}

impl Words {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (big_endian, big_tiff) = match bytes.get(..4)? {
            b"II\x2a\0" => (false, false),
            b"MM\0\x2a" => (true, false),
            b"II\x2b\0" => (false, true),
            b"MM\0\x2b" => (true, true),
            _ => return None,
        };
        Some(Self { big_endian, big_tiff })
    }

    /// An unsigned integer of up to 8 bytes.
    fn uint(self, bytes: &[u8]) -> u64 {
        let push = |acc: u64, &byte: &u8| acc << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
    }
}

/// A directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory<'a> {
    file: &'a [u8],
    words: Words,
    entries: &'a [u8],
}

/// The values of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    words: Words,
    kind: u16,
    bytes: &'a [u8],
}

impl<'a> Directory<'a> {
    /// The first directory of `file`.
    pub(super) fn first(file: &'a [u8]) -> Result<Self> {
        let words = Words::of(file).ok_or_else(|| Error::format("TIFF", "its first four bytes", "others"))?;
        let (at, count_bytes, entry_bytes) = if words.big_tiff { (8..16, 8, 20) } else { (4..8, 2, 12) };
        let short = || Error::format("TIFF directory", "one within the file", "the end of the file");
        let offset = words.uint(file.get(at).ok_or_else(short)?);
        let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).ok_or_else(short)?;
        let (count, rest) = rest.split_at_checked(count_bytes).ok_or_else(short)?;
        let count = words.uint(count);
        if count == 0 || count > MAX_ENTRIES {
            return Err(Error::format("entries of a TIFF directory", format!("1 to {MAX_ENTRIES}"), count));
        }
        let table = usize::try_from(count).ok().and_then(|count| rest.get(..count * entry_bytes));
        Ok(Self { file, words, entries: table.ok_or_else(short)? })
    }

    pub(super) const fn big_endian(&self) -> bool {
        self.words.big_endian
    }

    /// The values of `tag`; `None` if the directory does not have it.
    pub(super) fn values(&self, tag: u16) -> Result<Option<Values<'a>>> {
        let words = self.words;
        let (entry_bytes, head_bytes) = if words.big_tiff { (20, 12) } else { (12, 8) };
        let is_it = |entry: &&[u8]| entry.get(..2).is_some_and(|found| words.uint(found) == u64::from(tag));
        let Some(entry) = self.entries.chunks_exact(entry_bytes).find(is_it) else { return Ok(None) };
        let (head, field) = entry.split_at(head_bytes);
        let kind = u16::try_from(words.uint(head.get(2..4).unwrap_or_default())).unwrap_or(0);
        let count = words.uint(head.get(4..).unwrap_or_default());
        let bad = |found: String| Error::format(format!("TIFF tag {tag}"), "values within the file", found);
        let width = width_of(kind).ok_or_else(|| bad(format!("type {kind}")))?;
        let length = count.checked_mul(width as u64).and_then(|length| usize::try_from(length).ok());
        let bytes = length.and_then(|length| {
            if length <= field.len() {
                return field.get(..length);
            }
            let offset = usize::try_from(words.uint(field)).ok()?;
            self.file.get(offset..offset.checked_add(length)?)
        });
        let bytes = bytes.ok_or_else(|| bad(format!("{count} of them past its end")))?;
        Ok(Some(Values { words, kind, bytes }))
    }

    /// The first value of `tag`, or `default` if it has none.
    pub(super) fn uint(&self, tag: u16, default: u64) -> Result<u64> {
        Ok(self.values(tag)?.and_then(|values| values.get(0)).unwrap_or(default))
    }

    /// `count` bytes of the file, or all to its end if it has fewer, or no count is given.
    pub(super) fn range(&self, offset: u64, count: Option<u64>) -> &'a [u8] {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.file.get(offset..)).unwrap_or_default();
        count.and_then(|count| rest.get(..usize::try_from(count).ok()?)).unwrap_or(rest)
    }

    pub(super) const fn file_bytes(&self) -> u64 {
        self.file.len() as u64
    }
}

/// Bytes of a value of this type.
const fn width_of(kind: u16) -> Option<usize> {
    Some(match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16..=18 => 8,
        _ => return None,
    })
}

impl<'a> Values<'a> {
    /// Value `at`, an unsigned integer.
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        let width = match self.kind {
            1 | 7 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            _ => return None,
        };
        Some(self.words.uint(self.bytes.get(at.checked_mul(width)?..)?.get(..width)?))
    }

    /// Value `at` as a float, of integers, rationals and floats.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "colours need few digits")]
    pub(super) fn float(&self, at: usize) -> Option<f64> {
        let part = |width: usize| self.bytes.get(at.checked_mul(width)?..)?.get(..width);
        match self.kind {
            5 => {
                let (above, below) = part(8)?.split_at(4);
                Some(self.words.uint(above) as f64 / self.words.uint(below) as f64)
            }
            11 => Some(f32::from_bits(self.words.uint(part(4)?) as u32).into()),
            12 => Some(f64::from_bits(self.words.uint(part(8)?))),
            _ => self.get(at).map(|value| value as f64),
        }
    }

    pub(super) const fn len(&self) -> usize {
        match width_of(self.kind) {
            Some(width) => self.bytes.len() / width,
            None => 0,
        }
    }

    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value that all of them have; `None` if they differ.
    pub(super) fn same(&self, count: usize) -> Option<u64> {
        let first = self.get(0)?;
        (1..count.min(self.len())).all(|at| self.get(at) == Some(first)).then_some(first)
    }
}
