//! Segments that a rectangle needs, without stuffing.
#![deny(clippy::indexing_slicing)]

use super::bits::Bits;
use super::layout::Layout;
use crate::shared::KEPT_BYTES;
use memchr::memchr_iter;

/// Zeros after the last segment, so that eight bytes can be read anywhere in it.
const PADDING: usize = 8;

/// Copies of segments, without gaps.
#[derive(Default)]
pub(super) struct Segments {
    /// Bytes without stuffing, that is, without the 00 that follows each FF in entropy-coded data.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// A segment, and how many of its bytes were read.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) bits: Bits<'a>,
    end: usize,
}

impl Segment<'_> {
    /// True if exactly all bytes were consumed.
    pub(super) const fn is_read(&self) -> bool {
        self.bits.end() == self.end
    }

    /// True if no more bytes were consumed than the segment has.
    pub(super) const fn is_within(&self) -> bool {
        self.bits.end() <= self.end
    }
}

impl Segments {
    /// Finds and copies the segments that the layout decodes. Returns `None` unless the scan has exactly the
    /// right markers: RST0 to RST7 in turn, then EOI. Checks the whole scan, so that a lost marker is found
    /// anywhere.
    pub(super) fn read(&mut self, scan: &[u8], layout: &Layout) -> Option<()> {
        self.bytes.clear();
        self.ends.clear();
        let last = (layout.columns * layout.rows - 1) / layout.interval;
        let mut wanted = layout.shown_rows.clone().map(|row| layout.new_segments(row)).filter(|row| !row.is_empty());
        let mut run = wanted.next()?;
        let (mut index, mut kept) = (0, run.start == 0);
        let mut copied = 0;
        for at in memchr_iter(0xFF, scan) {
            let marker = *scan.get(at + 1)?;
            if marker == 0 {
                if kept {
                    self.bytes.extend_from_slice(scan.get(copied..=at)?);
                    copied = at + 2;
                }
                continue;
            }
            if kept {
                self.bytes.extend_from_slice(scan.get(copied..at)?);
                self.ends.push(self.bytes.len());
            }
            if index == last {
                self.bytes.extend([0; PADDING]);
                return (marker == 0xD9).then_some(());
            }
            if usize::from(marker) != 0xD0 | index & 7 {
                return None;
            }
            copied = at + 2;
            index += 1;
            if index == run.end {
                run = wanted.next().unwrap_or(0..0);
            }
            kept = run.contains(&index);
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn trim(&mut self) {
        if self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Returns the n-th segment, row by row.
    #[inline(always)]
    pub(super) fn get(&self, n: usize) -> Option<Segment<'_>> {
        let end = *self.ends.get(n)?;
        let start = n.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        Some(Segment { bits: Bits::new(&self.bytes, start), end })
    }
}
