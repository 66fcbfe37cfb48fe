//! How all TIFFs are written: the order of bytes, and the widths of counts, offsets, entries and
//! values (TIFF 6.0, BigTIFF). What reads pictures and what reads cubes stand on it.

/// Byte order and widths of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TiffWords {
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Whether it is a BigTIFF.
    pub big_tiff: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TiffEntry<'a> {
    /// Which property of the picture.
    pub tag: u16,
    /// Type of the values.
    pub kind: u16,
    /// Number of values.
    pub count: u64,
    /// Holds the value, or its offset if it is longer: 4 bytes or 8.
    pub field: &'a [u8],
}

impl<'a> TiffEntry<'a> {
    /// Bytes of all values; `None` for an unknown type, or if there are more than 2^64.
    #[must_use]
    pub fn value_bytes(&self) -> Option<u64> {
        self.count.checked_mul(value_width(self.kind)?)
    }

    /// The values, if the field holds them.
    #[must_use]
    pub fn inline(&self) -> Option<&'a [u8]> {
        self.field.get(..usize::try_from(self.value_bytes()?).ok()?)
    }
}

/// Bytes of one value of a type; `None` if the type is unknown.
#[must_use]
pub const fn value_width(kind: u16) -> Option<u64> {
    Some(match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16..=18 => 8,
        _ => return None,
    })
}

/// Whether a file that begins with `head` is a TIFF.
#[must_use]
pub fn is_tiff(head: &[u8]) -> bool {
    TiffWords::of(head).is_some()
}

impl TiffWords {
    /// Those of a file that begins with `head`; `None` if it is no TIFF.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        let (big_endian, big_tiff) = match head.get(..4)? {
            b"II\x2a\0" => (false, false),
            b"MM\0\x2a" => (true, false),
            b"II\x2b\0" => (false, true),
            b"MM\0\x2b" => (true, true),
            _ => return None,
        };
        Some(Self { big_endian, big_tiff })
    }

    /// An unsigned integer of up to 8 bytes.
    #[must_use]
    pub fn uint(self, bytes: &[u8]) -> u64 {
        let push = |acc: u64, &byte: &u8| acc << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
    }

    /// The offset of the first directory; `None` if `head` does not reach so far.
    #[must_use]
    pub fn first(self, head: &[u8]) -> Option<u64> {
        head.get(if self.big_tiff { 8..16 } else { 4..8 }).map(|bytes| self.uint(bytes))
    }

    /// Bytes of the number of entries that a directory begins with.
    #[must_use]
    pub const fn count_bytes(self) -> u64 {
        if self.big_tiff { 8 } else { 2 }
    }

    /// Bytes of an entry.
    #[must_use]
    pub const fn entry_bytes(self) -> usize {
        if self.big_tiff { 20 } else { 12 }
    }

    /// Bytes of an offset, such as that of the next directory, and of an entry's field.
    #[must_use]
    pub const fn offset_bytes(self) -> u64 {
        if self.big_tiff { 8 } else { 4 }
    }

    /// An entry out of its bytes; `None` if those are too few.
    #[must_use]
    pub fn entry(self, bytes: &[u8]) -> Option<TiffEntry<'_>> {
        let (head, field) = bytes.split_at_checked(if self.big_tiff { 12 } else { 8 })?;
        let short = |range| head.get(range).and_then(|bytes| u16::try_from(self.uint(bytes)).ok());
        Some(TiffEntry { tag: short(0..2)?, kind: short(2..4)?, count: self.uint(head.get(4..)?), field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!((found.field.len() as u64, words.first(&head[..4])), (words.offset_bytes(), None));
            assert!(words.entry(&entry[..7]).is_none());
        }
        assert!(!is_tiff(b"II\x2a") && !is_tiff(b"II\0\x2a") && !is_tiff(b""));
    }
}
