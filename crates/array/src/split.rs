//! Payloads in parts, each of which any thread can decode without the others.
//!
//! Where elements are stored in the order of the shape, a Blosc2 chunk, or a run of raw elements,
//! becomes values by itself. A pixel that lies across the border of two parts does not: its bands
//! may be sums of those before them. Parts leave its elements over ([`Ends`]), and
//! [`ArraySplit::join`] makes its values when all parts are there.

use crate::arrange::{Arrangement, TILE_BYTES};
use crate::blosc2::{Chunk, HEADER_BYTES};
use crate::bytes::{UNIT_BYTES, check_expansion, end_of};
use crate::decoder::{ArrayDecoder, check_size};
use crate::values::{Values, check_tables, is_as_stored};
use crate::window::{Block, Blocks};
use shardpack_base::parts::{check_length, item_bytes, part_mut};
use shardpack_format::{ArrayDescriptor, Codec, Error, Layout, Limits, Result};
use std::ops::Range;

/// Most bytes of a chunk that is decoded by itself: what no writer makes of a unit is left to
/// [`ArrayDecoder::decode_into`], which says what is wrong with it.
const MOST_CHUNK_BYTES: usize = UNIT_BYTES + UNIT_BYTES / 8;
/// Most bytes of raw elements that go through a thread's own memory on their way to values: they
/// stay in the second-level cache of its core.
const RAW_BYTES: usize = TILE_BYTES / 2;

/// How the payload of one array is cut into parts.
///
/// ```
/// use shardpack_array::{ArrayDecoder, ArraySplit};
/// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
/// let cube = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 3]);
/// let payload: Vec<u8> = (0..12).collect();
/// let split = ArraySplit::new(Codec::Raw, &cube, 12, 5, &Limits::default(), |_| None).unwrap();
/// assert!(split.is_copy());
/// let (mut decoder, mut out, mut ends) = (ArrayDecoder::new(), vec![0; 12], Vec::new());
/// for (number, part) in split.parts().iter().enumerate() {
///     let to = &mut out[part.out.clone()];
///     ends.push(decoder.decode_part(&split, number, &payload[part.payload.clone()], to)?);
/// }
/// split.join(&ends, &mut out)?;
/// assert_eq!(out, payload);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ArraySplit {
    descriptor: ArrayDescriptor,
    arrangement: Arrangement,
    is_coded: bool,
    parts: Vec<SplitPart>,
}

/// A part of a payload, and the values that it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    /// Its bytes in the payload. Parts follow one another without a gap.
    pub payload: Range<usize>,
    /// The bytes of its values in the array. Between those of one part and the next there may be
    /// those of a pixel that belongs to both.
    pub out: Range<usize>,
    /// The stored elements.
    elements: Range<usize>,
}

