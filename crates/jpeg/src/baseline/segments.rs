//! Finds the segments that a rectangle needs, and copies them without stuffing.
#![deny(clippy::indexing_slicing)]

use super::bits::Bits;
use super::layout::Layout;
use crate::SegmentIndex;
use crate::shared::KEPT_BYTES;
use memchr::memchr_iter;
use std::ops::Range;

/// Number of zeros after the last segment. They allow eight bytes to be read from any position in it.
const PADDING: usize = 8;

#[derive(Default)]
pub(super) struct Segments {
    /// Bytes without the 00 that follows each FF.
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Start of every segment in the index, as a bit position in the file.
    starts: Vec<u64>,
    /// Offsets of the stuffing bytes that were removed while a run of segments was copied.
    stuffing: Vec<usize>,
}

/// A copied segment. Its positions are in bits from the start of the copies.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    /// First and last bit position where decoding may end.
    ends: (usize, usize),
    predictions: [i16; 3],
    /// DC coefficients at the end of the segment, according to the index.
    last_dc: Option<[i16; 3]>,
}

/// A segment, with the position of the next bit to read.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) bits: Bits<'a>,
    ends: (usize, usize),
}

impl Segment<'_> {
    /// Returns true if all bits were consumed, except for up to seven padding bits in the last byte.
    pub(super) const fn is_read(&self) -> bool {
        let position = self.bits.position();
        self.ends.0 <= position && position <= self.ends.1
    }

    pub(super) const fn is_within(&self) -> bool {
        self.bits.position() <= self.ends.1
    }
}

