//! Boxes cut out of volumes. A volume is decoded whole, once for all of its boxes.

use super::FieldDecoder;
use super::array::{Voxels, check_alike, copy_box, fill, plain_bytes, set_moves, vary};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::{CutOf, VolumeField, check_no_data, loses};
use crate::patches::PatchAt;
use crate::sample::SampleAt;
use crate::supply::{Scene, SceneField};
use shardpack_array::{As, Finish, decoded_as};
use shardpack_format::{ArrayDescriptor, ElementType, Error, FieldValue, Layout, Result, to_usize};

pub(super) struct VolumeDecoder(pub(super) VolumeField);

impl FieldDecoder for VolumeDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], _: &mut [u64]) -> Result<bool> {
        let Some(value) = of.value(self.0.position)? else { return Ok(false) };
        self.boxes(tools, of, &value, &[of.at()], &mut [out])?;
        Ok(true)
    }

    fn decode_scene(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        draws: &[SampleAt],
        scene: &mut Scene,
    ) -> Result<SceneField> {
        let Some(value) = of.value(self.0.position)? else { return Ok(SceneField::Missing) };
        let places = self.boxes(tools, of, &value, draws, &mut scene.outs(of.number))?;
        scene.place(places);
        Ok(SceneField::Patches)
    }

    fn whole_bytes(&mut self, _: &mut Tools, _: &RowField<'_>) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl VolumeDecoder {
    fn origin(&self, of: &RowField<'_>, at: SampleAt, sides: [u64; 3]) -> Result<Option<[u64; 3]>> {
        let VolumeField { place, size, .. } = self.0;
        match &of.recipe().fields.patches {
            Some(patches) if patches.grid.is_some() => patches.in_grid(at.sample, at.patch, sides),
            _ => Ok(at.origin.or_else(|| place.origin_in_volume(&of.recipe().key(at), sides, size))),
        }
    }

    fn boxes(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> Result<Vec<PatchAt>> {
        let (volume, limits) = (&self.0, of.limits());
        let source = ArrayDescriptor::parse(value.descriptor, limits)?;
        let descriptor = match (volume.finish.to, of.field.dtype) {
            (As::Decoded, ElementType::Dtype(dtype)) if source.decoded != dtype => {
                decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
            }
            _ => source,
        };
        let (expected, found) = (&of.field.shape, &descriptor.shape);
        let (&[depth, height, width], true) = (found.get(..3).unwrap_or_default(), found.len() == expected.len())
        else {
            return Err(Error::usage(format!("volume: expected {} axes, found shape {found:?}", expected.len())));
        };
        if found.get(3) != expected.get(3) {
            let text = format!("volume channels: expected as many as in the box {expected:?}, found shape {found:?}");
            return Err(Error::usage(text));
        }
        let sides = [depth, height, width];
        check_alike("arrays cut together", sides, of, &mut tools.window)?;
        // Before decoding, so that a box that does not fit costs nothing.
        let mut origins = Vec::with_capacity(draws.len());
        for &at in draws {
            let origin = self.origin(of, at, sides)?.ok_or_else(|| {
                let ([a, b, c], [d, h, w]) = (volume.size, sides);
                let expected = format!("at most {d} × {h} × {w}, the array's size");
                Error::usage(format!("patch: expected {expected}, found {a} × {b} × {c}"))
            })?;
            origins.push(origin);
        }
        check_no_data(&of.field.name, &descriptor, volume.fill, volume.sampling)?;
        let mut finish = Finish { fill: fill(volume.fill, &descriptor), ..volume.finish.clone() };
        let base = volume.finish.factors.as_ref().filter(|_| volume.is_banded);
        let bytes = plain_bytes(descriptor.decoded, found, limits)?;
        let Tools { arrays, whole, window, .. } = tools;
        if whole.len() < bytes {
            whole.resize(bytes, 0);
        }
        let whole = whole.get_mut(..bytes).unwrap_or_default();
        arrays.decode_into(value.codec, &descriptor, value.bytes, whole, limits)?;
        let channels = expected.get(3).copied().unwrap_or(1);
        let pixel = channels.saturating_mul(descriptor.decoded.bytes());
        let mut cut = Vec::new();
        let [a, b, c] = volume.size;
        for ((&origin, &at), out) in origins.iter().zip(draws).zip(outs) {
            let of = of.of(at);
            let part = Voxels { origin, size: volume.size };
            set_moves(&mut finish, volume.sampling, &of, [b, c]);
            vary(&mut finish, base, &of, expected, false)?;
            if finish.is_nothing(descriptor.decoded) {
                copy_box(whole, sides, pixel, part, out);
                continue;
            }
            cut.resize(to_usize(a.saturating_mul(b).saturating_mul(c).saturating_mul(pixel)), 0);
            copy_box(whole, sides, pixel, part, &mut cut);
            if finish.turn.is_none() && finish.warp.is_none() {
                finish.apply(descriptor.decoded, [a * b, c, channels], Layout::AsShape, &cut, out)?;
                continue;
            }
            // Each plane is moved separately, but all alike.
            let planes = to_usize(a).max(1);
            let [from, to] = [cut.len(), out.len()].map(|bytes| (bytes / planes).max(1));
            for (plane, out) in cut.chunks(from).zip(out.chunks_mut(to)) {
                finish.apply(descriptor.decoded, [b, c, channels], Layout::AsShape, plane, out)?;
            }
        }
        let window_at = |origin: [u64; 3]| CutOf { size: sides, origin: Some(origin), is_volume: true };
        *window = origins.last().map(|&origin| window_at(origin));
        Ok(draws.iter().zip(origins).map(|(at, origin)| window_at(origin).at(at.patch)).collect())
    }
}
