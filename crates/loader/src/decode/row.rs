//! What a thread does with one row: find the record in its run, check it, and decode its fields to
//! where they stay.

use super::bench::Bench;
use super::objects;
use super::opening::Opening;
use super::picture_row::{self, Shown, set_size};
use super::recipe::{Common, Recipe};
use super::record::{FieldOf, Payload, RecordOf, Viewed};
use super::transform;
use super::values::Values;
use crate::fault;
use crate::fields::{Fields, From, JPEG};
use crate::rows::RowMut;
use crate::sample::{RowId, SampleAt, name};
use crate::stage::{Prepared, Spot, StageSlot, Value};
use crate::stats::{Counters, add, add_since};
use crate::supply::{LargeRecord, Residence, StagedValue, Supply, check, read_alone};
use crate::task::{OddRow, RowNotes};
use shardpack_format::{Error as FormatError, FieldValue, to_usize};
use shardpack_jpeg::{FRAMES, Frames, Rendering};
use shardpack_reader::Shard;
use shardpack_reader::raw::name_field;
use shardpack_reader::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

impl Bench {
    /// Checks a record and decodes its fields into the row. `dims` hold the axes that the index
    /// promised; where only the record knows, they are put right.
    pub(crate) fn decode(
        &mut self,
        common: Common<'_>,
        supply: &Supply,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        match supply {
            Supply::Memory(run) => self.decode_record(common, run.record(at.record)?, run.shard(), at, row, dims),
            // Of those in parts, such as could not be opened.
            Supply::PageCache(shard) | Supply::Parts(shard) => self.decode_alone(common, shard, at, row, dims),
            Supply::Scene(shard, Ok(scene)) => self.decode_patch(common, scene, shard, at, row, dims),
            Supply::Scene(_, Err(error)) => Err(fault::copy(error)),
            Supply::Device(shard) => self.decode_resident(common, shard, at, row, dims),
        }
    }

    /// Has the stage decode a sample whose values are on its device.
    fn decode_resident(
        &mut self,
        common: Common<'_>,
        shard: &Shard,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let Recipe { resident, fields, .. } = common.recipe;
        if let Some(resident) = resident {
            let promised = dims.to_vec();
            let at = SampleAt { origin: resident.origin(fields, at.sample, &common.recipe.key(at)), ..at };
            if self.fields(common, Payload::Device, (shard, at), row, dims).is_ok() {
                return Ok(());
            }
            dims.copy_from_slice(&promised);
        }
        self.decode_alone(common, shard, at, row, dims)
    }

    /// The same of a record that is read for it.
    fn decode_alone(
        &mut self,
        common: Common<'_>,
        shard: &Shard,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let counters = common.counters;
        let start = Instant::now();
        let mut buffer = std::mem::take(&mut self.record);
        let result = read_alone(shard, at.record, &mut buffer).and_then(|bytes| {
            add_since(&counters.read, start);
            add(&counters.read_bytes, bytes.len() as u64);
            self.decode_record(common, bytes, shard, at, row, dims)
        });
        // A large record is read here only if something is wrong with it: its memory is not kept.
        if common.recipe.fields.large_bytes.is_none_or(|large| (buffer.len() as u64) < large) {
            self.record = buffer;
        }
        result
    }

    /// Opens a large record, to be made in parts; gives the row back if it is not for that.
    pub(crate) fn open(
        &mut self,
        recipe: &Recipe,
        shard: &Arc<Shard>,
        of: RowId,
        row: RowMut,
        dims: &[u64],
    ) -> Result<LargeRecord, RowMut> {
        let opening = Opening { recipe, arrays: &mut self.arrays, shard, at: of.at, part_bytes: recipe.part_bytes };
        opening.open(of, row, dims)
    }

    /// Works on a part of a large record.
    pub(crate) fn part(&mut self, large: &LargeRecord, number: usize, counters: &Counters) {
        large.work(number, &mut self.arrays.decoder, &mut self.parts, counters);
    }

    /// Completes a row of which all parts are done; decodes it as any other if something is wrong.
    pub(crate) fn complete(
        &mut self,
        common: Common<'_>,
        large: &LargeRecord,
        there: &[StagedValue],
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let promised = dims.to_vec();
        let source = Payload::Parts(large, there);
        if large.is_whole() && self.fields(common, source, (large.shard(), at), row, dims).is_ok() {
            return Ok(());
        }
        dims.copy_from_slice(&promised);
        self.decode_alone(common, large.shard(), at, row, dims)
    }

