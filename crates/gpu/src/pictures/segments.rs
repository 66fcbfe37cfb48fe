//! Selects the segments that a rectangle needs, and their bytes in the scan, for pictures with restart markers.

use super::Reason;
use super::frame::{McuRect, SegmentGrid};
use shardpack_base::Marks;
use std::ops::{Range, RangeInclusive};

/// A copied segment: where it starts in the staged bytes, its number in the picture, and the kind of data after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u32,
    pub(super) number: u32,
    pub(super) tail: Tail,
}

/// The kind of data after the bytes of a segment. The kernels use the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    Marker = 0,
    /// The next segment, which begins with the next byte.
    Nothing = 2,
    /// The next segment, which begins within the last byte.
    SharedByte = 3,
}

/// Decoder state at both edges of a segment, for pictures with a segment index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edges {
    /// DC predictions at the start of the segment.
    pub(super) start: [i16; 3],
    /// Last DC coefficient of each component.
    pub(super) end: [i16; 3],
    /// Position of the segment's first bit in the first byte.
    pub(super) bit: u16,
    /// Number of bits left in the last byte, or [`ANY`](super::layout::ANY) before a marker.
    pub(super) unused: u16,
}

const END: u32 = u32::MAX;

/// Returns the numbers of the segments to decode for `shown`, as ascending runs with gaps between them. These are the
/// segments that contain a shown MCU or, if segments are longer than a row, any MCU of the shown rows. The host
/// decodes the same segments (docs/entropy-segments.md, The rectangle).
pub(super) fn runs(frame: &SegmentGrid, shown: &McuRect) -> impl Iterator<Item = RangeInclusive<u32>> {
    let (columns, interval) = (frame.grid.columns, frame.interval);
    let (left, right) = if interval > columns { (0, columns) } else { (shown.left, shown.right) };
    let mut next = 0;
    let mut rows = shown.top..shown.bottom;
    let mut waiting: Option<RangeInclusive<u32>> = None;
    std::iter::from_fn(move || {
        for row in rows.by_ref() {
            let first = ((row * columns + left) / interval).max(next);
            let last = (row * columns + right - 1) / interval;
            if last < first {
                continue;
            }
            next = last + 1;
            match &mut waiting {
                Some(run) if *run.end() + 1 == first => *run = *run.start()..=last,
                _ => {
                    if let Some(run) = waiting.replace(first..=last) {
                        return Some(run);
                    }
                }
            }
        }
        waiting.take()
    })
}

/// Calls `each` for every segment of a scan, in order, with the segment's number and its bytes, including the marker
/// that follows. Stops at the first error of `each`.
///
/// `scan` begins with the first entropy-coded byte. The markers must be RST0 to RST7 in turn, with EOI after the last
/// segment, even in parts that are not needed. A picture without one of its markers is rejected for every view, as on
/// the host (docs/entropy-segments.md, rules 2 and 3).
fn walk(
    scan: &[u8],
    frame: &SegmentGrid,
    mut each: impl FnMut(u32, Range<usize>) -> Result<(), Reason>,
) -> Result<(), Reason> {
    let final_segment = frame.segments() - 1;
    let (mut index, mut start) = (0, 0);
    for marked in Marks::new(scan) {
        let marker = *scan.get(marked + 1).ok_or(Reason::Markers)?;
        let expected = if index == final_segment { 0xD9 } else { 0xD0 | index & 7 };
        if u32::from(marker) != expected {
            return Err(Reason::Markers);
        }
        each(index, start..marked + 2)?;
        if index == final_segment {
            return Ok(());
        }
        start = marked + 2;
        index += 1;
    }
    Err(Reason::Markers)
}

pub(super) fn offset(at: usize) -> Result<u32, Reason> {
    u32::try_from(at).map_err(|_| Reason::Full)
}

pub(super) fn end(bytes: usize) -> Result<Segment, Reason> {
    Ok(Segment { offset: offset(bytes)?, number: END, tail: Tail::Marker })
}

/// Appends the segments that `shown` needs to `found`, followed by an end entry, and the parts of the scan that hold
/// these segments to `ranges`. Offsets count only the bytes of these parts. Returns the total size of the parts in
/// bytes.
pub(super) fn select(
    scan: &[u8],
    frame: &SegmentGrid,
    shown: &McuRect,
    found: &mut Vec<Segment>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<usize, Reason> {
    let mut table = Vec::new();
    starts(scan, frame, &mut table)?;
    select_known(table.as_chunks().0, frame, shown, found, ranges)
}

/// Appends the start of each segment of a scan, and the end of the last one, as little-endian numbers.
pub(super) fn starts(scan: &[u8], frame: &SegmentGrid, out: &mut Vec<u8>) -> Result<usize, Reason> {
    out.extend(0_u32.to_le_bytes());
    let mut last = 0;
    walk(scan, frame, |_, Range { end, .. }| {
        out.extend(offset(end)?.to_le_bytes());
        last = end;
        Ok(())
    })?;
    Ok(last)
}

/// Same as [`select`], for a scan whose [`starts`] are known.
pub(super) fn select_known(
    starts: &[[u8; 4]],
    frame: &SegmentGrid,
    shown: &McuRect,
    found: &mut Vec<Segment>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<usize, Reason> {
    let at = |n: u32| starts.get(n as usize).map(|start| u32::from_le_bytes(*start)).ok_or(Reason::Markers);
    let mut bytes = 0_u32;
    let in_row = (shown.right - shown.left).div_ceil(frame.interval) + 1;
    let most = frame.segments().min(in_row.saturating_mul(shown.bottom - shown.top));
    found.reserve_exact(most as usize + 1);
    for run in runs(frame, shown) {
        let (start, end) = (at(*run.start())?, at(*run.end() + 1)?);
        for number in run {
            found.push(Segment { offset: bytes + at(number)? - start, number, tail: Tail::Marker });
        }
        ranges.push(start as usize..end as usize);
        bytes = (end - start).checked_add(bytes).ok_or(Reason::Full)?;
    }
    found.push(end(bytes as usize)?);
    Ok(bytes as usize)
}
