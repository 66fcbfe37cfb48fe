//! Decodes scenes whole and keeps them in memory, so that patches can be cut from them later.

use super::ArrayFieldDecoder;
use super::narrow::quieten;
use super::patches::AskedPatches;
use super::request::image_axes;
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::patches::{PatchAt, PatchPlan};
use crate::sample::SampleAt;
use crate::supply::{PatchWindow, WholeScene};
use shardpack_array::{ArrayDecoder, Bands, Region, Wanted};
use shardpack_format::{ArrayDescriptor, Codec, FieldValue, Layout, Limits, Result, bug, to_usize};
use std::sync::Arc;

impl ArrayFieldDecoder {
    /// Returns the size in bytes of all pixels in the requested bands, or `None` if the array is too large to decode
    /// whole.
    pub(super) fn bytes_as_whole(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
    ) -> Result<Option<u64>> {
        let AskedPatches { descriptor, regions, .. } = self.ask_all(tools, of, value, &[of.at()])?;
        let whole = regions.first().and_then(|region| all_pixels(&descriptor, region));
        let bytes = |whole: Region| whole.shape_of(&descriptor).map(|shape| shape.bytes);
        Ok(whole.map(bytes).transpose()?.filter(|&bytes| is_allowed(&descriptor, bytes, of.limits())))
    }

    pub(super) fn decode_whole(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
        plan: &Arc<PatchPlan>,
    ) -> Result<(WholeScene, Vec<PatchAt>)> {
        let AskedPatches { descriptor, regions, finishes, places, is_narrow } =
            self.ask_all(tools, of, value, draws)?;
        let Some(whole) = regions.first().and_then(|region| all_pixels(&descriptor, region)) else {
            bug("a scene without pixels is kept whole")
        };
        let found = whole.shape_of(&descriptor)?;
        let wanted = Wanted { region: (whole.bands != Bands::All).then_some(&whole), ..Wanted::ALL };
        let (_, layout) = image_axes(&of.field.shape, self.field.channels_first)?;
        let (dtype, shape, bytes) = (found.dtype, found.shape, plan.scene_room(found.bytes));
        let mut scene = WholeScene { bytes, dtype, shape, layout, patches: Vec::new(), plan: Arc::clone(plan) };
        let out = scene.bytes.get_mut(..to_usize(found.bytes)).unwrap_or_default();
        tools.arrays.decode_wanted(value.codec, &descriptor, value.bytes, &wanted, out, of.limits())?;
        if is_narrow {
            quieten(&finishes, out);
        }
        for (region, finish) in regions.iter().zip(finishes) {
            let Region { y, x, height, width, .. } = *region;
            scene.patches.push(PatchWindow { rows: y..y + height, columns: x..x + width, finish });
        }
        Ok((scene, places))
    }
}

fn all_pixels(descriptor: &ArrayDescriptor, region: &Region) -> Option<Region> {
    let &[height, width, ..] = &*descriptor.shape else { return None };
    Some(Region { y: 0, x: 0, height, width, layout: Layout::AsShape, ..region.clone() })
}

fn is_allowed(descriptor: &ArrayDescriptor, bytes: u64, limits: &Limits) -> bool {
    descriptor.stored_bytes().is_ok_and(|stored| bytes.max(stored) <= limits.max_decoded_bytes)
}

/// Returns the memory in bytes for decoding an array of this form whole. Returns `None` if arrays are never decoded
/// whole to cut `count` patches.
pub(crate) fn whole_scratch_bytes(
    codec: Codec,
    descriptor: &ArrayDescriptor,
    patch: &Region,
    count: u64,
) -> Option<u64> {
    let whole = all_pixels(descriptor, patch)?;
    let bytes = |region: &Region| region.shape_of(descriptor).map(|shape| shape.bytes).ok();
    // Elements of a row are at most eight times as large as stored elements. If the patches are smaller than the array
    // even then, the array is never decoded whole.
    if bytes(patch)?.saturating_mul(count).saturating_mul(8) < bytes(&whole)? {
        return None;
    }
    match whole.bands {
        Bands::All => ArrayDecoder::scratch_bytes(codec, descriptor).ok(),
        Bands::Range(_) | Bands::List(_) => ArrayDecoder::region_scratch_bytes(codec, descriptor, &whole).ok(),
    }
}
