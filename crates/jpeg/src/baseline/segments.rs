//! Segments that a rectangle needs, without stuffing.
#![deny(clippy::indexing_slicing)]

use super::bits::Bits;
use super::layout::Layout;
use crate::SegmentIndex;
use crate::shared::KEPT_BYTES;
use memchr::memchr_iter;

/// Zeros after the last segment, so that eight bytes can be read anywhere in it.
const PADDING: usize = 8;

/// Copies of segments.
#[derive(Default)]
pub(super) struct Segments {
    /// Bytes without stuffing, that is, without the 00 that follows each FF in entropy-coded data.
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Starts of all segments in the index, in bits of the file.
    starts: Vec<u64>,
}

/// A copied segment, in bits of the copies.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    /// First and last position at which decoding may end.
    ends: (usize, usize),
    /// DC predictions at the start, and after the end if they are known.
    predictions: ([i16; 3], Option<[i16; 3]>),
}

/// A segment, and how many of its bits were read.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) bits: Bits<'a>,
    ends: (usize, usize),
}

impl Segment<'_> {
    /// True if all bits were consumed, except for up to seven that fill the last byte.
    pub(super) const fn is_read(&self) -> bool {
        let position = self.bits.position();
        self.ends.0 <= position && position <= self.ends.1
    }

    /// True if no more bits were consumed than the segment has.
    pub(super) const fn is_within(&self) -> bool {
        self.bits.position() <= self.ends.1
    }
}

impl Segments {
    /// Finds and copies the segments that the layout decodes. Returns `None` unless the scan has exactly the
    /// right markers: RST0 to RST7 in turn, then EOI. Checks the whole scan, so that a lost marker is found
    /// anywhere.
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
                // A segment without bytes ends where it begins.
                let first = if end > start { end - 7 } else { end };
                self.places.push(Place { start, ends: (first, end), predictions: ([0; 3], None) });
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

    /// Copies the segments that the layout decodes, which the index finds. Returns `None` if the bytes
    /// contradict the index.
    ///
    /// The rest of the scan is not read.
    pub(super) fn read_indexed(&mut self, scan: &[u8], layout: &Layout, index: &SegmentIndex<'_>) -> Option<()> {
        self.bytes.clear();
        self.places.clear();
        self.starts.clear();
        self.starts.extend(index.starts());
        let after = usize::try_from(index.scan_bytes()).ok()?;
        // A last byte FF has its stuffing before EOI.
        let after = if *scan.get(after.checked_sub(1)?)? == 0xFF { after + 1 } else { after };
        (scan.get(after..after + 2)? == [0xFF, 0xD9]).then_some(())?;
        let last = index.segments() as usize - 1;
        for number in layout.shown_rows.clone().flat_map(|row| layout.new_segments(row)) {
            let [start, next] = *self.starts.get(number..)?.first_chunk()?;
            let (start, next) = (usize::try_from(start).ok()?, usize::try_from(next).ok()?);
            // A restart marker follows the segment, and up to seven bits before it have no meaning.
            let mcus = (number + 1) * layout.interval;
            let is_marked = number < last && mcus.is_multiple_of(layout.restart_interval);
            let (end, end_byte) = if is_marked {
                let end = (next / 8).checked_sub(2)?;
                let marker = 0xD0 | u8::try_from((mcus / layout.restart_interval - 1) & 7).ok()?;
                (next.is_multiple_of(8) && *scan.get(end..end + 2)? == [0xFF, marker]).then_some(())?;
                (end * 8, end)
            } else {
                (next, next.div_ceil(8))
            };
            let base = self.bytes.len() * 8;
            unstuff(scan.get(..end_byte + 1)?, start / 8, end_byte, &mut self.bytes)?;
            let unused = end_byte * 8 - end;
            let end = (self.bytes.len() * 8).checked_sub(unused).filter(|&end| end > base)?;
            let predictions = |segment: usize| {
                let segment = u32::try_from(segment).unwrap_or(u32::MAX);
                std::array::from_fn(|component| index.prediction(component, segment))
            };
            let ends = (if is_marked { end - 7 } else { end }, end);
            let predictions = (predictions(number), (!is_marked).then(|| predictions(number + 1)));
            self.places.push(Place { start: base + start % 8, ends, predictions });
        }
        self.bytes.extend([0; PADDING]);
        Some(())
    }

    /// Returns the number of copied bytes.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len().saturating_sub(PADDING)
    }

    pub(super) fn trim(&mut self) {
        let places = self.places.capacity() * size_of::<Place>() + self.starts.capacity() * size_of::<u64>();
        if self.bytes.capacity() + places > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Returns the n-th segment, row by row.
    #[inline(always)]
    pub(super) fn get(&self, n: usize) -> Option<Segment<'_>> {
        let place = self.places.get(n)?;
        Some(Segment { bits: Bits::at_bit(&self.bytes, place.start), ends: place.ends })
    }

    /// Returns the DC predictions at the start of the n-th segment, and after its end if an index has them.
    #[inline(always)]
    pub(super) fn predictions(&self, n: usize) -> Option<([i32; 3], Option<[i32; 3]>)> {
        let (start, end) = self.places.get(n)?.predictions;
        Some((start.map(i32::from), end.map(|end| end.map(i32::from))))
    }
}

/// Appends the bytes `from..to` without stuffing. `scan` has one more byte. Returns `None` if there is a marker.
fn unstuff(scan: &[u8], from: usize, to: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut copied = from;
    for found in memchr_iter(0xFF, scan.get(from..to)?) {
        let at = from + found;
        (*scan.get(at + 1)? == 0).then_some(())?;
        out.extend_from_slice(scan.get(copied..=at)?);
        // The last byte may be FF, with the stuffing after the segment's bytes.
        copied = (at + 2).min(to);
    }
    out.extend_from_slice(scan.get(copied..to)?);
    Some(())
}
