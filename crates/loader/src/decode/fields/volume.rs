//! Decodes boxes of volumes. The host decodes a volume whole, once for all of its boxes. A stage decodes only the
//! blocks that a box needs.

use super::array::{check_alike, copy_box, fill, plain_bytes, set_moves, vary};
use super::{FieldDecoder, StageTarget};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::{CutOf, VolumeField, check_no_data, loses};
use crate::patches::PatchAt;
use crate::sample::SampleAt;
use crate::stage::{ArrayPart, ArrayValue, Prepared, RecordValue};
use crate::supply::{Scene, SceneField};
use shardpack_array::{As, Finish, Resampling, VolumeShape, VolumeWarp, Voxels, decoded_as};
use shardpack_augment::BandAugmentation;
use shardpack_format::{ArrayDescriptor, ElementType, Error, FieldValue, Layout, Limits, Result, to_usize};

pub(super) struct VolumeDecoder(pub(super) VolumeField);

/// A volume and the positions of its boxes.
struct AskedVolume {
    descriptor: ArrayDescriptor,
    /// Depth, height and width.
    sides: [u64; 3],
    parts: Vec<Voxels>,
    /// Processing after decoding that all boxes share.
    finish: Finish,
}

impl AskedVolume {
    fn array<'a>(&'a self, value: &FieldValue<'a>, part: &'a Voxels, limits: &'a Limits) -> ArrayValue<'a> {
        let FieldValue { codec, bytes, .. } = *value;
        ArrayValue { codec, descriptor: &self.descriptor, bytes, part: Some(ArrayPart::Voxels(part)), limits }
    }
}

