//! Walks through the entropy-coded data of a whole picture without computing pixels, and lists its segments.
#![deny(clippy::indexing_slicing)]

use super::bits::Bits;
use super::huffman::{CodeEntry, Huffman, LOOKUP};
use super::layout::Layout;
use super::skip::{Skip, SkipTable, TURN};
use super::tables::Tables;
use crate::interval::index_interval;
use crate::segment_index::SegmentList;
use crate::shared::KEPT_BYTES;
use crate::{JpegHeader, Rect};
use memchr::memchr;
use shardpack_format::saturating_u32;

/// Number of zeros after the entropy-coded data. They allow eight bytes to be read from any position in it.
const PADDING: usize = 8;

pub(crate) enum Walked {
    /// The picture needs an index. Its segments are in the walker's list.
    Listed,
    /// The data is complete, but needs no index, because restart markers already divide it into short segments.
    Short,
    /// The data is complete, but an index would be useless, because our decoder cannot start in the
    /// middle of the picture.
    Other,
    /// Our decoder does not support the picture, or its data is irregular.
    Unknown,
}

/// Walks through the entropy-coded data of pictures. Its buffers grow to fit the largest picture so far.
pub(crate) struct ScanWalker {
    tables: Tables,
    /// Skip table for the AC code of each component.
    skips: [SkipTable; 3],
    /// Bytes of one restart interval without stuffing.
    bytes: Vec<u8>,
    /// Offsets in `bytes` of the removed stuffing bytes. Each offset is just after an FF.
    stuffed: Vec<usize>,
    pub(crate) list: SegmentList,
}

impl ScanWalker {
    pub(crate) fn new() -> Self {
        Self {
            tables: Tables::new(),
            skips: std::array::from_fn(|_| SkipTable::new()),
            bytes: Vec::new(),
            stuffed: Vec::new(),
            list: SegmentList::default(),
        }
    }

    pub(crate) fn trim(&mut self) {
        if self.bytes.capacity() + self.stuffed.capacity() * size_of::<usize>() > KEPT_BYTES {
            (self.bytes, self.stuffed) = (Vec::new(), Vec::new());
        }
        if self.list.lengths.capacity() * 10 > KEPT_BYTES {
            self.list = SegmentList::default();
        }
    }

    /// Walks through a picture in segments of `wanted` MCUs (default: chosen by `index_interval`).
    pub(crate) fn walk(&mut self, jpeg: &[u8], header: &JpegHeader, wanted: Option<u32>) -> Walked {
        if cfg!(target_endian = "big") || header.stray_bytes > 0 {
            return Walked::Unknown;
        }
        let whole = Rect::whole(header.width.into(), header.height.into());
        let Some(layout) = Layout::of(header, whole, None) else { return Walked::Unknown };
        if self.tables.read(jpeg, header).is_none() {
            return Walked::Unknown;
        }
        let scan = usize::try_from(header.scan_offset).ok().and_then(|at| jpeg.get(at..)).unwrap_or_default();
        let restart_interval = if layout.interval < layout.columns * layout.rows { layout.interval } else { 0 };
        let interval = match wanted.map(|mcus| mcus as usize) {
            None => {
                let numbers = [layout.columns, layout.rows, layout.blocks, restart_interval].map(saturating_u32);
                let [columns, rows, blocks, restarts] = numbers;
                index_interval(columns, rows, blocks, scan.len(), restarts) as usize
            }
            Some(mcus) if mcus <= layout.columns && restart_interval.is_multiple_of(mcus) => mcus,
            Some(_) => return Walked::Other,
        };
        if self.segments(scan, &layout, interval).is_none() {
            return Walked::Unknown;
        }
        if layout.has_short_segments() {
            Walked::Short
        } else if self.list.lengths.len() < 2 || header.is_rgb() {
            Walked::Other
        } else {
            Walked::Listed
        }
    }

