//! Decodes scenes, and copies their patches to rows.

use super::bench::Bench;
use super::objects;
use super::recipe::{Common, Recipe};
use super::record::{FieldOf, Payload, RecordOf, Viewed};
use crate::fields::{Cut, From};
use crate::patches::{ClassPlan, PatchPlan};
use crate::rows::RowMut;
use crate::sample::{SampleAt, name};
use crate::stage::Value;
use crate::stats::{Counters, add, add_since};
use crate::supply::{Scene, ScenePatch, SceneRead, SceneRecord, check, read_alone};
use crate::task::RowNotes;
use shardpack_format::{Error as FormatError, Frame, bug};
use shardpack_jpeg::DrawKey;
use shardpack_reader::Shard;
use shardpack_reader::raw::name_field;
use shardpack_reader::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Why the host decodes scenes in place of a device.
const ON_HOST: &str = "the host decodes scenes of several patches";

impl Bench {
    /// Reads a sample and decodes its patches, or keeps its record for a stage that does.
    ///
    /// # Errors
    /// What is wrong with it: the error of all its rows.
    pub(crate) fn scene(&mut self, common: Common<'_>, shard: &Shard, record: u64, read: &SceneRead) -> Result<Scene> {
        let Some(plan) = &common.recipe.fields.patches else { bug("a scene without a plan of its patches") };
        if read.is_stored {
            return self.keep_scene(common, (shard, record), read, plan);
        }
        let mut buffer = std::mem::take(&mut self.record);
        let start = Instant::now();
        let result = read_alone(shard, record, &mut buffer).and_then(|bytes| {
            add_since(&common.counters.read, start);
            add(&common.counters.read_bytes, bytes.len() as u64);
            self.decode_scene(common, (shard, record, bytes), read, plan)
        });
        self.record = buffer;
        result
    }

