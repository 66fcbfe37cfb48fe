//! Decodes arrays into their rows, as a whole or in parts.

mod narrow;
mod patches;
mod request;
mod whole;

pub(super) use patches::copy_box;
pub(crate) use patches::is_made_of_others;
pub(super) use request::{check_alike, fill, plain_bytes, set_moves, vary};
pub(crate) use request::{image_axes, layout};
pub(crate) use whole::whole_scratch_bytes;

use super::{FieldDecoder, StageTarget};
use crate::decode::cuts::{Cuts, LargeValue};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::ArrayField;
use crate::rows::Share;
use crate::sample::SampleAt;
use crate::stage::{Prepared, RecordValue};
use crate::supply::{MadeField, Scene, SceneField, WindowedSplit, size};
use request::ArrayRequest;
use shardpack_array::ArraySplit;
use shardpack_format::{FieldValue, Result};

pub(super) struct ArrayFieldDecoder {
    field: ArrayField,
    request: ArrayRequest,
}

impl ArrayFieldDecoder {
    pub(super) fn new(field: &ArrayField) -> Self {
        Self { field: field.clone(), request: ArrayRequest::new(field) }
    }

    fn value<'a>(&self, of: &RowField<'a>) -> Result<Option<FieldValue<'a>>> {
        of.array(self.field.position, self.field.cut.is_some())
    }
}

impl FieldDecoder for ArrayFieldDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some(value) = self.value(of)? else { return Ok(false) };
        let Self { field, request } = self;
        let asked = request.ask(field, of, &value, of.shape(dims), &mut tools.window)?;
        let wanted = asked.wanted(field.channels_first);
        tools.arrays.decode_wanted(value.codec, asked.descriptor, value.bytes, &wanted, out, of.limits())?;
        Ok(true)
    }

    fn prepare(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        dims: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let value = match to.resident_form(of) {
            Some(form) => Some(form),
            None => self.value(of)?,
        };
        let Some(value) = value else { return Ok(None) };
        let Self { field, request } = self;
        let asked = request.ask_stage(field, of, &value, of.shape(dims), &mut tools.window)?;
        to.prepare_array(of, asked.array(&value, of.limits()), asked.finish).map(Some)
    }

    fn announce(&mut self, tools: &mut Tools, of: &RowField<'_>) {
        let (Some(stage), Ok(Some(value))) = (&of.recipe().stage, self.value(of)) else { return };
        let Self { field, request } = self;
        if field.cut.is_none() {
            return;
        }
        // Ignore errors. Decoding a patch of the array reports them.
        let Ok(asked) = request.ask_stage(field, of, &value, of.shape(&[]), &mut tools.window) else { return };
        let array = asked.array(&value, of.limits());
        stage.look(&RecordValue::Array { array, finish: asked.finish, noise: None, memo: of.memo() });
    }

    fn decode_scene(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        draws: &[SampleAt],
        scene: &mut Scene,
    ) -> Result<SceneField> {
        if !self.field.is_patch() {
            let bytes = of.field.row(of.record.shard, of.at().record, None, &mut [])?;
            let mut shared = vec![0; bytes];
            let there = self.decode(tools, of, &mut shared, &mut [])?;
            return Ok(if there { SceneField::Shared(shared) } else { SceneField::Missing });
        }
        let Some(value) = self.value(of)? else { return Ok(SceneField::Missing) };
        if scene.is_whole {
            let (whole, places) = self.decode_whole(tools, of, &value, draws, &scene.plan)?;
            scene.place(places);
            return Ok(SceneField::Whole(whole));
        }
        let places = self.decode_patches(tools, of, &value, draws, &mut scene.outs(of.number))?;
        scene.place(places);
        Ok(SceneField::Patches)
    }

    fn whole_bytes(&mut self, tools: &mut Tools, of: &RowField<'_>) -> Result<Option<u64>> {
        if !self.field.is_patch() {
            return Ok(Some(0));
        }
        match self.value(of)? {
            Some(value) => self.bytes_as_whole(tools, of, &value),
            None => Ok(Some(0)),
        }
    }

    fn cut(&mut self, tools: &mut Tools, value: &LargeValue<'_>, cuts: &mut Cuts) -> Option<MadeField> {
        let LargeValue { of, place, part_bytes, .. } = *value;
        let may_be = self.field.cut.is_some() || place.decoded_bytes <= of.limits().max_decoded_bytes;
        if of.field.is_shared() && may_be {
            // The device cuts patches out of the whole array, so upload all of its bytes.
            cuts.push_staged(of.number, &place.bytes, part_bytes as u64);
            return Some(MadeField::Staged);
        }
        if of.field.staged || !may_be || self.field.sampling.is_some() {
            return Some(MadeField::Kept);
        }
        let start = place.bytes.start;
        let offset = of.record.shard.row(of.at().record).ok()?.offset + start;
        let file = of.record.shard.file();
        let read = |at: usize, to: &mut [u8]| file.read_exact_at(to, offset.checked_add(at as u64)?).ok();
        let payload = FieldValue {
            codec: place.codec,
            decoded_bytes: place.decoded_bytes,
            descriptor: place.descriptor,
            bytes: &[],
        };
        let Self { field, request } = self;
        let Ok(asked) = request.ask(field, of, &payload, of.shape(value.dims), &mut tools.window) else {
            return Some(MadeField::Kept);
        };
        let (wanted, bytes) = (asked.wanted(field.channels_first), size(value.bytes())?);
        let split = ArraySplit::new(payload.codec, asked.descriptor, &wanted, bytes, part_bytes, of.limits(), read);
        let Some(split) = split else {
            return Some(MadeField::Kept);
        };
        for (part, here) in split.parts().iter().enumerate() {
            let bytes = start + here.payload.start as u64..start + here.payload.end as u64;
            match here.is_wanted {
                true => {
                    let share = Share { origins: split.origins(), own: here.pixels.clone() };
                    cuts.push_row(bytes, of.number, part, share);
                }
                false => cuts.push_unused(bytes, Some((of.number, part))),
            }
        }
        Some(MadeField::Array(Box::new(WindowedSplit { split, window: tools.window })))
    }
}
