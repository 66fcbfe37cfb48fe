//! Several patches of one array: all of a scene that the loader takes, decoded together.

use super::array_row::{ArrayRows, known, plain_bytes};
use super::arrays::Cut;
use super::patch::PatchAt;
use super::record::FieldOf;
use super::work::{Recipe, SampleAt};
use shardpack_array::ArrayDecoder;
use shardpack_format::{ArrayDescriptor, Codec, Error, FieldValue, Result};

impl ArrayRows {
    /// Decodes the patches `draws` of an array, each into its own part of `outs`. Of chunks that
    /// several patches need, each is decoded once.
    pub(super) fn decode_patches(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, &Cut),
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> Result<Vec<PatchAt>> {
        let limits = &of.shard.options().limits;
        let (mut regions, mut finishes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut dtype = None;
        for &at in draws {
            let of = FieldOf { at, ..*of };
            let how = (channels_first, Some(cut));
            let known = known(&mut self.fields, &of)?;
            let (descriptor, region, finish) = known.ask(recipe, &of, value, how, &of.field.shape, &mut self.cut)?;
            let region = region.ok_or_else(|| Error::internal("patch of a scene", "a region", "none"))?;
            regions.push(region.clone());
            finishes.push(finish.clone());
            dtype = Some(descriptor.decoded);
            places.extend(self.cut.map(|cut| cut.at(at.patch)));
        }
        let Some(dtype) = dtype else { return Ok(places) };
        let known = known(&mut self.fields, of)?;
        let Some((_, descriptor)) = &known.descriptor else { return Err(Error::internal("descriptor", "one", "none")) };
        let decoder = &mut self.decoder;
        let (codec, payload) = (value.codec, value.bytes);
        if finishes.iter().all(|finish| finish.is_nothing(dtype)) {
            decoder.decode_regions(codec, descriptor, payload, &regions, outs, limits)?;
            return Ok(places);
        }
        let bytes = plain_bytes(dtype, &of.field.shape, limits)?;
        let all = bytes.saturating_mul(draws.len());
        if self.decoded.len() < all {
            self.decoded.resize(all, 0);
        }
        let decoded = self.decoded.get_mut(..all).unwrap_or_default();
        let mut parts: Vec<&mut [u8]> = decoded.chunks_mut(bytes.max(1)).collect();
        decoder.decode_regions(codec, descriptor, payload, &regions, &mut parts, limits)?;
        let axes = super::array_row::axes(&of.field.shape, channels_first)?;
        for ((finish, part), out) in finishes.iter().zip(parts).zip(outs) {
            finish.apply(dtype, axes, part, out)?;
        }
        Ok(places)
    }
}

/// What decoding so many patches of an array takes besides their rows; `None` if it is not cut.
/// `finished` are the bytes of one that something becomes of.
pub(super) fn patches_bytes(
    (codec, descriptor): &(Codec, ArrayDescriptor),
    cut: &Cut,
    (count, finished): (u64, u64),
) -> Option<u64> {
    cut.place?;
    let bytes = ArrayDecoder::regions_scratch_bytes(*codec, descriptor, &cut.region, count).ok()?;
    Some(bytes.saturating_add(finished.saturating_mul(count)))
}