/// Stored elements at the ends of a part that are of pixels which lie across its borders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl ArraySplit {
    /// Cuts a payload of `payload_bytes`: a Blosc2 payload into its chunks, a raw one into parts of
    /// about `part_bytes`, or fewer where they have to be converted. `header` reads the bytes of a
    /// chunk's header at a place in the payload. They are not trusted: whoever decodes a part finds
    /// out if they were wrong.
    ///
    /// `None` if the payload is one that [`ArrayDecoder::decode_into`] has to decode as a whole, or
    /// would refuse: a band-major one, zstd frames, a length that does not fit, or what is over the
    /// limits.
    pub fn new(
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload_bytes: usize,
        part_bytes: usize,
        limits: &Limits,
        header: impl FnMut(usize) -> Option<[u8; HEADER_BYTES]>,
    ) -> Option<Self> {
        let (stored, decoded) = (descriptor.stored_bytes().ok()?, descriptor.decoded_bytes().ok()?);
        check_size(decoded.max(stored), limits).ok()?;
        // What a coder makes is not more than all.
        check_expansion(stored, stored, payload_bytes as u64, limits).ok()?;
        let (width, size) = (descriptor.stored.size(), descriptor.decoded.size());
        let stored = usize::try_from(stored).ok().filter(|&bytes| bytes > 0)?;
        let bands = usize::try_from(descriptor.bands()).ok()?.max(1);
        check_tables(descriptor, bands).ok()?;
        if descriptor.layout != Layout::AsShape || (descriptor.band_difference && width > 2) {
            return None;
        }
        let arrangement = Arrangement {
            layout: descriptor.layout,
            difference: descriptor.band_difference,
            width,
            bands,
            pixels: stored / width / bands,
        };
        let is_plain = arrangement.is_identity() && is_as_stored(descriptor);
        // Every part but the last has at least one whole pixel.
        if !is_plain && bands * width > UNIT_BYTES / 2 {
            return None;
        }
        let (is_coded, ends) = match codec {
            Codec::Raw if payload_bytes == stored => {
                let step = match is_plain {
                    true => (part_bytes / width).max(1) * width,
                    false => (part_bytes.min(RAW_BYTES) / (bands * width)).max(1) * bands * width,
                };
                let ends = (1..=stored.div_ceil(step)).map(|part| (step * part).min(stored));
                (false, ends.map(|end| (end, end)).collect())
            }
            Codec::Blosc2 => (true, chunk_ends(payload_bytes, stored, header)?),
            _ => return None,
        };
        let mut parts = Vec::with_capacity(ends.len());
        let (mut from, mut first) = (0, 0);
        for (end, decoded_end) in ends {
            let elements = first..decoded_end / width;
            let values = match is_plain {
                true => elements.clone(),
                false => elements.start.next_multiple_of(bands)..elements.end / bands * bands,
            };
            let out = values.start * size..values.end.max(values.start) * size;
            first = elements.end;
            parts.push(SplitPart { payload: from..end, out, elements });
            from = end;
        }
        Some(Self { descriptor: descriptor.clone(), arrangement, is_coded, parts })
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[SplitPart] {
        &self.parts
    }

    /// Whether the bytes of a part are its values, as they stand: they need not be decoded, only
    /// read to where they belong.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        !self.is_coded && self.is_plain()
    }

    fn is_plain(&self) -> bool {
        self.arrangement.is_identity() && is_as_stored(&self.descriptor)
    }

    /// Most bytes of a payload in one part, for arrays like this one whose payload takes
    /// `payload_bytes`: what a thread has to have room for. None where parts are read to where they
    /// belong.
    ///
    /// Chunks are as different as the parts of an array are: an eighth more than their mean.
    #[must_use]
    pub fn part_bytes(codec: Codec, descriptor: &ArrayDescriptor, payload_bytes: u64) -> u64 {
        let stored = descriptor.stored_bytes().unwrap_or(0).max(1);
        match codec {
            Codec::Raw if !descriptor.band_difference && is_as_stored(descriptor) => 0,
            Codec::Raw => RAW_BYTES as u64,
            _ => {
                let unit = u128::from(payload_bytes) * UNIT_BYTES as u128 / u128::from(stored);
                let unit = u64::try_from(unit).unwrap_or(u64::MAX);
                unit.saturating_add(unit / 8).min(MOST_CHUNK_BYTES as u64).min(payload_bytes)
            }
        }
    }

    /// Whether payloads like this one are cut at all.
    #[must_use]
    pub fn takes(codec: Codec, descriptor: &ArrayDescriptor) -> bool {
        descriptor.layout == Layout::AsShape && matches!(codec, Codec::Raw | Codec::Blosc2)
    }

    /// Makes the pixels that lie across borders, of what all parts, in order, have left over. `out`
    /// is the whole array.
    ///
    /// # Errors
    /// `Internal` if `ends` are not those of the parts, or `out` has another length.
    pub fn join(&self, ends: &[Ends], out: &mut [u8]) -> Result<()> {
        check_length("ends of the parts of an array", self.parts.len(), ends.len())?;
        let Arrangement { bands, width, .. } = self.arrangement;
        let pixel_bytes = bands * self.descriptor.decoded.size();
        let mut scratch = Vec::new();
        for (pair, at) in ends.windows(2).zip(self.parts.iter().skip(1)) {
            let [Ends { tail, .. }, Ends { head, .. }] = pair else { continue };
            if tail.is_empty() && head.is_empty() {
                continue;
            }
            let pixel = [tail.as_slice(), head].concat();
            check_length("bytes of a pixel across a border", bands * width, pixel.len())?;
            let start = at.elements.start / bands * pixel_bytes;
            let out = part_mut(out, start..start + pixel_bytes, "place of a pixel")?;
            let one = Arrangement { pixels: 1, ..self.arrangement };
            Values::new(&self.descriptor, one, &mut scratch, out).take(&Block::Bytes(&pixel), 0..bands)?;
        }
        Ok(())
    }
}