    fn decode_record(
        &mut self,
        common: Common<'_>,
        bytes: &[u8],
        shard: &Shard,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let start = Instant::now();
        let frame = check(shard, at.record, bytes).map_err(|error| name(shard, at, error))?;
        add_since(&common.counters.crc, start);
        let source = Payload::Whole { frame: &frame, bytes };
        let at = self.placed(common, (shard, source), at).map_err(|error| name(shard, at, error))?;
        self.fields(common, source, (shard, at), row, dims)
    }

    /// With the place of its patch, if that is one of several of the sample and its mask decides.
    fn placed(
        &mut self,
        common: Common<'_>,
        from: (&Shard, Payload<'_>),
        at: SampleAt,
    ) -> Result<SampleAt, FormatError> {
        let mut draws = [at];
        if let Some(plan) = &common.recipe.fields.patches {
            self.place_by_class(common, from, plan, &mut draws)?;
        }
        let [at] = draws;
        Ok(at)
    }

    /// Decodes all fields of a record that was checked.
    pub(crate) fn fields(
        &mut self,
        common: Common<'_>,
        source: Payload<'_>,
        (shard, at): (&Shard, SampleAt),
        row: &mut RowMut,
        dims: &mut [u64],
    ) -> Result<()> {
        let Common { recipe, counters, .. } = common;
        let place = |error| name(shard, at, error);
        let start = Instant::now();
        self.made = RowNotes::default();
        self.arrays.begin();
        let narrowed = self.pictures.narrowed();
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let end = field.dims_at + if field.is_ragged() { field.shape.len() } else { 0 };
            let Some(dims) = dims.get_mut(field.dims_at..end) else {
                return Err(place(FormatError::internal("axes of a row", end, dims.len())));
            };
            if let Payload::Parts(large, _) = source {
                self.arrays.was_cut(large.window(number)).map_err(place)?;
                if large.complete(number, row, dims).map_err(place)? {
                    continue;
                }
            }
            let record = FieldOf { shard, source, at, field, number };
            let spot = if field.staged { row.spot(number) } else { None };
            let there = match spot {
                Some((slot, spot)) => self.staged(common, &record, (&*slot, &spot), dims),
                None => {
                    if let (From::Picture { clip: Some(_), .. }, true) = (&field.from, recipe.stage.is_some()) {
                        let key = || shard.index().key(at.record).unwrap_or_default().to_owned();
                        common.refusals.add(picture_row::ON_HOST.into(), key);
                    }
                    self.field(recipe, &record, row.part(number), dims)
                }
            };
            if !there.map_err(|e| place(name_field(&field.name, e)))? {
                // Of a number that is not there the column holds what stands for it.
                if !matches!(field.from, From::Scalar(_)) {
                    row.clear(number);
                }
                dims.fill(0);
                self.made.missing.extend(u32::try_from(number));
            }
        }
        let narrowed = self.pictures.narrowed().saturating_sub(narrowed);
        if narrowed > 0 {
            add(&counters.narrowed, narrowed);
        }
        if !recipe.fields.objects.is_empty() {
            let record = RecordOf { shard, source, at };
            let mut record = Viewed { record, recipe, pictures: &mut self.pictures };
            let how = (&mut self.objects, &shard.options().limits);
            self.made.objects = objects::of_sample(&recipe.fields.objects, &mut record, how).map_err(place)?;
        }
        self.made.patch = self.arrays.placed(at.patch);
        self.add_noise(recipe, at, row, dims).map_err(place)?;
        self.transform(recipe, (shard, at), row, dims)?;
        add_since(&counters.decode, start);
        Ok(())
    }

    /// Has the program change a row.
    pub(crate) fn transform(
        &self,
        recipe: &Recipe,
        (shard, at): (&Shard, SampleAt),
        row: &mut RowMut,
        dims: &[u64],
    ) -> Result<()> {
        let Some(transform) = &recipe.transform else { return Ok(()) };
        let of = (at.sample, shard.index().key(at.record).unwrap_or_default(), recipe.key(at));
        transform::change(&**transform, &recipe.fields.plans, of, row, (dims, &self.made.missing))
            .map_err(|error| name(shard, at, error))
    }

