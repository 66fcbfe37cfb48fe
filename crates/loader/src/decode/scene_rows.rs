//! Decodes scenes and copies their patches into rows.

use super::added::AddedRecords;
use super::decoder::{RowDecoder, RowTarget};
use super::recipe::Context;
use super::record::{RecordBytes, RowField, RowRecord};
use crate::patches::{ClassPlan, PatchPlan};
use crate::sample::SampleAt;
use crate::stage::Memo;
use crate::stats::add_since;
use crate::supply::{Scene, SceneContent, SceneField, ScenePatch, SceneRead, SceneRecord, read_checked};
use shardpack_format::{Error as FormatError, Frame, bug};
use shardpack_jpeg::DrawKey;
use shardpack_reader::raw::name_field;
use shardpack_reader::{Result, Shard};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const ON_HOST: &str = "several patches per sample, and a field that the GPU cannot decode";

impl RowDecoder {
    /// Decodes a scene, or only keeps its record if a stage decodes the patches.
    pub(crate) fn scene(
        &mut self,
        context: Context<'_>,
        shard: &Shard,
        record: u64,
        read: &SceneRead,
    ) -> Result<Scene> {
        let recipe = context.recipe;
        let Some(plan) = &recipe.fields.patches else { bug("a scene has no patch plan") };
        let at = SampleAt {
            sample: read.sample,
            record,
            epoch: read.epoch,
            repetition: read.repetition,
            patch: 0,
            origin: None,
        };
        let added = &AddedRecords::read(context, shard, at)?;
        let record = RowRecord { recipe, shard, at, payload: RecordBytes::Elsewhere, added };
        if read.is_stored {
            return self.keep_scene(context, record, read, plan);
        }
        let mut buffer = std::mem::take(&mut self.record);
        let result = read_checked(shard, at, &mut buffer, context.counters).and_then(|(frame, bytes)| {
            let record = RowRecord { payload: RecordBytes::Whole { frame: &frame, bytes }, ..record };
            self.decode_scene(context, record, read, plan)
        });
        self.record = buffer;
        result
    }

    fn decode_scene(
        &mut self,
        context: Context<'_>,
        record: RowRecord<'_>,
        read: &SceneRead,
        plan: &Arc<PatchPlan>,
    ) -> Result<Scene> {
        let start = Instant::now();
        let draws = self.draws(record, read, plan).map_err(|error| record.named(error))?;
        self.begin();
        // Ignore errors. Decoding the fields below reports them.
        let whole = self.whole_bytes(record, &draws).ok().flatten();
        let is_whole = whole.is_some_and(|bytes| bytes <= read.bytes());
        let patch = |draw: &SampleAt| ScenePatch {
            number: draw.patch,
            at: None,
            origin: None,
            bytes: Mutex::new((!is_whole).then(|| plan.room())),
        };
        let patches = draws.iter().map(patch).collect();
        let mut scene = Scene { patches, is_whole, content: SceneContent::default(), plan: Arc::clone(plan) };
        self.begin();
        let mut fields = Vec::new();
        for (number, field) in record.recipe.fields.plans.iter().enumerate() {
            let of = RowField { record, field, number };
            let Some(decoder) = self.fields.get_mut(number) else { bug("a field has no decoder") };
            let part = decoder.decode_scene(&mut self.tools, &of, &draws, &mut scene);
            fields.push(part.map_err(|error| record.named(name_field(&field.name, error)))?);
        }
        let objects = self.objects(record)?;
        scene.content = SceneContent::Decoded { fields, objects };
        add_since(&context.counters.decode, start);
        Ok(scene)
    }

    fn keep_scene(
        &mut self,
        context: Context<'_>,
        record: RowRecord<'_>,
        read: &SceneRead,
        plan: &Arc<PatchPlan>,
    ) -> Result<Scene> {
        let (counters, shard, number) = (context.counters, record.shard, record.at.record);
        // Check the length before allocating memory for the record.
        shard.check_length(number)?;
        let mut buffer = plan.scene_room(shard.row(number)?.length);
        let (frame, bytes) = read_checked(shard, record.at, &mut buffer, counters)?;
        let length = bytes.len();
        let count = self.fields.len() as u64;
        let first = counters.memos.fetch_add(count, Ordering::Relaxed);
        let memos = (first..first + count).map(|id| Memo::new(id, read.patches.len() as u64)).collect();
        let stored = SceneRecord::new(buffer, length, memos);
        let bytes = stored.bytes();
        let record = RowRecord { payload: RecordBytes::Scene { frame: &frame, bytes, memos: &stored.memos }, ..record };
        let draws = self.draws(record, read, plan).map_err(|error| record.named(error))?;
        if let Some(&first) = draws.first() {
            self.announce(RowRecord { at: first, ..record });
        }
        let patch =
            |draw: SampleAt| ScenePatch { number: draw.patch, at: None, origin: draw.origin, bytes: Mutex::new(None) };
        let patches = draws.into_iter().map(patch).collect();
        Ok(Scene { patches, is_whole: true, content: SceneContent::Stored(stored), plan: Arc::clone(plan) })
    }

    /// Lets the stage inspect the arrays of a scene. The request for one of the patches serves as an example.
    fn announce(&mut self, record: RowRecord<'_>) {
        self.begin();
        let plans = record.recipe.fields.plans.iter().enumerate();
        for ((number, field), decoder) in plans.zip(&mut self.fields).filter(|((_, field), _)| field.staged) {
            decoder.announce(&mut self.tools, &RowField { record, field, number });
        }
    }

