//! Splits payloads into parts that threads can decode independently.
//!
//! If elements are stored in shape order, each Blosc2 chunk, zstd frame, or run of raw elements can be decoded to
//! values by itself. The exception is a pixel that crosses the border between two parts, because its bands may be sums
//! of earlier bands. [`Ends`] keep the elements of these pixels, and [`ArraySplit::join`] computes their values at the
//! end.

use crate::arrange::{Arrangement, TILE_BYTES};
use crate::block::StoredBlock;
use crate::bytes::{UNIT_BYTES, check_coded, check_size};
use crate::codecs::{Coded, Container, container};
use crate::decoder::{ArrayDecoder, stored_as};
use crate::finish::{Origins, OutputRow, Target, place};
use crate::region::Bands;
use crate::values::{self, To, Values, check_bands, is_as_stored};
use crate::wanted::Wanted;
use shardpack_base::parts::{check_length, part_mut};
use shardpack_format::{ArrayDescriptor, Codec, Error, Layout, Limits, Result};
use std::ops::Range;

/// Maximum coded size of a unit. No writer produces larger units. If a payload has one,
/// [`ArrayDecoder::decode_wanted`] decodes it as a whole and reports the error.
const MOST_CODED_BYTES: usize = UNIT_BYTES + UNIT_BYTES / 8;
/// Maximum size of a raw part in bytes. The part stays in the L2 cache of the thread's core.
const RAW_BYTES: usize = TILE_BYTES / 2;

/// The payload of one array, split into parts, and the target that receives the values.
///
/// ```
/// use shardpack_array::{ArrayDecoder, ArraySplit, Wanted};
/// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
/// let cube = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 3]);
/// let payload: Vec<u8> = (0..12).collect();
/// let limits = Limits::default();
/// let split = ArraySplit::new(Codec::Raw, &cube, &Wanted::ALL, 12, 5, &limits, |_, _| None).unwrap();
/// assert!(split.is_copy());
/// let (mut decoder, mut out, mut ends) = (ArrayDecoder::new(), vec![0; 12], Vec::new());
/// for (number, part) in split.parts().iter().enumerate() {
///     ends.push(decoder.decode_part(&split, number, &payload[part.payload.clone()], &mut out.as_mut_slice())?);
/// }
/// split.join(&ends, &mut out)?;
/// assert_eq!(out, payload);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ArraySplit {
    codec: Codec,
    descriptor: ArrayDescriptor,
    arrangement: Arrangement,
    target: Target,
    /// Indices of the requested bands, or empty if all bands are requested.
    bands: Vec<usize>,
    units: usize,
    parts: Vec<SplitPart>,
}

/// A part of a payload, and the pixels that lie entirely within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    /// Byte range in the payload. There are no gaps between parts.
    pub payload: Range<usize>,
    /// Range of the pixels, counted as in [`ArraySplit::origins`]. A pixel between the ranges of two consecutive
    /// parts has elements in both parts.
    pub pixels: Range<usize>,
    /// True if any element of the part is requested. Otherwise the part need not be decoded.
    pub is_wanted: bool,
    elements: Range<usize>,
}

