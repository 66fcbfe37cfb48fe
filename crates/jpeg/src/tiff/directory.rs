//! The first directory of a TIFF, in memory: its entries and their values (TIFF 6.0, BigTIFF).

use shardpack_base::tiff::{TiffEntry, TiffWords, value_width};
use shardpack_format::{Error, Result, to_usize};

/// Most entries of a directory. A photograph has dozens.
const MAX_ENTRIES: u64 = 4096;

/// A directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory<'a> {
    file: &'a [u8],
    words: TiffWords,
    entries: &'a [u8],
}

/// The values of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    words: TiffWords,
    kind: u16,
    bytes: &'a [u8],
}

impl<'a> Directory<'a> {
    /// The first directory of `file`.
    pub(super) fn first(file: &'a [u8]) -> Result<Self> {
        let words = TiffWords::of(file).ok_or_else(|| Error::format("TIFF", "its first four bytes", "others"))?;
        let short = || Error::format("TIFF directory", "one within the file", "the end of the file");
        let offset = words.first(file).ok_or_else(short)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).ok_or_else(short)?;
        let (count, rest) = rest.split_at_checked(to_usize(words.count_bytes())).ok_or_else(short)?;
        let count = words.uint(count);
        if count == 0 || count > MAX_ENTRIES {
            return Err(Error::format("entries of a TIFF directory", format!("1 to {MAX_ENTRIES}"), count));
        }
        let table = usize::try_from(count).ok().and_then(|count| rest.get(..count * words.entry_bytes()));
        Ok(Self { file, words, entries: table.ok_or_else(short)? })
    }

    pub(super) const fn big_endian(&self) -> bool {
        self.words.big_endian
    }

    /// The values of `tag`; `None` if the directory does not have it.
    pub(super) fn values(&self, tag: u16) -> Result<Option<Values<'a>>> {
        let words = self.words;
        let mut entries = self.entries.chunks_exact(words.entry_bytes()).filter_map(|bytes| words.entry(bytes));
        let Some(entry) = entries.find(|entry| entry.tag == tag) else { return Ok(None) };
        let TiffEntry { kind, count, field, .. } = entry;
        let bad = |found: String| Error::format(format!("TIFF tag {tag}"), "values within the file", found);
        if value_width(kind).is_none() {
            return Err(bad(format!("type {kind}")));
        }
        let elsewhere = || {
            let offset = usize::try_from(words.uint(field)).ok()?;
            let length = usize::try_from(entry.value_bytes()?).ok()?;
            self.file.get(offset..offset.checked_add(length)?)
        };
        let bytes = entry.inline().or_else(elsewhere);
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

    pub(super) fn len(&self) -> usize {
        match value_width(self.kind) {
            Some(width) => self.bytes.len() / to_usize(width),
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
