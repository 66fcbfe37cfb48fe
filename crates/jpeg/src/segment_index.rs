//! The segment index of a JPEG: the positions in its entropy-coded data where decoding can begin (spec §5.5).
//!
//! Decoding of a baseline JPEG can begin at any MCU if the position of the MCU's first bit and the DC
//! predictions are known. The index lists both at intervals of a few MCUs. With it, a JPEG without restart
//! markers can be decoded in parts like a tiled one. The index is stored with the picture, and the picture's
//! bytes do not change.
#![deny(clippy::indexing_slicing)]

use super::mcu_grid::McuGrid;
use shardpack_format::{Error, Result, saturating_u32};
use std::ops::Range;

/// Size of the head in bytes. The packed numbers are stored after it.
const HEAD_BYTES: usize = 28;
/// Offset of the CRC32, the last field of the head.
const CRC_OFFSET: usize = 24;
const COMPONENTS: usize = 3;
const MAX_INTERVAL: u16 = 64;

/// A parsed segment index, which borrows the bytes of the index.
///
/// Parsing checks the CRC32 and the rules of the format, but does not compare the index with its picture. A decoder
/// must therefore compare the end of every segment that it decodes with the start of the next one.
#[derive(Debug, Clone, Copy)]
pub struct SegmentIndex<'a> {
    segments: u32,
    interval: u16,
    components: u8,
    scan_bytes: u32,
    lengths: Packed<'a>,
    last_dc: [(i16, Packed<'a>); COMPONENTS],
}

/// A position where decoding can begin: the start of a segment, or the end of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentBoundary {
    /// Position of the first bit after the boundary, counted as in [`SegmentIndex::starts`].
    pub start: u64,
    /// Last DC coefficient of each component before the boundary ([`SegmentIndex::last_dc`]).
    pub last_dc: [i16; COMPONENTS],
}

/// Numbers of the same width, packed from the lowest bit of the first byte upwards.
#[derive(Debug, Clone, Copy, Default)]
struct Packed<'a> {
    bytes: &'a [u8],
    bits: u32,
}

impl Packed<'_> {
    /// Returns the number with index `position`, or 0 after the end.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a number has at most 32 bits")]
    fn get(self, position: usize) -> u32 {
        self.window(self.bit_of(position)) as u32 & mask(self.bits)
    }

    /// Returns the position of the first bit of a number.
    #[inline]
    const fn bit_of(self, position: usize) -> usize {
        position * self.bits as usize
    }

    /// Returns at least 57 bits from bit `first` on, with zeros after the last byte.
    #[inline]
    fn window(self, first: usize) -> u64 {
        let rest = self.bytes.get(first / 8..).unwrap_or_default();
        let window = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => (0..).zip(rest).fold(0, |sum, (n, &byte)| sum | u64::from(byte) << (8 * n)),
        };
        window >> (first % 8)
    }

    /// Returns the sum of the numbers with the given indices. A decoder has to add up the lengths of all segments
    /// before the first one that it needs, so several numbers are extracted from each window.
    fn sum(self, positions: Range<usize>) -> u64 {
        const WINDOW_BITS: u32 = u64::BITS - 7;
        let (mask, together) = (u64::from(mask(self.bits)), (WINDOW_BITS / self.bits.max(1)) as usize);
        let (mut sum, mut next) = (0, positions.start);
        while next < positions.end {
            let count = together.min(positions.end - next);
            let mut window = self.window(self.bit_of(next));
            for _ in 0..count {
                sum += window & mask;
                window >>= self.bits;
            }
            next += count;
        }
        sum
    }
}

/// Reads packed numbers one after another.
struct Unpacker<'a> {
    numbers: Packed<'a>,
    mask: u32,
    /// Position of the next number's first bit.
    bit: usize,
}

impl<'a> Unpacker<'a> {
    #[inline]
    fn new(numbers: Packed<'a>, position: usize) -> Self {
        Self { numbers, mask: mask(numbers.bits), bit: numbers.bit_of(position) }
    }

    /// Returns the next number, or 0 after the end.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a number has at most 32 bits")]
    fn take(&mut self) -> u32 {
        let number = self.numbers.window(self.bit) as u32 & self.mask;
        self.bit += self.numbers.bits as usize;
        number
    }
}