    fn decode_scene(
        &mut self,
        common: Common<'_>,
        (shard, record, bytes): (&Shard, u64, &[u8]),
        read: &SceneRead,
        plan: &Arc<PatchPlan>,
    ) -> Result<Scene> {
        let Common { recipe, counters, .. } = common;
        let (at, frame) = checked(counters, (shard, record, bytes), read)?;
        let place = |error| name(shard, at, error);
        let start = Instant::now();
        let source = Payload::Whole { frame: &frame, bytes };
        let draws = self.draws(common, (shard, source, at), read, plan).map_err(place)?;
        self.arrays.begin();
        // What is wrong with it is said below.
        let whole = self.whole_bytes(recipe, (shard, source), &draws).ok().flatten();
        let is_whole = whole.is_some_and(|bytes| bytes <= read.bytes());
        let mut patches: Vec<ScenePatch> = Vec::with_capacity(draws.len());
        let room = || Mutex::new((!is_whole).then(|| plan.room()));
        patches.extend(draws.iter().map(|draw| ScenePatch {
            number: draw.patch,
            at: None,
            origin: None,
            bytes: room(),
        }));
        let (held, shared, missing, objects) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        let mut scene = Scene { patches, held, record: None, shared, missing, objects, plan: Arc::clone(plan) };
        self.arrays.begin();
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let of = FieldOf { shard, source, at, field, number };
            let named = |error| place(name_field(&field.name, error));
            let (mut shared, mut held) = (Vec::new(), None);
            let there = match &field.from {
                From::Array { position, channels_first, cut: Some(cut @ Cut { place: Some(_), .. }), .. } => {
                    match of.array(*position, Some(cut)).map_err(named)? {
                        None => false,
                        Some(value) if is_whole => {
                            let how = (*channels_first, cut);
                            let whole = self.arrays.hold(recipe, &of, &value, how, (&draws, plan)).map_err(named)?;
                            held = Some(whole.0);
                            scene.place(whole.1);
                            true
                        }
                        Some(value) => {
                            let mut outs = scene.outs(number);
                            let how = (*channels_first, cut);
                            let places = self.arrays.decode_patches(recipe, &of, &value, how, &draws, &mut outs);
                            scene.place(places.map_err(named)?);
                            true
                        }
                    }
                }
                From::Volume(volume) => match of.value(volume.position).map_err(named)? {
                    None => false,
                    Some(value) => {
                        let mut outs = scene.outs(number);
                        let places = self.arrays.decode_boxes(recipe, &of, &value, volume, &draws, &mut outs);
                        scene.place(places.map_err(named)?);
                        true
                    }
                },
                From::Array { .. } => {
                    let bytes = field.row(shard, record, &mut []).map_err(named)?;
                    shared.resize(bytes, 0);
                    self.field(recipe, &of, &mut shared, &mut []).map_err(named)?
                }
                _ => true,
            };
            if !there {
                scene.missing.extend(u32::try_from(number));
            }
            scene.shared.push(shared);
            if is_whole {
                scene.held.push(held);
            }
        }
        if !recipe.fields.objects.is_empty() {
            let record = RecordOf { shard, source, at };
            let mut record = Viewed { record, recipe, pictures: &mut self.pictures };
            let how = (&mut self.objects, &shard.options().limits);
            scene.objects = objects::of_sample(&recipe.fields.objects, &mut record, how).map_err(place)?;
        }
        add_since(&counters.decode, start);
        Ok(scene)
    }

    /// Reads and checks a sample whose patches a stage decodes.
    fn keep_scene(
        &mut self,
        common: Common<'_>,
        (shard, record): (&Shard, u64),
        read: &SceneRead,
        plan: &Arc<PatchPlan>,
    ) -> Result<Scene> {
        let counters = common.counters;
        // Before memory is taken for it.
        shard.check_length(record)?;
        let mut buffer = plan.scene_room(shard.row(record)?.length);
        let start = Instant::now();
        let length = read_alone(shard, record, &mut buffer)?.len();
        add_since(&counters.read, start);
        add(&counters.read_bytes, length as u64);
        let rows = (common.recipe.fields.plans.len(), read.patches.len());
        let stored = SceneRecord::new(buffer, length, rows.0, rows.1);
        let bytes = stored.bytes();
        let (at, frame) = checked(counters, (shard, record, bytes), read)?;
        let draws = self.draws(common, (shard, Payload::Whole { frame: &frame, bytes }, at), read, plan);
        let draws = draws.map_err(|error| name(shard, at, error))?;
        if let Some(&first) = draws.first() {
            let source = Payload::Scene { frame: &frame, bytes, memos: &stored.memos };
            self.announce(common.recipe, (shard, source), first);
        }
        let patch =
            |draw: SampleAt| ScenePatch { number: draw.patch, at: None, origin: draw.origin, bytes: Mutex::new(None) };
        let patches = draws.into_iter().map(patch).collect();
        let (held, shared, missing, objects) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        Ok(Scene { patches, held, record: Some(stored), shared, missing, objects, plan: Arc::clone(plan) })
    }

    /// Shows the arrays of a scene to the stage, by what it will be asked for one of its patches. What is
    /// wrong with them is said when that comes.
    fn announce(&mut self, recipe: &Recipe, (shard, source): (&Shard, Payload<'_>), at: SampleAt) {
        let Some(stage) = &recipe.stage else { return };
        self.arrays.begin();
        for (number, field) in recipe.fields.plans.iter().enumerate().filter(|(_, field)| field.staged) {
            let From::Array { position, channels_first, cut: Some(cut), .. } = &field.from else { continue };
            let of = FieldOf { shard, source, at, field, number };
            let Ok(Some(value)) = of.array(*position, Some(cut)) else { continue };
            let (codec, bytes, how) = (value.codec, value.bytes, (*channels_first, Some(cut)));
            let (memo, limits) = (of.memo(), &shard.options().limits);
            if let Ok((descriptor, region, finish)) = self.arrays.asked(recipe, &of, &value, how, &[]) {
                stage.look(&Value::Array { codec, descriptor, bytes, region, finish, noise: None, memo, limits });
            }
        }
    }

    /// What is drawn for each patch that is wanted of a sample, by their numbers.
    fn draws(
        &mut self,
        common: Common<'_>,
        (shard, source, at): (&Shard, Payload<'_>, SampleAt),
        read: &SceneRead,
        plan: &PatchPlan,
    ) -> Result<Vec<SampleAt>, FormatError> {
        let draw = |&patch: &u32| SampleAt { repetition: plan.repetition(read.repetition, patch), patch, ..at };
        let mut draws: Vec<SampleAt> = read.patches.iter().map(draw).collect();
        draws.sort_unstable_by_key(|draw| draw.patch);
        self.place_by_class(common, (shard, source), plan, &mut draws)?;
        Ok(draws)
    }

    /// Memory that the arrays of a sample take which are cut, with all their pixels; `None` if they
    /// cannot wait as a whole.
    fn whole_bytes(
        &mut self,
        recipe: &Recipe,
        (shard, source): (&Shard, Payload<'_>),
        draws: &[SampleAt],
    ) -> Result<Option<u64>, FormatError> {
        let mut all = 0_u64;
        let Some(&at) = draws.first() else { return Ok(None) };
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let of = FieldOf { shard, source, at, field, number };
            match &field.from {
                From::Volume(_) => return Ok(None),
                From::Array { position, channels_first, cut: Some(cut @ Cut { place: Some(_), .. }), .. } => {
                    let Some(value) = of.array(*position, Some(cut))? else { continue };
                    let bytes = self.arrays.held_bytes(recipe, &of, &value, (*channels_first, cut))?;
                    let Some(bytes) = bytes else { return Ok(None) };
                    all = all.saturating_add(bytes);
                }
                _ => {}
            }
        }
        Ok(Some(all))
    }

    /// Puts patches where their mask has a class, if that is asked for. A sample without a mask has
    /// patches anywhere.
    pub(crate) fn place_by_class(
        &mut self,
        common: Common<'_>,
        (shard, source): (&Shard, Payload<'_>),
        plan: &PatchPlan,
        draws: &mut [SampleAt],
    ) -> Result<(), FormatError> {
        let (Some(classes), Some(&at)) = (&plan.classes, draws.first()) else { return Ok(()) };
        let Some(value) = (RecordOf { shard, source, at }).value(classes.position)? else { return Ok(()) };
        let keys: Vec<DrawKey> = draws.iter().map(|&at| common.recipe.key(at)).collect();
        let how = (&mut self.objects, &shard.options().limits);
        let map = ClassPlan::map(&value, how).map_err(|error| name_field(&classes.field, error))?;
        draws.iter_mut().zip(classes.origins(&map, &keys)).for_each(|(at, origin)| at.origin = origin);
        Ok(())
    }

    /// Copies a patch of a scene to its row.
    pub(crate) fn decode_patch(
        &mut self,
        common: Common<'_>,
        scene: &Scene,
        shard: &Shard,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let Common { recipe, counters, .. } = common;
        if recipe.stage.is_some() && scene.record.is_none() {
            let key = || shard.index().key(at.record).unwrap_or_default().to_owned();
            common.refusals.add(ON_HOST.into(), key);
        }
        let start = Instant::now();
        self.made = RowNotes::default();
        let place = scene.patches.binary_search_by_key(&at.patch, |patch| patch.number).unwrap_or(usize::MAX);
        let patch = scene.patches.get(place);
        if let (Some(stored), Some(patch)) = (&scene.record, patch) {
            let bytes = stored.bytes();
            let frame = Frame::parse(bytes).map_err(|error| name(shard, at, error))?;
            let at = SampleAt { origin: patch.origin, ..at };
            let source = Payload::Scene { frame: &frame, bytes, memos: &stored.memos };
            return self.fields(common, source, (shard, at), row, dims);
        }
        let bytes = patch.and_then(|patch| patch.bytes.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(patch) = patch.filter(|_| bytes.is_some() || !scene.held.is_empty()) else {
            return Err(Error::internal("patch of a scene", "one that was not handed on", at.patch));
        };
        let mut copy = || {
            for (number, field) in recipe.fields.plans.iter().enumerate() {
                if scene.missing.iter().any(|&missing| usize::try_from(missing) == Ok(number)) {
                    row.clear(number);
                    continue;
                }
                let out = row.part(number);
                if let Some(Some(held)) = scene.held.get(number) {
                    held.cut(place, out)?;
                    continue;
                }
                let range = scene.plan.parts.get(number).cloned().unwrap_or_default();
                let from = match scene.shared.get(number) {
                    Some(shared) if !shared.is_empty() => shared,
                    _ => bytes.as_ref().and_then(|bytes| bytes.get(range)).unwrap_or_default(),
                };
                match &field.from {
                    From::Array { .. } | From::Volume(_) if from.len() == out.len() => out.copy_from_slice(from),
                    From::Array { .. } | From::Volume(_) => {
                        return Err(FormatError::internal("bytes of a patch", out.len(), from.len()));
                    }
                    // Out of the index: nothing of the record is needed.
                    _ => {
                        let of = FieldOf { shard, source: Payload::Device, at, field, number };
                        self.field(recipe, &of, out, &mut [])?;
                    }
                }
            }
            Ok(())
        };
        let copied = copy().map_err(|error| name(shard, at, error));
        bytes.into_iter().for_each(|bytes| scene.plan.give_back(bytes));
        copied?;
        self.made.missing.clone_from(&scene.missing);
        self.made.objects.clone_from(&scene.objects);
        self.made.patch = patch.at;
        self.add_noise(recipe, at, row, dims).map_err(|error| name(shard, at, error))?;
        self.transform(recipe, (shard, at), row, dims)?;
        add_since(&counters.decode, start);
        Ok(())
    }
}

/// Checks the record of a scene; which sample it is, and its frame.
fn checked(
    counters: &Counters,
    (shard, record, bytes): (&Shard, u64, &[u8]),
    read: &SceneRead,
) -> Result<(SampleAt, Frame)> {
    let SceneRead { sample, epoch, repetition, .. } = *read;
    let at = SampleAt { sample, record, epoch, repetition, patch: 0, origin: None };
    let start = Instant::now();
    let frame = check(shard, record, bytes).map_err(|error| name(shard, at, error))?;
    add_since(&counters.crc, start);
    Ok((at, frame))
}
