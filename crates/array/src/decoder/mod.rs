//! Decodes payloads to arrays. The bytes may come from untrusted sources, so every input must lead to an array or an
//! error.

mod region;
mod regions;

use crate::arrange::{Arrangement, PIECE_ELEMENTS, TILE_BYTES};
use crate::array::Array;
use crate::block::StoredBlock;
use crate::bytes::{check_size, end_of, in_memory};
use crate::codecs::{Coded, Decoders, container};
use crate::coded::CodedArray;
use crate::finish::Target;
use crate::region::RegionScratch;
use crate::values::{self, To, Values, check_bands, is_as_stored};
use crate::wanted::Wanted;
use shardpack_format::{ArrayDescriptor, Codec, Error, Layout, Limits, Result, to_usize};
use std::ops::Range;

/// Decodes arrays. Each thread has its own decoder, which reuses the coders' contexts and its scratch memory. The
/// scratch memory is small for payloads in shape order. For band-major payloads, it is about the size of the largest
/// array's stored elements. The decoder stays usable after an error.
#[derive(Default)]
pub struct ArrayDecoder {
    pub(crate) decoders: Decoders,
    /// For band-major payloads: all bytes that the coder has output.
    stored: Vec<u8>,
    /// For band-major payloads: a tile of stored elements. For other payloads: a block of stored elements that is not
    /// available as byte planes.
    pub(crate) window: Vec<u8>,
    pub(crate) values: values::ValueScratch,
    pub(crate) region: RegionScratch,
}