/// Returns a number with its lowest `bits` bits (at most 32) set.
#[inline]
const fn mask(bits: u32) -> u32 {
    if bits == 0 { 0 } else { u32::MAX >> (32 - bits) }
}

impl<'a> SegmentIndex<'a> {
    /// Parses an index.
    ///
    /// # Errors
    /// `Format` if the bytes violate the format or the numbers contradict each other.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let index = Self::parse_known(bytes)?;
        index.check(bytes)?;
        Ok(index)
    }

    /// Parses an index that [`parse`](Self::parse) has already accepted. Does not check the CRC32 and the sums, which
    /// would take most of the time.
    ///
    /// # Errors
    /// `Format` if the bytes do not have the layout of an index.
    pub fn parse_known(bytes: &'a [u8]) -> Result<Self> {
        let (head, mut rest) = bytes
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or_else(|| wrong(format!("it has {} bytes, but needs at least {HEAD_BYTES}", bytes.len())))?;
        let &[
            s0,
            s1,
            s2,
            s3,
            i0,
            i1,
            components,
            length_bits,
            d0,
            d1,
            d2,
            reserved,
            b0,
            b1,
            b2,
            b3,
            b4,
            b5,
            r0,
            r1,
            e0,
            e1,
            e2,
            e3,
            ..,
        ] = head;
        let segments = u32::from_le_bytes([s0, s1, s2, s3]);
        let interval = u16::from_le_bytes([i0, i1]);
        let scan_bytes = u32::from_le_bytes([e0, e1, e2, e3]);
        if segments < 2 {
            return Err(wrong(format!("it must have at least 2 segments, not {segments}")));
        }
        if !(1..=MAX_INTERVAL).contains(&interval) {
            return Err(wrong(format!("its interval must be 1 to {MAX_INTERVAL} MCUs, not {interval}")));
        }
        if !matches!(components, 1 | 3) {
            return Err(wrong(format!("it must have 1 or 3 components, not {components}")));
        }
        if !(1..=32).contains(&length_bits) {
            return Err(wrong(format!("it stores each length in {length_bits} bits, but must use 1 to 32")));
        }
        if [reserved, r0, r1] != [0; 3] {
            return Err(wrong("a reserved byte is not zero"));
        }
        let count = segments as usize;
        let mut next = |values: usize, bits: u8| {
            let size = values.checked_mul(bits.into()).map(|bits| bits.div_ceil(8));
            let (bytes, after) = size
                .and_then(|size| rest.split_at_checked(size))
                .ok_or_else(|| wrong("it is too short for the values that it declares"))?;
            rest = after;
            Ok(Packed { bytes, bits: bits.into() })
        };
        let lengths = next(count, length_bits)?;
        let bases = [[b0, b1], [b2, b3], [b4, b5]].map(i16::from_le_bytes);
        let mut last_dc = [(0, Packed::default()); COMPONENTS];
        for (component, ((bits, base), to)) in [d0, d1, d2].into_iter().zip(bases).zip(&mut last_dc).enumerate() {
            if bits > 16 {
                return Err(wrong(format!("it stores each DC coefficient in {bits} bits, but must use 0 to 16")));
            }
            if component >= components.into() {
                if (bits, base) != (0, 0) {
                    return Err(wrong("it declares only one component, but has DC coefficients for more"));
                }
                continue;
            }
            *to = (base, next(count + 1, bits)?);
        }
        if !rest.is_empty() {
            let end = bytes.len() - rest.len();
            return Err(wrong(format!("it is {} bytes long, but its values end at byte {end}", bytes.len())));
        }
        Ok(Self { segments, interval, components, scan_bytes, lengths, last_dc })
    }

    /// Checks the CRC32 and the numbers.
    fn check(&self, bytes: &[u8]) -> Result<()> {
        let stored = bytes.get(CRC_OFFSET..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_le_bytes);
        let computed = crc32(bytes);
        if stored != computed {
            return Err(wrong(format!("its CRC32 is {computed:08x}, but should be {stored:08x}")));
        }
        let bits = self.bits(0..self.segments);
        if bits.div_ceil(8) != u64::from(self.scan_bytes) {
            return Err(wrong(format!(
                "its lengths add up to {} bytes, but it declares a scan of {} bytes",
                bits.div_ceil(8),
                self.scan_bytes
            )));
        }
        for component in 0..self.components() {
            let (base, numbers) = self.last_dc.get(component).copied().unwrap_or_default();
            let wide = |segment| Some(self.wide(component, segment)).filter(|value| i16::try_from(*value).is_err());
            // In most indexes, the width of the numbers already excludes values that are too large.
            let most = i32::from(base) + mask(numbers.bits).cast_signed();
            if most > i16::MAX.into()
                && let Some(found) = (0..=self.segments as usize).find_map(wide)
            {
                return Err(wrong(format!("the DC coefficient {found} does not fit in 16 bits")));
            }
            if self.wide(component, 0) != 0 {
                return Err(wrong(format!("its first DC coefficient must be 0, not {}", self.wide(component, 0))));
            }
        }
        Ok(())
    }

    /// Returns the number of segments, at least 2.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns the number of MCUs per segment. The last segment may have fewer.
    #[must_use]
    pub const fn interval(&self) -> u32 {
        self.interval as u32
    }

    /// Returns true if the index fits a picture with these MCUs. `restart_interval` is as in
    /// [`McuGrid::restart_interval`].
    #[must_use]
    pub const fn fits(&self, grid: &McuGrid, restart_interval: u32) -> bool {
        let interval = self.interval();
        interval <= grid.columns
            && (restart_interval == grid.mcus() || restart_interval.is_multiple_of(interval))
            && self.segments == grid.mcus().div_ceil(interval)
            && self.components() == grid.components as usize
    }

    /// Returns true if the end-of-image marker directly follows the last segment. `scan` must start with the
    /// first entropy-coded byte.
    #[must_use]
    pub fn ends_before_eoi(&self, scan: &[u8]) -> bool {
        let after = self.scan_bytes as usize;
        let Some(last) = after.checked_sub(1).and_then(|at| scan.get(at)) else { return false };
        // If the last byte is FF, its stuffing precedes EOI.
        let after = if *last == 0xFF { after + 1 } else { after };
        scan.get(after..).and_then(|rest| rest.first_chunk()) == Some(&[0xFF, 0xD9])
    }

    /// Returns the number of components, 1 or 3.
    #[must_use]
    pub const fn components(&self) -> usize {
        self.components as usize
    }

    /// Returns the size of the entropy-coded data in bytes, up to and including the byte with the last bit of
    /// the last MCU. If that byte is FF, a stuffed 00 follows before the end-of-image marker.
    #[must_use]
    pub const fn scan_bytes(&self) -> u32 {
        self.scan_bytes
    }

    /// Iterates over the starts of all segments and the end of the last one. These are bit positions in the
    /// file, relative to the first entropy-coded byte. Stuffing and markers count, and the highest bit of a
    /// byte is its first.
    #[inline]
    pub fn starts(&self) -> impl Iterator<Item = u64> + use<'a> {
        let Self { lengths, segments, .. } = *self;
        let mut at = 0;
        (0..=segments as usize).map(move |segment| {
            let start = at;
            at += u64::from(lengths.get(segment));
            start
        })
    }

    /// Returns the number of bits from the start of the first of `segments` to the end of the last one.
    ///
    /// This is several times as fast as [`starts`](Self::starts), because it adds up many lengths at once.
    #[inline]
    #[must_use]
    pub fn bits(&self, segments: Range<u32>) -> u64 {
        self.lengths.sum(segments.start as usize..segments.end as usize)
    }

    /// Iterates over the starts of `segments` and the end of the last one. The first segment starts at `start`.
    ///
    /// This is several times as fast as looking up each number separately.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "parsing has checked the range of DC coefficients")]
    pub fn boundaries(&self, segments: Range<u32>, start: u64) -> impl Iterator<Item = SegmentBoundary> + use<'a> {
        let Self { lengths, last_dc, .. } = *self;
        let (first, end) = (segments.start as usize, segments.end as usize);
        let mut lengths = Unpacker::new(lengths, first);
        let mut last_dc = last_dc.map(|(base, numbers)| (i32::from(base), Unpacker::new(numbers, first)));
        let mut at = start;
        (first..=end).map(move |_| {
            let start = at;
            at += u64::from(lengths.take());
            let last_dc = last_dc.each_mut().map(|(base, numbers)| (*base + numbers.take().cast_signed()) as i16);
            SegmentBoundary { start, last_dc }
        })
    }

    /// Returns a component's last DC coefficient before a segment, or 0 before the first segment. After the last
    /// segment, it is the last DC coefficient of the picture. It is also the DC prediction at the start of the
    /// segment, unless a restart marker precedes the segment and resets the predictions to 0.
    ///
    /// A decoder compares this number with the last DC coefficient that it has decoded from the preceding segment.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "parsing has checked the range")]
    pub fn last_dc(&self, component: usize, segment: u32) -> i16 {
        self.wide(component, segment as usize) as i16
    }

    #[inline]
    fn wide(&self, component: usize, segment: usize) -> i32 {
        let (base, numbers) = self.last_dc.get(component).copied().unwrap_or_default();
        i32::from(base) + numbers.get(segment).cast_signed()
    }
}