    /// Hands a field to the stage, or, if that refuses it, decodes it for the stage; false, and
    /// nothing is written, if the sample has no value for it.
    fn staged(
        &mut self,
        common: Common<'_>,
        of: &FieldOf<'_>,
        (slot, spot): (&dyn StageSlot, &Spot),
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        let recipe = common.recipe;
        // What is wrong with it, its record says.
        if let Ok(Some(there)) = self.resident(recipe, of, (slot, spot), dims) {
            return Ok(there);
        }
        let prepared = match &of.field.from {
            From::Picture { position, view, orientation, .. } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let (media_type, how) = of.record().rendering(recipe, &value, *view, *orientation)?;
                let Fields { scaling, changes, .. } = &*recipe.fields;
                let (dtype, limits) = (of.field.dtype, &recipe.decode.limits);
                let bytes = value.bytes;
                let value = Value::Picture { media_type, bytes, how: &how, changes, dtype, scaling, limits };
                slot.prepare(spot, &value, &mut *self.stage)
            }
            From::Array { position, channels_first, cut, .. } => {
                let Some(value) = of.array(*position, cut.as_ref())? else { return Ok(false) };
                let limits = &of.shard.options().limits;
                let how = (*channels_first, cut.as_ref());
                let (descriptor, region, finish) = self.arrays.asked(recipe, of, &value, how, dims)?;
                let FieldValue { codec, bytes, .. } = value;
                let (noise, memo) = (recipe.noise(of.field, of.at)?, of.memo());
                let value = Value::Array { codec, descriptor, bytes, region, finish, noise, memo, limits };
                match of.there() {
                    Some(there) => there.room.prepare(&value, &mut *self.stage),
                    None => slot.prepare(spot, &value, &mut *self.stage),
                }
            }
            From::Scalar(_) | From::OneHot { .. } | From::Volume(_) | From::Mask { .. } | From::Raw { .. } => {
                Prepared::Refused("neither a picture nor an array".into())
            }
        };
        let reason = match prepared {
            Prepared::Taken(size) => {
                if let Some(size) = size {
                    set_size(dims, size.map(u64::from), recipe.layout);
                }
                self.made.staged += 1;
                return Ok(true);
            }
            Prepared::Refused(reason) => reason,
        };
        common.refusals.add(reason, || of.shard.index().key(of.at.record).unwrap_or_default().to_owned());
        self.for_device(recipe, of, spot.bytes.len(), dims, |row| slot.put(spot, row))
    }

    /// Hands a field that stays on the device to the stage, by its number; false if the sample has no
    /// value for it. `None`, and nothing is handed over, if it is not there, or the stage refuses it.
    fn resident(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        (slot, spot): (&dyn StageSlot, &Spot),
        dims: &mut [u64],
    ) -> Result<Option<bool>, FormatError> {
        let Some(resident) = &recipe.resident else { return Ok(None) };
        let (number, more) = match resident.known(of.at.sample, of.number) {
            Residence::Absent => return Ok(None),
            Residence::Missing => return Ok(Some(false)),
            Residence::Present { number, more } => (number, more),
        };
        let prepared = match &of.field.from {
            From::Picture { view, .. } => {
                let orientation = u8::try_from(more).unwrap_or(1);
                let how = Rendering { view: *view, key: recipe.key(of.at), orientation, layout: recipe.layout };
                let Fields { scaling, changes, .. } = &*recipe.fields;
                let (dtype, limits) = (of.field.dtype, &recipe.decode.limits);
                let value = Value::Picture { media_type: JPEG, bytes: &[], how: &how, changes, dtype, scaling, limits };
                slot.prepare_kept(spot, number, &value, &mut *self.stage)
            }
            From::Array { channels_first, cut, .. } => {
                let Some(form) = resident.form(more) else { return Ok(None) };
                let (value, limits) = (form.value(), &of.shard.options().limits);
                let how = (*channels_first, cut.as_ref());
                let (descriptor, region, finish) = self.arrays.asked(recipe, of, &value, how, dims)?;
                let (codec, noise) = (value.codec, recipe.noise(of.field, of.at)?);
                let (bytes, memo) = (&[][..], None);
                let value = Value::Array { codec, descriptor, bytes, region, finish, noise, memo, limits };
                slot.prepare_kept(spot, number, &value, &mut *self.stage)
            }
            From::Scalar(_) | From::OneHot { .. } | From::Volume(_) | From::Mask { .. } | From::Raw { .. } => {
                return Ok(None);
            }
        };
        let Prepared::Taken(size) = prepared else { return Ok(None) };
        if let Some(size) = size {
            set_size(dims, size.map(u64::from), recipe.layout);
        }
        self.made.staged += 1;
        Ok(Some(true))
    }

    /// Decodes again, on the host, what the device found odd: from a record that was read anew.
    pub(crate) fn decode_again(
        &mut self,
        common: Common<'_>,
        bytes: &[u8],
        shard: &Shard,
        at: SampleAt,
        odd: &mut OddRow,
    ) -> Result<()> {
        let Common { recipe, .. } = common;
        let place = |error| name(shard, at, error);
        let frame = check(shard, at.record, bytes).map_err(place)?;
        let at = self.placed(common, (shard, Payload::Whole { frame: &frame, bytes }), at).map_err(place)?;
        self.arrays.begin();
        for (number, _) in &odd.fields {
            let number = to_usize(*number);
            let found = recipe.fields.plans.get(number).zip(odd.handle.spot(number));
            let Some((field, (slot, spot))) = found else {
                return Err(Error::internal("field that the device found odd", "one of the device", number));
            };
            let axes = if field.is_ragged() { field.shape.len() } else { 0 };
            let dims = odd.dims.get_mut(field.dims_at..field.dims_at.saturating_add(axes)).unwrap_or_default();
            let of = FieldOf { shard, source: Payload::Whole { frame: &frame, bytes }, at, field, number };
            let write = |row: &[u8]| slot.write(spot.bytes.start, row);
            let there = self.for_device(recipe, &of, spot.bytes.len(), dims, write);
            if !there.map_err(|e| place(name_field(&field.name, e)))? {
                return Err(Error::internal("field that the device found odd", "a value of its sample", "none"));
            }
        }
        Ok(())
    }

    /// Decodes a field of so many bytes, and gives it to `keep`; false, and nothing is given, if the
    /// sample has no value for it.
    fn for_device(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        row_bytes: usize,
        dims: &mut [u64],
        keep: impl FnOnce(&[u8]) -> std::io::Result<()>,
    ) -> Result<bool, FormatError> {
        let mut row = std::mem::take(&mut self.refused);
        row.clear();
        row.resize(row_bytes, 0);
        let result = self.field(recipe, of, &mut row, dims).and_then(|there| {
            if there {
                recipe.add_noise(of.field, of.at, &mut row, dims)?;
            }
            let kept = if there { keep(&row) } else { Ok(()) };
            kept.map_err(|e| FormatError::internal("row for the device", "room for it", e)).map(|()| there)
        });
        self.refused = row;
        result
    }

    /// Decodes a field; false, and nothing is written, if the sample has no value for it.
    pub(crate) fn field(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        match &of.field.from {
            From::Scalar(column) => {
                let value = column.bytes(of.shard, of.at.record);
                if value.len() != out.len() {
                    return Err(FormatError::format("scalar in the index", out.len(), value.len()));
                }
                out.copy_from_slice(value);
                return Ok(column.is_in(of.shard));
            }
            From::OneHot { column, .. } if !column.is_in(of.shard) => return Ok(false),
            From::OneHot { column, classes } => {
                let found = column.integer(of.shard, of.at.record);
                let class = found.and_then(|class| u32::try_from(class).ok()).filter(|class| class < classes);
                let Some(class) = class else {
                    let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
                    return Err(FormatError::usage("label", format!("a class below {classes}"), found));
                };
                out.fill(0);
                let weight = out.as_chunks_mut::<4>().0.get_mut(class as usize);
                weight.into_iter().for_each(|weight| *weight = 1_f32.to_le_bytes());
            }
            From::Raw { position } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let length = value.bytes.len();
                let Some(out) = out.get_mut(..length) else {
                    return Err(FormatError::format("stored bytes", format!("at most {}", out.len()), length));
                };
                out.copy_from_slice(value.bytes);
                dims.fill(length as u64);
            }
            From::Picture { position, view, orientation, floats, clip } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let (media_type, how) = of.record().rendering(recipe, &value, *view, *orientation)?;
                let how = Shown { rendering: &how, changed: &recipe.fields.changes, floats: floats.as_deref() };
                match clip {
                    None if media_type == FRAMES => {
                        let column = format!("one, or a column `{}.frames`", of.field.name);
                        return Err(FormatError::format("pictures of the value", column, "a list of them"));
                    }
                    None => self.pixels(&how, (media_type, value.bytes), out, dims)?,
                    Some(mode) => self.clip(*mode, &how, &Frames::of(media_type, value.bytes)?, out, dims)?,
                }
            }
            From::Array { position, channels_first, cut, .. } => {
                let Some(value) = of.array(*position, cut.as_ref())? else { return Ok(false) };
                self.arrays.decode(recipe, of, &value, (*channels_first, cut.as_ref()), out, dims)?;
            }
            From::Volume(volume) => {
                let Some(value) = of.value(volume.position)? else { return Ok(false) };
                self.arrays.decode_boxes(recipe, of, &value, volume, &[of.at], &mut [out])?;
            }
            From::Mask { position, picture, fill, .. } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let shape = Viewed { record: of.record(), recipe, pictures: &mut self.pictures }.shape(picture)?;
                let Some(shape) = shape else { return Ok(false) };
                self.masks.decode(of, &value, (&shape, recipe.layout, fill), out, dims)?;
            }
        }
        Ok(true)
    }
}