/// Stored elements at the ends of a part, which belong to pixels that cross its borders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl ArraySplit {
    /// Splits a payload of `payload_bytes` bytes. A coded payload is split into its units. A raw payload is split
    /// into parts of about `part_bytes`, or smaller parts if elements have to be converted. `read` fills a buffer
    /// with the payload bytes at an offset. `read` need not check these bytes, because damage is detected when the
    /// parts are decoded.
    ///
    /// Returns `None` if the payload has to be decoded as a whole, for example because it is band-major and its
    /// pixels have to be assembled. Also returns `None` if [`ArrayDecoder::decode_wanted`] would fail, because the
    /// length does not match or the payload exceeds the limits.
    pub fn new(
        codec: Codec,
        descriptor: &ArrayDescriptor,
        wanted: &Wanted<'_>,
        payload_bytes: usize,
        part_bytes: usize,
        limits: &Limits,
        mut read: impl FnMut(usize, &mut [u8]) -> Option<()>,
    ) -> Option<Self> {
        let target = wanted.of_window(descriptor).ok()?;
        let stored = descriptor.stored_bytes().ok()?;
        match wanted.region {
            None => check_size(descriptor.decoded_bytes().ok()?.max(stored), limits).ok()?,
            Some(region) => check_size(region.shape_of(descriptor).ok()?.bytes, limits).ok()?,
        }
        // This is an upper bound, because the coder outputs at most all stored bytes.
        check_coded(stored, stored, payload_bytes as u64, limits).ok()?;
        let width = descriptor.stored.size();
        let stored = usize::try_from(stored).ok().filter(|&bytes| bytes > 0)?;
        let bands = usize::try_from(descriptor.bands()).ok()?.max(1);
        check_bands(descriptor, bands).ok()?;
        if !Self::takes(codec, descriptor, wanted) || target.is_empty() {
            return None;
        }
        let arrangement = stored_as(descriptor, bands, stored / width, &target);
        let bands = arrangement.bands;
        let picks = wanted.region.map_or(Vec::new(), |region| match &region.bands {
            Bands::All => Vec::new(),
            some => some.numbers().collect(),
        });
        let units = if picks.is_empty() { bands } else { picks.len() } / target.each();
        let mut split =
            Self { codec, descriptor: descriptor.clone(), arrangement, target, bands: picks, units, parts: Vec::new() };
        let is_plain = split.is_plain();
        // Every part except the last must contain at least one whole pixel, so pixels must not be too large.
        if !is_plain && bands * width > UNIT_BYTES / 2 {
            return None;
        }
        let ends = if codec == Codec::Raw {
            let step = match is_plain {
                true => (part_bytes / width).max(1) * width,
                false => (part_bytes.min(RAW_BYTES) / (bands * width)).max(1) * bands * width,
            };
            let ends = (1..=stored.div_ceil(step)).map(|part| (step * part).min(stored));
            (payload_bytes == stored).then(|| ends.map(|end| (end, end)).collect())?
        } else {
            unit_ends(container(codec).ok()?, payload_bytes, stored, &mut read)?
        };
        let (mut from, mut first) = (0, 0);
        for (end, decoded_end) in ends {
            let elements = first..decoded_end / width;
            first = elements.end;
            let touched = elements.start / bands..elements.end.div_ceil(bands);
            let pixels = match is_plain {
                true => elements.start * width..elements.end * width,
                false => split.units_of(elements.start.div_ceil(bands)..elements.end / bands),
            };
            let is_wanted = is_plain || split.target.wants(split.units_of(touched));
            split.parts.push(SplitPart { payload: from..end, pixels, is_wanted, elements });
            from = end;
        }
        Some(split)
    }

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[SplitPart] {
        &self.parts
    }

    /// True if the bytes of a part are its values and can be read directly into the row.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.codec == Codec::Raw && self.is_plain()
    }

    /// Returns a map from the bytes of the row to the pixels of the parts. If elements are not converted, each byte
    /// counts as a pixel.
    #[must_use]
    pub fn origins(&self) -> Origins {
        if self.is_plain() { Origins::in_order(1) } else { self.target.origins() }
    }

    fn is_plain(&self) -> bool {
        let as_they_are = self.arrangement.is_identity() && is_as_stored(&self.descriptor);
        as_they_are && self.bands.is_empty() && self.target.is_nothing()
    }

    fn units_of(&self, pixels: Range<usize>) -> Range<usize> {
        pixels.start * self.units..pixels.end.max(pixels.start) * self.units
    }

    /// Returns the size of the buffer that a thread needs for the largest part of an array whose payload has
    /// `payload_bytes` bytes. Returns 0 if the array is requested `as_it_is`, because its parts are then read directly
    /// into the output.
    ///
    /// The estimate is the mean plus an eighth, because units vary in size.
    #[must_use]
    pub fn part_bytes(codec: Codec, descriptor: &ArrayDescriptor, payload_bytes: u64, as_it_is: bool) -> u64 {
        let stored = descriptor.stored_bytes().unwrap_or(0).max(1);
        match codec {
            Codec::Raw if as_it_is && !descriptor.band_difference && is_as_stored(descriptor) => 0,
            Codec::Raw => RAW_BYTES as u64,
            _ => {
                let unit = u128::from(payload_bytes) * UNIT_BYTES as u128 / u128::from(stored);
                let most = payload_bytes.min(MOST_CODED_BYTES as u64);
                u64::try_from(unit + unit / 8).map_or(most, |unit| unit.min(most))
            }
        }
    }

    /// True if payloads with the given codec and descriptor can be split.
    #[must_use]
    pub fn takes(codec: Codec, descriptor: &ArrayDescriptor, wanted: &Wanted<'_>) -> bool {
        let is_ordered = descriptor.layout == Layout::AsShape || wanted.is_given_by_band(descriptor);
        let is_summed = descriptor.band_difference && descriptor.stored.size() > 2;
        // In a warped array, an output pixel may need pixels from several parts.
        let is_warped = wanted.finish.warp.is_some();
        is_ordered && !is_summed && !is_warped && container(codec).is_ok()
    }

    /// Computes the pixels that cross the borders between parts. `ends` contains the leftover elements of all parts, in
    /// order. `out` is the whole row.
    ///
    /// # Errors
    /// `Internal` if `ends` do not belong to the parts, or if `out` has the wrong length.
    pub fn join(&self, ends: &[Ends], out: &mut [u8]) -> Result<()> {
        check_length("number of array parts with leftover elements", self.parts.len(), ends.len())?;
        let Arrangement { bands, width, .. } = self.arrangement;
        let mut scratch = values::ValueScratch::default();
        for (pair, at) in ends.windows(2).zip(self.parts.iter().skip(1)) {
            let [Ends { tail, .. }, Ends { head, .. }] = pair else { continue };
            let pixel = at.elements.start / bands;
            let units = self.units_of(pixel..pixel + 1);
            if (tail.is_empty() && head.is_empty()) || !self.target.wants(units.clone()) {
                continue;
            }
            let bytes = [tail.as_slice(), head].concat();
            check_length("size of a pixel across a border in bytes", bands * width, bytes.len())?;
            let mut row = &mut *out;
            let mut values = self.values(1, units, &mut row, &mut scratch)?;
            values.take(&StoredBlock::Bytes(&bytes), 0..bands)?;
            values.finish()?;
        }
        Ok(())
    }

    fn values<'a>(
        &'a self,
        pixels: usize,
        units: Range<usize>,
        out: &'a mut dyn OutputRow,
        scratch: &'a mut values::ValueScratch,
    ) -> Result<Values<'a>> {
        let to = if self.target.is_nothing() {
            let unit = self.target.each() * self.descriptor.decoded.size();
            To::Plain(place(out, units.start * unit..units.end * unit)?)
        } else {
            To::Row(&self.target, units.start, out)
        };
        let arrangement = Arrangement { pixels, ..self.arrangement };
        if self.bands.is_empty() {
            return Values::new(&self.descriptor, arrangement, scratch, to);
        }
        let bands = || self.bands.iter().copied();
        Values::of_bands(&self.descriptor, arrangement, bands(), Some(bands()), scratch, to)
    }
}

