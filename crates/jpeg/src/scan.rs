//! Divides a scan into segments: the bytes between its restart markers.

use shardpack_base::Marks;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Restart(u8),
    /// A marker other than RSTn. It ends the scan.
    Marker(u8),
    /// The bytes end before any other marker.
    Cut,
}

/// Iterates over the entropy-coded segments of a scan without decoding them. FF in entropy-coded data is
/// always followed by 00. Any other FF is a marker, or a fill byte before a marker.
pub(super) struct Segments<'a> {
    scan: &'a [u8],
    marks: Marks<'a>,
    start: usize,
    ended: bool,
}

impl<'a> Segments<'a> {
    /// Starts at the first entropy-coded byte, which must be the first byte of `scan`. Bytes after the scan
    /// are ignored.
    pub(super) fn new(scan: &'a [u8]) -> Self {
        Self { scan, marks: Marks::new(scan), start: 0, ended: false }
    }

    /// Returns the offset of the next segment.
    pub(super) const fn offset(&self) -> usize {
        self.start
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = (&'a [u8], End);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        // `get` never returns `None`, because a marker is never before the start of its segment. If it did, iteration
        // would end early, and callers would notice, because they count segments.
        let segment = |end: usize| self.scan.get(self.start..end);
        for at in self.marks.by_ref() {
            match self.scan.get(at + 1) {
                Some(0xFF) => {}
                Some(&marker @ 0xD0..=0xD7) => {
                    let item = (segment(at)?, End::Restart(marker & 7));
                    self.start = at + 2;
                    return Some(item);
                }
                Some(&marker) => {
                    self.ended = true;
                    return Some((segment(at)?, End::Marker(marker)));
                }
                None => {}
            }
        }
        self.ended = true;
        Some((segment(self.scan.len())?, End::Cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_markers_and_nothing_else() {
        let scan = b"\x01\xFF\x00\xD0\xFF\xD0\xFF\xFF\xD1\xFF\xD2ab\xFF\xD9\xFF\xD3";
        let found: Vec<_> = Segments::new(scan).collect();
        let expected: [(&[u8], End); 4] = [
            (b"\x01\xFF\x00\xD0", End::Restart(0)),
            // Fill bytes before a marker belong to the segment before the marker.
            (b"\xFF", End::Restart(1)),
            (b"", End::Restart(2)),
            (b"ab", End::Marker(0xD9)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bytes_that_end_too_early() {
        let found = |scan| Segments::new(scan).collect::<Vec<_>>();
        assert_eq!(found(b""), [(b"".as_slice(), End::Cut)]);
        assert_eq!(found(b"ab\xFF"), [(b"ab\xFF".as_slice(), End::Cut)]);
    }
}