impl ArrayDecoder {
    /// Creates a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `payload` into an array.
    ///
    /// # Errors
    /// Same as [`ArrayDecoder::decode_into`].
    pub fn decode(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<Array> {
        let decoded_bytes = descriptor.decoded_bytes()?;
        check_size(decoded_bytes, limits)?;
        let length = usize::try_from(decoded_bytes)
            .map_err(|_| Error::limit("decoded array", "max_decoded_bytes", usize::MAX as u64, decoded_bytes))?;
        // Reject a payload that is far too small for the array before any memory is touched.
        Self::check_length(codec, descriptor, payload, limits)?;
        let mut out = vec![0; length];
        self.decode_into(codec, descriptor, payload, &mut out, limits)?;
        Array::new(descriptor.decoded, descriptor.shape.clone(), out)
    }

    /// Decodes `payload` into `out`, which must have exactly `descriptor.decoded_bytes()` bytes. The output
    /// is little-endian and C-contiguous in shape order.
    ///
    /// After an error the content of `out` is unspecified.
    ///
    /// # Errors
    /// `Usage` if `out` has a different length; `Format` if the payload is damaged, decodes to a different
    /// length, or its codec does not support arrays; `Limit` if the array exceeds `limits.max_decoded_bytes`, if it
    /// exceeds both 1 MiB and `limits.max_expansion` times its payload, or if runs of one value exceed
    /// `limits.max_run_bytes`.
    pub fn decode_into(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<()> {
        self.decode_whole(CodedArray { codec, descriptor, payload }, &Wanted::ALL.of_whole(descriptor)?, out, limits)
    }

    /// Decodes the wanted part of an array into `out`, which must have exactly the length of that part.
    ///
    /// ```
    /// use shardpack_array::{ArrayDecoder, As, Finish, Region, Wanted};
    /// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Layout, Limits};
    /// // The second row of a [2, 2, 2] array with bands first, as float32.
    /// let cube = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 2]);
    /// let region = Region { layout: Layout::BandMajor, ..Region::new(1, 0, 1, 2) };
    /// let wanted = Wanted { region: Some(&region), finish: &Finish::from(As::F32), ..Wanted::ALL };
    /// let mut out = vec![0; 16];
    /// let payload = [0, 1, 2, 3, 4, 5, 6, 7];
    /// ArrayDecoder::new().decode_wanted(Codec::Raw, &cube, &payload, &wanted, &mut out, &Limits::default())?;
    /// assert_eq!(out, [4.0_f32, 6.0, 5.0, 7.0].map(f32::to_le_bytes).concat());
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`ArrayDecoder::decode_into`] (for a region, [`ArrayDecoder::decode_region`]) and
    /// [`Finish::check`](crate::Finish::check).
    pub fn decode_wanted(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        wanted: &Wanted<'_>,
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<()> {
        let array = CodedArray { codec, descriptor, payload };
        match wanted.region {
            None => self.decode_whole(array, &wanted.of_whole(descriptor)?, out, limits),
            Some(region) => {
                let target = wanted.of_region(descriptor, region)?;
                self.region_into(array, region, target, out, limits).map(|_| ())
            }
        }
    }

    fn decode_whole(&mut self, array: CodedArray<'_>, target: &Target, out: &mut [u8], limits: &Limits) -> Result<()> {
        let CodedArray { codec, descriptor, payload } = array;
        let (decoded_bytes, stored_bytes) = (descriptor.decoded_bytes()?, descriptor.stored_bytes()?);
        // The output has as many elements as the decoded part, but their size may differ.
        let out_bytes = decoded_bytes / descriptor.decoded.bytes() * target.element().bytes();
        if out.len() as u64 != out_bytes {
            return Err(Error::usage(format!("the output buffer must have {out_bytes} bytes, but has {}", out.len())));
        }
        check_size(decoded_bytes.max(stored_bytes), limits)?;
        Self::check_length(codec, descriptor, payload, limits)?;
        if stored_bytes == 0 {
            // An empty array needs no decoding, regardless of the lengths of its other axes.
            return end_of(payload, 0);
        }
        let Self { decoders, stored, values: scratch, window, .. } = self;
        let width = descriptor.stored.size();
        let stored_bytes = in_memory(stored_bytes)?;
        let elements = stored_bytes / width;
        let bands = to_usize(descriptor.bands()).max(1);
        check_bands(descriptor, bands)?;
        let arrangement = stored_as(descriptor, bands, elements, target);
        let decoder = decoders.of(codec)?;
        let coded = Coded { payload, width, stored_bytes };
        if arrangement.is_identity() && is_as_stored(descriptor) && target.is_nothing() {
            return decoder.decode(coded, out, limits);
        }
        let mut row = out;
        let to = if target.is_nothing() { To::Plain(row) } else { To::Row(target, 0, &mut row) };
        let mut values = Values::new(descriptor, arrangement, scratch, to)?;
        match arrangement.layout {
            Layout::AsShape => {
                let mut each =
                    |block: &StoredBlock<'_>, bytes: Range<usize>| values.take(block, 0..bytes.len() / width);
                decoder.for_each(coded, limits, window, &|_| true, &mut each)?;
            }
            Layout::BandMajor => {
                let (blocks, block) = decoder.all(coded, stored, limits)?;
                values.take_planes(&blocks, block, window)?;
            }
        }
        values.finish()
    }

    /// Returns the number of bytes that [`ArrayDecoder::decode_into`] allocates and keeps for an array with the given
    /// descriptor, besides the payload and `out`. For a band-major payload, this is at most the size of all stored
    /// elements that the payload does not contain unchanged. For other payloads, it is the size of one block. In both
    /// cases, a buffer for some pixels is added. The contexts of the coders (about 100 KiB) do not count.
    ///
    /// ```
    /// use shardpack_array::ArrayDecoder;
    /// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Layout};
    /// let cube = ArrayDescriptor::plain(Dtype::U16, vec![480, 640, 100]);
    /// let by_band = ArrayDescriptor { layout: Layout::BandMajor, ..cube.clone() };
    /// assert!(ArrayDecoder::scratch_bytes(Codec::Blosc2, &cube)? < 1 << 20);
    /// assert!(ArrayDecoder::scratch_bytes(Codec::Blosc2, &by_band)? > 480 * 640 * 100 * 2);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn scratch_bytes(codec: Codec, descriptor: &ArrayDescriptor) -> Result<u64> {
        let stored = descriptor.stored_bytes()?;
        let width = descriptor.stored.bytes();
        let pixel = descriptor.bands().max(1).saturating_mul(width);
        let tile = (TILE_BYTES as u64).max(pixel.saturating_mul(32)).min(stored);
        Ok(match (container(codec)?.scratch_bytes(descriptor.stored.size(), stored), descriptor.layout) {
            (None, Layout::AsShape) => 0,
            (None, Layout::BandMajor) => tile,
            (Some(block), Layout::AsShape) => {
                let pixels = pixel.max(PIECE_ELEMENTS as u64 * width);
                block.saturating_add(pixels.min(stored))
            }
            // This is an upper bound, because streams that are stored unchanged need no scratch memory.
            (Some(_), Layout::BandMajor) => stored.saturating_add(tile),
        })
    }

    /// Fails if a payload of this length cannot contain the array under the limits. Call this before you allocate
    /// memory for an array.
    ///
    /// # Errors
    /// `Format` or `Limit`, like [`ArrayDecoder::decode_into`].
    pub fn check_length(codec: Codec, descriptor: &ArrayDescriptor, payload: &[u8], limits: &Limits) -> Result<()> {
        container(codec)?.check_length(descriptor.stored_bytes()?, payload.len() as u64, limits)
    }
}

/// Returns the order in which stored elements reach the target. If bands are both stored and output one by one, each
/// element counts as a pixel of one band.
pub(crate) fn stored_as(descriptor: &ArrayDescriptor, bands: usize, elements: usize, target: &Target) -> Arrangement {
    let ArrayDescriptor { layout, band_difference: difference, stored, .. } = descriptor;
    let (layout, bands) = match target.from() {
        Layout::BandMajor => (Layout::AsShape, 1),
        Layout::AsShape => (*layout, bands),
    };
    Arrangement { layout, difference: *difference, width: stored.size(), bands, pixels: elements / bands }
}