    fn draws(
        &mut self,
        record: RowRecord<'_>,
        read: &SceneRead,
        plan: &PatchPlan,
    ) -> Result<Vec<SampleAt>, FormatError> {
        let draw = |&patch: &u32| SampleAt { repetition: plan.repetition(read.repetition, patch), patch, ..record.at };
        let mut draws: Vec<SampleAt> = read.patches.iter().map(draw).collect();
        draws.sort_unstable_by_key(|draw| draw.patch);
        self.place_by_class(record, plan, &mut draws)?;
        Ok(draws)
    }

    fn whole_bytes(&mut self, record: RowRecord<'_>, draws: &[SampleAt]) -> Result<Option<u64>, FormatError> {
        let mut all = 0_u64;
        let Some(&at) = draws.first() else { return Ok(None) };
        let record = RowRecord { at, ..record };
        for ((number, field), decoder) in record.recipe.fields.plans.iter().enumerate().zip(&mut self.fields) {
            let bytes = decoder.whole_bytes(&mut self.tools, &RowField { record, field, number })?;
            let Some(bytes) = bytes else { return Ok(None) };
            all = all.saturating_add(bytes);
        }
        Ok(Some(all))
    }

    /// Places patches by the classes that the options request. If a sample has no mask, its patches may lie anywhere.
    pub(super) fn place_by_class(
        &mut self,
        record: RowRecord<'_>,
        plan: &PatchPlan,
        draws: &mut [SampleAt],
    ) -> Result<(), FormatError> {
        let (Some(classes), Some(&at)) = (&plan.classes, draws.first()) else { return Ok(()) };
        let record = RowRecord { at, ..record };
        let Some(value) = record.value(classes.position)? else { return Ok(()) };
        let keys: Vec<DrawKey> = draws.iter().map(|&at| record.recipe.key(at)).collect();
        let map = ClassPlan::map(&value, &mut self.tools.objects, record.limits());
        let map = map.map_err(|error| name_field(&classes.field, error))?;
        draws.iter_mut().zip(classes.origins(&map, &keys)).for_each(|(at, origin)| at.origin = origin);
        Ok(())
    }

    pub(super) fn decode_patch(
        &mut self,
        context: Context<'_>,
        scene: &Scene,
        shard: &Shard,
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        let record = target.record(context, shard, RecordBytes::Elsewhere);
        let found = scene.patches.binary_search_by_key(&target.at.patch, |patch| patch.number);
        let found = found.ok().and_then(|number| Some((number, scene.patches.get(number)?)));
        let Some((number, patch)) = found else { bug("a patch does not belong to its scene") };
        match &scene.content {
            SceneContent::Stored(stored) => {
                let bytes = stored.bytes();
                let frame = Frame::parse(bytes).map_err(|error| record.named(error))?;
                let payload = RecordBytes::Scene { frame: &frame, bytes, memos: &stored.memos };
                let added = &AddedRecords::read(context, shard, target.at)?;
                let at = SampleAt { origin: patch.origin, ..record.at };
                self.decode_fields(context, RowRecord { at, payload, added, ..record }, target)
            }
            SceneContent::Decoded { fields, objects } => {
                if context.recipe.device_decodes() {
                    context.refusals.add(ON_HOST.into(), || record.key().to_owned());
                }
                let start = Instant::now();
                self.begin();
                let bytes = patch.bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
                if bytes.is_none() && !scene.is_whole {
                    bug("a patch of a scene is requested twice");
                }
                let copied = self.copy_patch(record, scene, fields, number, bytes.as_deref(), target);
                bytes.into_iter().for_each(|bytes| scene.plan.give_back(bytes));
                copied.map_err(|error| record.named(error))?;
                self.notes.objects.clone_from(objects);
                self.notes.patch = patch.at;
                self.finish(record, target.row, target.dims)?;
                add_since(&context.counters.decode, start);
                Ok(())
            }
        }
    }

    fn copy_patch(
        &mut self,
        record: RowRecord<'_>,
        scene: &Scene,
        fields: &[SceneField],
        patch: usize,
        bytes: Option<&[u8]>,
        target: &mut RowTarget<'_>,
    ) -> Result<(), FormatError> {
        for ((number, field), part) in record.recipe.fields.plans.iter().enumerate().zip(fields) {
            let out = target.row.part(number);
            match part {
                SceneField::Missing => {
                    target.row.clear(number);
                    self.notes.missing.extend(u32::try_from(number));
                }
                SceneField::Whole(whole) => whole.cut(patch, out)?,
                SceneField::Shared(row) => copy(row, out),
                SceneField::Patches => {
                    let range = scene.plan.parts.get(number).cloned().unwrap_or_default();
                    copy(bytes.and_then(|bytes| bytes.get(range)).unwrap_or_default(), out);
                }
                SceneField::FromIndex => {
                    self.decode_field(&RowField { record, field, number }, out, &mut [])?;
                }
            }
        }
        Ok(())
    }
}

fn copy(from: &[u8], out: &mut [u8]) {
    if from.len() != out.len() {
        bug("a patch and its row differ in size");
    }
    out.copy_from_slice(from);
}
