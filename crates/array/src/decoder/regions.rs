//! Decodes several regions of an array at once.

use super::ArrayDecoder;
use crate::bytes::check_size;
use crate::codecs::container;
use crate::coded::CodedArray;
use crate::region::{Lists, PayloadReader, Placed, Region, RegionPlan, RegionScratch, Several};
use crate::values::check_bands;
use crate::wanted::Wanted;
use shardpack_base::parts::grow;
use shardpack_format::{ArrayDescriptor, Codec, Error, Limits, Result, bug};

impl ArrayDecoder {
    /// Decodes several regions of one array, each into its own slice of `outs`, like [`ArrayDecoder::decode_region`].
    /// The regions may overlap. A block that several regions touch is decoded only once. Returns the number of decoded
    /// blocks, counted as in [`RegionDecoded::blocks_decoded`](crate::RegionDecoded).
    ///
    /// ```
    /// use shardpack_array::{Array, ArrayDecoder, ArrayEncoder, ArrayOptions, Region};
    /// use shardpack_format::{Dtype, Limits};
    ///
    /// // [4, 5]: the element at y, x is 5 y + x.
    /// let array = Array::new(Dtype::U8, vec![4, 5], (0..20).collect())?;
    /// let settings = shardpack_array::trial(&[(&array, None)], &ArrayOptions::default())?.settings;
    /// let encoded = ArrayEncoder::new(settings)?.encode(&array, None)?;
    /// let (mut a, mut b) = ([0; 2], [0; 2]);
    /// let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
    /// let regions = [Region::new(1, 1, 1, 2), Region::new(1, 2, 2, 1)];
    /// let mut decoder = ArrayDecoder::new();
    /// decoder.decode_regions(codec, descriptor, payload, &regions, &mut [&mut a, &mut b], &Limits::default())?;
    /// assert_eq!((a, b), ([6, 7], [7, 12]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`ArrayDecoder::decode_region`]; also `Usage` if `outs` and `regions` have different lengths.
    pub fn decode_regions(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        regions: &[Region],
        outs: &mut [&mut [u8]],
        limits: &Limits,
    ) -> Result<u64> {
        if regions.len() != outs.len() {
            return Err(Error::usage(format!(
                "each region needs an output buffer, but there are {} regions and {} buffers",
                regions.len(),
                outs.len()
            )));
        }
        let Self { decoders, region: scratch, values, .. } = self;
        let RegionScratch { source, plan: lists, several, .. } = scratch;
        let array = CodedArray { codec, descriptor, payload };
        let mut source = PayloadReader::new(array, limits, decoders, source)?;
        let width = descriptor.stored.size();
        let Several { runs, stored } = several;
        runs.clear();
        // Offset of the stored elements of each region, or `None` if they are decoded directly into the output.
        let mut starts = Vec::with_capacity(regions.len());
        let mut stored_bytes = 0_usize;
        for (number, (region, out)) in regions.iter().zip(&*outs).enumerate() {
            let shape = region.shape_of(descriptor)?;
            if out.len() as u64 != shape.bytes {
                return Err(Error::usage(format!(
                    "the output buffer must have {} bytes, but has {}",
                    shape.bytes,
                    out.len()
                )));
            }
            check_size(shape.bytes, limits)?;
            starts.push(None);
            if out.is_empty() {
                continue;
            }
            let plan = RegionPlan::new(descriptor, region, lists)?;
            check_bands(descriptor, plan.bands())?;
            let mut at = 0;
            if !plan.is_output(descriptor) {
                let bytes = plan.fetched_elements() * width;
                check_size(bytes as u64, limits)?;
                at = stored_bytes;
                if let Some(start) = starts.last_mut() {
                    *start = Some(at..at + bytes);
                }
                stored_bytes += bytes;
            }
            for run in plan.runs(width) {
                let length = run.len();
                runs.push(Placed { run, region: number, at });
                at += length;
            }
        }
        runs.sort_unstable_by_key(|placed| placed.run.start);
        let stored = grow(stored, stored_bytes);
        source.scatter(runs, |placed, range, bytes| {
            let to = match starts.get(placed.region) {
                Some(Some(_)) => Some(&mut *stored),
                Some(None) => outs.get_mut(placed.region).map(|out| &mut **out),
                None => None,
            };
            let Some(to) = to.and_then(|to| to.get_mut(range)) else {
                bug("a run is outside its region");
            };
            to.copy_from_slice(bytes);
            Ok(())
        })?;
        let decoded = source.finish()?;
        for ((region, start), out) in regions.iter().zip(starts).zip(outs) {
            let Some(stored) = start.and_then(|range| stored.get(range)) else { continue };
            let plan = RegionPlan::new(descriptor, region, lists)?;
            let target = Wanted::ALL.of_region(descriptor, region)?;
            plan.values(descriptor, target, stored, values, out)?;
        }
        Ok(decoded)
    }

    /// Returns the number of bytes that [`ArrayDecoder::decode_regions`] allocates and keeps for `count` regions with
    /// the size of `region`. For a single region, see [`ArrayDecoder::region_scratch_bytes`].
    ///
    /// # Errors
    /// Same as [`ArrayDecoder::region_scratch_bytes`].
    pub fn regions_scratch_bytes(
        codec: Codec,
        descriptor: &ArrayDescriptor,
        region: &Region,
        count: u64,
    ) -> Result<u64> {
        let one = Self::region_scratch_bytes(codec, descriptor, region)?;
        let mut lists = Lists::default();
        if region.shape_of(descriptor)?.bytes == 0 {
            return Ok(0);
        }
        let plan = RegionPlan::new(descriptor, region, &mut lists)?;
        let runs = (plan.runs(1).count() * size_of::<Placed>()) as u64;
        let stored = match plan.is_output(descriptor) {
            true => 0,
            false => (plan.fetched_elements() as u64).saturating_mul(descriptor.stored.bytes()),
        };
        // Several regions may share a block. That block is kept whole, in a buffer that a single region does not need.
        let block = container(codec)?.block_bytes(descriptor.stored.size()) as u64;
        Ok(one.saturating_add(block).saturating_add(stored.saturating_add(runs).saturating_mul(count)))
    }
}