impl FieldDecoder for VolumeDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], _: &mut [u64]) -> Result<bool> {
        let Some(value) = of.value(self.0.position)? else { return Ok(false) };
        self.boxes(tools, of, &value, &[of.at()], &mut [out])?;
        Ok(true)
    }

    fn prepare(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        _: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let value = match to.resident_form(of) {
            Some(form) => Some(form),
            None => of.value(self.0.position)?,
        };
        let Some(value) = value else { return Ok(None) };
        let mut asked = self.ask(of, &value, &[of.at()], &mut tools.window)?;
        let Some(&part) = asked.parts.first() else { return Ok(None) };
        self.set(&mut asked.finish, of, asked.sides, part)?;
        let prepared = to.prepare_array(of, asked.array(&value, &part, of.limits()), &asked.finish)?;
        tools.window = Some(window(asked.sides, part));
        Ok(Some(prepared))
    }

    fn announce(&mut self, tools: &mut Tools, of: &RowField<'_>) {
        let (Some(stage), Ok(Some(value))) = (&of.recipe().stage, of.value(self.0.position)) else { return };
        // Ignore errors. Decoding a box of the volume reports them.
        let Ok(asked) = self.ask(of, &value, &[of.at()], &mut tools.window) else { return };
        let Some(part) = asked.parts.first() else { return };
        let array = asked.array(&value, part, of.limits());
        stage.look(&RecordValue::Array { array, finish: &asked.finish, noise: None, memo: of.memo() });
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
        let VolumeField { place, part, .. } = self.0;
        match &of.recipe().fields.patches {
            Some(patches) if patches.grid.is_some() => patches.in_grid(at.sample, at.patch, sides),
            _ => Ok(at.origin.or_else(|| place.origin_in_volume(&of.recipe().key(at), sides, part.size))),
        }
    }

    /// Sets the positions of the boxes that `draws` selects. Fails unless the volume matches the field in axes and
    /// channels and the row's other arrays in size.
    fn ask(
        &self,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
        window: &mut Option<CutOf>,
    ) -> Result<AskedVolume> {
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
            return Err(Error::usage(format!(
                "volumes must have {} axes, but one has the shape {found:?}",
                expected.len()
            )));
        };
        if found.get(3) != expected.get(3) {
            let channels = expected.get(3).copied().unwrap_or(1);
            let text = format!(
                "all volumes must have the same number of channels as the first ({channels}), but one has the shape \
                 {found:?}"
            );
            return Err(Error::usage(text));
        }
        let sides = [depth, height, width];
        check_alike("cannot cut the same patch from all arrays", sides, of, window)?;
        // Check this before decoding, to avoid decoding a volume that is too small for the box.
        let size = volume.part.size;
        let mut parts = Vec::with_capacity(draws.len());
        for &at in draws {
            let origin = self.origin(of, at, sides)?.ok_or_else(|| {
                let ([a, b, c], [d, h, w]) = (size, sides);
                Error::usage(format!("the patch ({a} × {b} × {c}) does not fit in the array ({d} × {h} × {w})"))
            })?;
            parts.push(Voxels { origin, size });
        }
        check_no_data(&of.field.name, &descriptor, volume.fill, volume.sampling)?;
        plain_bytes(descriptor.decoded, found, limits)?;
        let finish = Finish { fill: fill(volume.fill, &descriptor), ..volume.finish.clone() };
        Ok(AskedVolume { descriptor, sides, parts, finish })
    }

    /// Sets the flips, rotation, map, low resolution and factors of the box `part`. `sides` are the volume's sides.
    fn set(&self, finish: &mut Finish, of: &RowField<'_>, sides: [u64; 3], part: Voxels) -> Result<()> {
        let volume = &self.0;
        let [_, height, width] = volume.part.size;
        set_moves(finish, volume.sampling, of, [height, width]);
        finish.volume = self.volume_warp(finish, of, sides, part);
        if finish.volume.is_some() {
            finish.warp = None;
        }
        let base = volume.finish.factors.as_ref().filter(|_| volume.is_banded);
        let channels = [of.field.shape.get(3).copied().unwrap_or(1)];
        vary(finish, base, of, &channels, false)
    }

    /// Returns the random map across planes or the random low resolution of a box. Returns `None` if the box has
    /// neither.
    fn volume_warp(&self, finish: &Finish, of: &RowField<'_>, sides: [u64; 3], part: Voxels) -> Option<VolumeWarp> {
        let (volume, recipe) = (&self.0, of.recipe());
        let sampling = volume.sampling?;
        let draws = recipe.key(of.at()).draws();
        let channels = of.field.shape.get(3).copied().unwrap_or(1);
        let low = match (volume.is_banded, sampling) {
            (true, Resampling::Bilinear { .. }) => {
                BandAugmentation::low_resolution(&recipe.augment_bands, &draws, to_usize(channels), part.size)
            }
            _ => Vec::new(),
        };
        let all = Voxels { origin: [0; 3], size: sides };
        let across = recipe.fields.moves.as_ref().and_then(|moves| moves.volume_map(&draws, 0, part.size));
        let (map, within) = match (across, finish.warp) {
            (Some(map), _) => (map, all),
            _ if low.is_empty() => return None,
            // A map that moves pixels only within planes reads only voxels of the box.
            (None, Some(warp)) => {
                let [a, b, c, d, e, f] = warp.map;
                ([a, b, 0.0, c, d, e, 0.0, f, 0.0, 0.0, 1.0, 0.0], part)
            }
            (None, None) => (VolumeWarp::STILL, part),
        };
        Some(VolumeWarp { map, sampling, within, low })
    }

    fn boxes(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> Result<Vec<PatchAt>> {
        let limits = of.limits();
        let Tools { arrays, whole, window: others, .. } = tools;
        let AskedVolume { descriptor, sides, parts, mut finish } = self.ask(of, value, draws, others)?;
        let decoded = descriptor.decoded;
        let bytes = plain_bytes(decoded, &descriptor.shape, limits)?;
        if whole.len() < bytes {
            whole.resize(bytes, 0);
        }
        let whole = whole.get_mut(..bytes).unwrap_or_default();
        arrays.decode_into(value.codec, &descriptor, value.bytes, whole, limits)?;
        let channels = descriptor.shape.get(3).copied().unwrap_or(1);
        let pixel = channels.saturating_mul(decoded.bytes());
        let mut cut = Vec::new();
        for ((&part, &at), out) in parts.iter().zip(draws).zip(outs) {
            self.set(&mut finish, &of.of(at), sides, part)?;
            if finish.is_nothing(decoded) {
                copy_box(whole, sides, pixel, part, out);
                continue;
            }
            if finish.volume.is_some() {
                let shape = VolumeShape { sides, channels };
                finish.apply_to_volume(decoded, &shape, part, whole, out)?;
                continue;
            }
            let [planes, rows, columns] = part.size;
            cut.resize(to_usize(planes.saturating_mul(rows).saturating_mul(columns).saturating_mul(pixel)), 0);
            copy_box(whole, sides, pixel, part, &mut cut);
            if finish.turn.is_none() && finish.warp.is_none() {
                finish.apply(decoded, [planes * rows, columns, channels], Layout::AsShape, &cut, out)?;
                continue;
            }
            // Every plane gets the same moves.
            let [from, to] = [cut.len(), out.len()].map(|bytes| (bytes / to_usize(planes).max(1)).max(1));
            let plane_of = |plane: &[u8], out: &mut [u8]| {
                finish.apply(decoded, [rows, columns, channels], Layout::AsShape, plane, out)
            };
            match finish.turn.flip_planes {
                true => {
                    cut.chunks(from).rev().zip(out.chunks_mut(to)).try_for_each(|(plane, out)| plane_of(plane, out))?
                }
                false => cut.chunks(from).zip(out.chunks_mut(to)).try_for_each(|(plane, out)| plane_of(plane, out))?,
            }
        }
        *others = parts.last().map(|&part| window(sides, part));
        Ok(draws.iter().zip(parts).map(|(at, part)| window(sides, part).at(at.patch)).collect())
    }
}

const fn window(size: [u64; 3], part: Voxels) -> CutOf {
    CutOf { size, origin: Some(part.origin), is_volume: true }
}
