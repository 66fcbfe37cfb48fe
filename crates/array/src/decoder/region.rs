//! Decodes one region of an array.

use super::ArrayDecoder;
use crate::bytes::check_size;
use crate::codecs::container;
use crate::coded::CodedArray;
use crate::finish::Target;
use crate::region::{Lists, PayloadReader, Region, RegionDecoded, RegionPlan, RegionScratch};
use crate::values::check_bands;
use crate::wanted::Wanted;
use shardpack_base::parts::grow;
use shardpack_format::{ArrayDescriptor, Codec, Error, Limits, Result};

impl ArrayDecoder {
    /// Decodes a region of an array with two or three axes into `out`, which must have exactly
    /// [`region.shape_of(descriptor)`](Region::shape_of)`.bytes` bytes. The output is C-contiguous and little-endian.
    /// It equals the same part of the whole decoded array, bit for bit.
    ///
    /// Only the Blosc2 blocks that the region touches are decoded, and each of them only once. If the payload has a
    /// band difference, all bands up to the last requested one are decoded too, but only for the pixels of the
    /// region. In a band-major payload, these bands cost extra blocks.
    ///
    /// Once the decoder has decoded the largest region, it allocates nothing more. After an error the content of
    /// `out` is unspecified, and the decoder stays usable. Damage outside the decoded parts may go unnoticed here. The
    /// checksum of the record detects it.
    ///
    /// ```
    /// use shardpack_array::{Array, ArrayDecoder, ArrayEncoder, ArrayOptions, Bands, Region};
    /// use shardpack_format::{Dtype, Limits};
    ///
    /// // [4, 5, 3]: the element at y, x, band is 15 y + 3 x + band.
    /// let cube = Array::new(Dtype::U8, vec![4, 5, 3], (0..60).collect())?;
    /// let settings = shardpack_array::trial(&[(&cube, None)], &ArrayOptions::default())?.settings;
    /// let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
    ///
    /// let region = Region { bands: Bands::Range(1..3), ..Region::new(2, 1, 1, 2) };
    /// let mut out = vec![0; 4];
    /// let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
    /// let limits = Limits::default();
    /// let done = ArrayDecoder::new().decode_region(codec, descriptor, payload, &region, &mut out, &limits)?;
    /// assert_eq!(out, [34, 35, 37, 38]);
    /// assert_eq!(done.shape.shape, [1, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if the region is not within the array, the array has neither two nor three axes, or `out` has a
    /// different length; `Format` if the payload is damaged, its length does not fit the array, or its codec does not
    /// support arrays; `Limit` if the region (with the bands that a difference needs) exceeds
    /// `limits.max_decoded_bytes`, or if the array exceeds 1 MiB and the touched blocks exceed `limits.max_expansion`
    /// times the payload.
    pub fn decode_region(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        region: &Region,
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<RegionDecoded> {
        let wanted = Wanted { region: Some(region), ..Wanted::ALL };
        let target = wanted.of_region(descriptor, region)?;
        self.region_into(CodedArray { codec, descriptor, payload }, region, target, out, limits)
    }

    /// Same as [`ArrayDecoder::decode_region`], but also applies the conversions of the target.
    pub(super) fn region_into(
        &mut self,
        array: CodedArray<'_>,
        region: &Region,
        target: Target,
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<RegionDecoded> {
        let descriptor = array.descriptor;
        let shape = region.shape_of(descriptor)?;
        let out_bytes = shape.bytes / shape.dtype.bytes() * target.element().bytes();
        if out.len() as u64 != out_bytes {
            return Err(Error::usage(format!("the output buffer must have {out_bytes} bytes, but has {}", out.len())));
        }
        check_size(shape.bytes, limits)?;
        let Self { decoders, region: scratch, values, .. } = self;
        let RegionScratch { source: source_scratch, plan: lists, stored, .. } = scratch;
        let mut source = PayloadReader::new(array, limits, decoders, source_scratch)?;
        if out.is_empty() {
            return Ok(RegionDecoded { shape, blocks_decoded: 0, blocks: source.blocks() });
        }
        let plan = RegionPlan::new(descriptor, region, lists)?;
        check_bands(descriptor, plan.bands())?;
        let width = descriptor.stored.size();
        if plan.is_output(descriptor) && target.clone().given(plan.layout()).is_nothing() {
            source.read(plan.runs(width), out)?;
            return Ok(RegionDecoded { shape, blocks_decoded: source.finish()?, blocks: source.blocks() });
        }
        let stored_bytes = plan.fetched_elements() * width;
        check_size(stored_bytes as u64, limits)?;
        let stored = grow(stored, stored_bytes);
        source.read(plan.runs(width), stored)?;
        let done = RegionDecoded { shape, blocks_decoded: source.finish()?, blocks: source.blocks() };
        plan.values(descriptor, target, stored, values, out)?;
        Ok(done)
    }

    /// Returns the number of bytes that [`ArrayDecoder::decode_region`] allocates and keeps, besides the payload and
    /// `out`. These are one block (two for Blosc2) and the stored elements that the region needs, unless they are
    /// decoded directly into the output. The contexts of the coders (about 100 KiB) do not count.
    ///
    /// # Errors
    /// `Usage` if the region is not within the array, or the array has neither two nor three axes.
    pub fn region_scratch_bytes(codec: Codec, descriptor: &ArrayDescriptor, region: &Region) -> Result<u64> {
        if region.shape_of(descriptor)?.bytes == 0 {
            return Ok(0);
        }
        let mut lists = Lists::default();
        let plan = RegionPlan::new(descriptor, region, &mut lists)?;
        let width = descriptor.stored.bytes();
        let fetched = match plan.is_output(descriptor) {
            true => 0,
            false => (plan.fetched_elements() as u64).saturating_mul(width),
        };
        let container = container(codec)?;
        let block = (container.block_bytes(descriptor.stored.size()) as u64).min(descriptor.stored_bytes()?);
        Ok(fetched.saturating_add(container.region_blocks() * block))
    }
}
