//! Decodes all patches of one scene together.

use super::ArrayFieldDecoder;
use super::narrow::{narrow, quieten};
use super::request::{image_axes, plain_bytes};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::patches::PatchAt;
use crate::sample::SampleAt;
use shardpack_array::{Bands, Finish, Region, Voxels};
use shardpack_format::{ArrayDescriptor, FieldValue, Layout, Limits, Result, Transform, bug, to_usize};

pub(super) struct AskedPatches {
    pub(super) descriptor: ArrayDescriptor,
    /// Region of the array for each patch, in the order of the draws.
    pub(super) regions: Vec<Region>,
    pub(super) finishes: Vec<Finish>,
    pub(super) places: Vec<PatchAt>,
    /// True if elements stay float16 until patches are made from them.
    pub(super) is_narrow: bool,
}

impl ArrayFieldDecoder {
    /// Prepares the region of each patch. There must be at least one patch.
    pub(super) fn ask_all(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
    ) -> Result<AskedPatches> {
        let (mut regions, mut finishes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let Self { field, request } = self;
        for &at in draws {
            let of = of.of(at);
            let asked = request.ask(field, &of, value, &of.field.shape, &mut tools.window)?;
            regions.extend(asked.region.cloned());
            finishes.push(asked.finish.clone());
            places.extend(tools.window.map(|window| window.at(at.patch)));
        }
        if regions.len() != draws.len() || regions.is_empty() {
            bug("an array that is not cut has patches");
        }
        let mut descriptor = request.descriptor().clone();
        let is_narrow = narrow(&mut descriptor, &mut finishes);
        Ok(AskedPatches { descriptor, regions, finishes, places, is_narrow })
    }

    /// Decodes each patch into its own part of `outs`. A chunk that several patches need is decoded once.
    pub(super) fn decode_patches(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> Result<Vec<PatchAt>> {
        let limits = of.limits();
        let AskedPatches { descriptor, regions, finishes, places, is_narrow } =
            self.ask_all(tools, of, value, draws)?;
        let (descriptor, dtype) = (&descriptor, descriptor.decoded);
        let Tools { arrays, whole, decoded, .. } = tools;
        let mut decode = |outs: &mut [&mut [u8]]| match whole_bytes(descriptor, &regions, limits) {
            Some(bytes) => {
                if whole.len() < bytes {
                    whole.resize(bytes, 0);
                }
                let whole = whole.get_mut(..bytes).unwrap_or_default();
                arrays.decode_into(value.codec, descriptor, value.bytes, whole, limits)?;
                cut_out(whole, descriptor, &regions, outs);
                Ok(())
            }
            None => arrays.decode_regions(value.codec, descriptor, value.bytes, &regions, outs, limits).map(|_| ()),
        };
        if finishes.iter().all(|finish| finish.is_nothing(dtype)) {
            decode(outs)?;
            if is_narrow {
                outs.iter_mut().for_each(|out| quieten(&finishes, out));
            }
            return Ok(places);
        }
        let bytes = plain_bytes(dtype, &of.field.shape, limits)?;
        let all = bytes.saturating_mul(draws.len());
        if decoded.len() < all {
            decoded.resize(all, 0);
        }
        let decoded = decoded.get_mut(..all).unwrap_or_default();
        let mut parts: Vec<&mut [u8]> = decoded.chunks_mut(bytes.max(1)).collect();
        decode(&mut parts)?;
        if is_narrow {
            parts.iter_mut().for_each(|part| quieten(&finishes, part));
        }
        let (shape, layout) = image_axes(&of.field.shape, self.field.channels_first)?;
        for ((finish, part), out) in finishes.iter().zip(parts).zip(outs) {
            finish.apply(dtype, shape, layout, part, out)?;
        }
        Ok(places)
    }
}

/// Returns the size of the array in bytes if it is faster to decode it whole and then cut it, and `None` otherwise.
/// This can pay off only if the array is not stored in output order. Band-major storage needs one run per row and
/// band, and derived values are computed again for each patch. Both are slower than decoding the whole array, even if
/// each patch needs less than half of it (2026-11-23, CPU time of a patch of 32 × 32 × 100 float32, 1,024 per scene:
/// 0.70 ms from band-major storage, 0.53 ms converted from float16, 0.16 ms copied as stored).
///
/// If a pixel's bands are stored together, even a few patches need most of the blocks. For LZ4 with band differences,
/// decoding the whole array was as fast as decoding each patch when the patches covered a tenth of the array, 1.7 times
/// as fast at a fifth, and 2.2 times as fast at two fifths. Patches of a band-major array need only a few of its many
/// blocks, so decoding the whole scene was slower when they covered less than half of it (2026-11-24).
fn whole_bytes(descriptor: &ArrayDescriptor, regions: &[Region], limits: &Limits) -> Option<usize> {
    let &[_, _, bands] = &*descriptor.shape else { return None };
    let pixels = |region: &Region| region.height.saturating_mul(region.width);
    let wanted = regions.iter().fold(0_u64, |sum, region| sum.saturating_add(pixels(region)));
    let is_plain = |region: &Region| region.bands == Bands::All && region.layout == Layout::AsShape;
    let may_pay = is_made_of_others(descriptor) && regions.iter().all(is_plain);
    let bytes = descriptor.decoded_bytes().ok().filter(|bytes| may_pay && *bytes <= limits.max_decoded_bytes)?;
    let pixel = bands.saturating_mul(descriptor.decoded.bytes());
    let part = if descriptor.layout == Layout::BandMajor { 2 } else { 8 };
    (wanted.saturating_mul(pixel).saturating_mul(part) >= bytes).then(|| to_usize(bytes))
}

/// Returns true if the output differs from the stored pixels in order, type or value, and must be converted.
pub(crate) fn is_made_of_others(descriptor: &ArrayDescriptor) -> bool {
    descriptor.layout == Layout::BandMajor || descriptor.band_difference || descriptor.transform != Transform::None
}

fn cut_out(whole: &[u8], descriptor: &ArrayDescriptor, regions: &[Region], outs: &mut [&mut [u8]]) {
    let &[height, width, bands] = &*descriptor.shape else {
        bug("an array to cut patches from does not have three axes")
    };
    let pixel = bands.saturating_mul(descriptor.decoded.bytes());
    for (region, out) in regions.iter().zip(outs) {
        let part = Voxels { origin: [0, region.y, region.x], size: [1, region.height, region.width] };
        copy_box(whole, [1, height, width], pixel, part, out);
    }
}

/// Copies a box out of a volume that has the given `sides` and `pixel` bytes per pixel.
pub(crate) fn copy_box(whole: &[u8], sides: [u64; 3], pixel: u64, part: Voxels, out: &mut [u8]) {
    let Voxels { origin, size } = part;
    let row = to_usize(size[2].saturating_mul(pixel));
    let rows = (0..size[0]).flat_map(|plane| (0..size[1]).map(move |row| (plane, row)));
    let expected = out.len();
    let mut copied = 0;
    for ((plane, line), to) in rows.zip(out.chunks_exact_mut(row.max(1))) {
        // No product overflows, because all of these bytes are in the volume, which is already in memory.
        let start = (((origin[0] + plane) * sides[1] + origin[1] + line) * sides[2] + origin[2]) * pixel;
        let from = to_usize(start);
        let from = whole.get(from..from.saturating_add(row));
        to.copy_from_slice(from.unwrap_or_else(|| bug("a box exceeds its volume")));
        copied += row;
    }
    if copied != expected {
        bug("a box and its row differ in size");
    }
}
