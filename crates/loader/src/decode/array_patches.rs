//! Several patches of one array: all of a scene that the loader takes, decoded together.

use super::array_row::{ArrayRows, axes, known, plain_bytes};
use super::narrow::{narrow, quieten};
use super::recipe::Recipe;
use super::record::FieldOf;
use super::volumes::copy_box;
use crate::fields::Cut;
use crate::patches::PatchAt;
use crate::sample::SampleAt;
use shardpack_array::{Bands, Finish, Region};
use shardpack_format::{ArrayDescriptor, Error, FieldValue, Layout, Limits, Result, Transform};

/// What is asked of an array for several patches.
pub(crate) struct Asked {
    pub(crate) descriptor: ArrayDescriptor,
    /// Patch by patch, in the order of the draws.
    pub(crate) regions: Vec<Region>,
    pub(crate) finishes: Vec<Finish>,
    pub(crate) places: Vec<PatchAt>,
}

impl ArrayRows {
    /// What is asked of an array for the patches `draws`: at least one.
    pub(crate) fn ask_all(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, &Cut),
        draws: &[SampleAt],
    ) -> Result<Asked> {
        let (mut regions, mut finishes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for &at in draws {
            let of = FieldOf { at, ..*of };
            let how = (channels_first, Some(cut));
            let known = known(&mut self.fields, &of)?;
            let (_, region, finish) = known.ask(recipe, &of, value, how, &of.field.shape, &mut self.cut)?;
            let region = region.ok_or_else(|| Error::internal("patch of a scene", "a region", "none"))?;
            regions.push(region.clone());
            finishes.push(finish.clone());
            places.extend(self.cut.map(|cut| cut.at(at.patch)));
        }
        let descriptor = known(&mut self.fields, of)?.descriptor.as_ref().map(|(_, descriptor)| descriptor.clone());
        let descriptor = descriptor.ok_or_else(|| Error::internal("descriptor", "one", "none"))?;
        Ok(Asked { descriptor, regions, finishes, places })
    }

    /// Decodes the patches `draws` of an array, each into its own part of `outs`. Of chunks that
    /// several patches need, each is decoded once.
    pub(crate) fn decode_patches(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, &Cut),
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> Result<Vec<PatchAt>> {
        let limits = &of.shard.options().limits;
        let mut asked = self.ask_all(recipe, of, value, (channels_first, cut), draws)?;
        let is_narrow = narrow(&mut asked.descriptor, &mut asked.finishes);
        let Asked { descriptor, regions, finishes, places } = asked;
        let (descriptor, dtype) = (&descriptor, descriptor.decoded);
        let Self { decoder, volume, decoded, .. } = self;
        let mut decode = |outs: &mut [&mut [u8]]| match whole_bytes(descriptor, &regions, limits) {
            Some(bytes) => {
                if volume.len() < bytes {
                    volume.resize(bytes, 0);
                }
                let whole = volume.get_mut(..bytes).unwrap_or_default();
                decoder.decode_into(value.codec, descriptor, value.bytes, whole, limits)?;
                cut_out(whole, descriptor, &regions, outs)
            }
            None => decoder.decode_regions(value.codec, descriptor, value.bytes, &regions, outs, limits).map(|_| ()),
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
        let axes = axes(&of.field.shape, channels_first)?;
        for ((finish, part), out) in finishes.iter().zip(parts).zip(outs) {
            finish.apply(dtype, axes, part, out)?;
        }
        Ok(places)
    }
}

/// Bytes of the whole array, if patches are cut out of it: of one that is not stored as it comes. Of
/// bands that stand one after the other a patch is a run for each row of each band, and values that
/// are made of others are made again for each patch. Both cost more than decoding the other half of
/// the array (2026-11-23, processor time of a patch of 32 × 32 × 100 float32, 1,024 of a scene: 0.70 ms
/// by runs of bands, 0.53 ms made of float16, 0.16 ms as it is stored).
///
/// Pixel by pixel, the rows of a few patches already need most blocks: LZ4 with band differences was as
/// fast where they showed a tenth of the array, 1.7 times as fast with a fifth, and 2.2 times with two
/// fifths. Band by band, patches need few blocks of many, and whole scenes were slower with less than
/// half (2026-11-24).
fn whole_bytes(descriptor: &ArrayDescriptor, regions: &[Region], limits: &Limits) -> Option<usize> {
    let &[_, _, bands] = &*descriptor.shape else { return None };
    let pixels = |region: &Region| region.height.saturating_mul(region.width);
    let wanted = regions.iter().fold(0_u64, |sum, region| sum.saturating_add(pixels(region)));
    let is_plain = |region: &Region| region.bands == Bands::All && region.layout == Layout::AsShape;
    let may_pay = is_made_of_others(descriptor) && regions.iter().all(is_plain);
    let bytes = descriptor.decoded_bytes().ok().filter(|bytes| may_pay && *bytes <= limits.max_decoded_bytes)?;
    let pixel = bands.saturating_mul(descriptor.decoded.bytes());
    let part = if descriptor.layout == Layout::BandMajor { 2 } else { 8 };
    (wanted.saturating_mul(pixel).saturating_mul(part) >= bytes).then(|| usize::try_from(bytes).ok())?
}

/// Whether pixels of an array are not stored as they come.
pub(crate) fn is_made_of_others(descriptor: &ArrayDescriptor) -> bool {
    descriptor.layout == Layout::BandMajor || descriptor.band_difference || descriptor.transform != Transform::None
}

/// Copies patches out of a decoded array.
fn cut_out(whole: &[u8], descriptor: &ArrayDescriptor, regions: &[Region], outs: &mut [&mut [u8]]) -> Result<()> {
    let &[height, width, bands] = &*descriptor.shape else {
        return Err(Error::internal("axes of an array to cut", 3, descriptor.shape.len()));
    };
    let how = ([1, height, width], bands.saturating_mul(descriptor.decoded.bytes()));
    for (region, out) in regions.iter().zip(outs) {
        copy_box(whole, how, ([0, region.y, region.x], [1, region.height, region.width]), out)?;
    }
    Ok(())
}