impl Segments {
    /// Finds and copies the segments that the layout decodes. Scans all of the data, so that a missing marker is
    /// noticed even outside the rectangle. Returns `None` unless the markers cycle through RST0 to RST7 in order and
    /// end with EOI.
    pub(super) fn read(&mut self, scan: &[u8], layout: &Layout) -> Option<()> {
        self.bytes.clear();
        self.places.clear();
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
                let start = self.places.last().map_or(0, |before| before.ends.1);
                let end = self.bytes.len() * 8;
                // An empty segment has no padding bits: it ends where it begins.
                let first = if end > start { end - 7 } else { end };
                self.places.push(Place { start, ends: (first, end), predictions: [0; 3], last_dc: None });
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

    /// Copies the segments that the layout decodes, using their positions in the index. Does not read the
    /// rest of the scan. Returns `None` if the bytes contradict the index.
    pub(super) fn read_indexed(&mut self, scan: &[u8], layout: &Layout, index: &SegmentIndex<'_>) -> Option<()> {
        self.bytes.clear();
        self.places.clear();
        self.starts.clear();
        self.starts.extend(index.starts());
        index.ends_before_eoi(scan).then_some(())?;
        let last = index.segments() as usize - 1;
        let is_marked =
            |number: usize| number < last && ((number + 1) * layout.interval).is_multiple_of(layout.restart_interval);
        let mut numbers = layout.shown_rows.clone().flat_map(|row| layout.new_segments(row)).peekable();
        while let Some(first) = numbers.next() {
            let mut run = first..first + 1;
            while !is_marked(run.end - 1) && numbers.next_if_eq(&run.end).is_some() {
                run.end += 1;
            }
            let marker = is_marked(run.end - 1).then(|| run.end * layout.interval / layout.restart_interval - 1);
            let follows_marker = run.start.checked_sub(1).is_none_or(is_marked);
            self.copy_run(scan, index, run, marker, follows_marker)?;
        }
        self.bytes.extend([0; PADDING]);
        Some(())
    }

    /// Copies consecutive segments that have no restart marker between them. `marker` is the number of the marker
    /// after the last segment, if there is one. If a marker precedes the first segment, DC predictions start at 0.
    fn copy_run(
        &mut self,
        scan: &[u8],
        index: &SegmentIndex<'_>,
        run: Range<usize>,
        marker: Option<usize>,
        follows_marker: bool,
    ) -> Option<()> {
        let positions = self.starts.get(run.start..=run.end)?;
        let (&first, &end) = (positions.first()?, positions.last()?);
        let (from, end) = (usize::try_from(first / 8).ok()?, usize::try_from(end).ok()?);
        let end_byte = match marker {
            None => end.div_ceil(8),
            Some(number) => {
                let at = (end / 8).checked_sub(2)?;
                let code = 0xD0 | u8::try_from(number & 7).ok()?;
                (end.is_multiple_of(8) && *scan.get(at..at + 2)? == [0xFF, code]).then_some(at)?
            }
        };
        let base = self.bytes.len();
        unstuff(scan.get(..end_byte + 1)?, from..end_byte, &mut self.bytes, &mut self.stuffing)?;
        let copied_end = self.bytes.len() * 8;
        let mut stuffing = self.stuffing.iter().copied().peekable();
        let mut removed = from;
        // Converts a position in the file to a position in the copies. Must be called with ascending
        // positions.
        let mut copied = |position: u64| {
            let position = usize::try_from(position).ok()?;
            while stuffing.next_if(|&place| place < position / 8).is_some() {
                removed += 1;
            }
            (position + base * 8).checked_sub(removed * 8)
        };
        let last_dc = |segment: usize| {
            let segment = shardpack_format::saturating_u32(segment);
            std::array::from_fn(|component| index.last_dc(component, segment))
        };
        let mut start = copied(first)?;
        let mut predictions = if follows_marker { [0; 3] } else { last_dc(run.start) };
        for (number, &next) in run.clone().zip(positions.get(1..)?) {
            let is_marked = marker.is_some() && number + 1 == run.end;
            let ends = if is_marked {
                // Up to seven padding bits may precede a marker.
                (copied_end.checked_sub(7)?, copied_end)
            } else {
                let end = copied(next)?;
                (end, end)
            };
            (start < ends.1).then_some(())?;
            let after = last_dc(number + 1);
            self.places.push(Place { start, ends, predictions, last_dc: Some(after) });
            (start, predictions) = (ends.1, after);
        }
        Some(())
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len().saturating_sub(PADDING)
    }

    pub(super) fn trim(&mut self) {
        let numbers = (self.starts.capacity() + self.stuffing.capacity()) * size_of::<u64>();
        let places = self.places.capacity() * size_of::<Place>() + numbers;
        if self.bytes.capacity() + places > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Returns the n-th copied segment, counted row by row.
    #[inline(always)]
    pub(super) fn get(&self, n: usize) -> Option<Segment<'_>> {
        let place = self.places.get(n)?;
        Some(Segment { bits: Bits::at_bit(&self.bytes, place.start), ends: place.ends })
    }

    /// Returns the DC predictions at the start of the n-th segment, and its DC coefficients at the end
    /// according to the index.
    #[inline(always)]
    pub(super) fn predictions(&self, n: usize) -> Option<([i32; 3], Option<[i32; 3]>)> {
        let Place { predictions, last_dc, .. } = self.places.get(n)?;
        Some((predictions.map(i32::from), last_dc.map(|last| last.map(i32::from))))
    }
}

/// Appends a range of the scan to `out` without stuffing, and lists the offsets of the removed bytes. `scan`
/// must extend at least one byte past the range. Returns `None` if the range contains a marker.
fn unstuff(scan: &[u8], bytes: Range<usize>, out: &mut Vec<u8>, stuffing: &mut Vec<usize>) -> Option<()> {
    stuffing.clear();
    let mut copied = bytes.start;
    for found in memchr_iter(0xFF, scan.get(bytes.clone())?) {
        let at = bytes.start + found;
        (*scan.get(at + 1)? == 0).then_some(())?;
        out.extend_from_slice(scan.get(copied..=at)?);
        stuffing.push(at + 1);
        // If the last byte is FF, its stuffing may lie just outside the range.
        copied = (at + 2).min(bytes.end);
    }
    out.extend_from_slice(scan.get(copied..bytes.end)?);
    Some(())
}
