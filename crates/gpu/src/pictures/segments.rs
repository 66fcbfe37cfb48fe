//! Which segments of a scan a rectangle needs, and their bytes.

use super::Reason;
use super::frame::{Frame, Shown};
use shardpack_base::Marks;
use std::ops::{Range, RangeInclusive};

/// A segment that is copied: where it begins among the staged bytes, and its place in the picture.
/// Two bytes of marker stand behind each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u32,
    pub(super) number: u32,
}

/// The place of the entry behind a picture's last segment.
pub(super) const END: u32 = u32::MAX;

/// The numbers of the segments that are decoded for `shown`, ascending, as runs that do not meet:
/// those that hold its MCUs, or any MCU of its rows if segments are longer than a row, as on the
/// host (docs/entropy-segments.md, The rectangle).
fn runs(frame: &Frame, shown: &Shown) -> impl Iterator<Item = RangeInclusive<u32>> {
    let (columns, interval) = (frame.columns, frame.interval);
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

/// Appends the segments that `shown` needs, and an end, to `found`, and to `ranges` the parts of the
/// scan that hold them. Offsets count the bytes of these parts, which are returned.
///
/// `scan` begins with the first entropy-coded byte. All of its markers must be RST0 to RST7 in turn,
/// and EOI behind the last segment, also where nothing is needed: the host refuses a picture that
/// has lost one, whatever is shown of it (docs/entropy-segments.md, rules 2 and 3).
pub(super) fn select(
    scan: &[u8],
    frame: &Frame,
    shown: &Shown,
    found: &mut Vec<Segment>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<usize, Reason> {
    let final_segment = (frame.columns * frame.rows - 1) / frame.interval;
    let mut runs = runs(frame, shown);
    let mut run = runs.next();
    let (mut index, mut start, mut run_start, mut bytes) = (0, 0, 0, 0);
    let offset = |at: usize| u32::try_from(at).map_err(|_| Reason::Full);
    for marked in Marks::new(scan) {
        let marker = *scan.get(marked + 1).ok_or(Reason::Markers)?;
        let expected = if index == final_segment { 0xD9 } else { 0xD0 | index & 7 };
        if u32::from(marker) != expected {
            return Err(Reason::Markers);
        }
        let behind = marked + 2;
        if let Some(needed) = run.as_ref().filter(|run| run.contains(&index)) {
            if index == *needed.start() {
                run_start = start;
            }
            found.push(Segment { offset: offset(bytes + start - run_start)?, number: index });
            if index == *needed.end() {
                ranges.push(run_start..behind);
                bytes += behind - run_start;
                run = runs.next();
            }
        }
        if index == final_segment {
            found.push(Segment { offset: offset(bytes)?, number: END });
            return if run.is_none() { Ok(bytes) } else { Err(Reason::Markers) };
        }
        start = behind;
        index += 1;
    }
    Err(Reason::Markers)
}