    /// Lists the segments of a picture, with `interval` MCUs each. Returns `None` if the data is irregular.
    fn segments(&mut self, scan: &[u8], layout: &Layout, interval: usize) -> Option<()> {
        let Self { tables, skips, bytes, stuffed, list } = self;
        let luma = (0..layout.h * layout.v).map(|_| 0);
        for (component, skip) in skips.iter_mut().enumerate().take(layout.components) {
            skip.set(tables.huffman(component)?.1);
        }
        let phase = |component: usize| {
            let (dc, ac) = tables.huffman(component)?;
            Some(Phase { component, dc, ac, skip: skips.get(component)? })
        };
        let phases = luma.chain(1..layout.components).map(phase).collect::<Option<Vec<_>>>()?;
        list.interval = u16::try_from(interval).ok()?;
        list.components = layout.components;
        list.lengths.clear();
        list.last_dc.clear();
        let mcus = layout.columns * layout.rows;
        let (mut at, mut before, mut part, mut mcu, mut last_dc) = (0, 0_u64, 0, 0, [0; 3]);
        while mcu < mcus {
            let (end, after) = unstuff(scan, at, bytes, stuffed)?;
            let marker = *scan.get(end + 1)?;
            let last = (mcu + layout.interval).min(mcus);
            let expected = if last == mcus { 0xD9 } else { 0xD0 | part & 7 };
            (usize::from(marker) == expected).then_some(())?;
            let mut bits = Bits::new(bytes, 0);
            let mut predictions = [0_i32; 3];
            let mut removed = stuffed.iter().copied().peekable();
            let mut zeros = 0;
            for first in (mcu..last).step_by(interval) {
                let position = bits.position();
                // Count the stuffing bytes that precede the byte with this bit.
                while removed.next_if(|&place| place * 8 <= position).is_some() {
                    zeros += 1;
                }
                let start = (at + zeros) as u64 * 8 + position as u64;
                if first > 0 {
                    list.lengths.push(u32::try_from(start - before).ok()?);
                }
                before = start;
                list.last_dc.push(last_dc);
                for _ in first..(first + interval).min(last) {
                    for phase in &phases {
                        let prediction = predictions.get_mut(phase.component)?;
                        *prediction += phase.skip_block(&mut bits)?;
                        *last_dc.get_mut(phase.component)? = i16::try_from(*prediction).ok()?;
                    }
                }
            }
            // At most seven bits may be left over, and only in the last byte.
            (bits.end() == after).then_some(())?;
            if last == mcus {
                let position = bits.position();
                zeros += removed.filter(|&place| place * 8 < position).count();
                let stop = (at + zeros) as u64 * 8 + position as u64;
                list.lengths.push(u32::try_from(stop - before).ok()?);
                list.last_dc.push(last_dc);
                list.scan_bytes = u32::try_from(stop.div_ceil(8)).ok()?;
            }
            at = end + 2;
            part += 1;
            mcu = last;
        }
        Some(())
    }
}

/// Copies the bytes from `at` to the next marker, without stuffing. Returns the offset of the marker and the
/// number of copied bytes.
fn unstuff(scan: &[u8], at: usize, bytes: &mut Vec<u8>, stuffed: &mut Vec<usize>) -> Option<(usize, usize)> {
    bytes.clear();
    stuffed.clear();
    let mut from = at;
    loop {
        let found = from + memchr(0xFF, scan.get(from..)?)?;
        if *scan.get(found + 1)? != 0 {
            bytes.extend_from_slice(scan.get(from..found)?);
            let length = bytes.len();
            bytes.extend([0; PADDING]);
            return Some((found, length));
        }
        bytes.extend_from_slice(scan.get(from..=found)?);
        stuffed.push(bytes.len());
        from = found + 2;
    }
}

/// The component that a block of an MCU belongs to, and the component's tables.
struct Phase<'a> {
    component: usize,
    dc: &'a Huffman,
    ac: &'a Huffman,
    skip: &'a SkipTable,
}

impl Phase<'_> {
    /// Reads a block and returns the difference of its DC coefficient, or `None` if the block is irregular.
    #[inline(always)]
    fn skip_block(&self, bits: &mut Bits<'_>) -> Option<i32> {
        bits.refill();
        let mut entry = *self.dc.lookup.get(bits.peek::<LOOKUP>())?;
        if entry.step() != 1 {
            entry = match entry.with_long_value(bits) {
                Some(found) => found,
                None => self.dc.long(entry, *bits)?,
            };
        }
        bits.skip(entry.bits());
        let difference = entry.value().into();
        let mut at = 0;
        loop {
            bits.refill();
            for _ in 0..TURN {
                let skip = self.skip.next(bits)?;
                let next = at + skip.step();
                if next < 63 {
                    bits.skip(skip.bits());
                    at = next;
                    continue;
                }
                // A block with 63 coefficients has no symbol for its end.
                if (Skip::END..Skip::END + 63).contains(&next) && skip.step() >= Skip::END {
                    bits.skip(skip.bits());
                    return Some(difference);
                }
                let entry = self.entry(bits)?;
                bits.skip(entry.bits());
                if entry.step() == CodeEntry::END {
                    return Some(difference);
                }
                at += entry.step();
                if at >= 63 {
                    return (at == 63).then_some(difference);
                }
                break;
            }
        }
    }

    /// Returns the entry of the next AC symbol, or `None` if it is irregular.
    #[inline(always)]
    fn entry(&self, bits: &mut Bits<'_>) -> Option<CodeEntry> {
        let entry = *self.ac.lookup.get(bits.peek::<LOOKUP>())?;
        if entry.step() <= CodeEntry::END {
            return Some(entry);
        }
        bits.refill();
        entry.with_long_value(bits).or_else(|| self.ac.long(entry, *bits))
    }
}
