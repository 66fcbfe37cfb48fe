//! Selects the segments that a rectangle needs, and their bytes in the scan, for pictures with a segment index.
//!
//! The host reads the same segments under the same conditions (`Segments::read_indexed` in the crate `shardpack-jpeg`).

use super::Reason;
use super::frame::{McuRect, SegmentGrid};
use super::layout::{ANY, EDGES_BYTES};
use super::segments::{self, Edges, Segment, Tail, offset, runs};
use shardpack_base::Marks;
use shardpack_jpeg::{SegmentBoundary, SegmentIndex};
use std::ops::Range;

/// Provides the boundaries of a picture's segments. Callers request runs of segments in ascending order.
pub(super) trait Boundaries {
    /// Returns the starts of the segments in `run` and the end of the last one.
    ///
    /// # Errors
    /// `Index` if there are fewer segments.
    fn of(&mut self, run: Range<u32>) -> Result<impl Iterator<Item = SegmentBoundary>, Reason>;
}

/// Boundaries that are unpacked from a segment index.
pub(super) struct PackedBoundaries<'a> {
    index: &'a SegmentIndex<'a>,
    /// Number and start of the segment after the last run.
    next: u32,
    start: u64,
}

impl<'a> PackedBoundaries<'a> {
    pub(super) const fn new(index: &'a SegmentIndex<'a>) -> Self {
        Self { index, next: 0, start: 0 }
    }
}

impl Boundaries for PackedBoundaries<'_> {
    fn of(&mut self, run: Range<u32>) -> Result<impl Iterator<Item = SegmentBoundary>, Reason> {
        let start = self.start + self.index.bits(self.next..run.start);
        self.start = start + self.index.bits(run.clone());
        self.next = run.end;
        Ok(self.index.boundaries(run, start))
    }
}

/// Lists to which [`select`] appends.
pub(super) struct Selection<'s> {
    pub(super) segments: &'s mut Vec<Segment>,
    pub(super) edges: &'s mut Vec<[u8; EDGES_BYTES]>,
    /// Parts of the scan that hold the segments.
    pub(super) ranges: &'s mut Vec<Range<usize>>,
}

/// Appends the segments that `shown` needs to `segments`, followed by an end entry, and the parts of the scan that
/// hold these segments to `ranges`. Offsets count only the bytes of these parts. Returns the total size of the parts
/// in bytes.
///
/// Two adjacent segments share a byte if the second segment begins within it. A segment before a restart marker ends
/// with 0 to 7 unused bits.
///
/// # Errors
/// `Index` if the index contradicts itself or the restart interval.
pub(super) fn select(
    mut boundaries: impl Boundaries,
    frame: &SegmentGrid,
    shown: &McuRect,
    selection: Selection<'_>,
) -> Result<usize, Reason> {
    let Selection { segments: found, edges, ranges } = selection;
    let in_row = (shown.right - shown.left).div_ceil(frame.interval) + 1;
    let most = frame.segments().min(in_row.saturating_mul(shown.bottom - shown.top)) as usize;
    found.reserve_exact(most + 1);
    edges.reserve_exact(most);
    let mut bytes = 0;
    for run in runs(frame, shown) {
        let (first, last) = (*run.start(), *run.end());
        let mut boundaries = boundaries.of(first..last + 1)?;
        let SegmentBoundary { mut start, last_dc } = boundaries.next().ok_or(Reason::Index)?;
        let run_start = byte_of(start)?;
        let mut run_end = run_start;
        let follows_marker = first.checked_sub(1).is_some_and(|before| frame.marker_after(before).is_some());
        let mut predictions = if follows_marker { [0; 3] } else { last_dc };
        for (number, SegmentBoundary { start: next, last_dc: after }) in run.zip(boundaries) {
            let tail = tail_of(frame, number, start..next, number == last)?;
            let is_marked = tail == Tail::Marker;
            let unused = if is_marked { ANY } else { (8 - bit_of(next)) & 7 };
            found.push(Segment { offset: offset(bytes + byte_of(start)? - run_start)?, number, tail });
            edges.push(Edges { start: predictions, end: after, bit: bit_of(start), unused }.to_bytes());
            (start, run_end) = (next, byte_of(next.next_multiple_of(8))?);
            predictions = if is_marked { [0; 3] } else { after };
        }
        ranges.push(run_start..run_end);
        bytes += run_end - run_start;
    }
    found.push(segments::end(bytes)?);
    Ok(bytes)
}

