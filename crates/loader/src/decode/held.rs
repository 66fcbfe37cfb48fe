//! Decodes scenes that wait as a whole.

use super::array_patches::Asked;
use super::array_row::{ArrayRows, axes};
use super::narrow::{narrow, quieten};
use super::recipe::Recipe;
use super::record::FieldOf;
use crate::fields::Cut;
use crate::patches::{PatchAt, PatchPlan};
use crate::sample::SampleAt;
use crate::supply::WholeScene;
use shardpack_array::{ArrayDecoder, Bands, Region, Wanted};
use shardpack_format::{ArrayDescriptor, Codec, Error, FieldValue, Layout, Limits, Result, to_usize};
use std::sync::Arc;

impl ArrayRows {
    /// Bytes of all pixels of an array, with the bands that are wanted; `None` if it is too large to
    /// be decoded as a whole.
    pub(crate) fn held_bytes(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        how: (bool, &Cut),
    ) -> Result<Option<u64>> {
        let mut asked = self.ask_all(recipe, of, value, how, &[of.at])?;
        narrow(&mut asked.descriptor, &mut asked.finishes);
        let Asked { descriptor, regions, .. } = asked;
        let whole = regions.first().and_then(|region| all_pixels(&descriptor, region));
        let limits = &of.shard.options().limits;
        let bytes = |whole: Region| whole.shape_of(&descriptor).map(|shape| shape.bytes);
        Ok(whole.map(bytes).transpose()?.filter(|&bytes| is_allowed(&descriptor, bytes, limits)))
    }

    /// Decodes all pixels of an array, for the patches `draws`.
    pub(crate) fn hold(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, &Cut),
        (draws, plan): (&[SampleAt], &Arc<PatchPlan>),
    ) -> Result<(WholeScene, Vec<PatchAt>)> {
        let mut asked = self.ask_all(recipe, of, value, (channels_first, cut), draws)?;
        let is_narrow = narrow(&mut asked.descriptor, &mut asked.finishes);
        let Asked { descriptor, regions, finishes, places } = asked;
        let Some(whole) = regions.first().and_then(|region| all_pixels(&descriptor, region)) else {
            return Err(Error::internal("patches of a scene", "at least one", regions.len()));
        };
        let found = whole.shape_of(&descriptor)?;
        let wanted = Wanted { region: (whole.bands != Bands::All).then_some(&whole), ..Wanted::ALL };
        let window = |region: &Region| [region.y..region.y + region.height, region.x..region.x + region.width];
        // Of the patch only the order of its axes.
        let (_, layout) = axes(&of.field.shape, channels_first)?;
        let (dtype, shape, bytes) = (found.dtype, found.shape, plan.scene_room(found.bytes));
        let mut held = WholeScene { bytes, dtype, shape, layout, patches: Vec::new(), plan: Arc::clone(plan) };
        let length = to_usize(found.bytes);
        let out = held.bytes.get_mut(..length).unwrap_or_default();
        let limits = &of.shard.options().limits;
        self.decoder.decode_wanted(value.codec, &descriptor, value.bytes, &wanted, out, limits)?;
        if is_narrow {
            quieten(&finishes, out);
        }
        held.patches = regions.iter().map(window).zip(finishes).collect();
        Ok((held, places))
    }
}

/// All pixels of an array, with the bands of a region; `None` if it has none.
fn all_pixels(descriptor: &ArrayDescriptor, region: &Region) -> Option<Region> {
    let &[height, width, ..] = &*descriptor.shape else { return None };
    Some(Region { y: 0, x: 0, height, width, layout: Layout::AsShape, ..region.clone() })
}

/// Whether limits allow that it is decoded, of so many bytes, as a whole.
fn is_allowed(descriptor: &ArrayDescriptor, bytes: u64, limits: &Limits) -> bool {
    let stored = descriptor.stored_bytes().unwrap_or(u64::MAX);
    bytes.max(stored) <= limits.max_decoded_bytes
}

/// What decoding such an array takes if it waits as a whole, besides that; `None` if it never does,
/// with so many patches of each.
pub(crate) fn held_scratch_bytes(
    codec: Codec,
    descriptor: &ArrayDescriptor,
    patch: &Region,
    count: u64,
) -> Option<u64> {
    let whole = all_pixels(descriptor, patch)?;
    let bytes = |region: &Region| region.shape_of(descriptor).map(|shape| shape.bytes).ok();
    // Rows may have larger elements: at most eight times as large.
    if bytes(patch)?.saturating_mul(count).saturating_mul(8) < bytes(&whole)? {
        return None;
    }
    match whole.bands {
        Bands::All => ArrayDecoder::scratch_bytes(codec, descriptor).ok(),
        Bands::Range(_) | Bands::List(_) => ArrayDecoder::region_scratch_bytes(codec, descriptor, &whole).ok(),
    }
}