/// Returns, for each coded unit, its end in the payload and the end of its decoded bytes.
fn unit_ends(
    container: &dyn Container,
    payload_bytes: usize,
    stored: usize,
    read: &mut dyn FnMut(usize, &mut [u8]) -> Option<()>,
) -> Option<Vec<(usize, usize)>> {
    let mut ends = Vec::with_capacity(stored.div_ceil(UNIT_BYTES).min(payload_bytes));
    let (mut pos, mut unit) = (0_usize, 0);
    while unit < stored {
        let left = payload_bytes - pos;
        let length = container.unit_length(pos, left, read)?;
        if length == 0 || length > MOST_CODED_BYTES.min(left) {
            return None;
        }
        pos += length;
        unit = (unit + UNIT_BYTES).min(stored);
        ends.push((pos, unit));
    }
    (pos == payload_bytes).then_some(ends)
}

impl ArrayDecoder {
    /// Decodes part `number` and writes its values to a row. `payload` contains the bytes of the part.
    ///
    /// After an error, the bytes of the part's pixels in the row are unspecified.
    ///
    /// # Errors
    /// `Format` if the part is damaged, or if this is not the payload that was split; `Internal` if `payload` does
    /// not have the length of the part; `Usage` if there is no part with this number, or if `out` does not include the
    /// bytes of its pixels.
    pub fn decode_part(
        &mut self,
        split: &ArraySplit,
        number: usize,
        payload: &[u8],
        out: &mut dyn OutputRow,
    ) -> Result<Ends> {
        let parts = split.parts.len();
        let here = split
            .parts
            .get(number)
            .ok_or_else(|| Error::usage(format!("part {number} does not exist: the array has {parts} parts")))?;
        check_length("size of a payload part in bytes", here.payload.len(), payload.len())?;
        let Self { decoders, values: scratch, window, .. } = self;
        let Arrangement { bands, width, .. } = split.arrangement;
        let count = here.elements.len();
        let decoder = decoders.of(split.codec)?;
        let coded = Coded { payload, width, stored_bytes: count * width };
        let mut ends = Ends::default();
        if split.is_plain() {
            decoder.decode(coded, place(out, here.pixels.clone())?, &Limits::none())?;
            return Ok(ends);
        }
        let head = (here.elements.start.next_multiple_of(bands) - here.elements.start).min(count);
        let whole = head..head + (count - head) / bands * bands;
        let mut values = split.values(whole.len() / bands, here.pixels.clone(), out, scratch)?;
        let wants = |bytes: Range<usize>| {
            let element = |byte: usize| here.elements.start + byte / width;
            let touched = element(bytes.start) / bands..element(bytes.end).div_ceil(bands);
            split.target.wants(split.units_of(touched))
        };
        // `at` is the next element, and `begin` is the start of the next requested pixel.
        let (mut at, mut begin) = (0, whole.start);
        let mut each = |block: &StoredBlock<'_>, bytes: Range<usize>| {
            let (first, end) = (bytes.start / width, bytes.end / width);
            if first > at {
                let left_out = first.saturating_sub(whole.start).div_ceil(bands);
                begin = whole.start + left_out * bands;
                values.skip_to(here.pixels.start + left_out * split.units)?;
            }
            let within = |element: usize| element.clamp(first, end) - first;
            let keep = |range: Range<usize>, to: &mut Vec<u8>| {
                let (start, end) = (to.len(), to.len() + range.len() * width);
                to.resize(end, 0);
                block.read(range.start, width, part_mut(to, start..end, "end of a part")?)
            };
            keep(0..within(whole.start), &mut ends.head)?;
            values.take(block, within(begin)..within(whole.end.max(begin)))?;
            keep(within(whole.end)..end - first, &mut ends.tail)?;
            at = end;
            Ok(())
        };
        decoder.for_each(coded, &Limits::none(), window, &wants, &mut each)?;
        values.finish()?;
        Ok(ends)
    }
}

#[cfg(test)]
mod tests;