fn tail_of(frame: &SegmentGrid, number: u32, bits: Range<u64>, is_last: bool) -> Result<Tail, Reason> {
    let Range { start, end } = bits;
    if frame.marker_after(number).is_some() {
        // The marker is in the two bytes before the next segment.
        let is_before = bit_of(end) == 0 && byte_of(end)? >= byte_of(start)? + 2;
        return if is_before { Ok(Tail::Marker) } else { Err(Reason::Index) };
    }
    Ok(if bit_of(end) == 0 || is_last { Tail::Nothing } else { Tail::SharedByte })
}

/// Checks that the selected segments have exactly the expected markers, and that EOI follows the picture's last
/// segment.
///
/// # Errors
/// `Index` if the scan contradicts the index.
pub(super) fn check(
    scan: &[u8],
    frame: &SegmentGrid,
    index: &SegmentIndex<'_>,
    ranges: &[Range<usize>],
    segments: &[Segment],
) -> Result<(), Reason> {
    if !index.ends_before_eoi(scan) {
        return Err(Reason::Index);
    }
    // Without restart markers, which is the usual case, there is no segment to check.
    let marked = if frame.has_markers() { segments } else { &[] };
    let followers = marked.iter().skip(1);
    let mut expected = marked.iter().zip(followers).filter(|(segment, _)| segment.tail == Tail::Marker);
    let (first, last) = ranges.first().zip(ranges.last()).ok_or(Reason::Index)?;
    // Include the byte after the end: if the last byte is FF, the two bytes may form a marker.
    let bytes = scan.get(first.start..=last.end).ok_or(Reason::Index)?;
    let mut marks = Marks::new(bytes).map(|at| first.start + at).peekable();
    let mut base = 0;
    for range in ranges {
        while let Some(at) = marks.next_if(|&at| at < range.end) {
            // Skip markers between the ranges, because their segments are not needed.
            let Some(within) = at.checked_sub(range.start) else { continue };
            let (segment, next) = expected.next().ok_or(Reason::Index)?;
            let is_there = next.offset as usize == base + within + 2;
            if !is_there || frame.marker_after(segment.number) != scan.get(at + 1).copied() {
                return Err(Reason::Index);
            }
        }
        base += range.len();
    }
    if expected.next().is_none() { Ok(()) } else { Err(Reason::Index) }
}

/// Checks all segments of a picture. Returns the size of its entropy-coded data in bytes.
///
/// # Errors
/// `Index` if the scan contradicts the index.
pub(super) fn whole(scan: &[u8], frame: &SegmentGrid, index: &SegmentIndex<'_>) -> Result<usize, Reason> {
    let all = McuRect { left: 0, top: 0, right: frame.grid.columns, bottom: frame.grid.rows };
    let (mut segments, mut edges, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    let selection = Selection { segments: &mut segments, edges: &mut edges, ranges: &mut ranges };
    let bytes = select(PackedBoundaries::new(index), frame, &all, selection)?;
    check(scan, frame, index, &ranges, &segments)?;
    Ok(bytes)
}

fn byte_of(bit: u64) -> Result<usize, Reason> {
    usize::try_from(bit / 8).map_err(|_| Reason::Full)
}

fn bit_of(bit: u64) -> u16 {
    u16::from(bit.to_le_bytes()[0] & 7)
}