/// Where each chunk of a payload ends, and where its unit does.
fn chunk_ends(
    payload_bytes: usize,
    stored: usize,
    mut header: impl FnMut(usize) -> Option<[u8; HEADER_BYTES]>,
) -> Option<Vec<(usize, usize)>> {
    let mut ends = Vec::with_capacity(stored.div_ceil(UNIT_BYTES).min(payload_bytes / HEADER_BYTES));
    let (mut pos, mut unit) = (0_usize, 0);
    while unit < stored {
        let &[_, _, _, _, _, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = &header(pos)?;
        let length = usize::try_from(u32::from_le_bytes([c0, c1, c2, c3])).ok()?;
        if !(HEADER_BYTES..=MOST_CHUNK_BYTES).contains(&length) || length > payload_bytes - pos {
            return None;
        }
        pos += length;
        unit = (unit + UNIT_BYTES).min(stored);
        ends.push((pos, unit));
    }
    (pos == payload_bytes).then_some(ends)
}

impl ArrayDecoder {
    /// Decodes part `number` of a payload, which `payload` are the bytes of, to `out`, the bytes of
    /// its values.
    ///
    /// After an error the content of `out` is unspecified.
    ///
    /// # Errors
    /// `Format` if the part is damaged, or was cut by what is not there; `Internal` if `payload` or
    /// `out` are not as long as the part says.
    pub fn decode_part(&mut self, split: &ArraySplit, number: usize, payload: &[u8], out: &mut [u8]) -> Result<Ends> {
        let parts = split.parts.len();
        let here = split.parts.get(number).ok_or_else(|| Error::internal("part of an array", parts, number))?;
        check_length("bytes of a part of a payload", here.payload.len(), payload.len())?;
        check_length("bytes of the values of a part", here.out.len(), out.len())?;
        let (blosc2, piece, window) = self.of_parts();
        let Arrangement { bands, width, .. } = split.arrangement;
        let count = here.elements.len();
        let blocks = if split.is_coded {
            let item_bytes = item_bytes(width)?;
            let chunk = Chunk::parse(payload, item_bytes, count * width)?;
            end_of(payload, chunk.bytes().len())?;
            Blocks::Blosc2 { decoder: blosc2, chunks: vec![chunk], item_bytes, payload }
        } else {
            Blocks::Raw { payload }
        };
        let mut ends = Ends::default();
        if split.is_plain() {
            blocks.into_whole(out, &Limits::none())?;
            return Ok(ends);
        }
        let head = (here.elements.start.next_multiple_of(bands) - here.elements.start).min(count);
        let whole = head..head + (count - head) / bands * bands;
        let arrangement = Arrangement { pixels: whole.len() / bands, ..split.arrangement };
        let mut values = Values::new(&split.descriptor, arrangement, piece, out);
        let mut at = 0;
        blocks.for_each(count * width, window, |block, bytes| {
            let end = at + bytes / width;
            // Number of the element in this block, for one of the part.
            let within = |element: usize| element.clamp(at, end) - at;
            let keep = |range: Range<usize>, to: &mut Vec<u8>| {
                let (start, end) = (to.len(), to.len() + range.len() * width);
                to.resize(end, 0);
                block.read(range.start, width, part_mut(to, start..end, "end of a part")?)
            };
            keep(0..within(whole.start), &mut ends.head)?;
            values.take(block, within(whole.start)..within(whole.end))?;
            keep(within(whole.end)..end - at, &mut ends.tail)?;
            at = end;
            Ok(())
        })?;
        Ok(ends)
    }
}

#[cfg(test)]
mod tests;