/// Returns the CRC32 of an index, computed without the four bytes of the CRC32 itself.
fn crc32(index: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(index.get(..CRC_OFFSET).unwrap_or_default());
    hasher.update(index.get(HEAD_BYTES..).unwrap_or_default());
    hasher.finalize()
}

fn wrong(text: impl std::fmt::Display) -> Error {
    Error::malformed(format!("the segment index is damaged: {text}"))
}

/// The segments of a picture, from which its index is built.
#[derive(Debug, Default)]
pub(crate) struct SegmentList {
    pub(crate) interval: u16,
    pub(crate) components: usize,
    pub(crate) scan_bytes: u32,
    /// Length of each segment in bits.
    pub(crate) lengths: Vec<u32>,
    /// Last DC coefficients before each segment and at the end of the picture.
    pub(crate) last_dc: Vec<[i16; COMPONENTS]>,
}

impl SegmentList {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let width = |most: u32| u32::BITS - most.leading_zeros();
        let length_bits = width(self.lengths.iter().copied().max().unwrap_or(0)).max(1);
        let mut bases = [0; COMPONENTS];
        let mut bits = [0; COMPONENTS];
        for (component, (base, bits)) in bases.iter_mut().zip(&mut bits).enumerate().take(self.components) {
            let values = || self.last_dc.iter().filter_map(|all| all.get(component)).copied();
            *base = values().min().unwrap_or(0);
            *bits = width(values().max().map_or(0, |most| u32::from(most.abs_diff(*base))));
        }
        let narrow = |bits: u32| bits.to_le_bytes()[0];
        let segments = saturating_u32(self.lengths.len());
        out.extend(segments.to_le_bytes());
        out.extend(self.interval.to_le_bytes());
        out.extend([narrow(u32::try_from(self.components).unwrap_or(0)), narrow(length_bits)]);
        out.extend(bits.map(narrow));
        out.push(0);
        out.extend(bases.map(i16::to_le_bytes).as_flattened());
        out.extend([0; 2]);
        out.extend(self.scan_bytes.to_le_bytes());
        out.extend([0; 4]);
        pack(self.lengths.iter().copied(), length_bits, out);
        for (component, (base, bits)) in bases.into_iter().zip(bits).enumerate() {
            let values = self.last_dc.iter().filter_map(|all| all.get(component));
            pack(values.map(|value| value.abs_diff(base).into()), bits, out);
        }
        let index = out.get_mut(begin..).unwrap_or_default();
        let crc32 = crc32(index).to_le_bytes();
        index.iter_mut().skip(CRC_OFFSET).zip(crc32).for_each(|(to, byte)| *to = byte);
    }
}

/// Appends numbers of `bits` bits each, padded with zero bits to a whole byte.
fn pack(numbers: impl Iterator<Item = u32>, bits: u32, out: &mut Vec<u8>) {
    let (mut buffer, mut held) = (0_u64, 0);
    for number in numbers {
        buffer |= u64::from(number) << held;
        held += bits;
        while held >= 8 {
            out.push(buffer.to_le_bytes()[0]);
            buffer >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out.push(buffer.to_le_bytes()[0]);
    }
}
