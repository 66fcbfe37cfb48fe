//! Decodes one row: gets the record from its supply, checks it, and decodes its fields into the row.

use super::added::AddedRecords;
use super::decoder::{RowDecoder, RowTarget};
use super::objects;
use super::recipe::Context;
use super::record::{RecordBytes, RowField, RowRecord, ViewedRecord};
use super::transform;
use crate::rows::RowMut;
use crate::sample::SampleAt;
use crate::stats::{Counters, add, add_since};
use crate::supply::{LargeRecord, StagedValue, Supply, check, read_checked};
use shardpack_format::{Error as FormatError, bug};
use shardpack_jpeg::PictureDecoder;
use shardpack_reader::raw::name_field;
use shardpack_reader::{Result, Shard};
use std::time::Instant;

impl RowDecoder {
    pub(crate) fn decode(&mut self, context: Context<'_>, supply: &Supply, target: &mut RowTarget<'_>) -> Result<()> {
        match supply {
            Supply::Memory(run) => self.decode_record(context, run.shard(), run.record(target.at.record)?, target),
            // A record in parts ends up here only if it could not be opened.
            Supply::PageCache(shard) | Supply::Parts(shard) => self.decode_alone(context, shard, target),
            Supply::Scene(shard, Ok(scene)) => self.decode_patch(context, scene, shard, target),
            Supply::Scene(_, Err(error)) => Err(error.clone()),
            Supply::Device(shard) => self.decode_resident(context, shard, target),
        }
    }

    fn decode_resident(&mut self, context: Context<'_>, shard: &Shard, target: &mut RowTarget<'_>) -> Result<()> {
        let recipe = context.recipe;
        let at = target.at;
        let origin = recipe.resident.as_ref().and_then(|all| all.origin(&recipe.fields, at.sample, &recipe.key(at)));
        let added = &AddedRecords::read(context, shard, at)?;
        let at = SampleAt { origin, ..at };
        let record = RowRecord { recipe, shard, at, payload: RecordBytes::Elsewhere, added };
        self.decode_or_read(context, record, target)
    }

    /// Completes a row after all of its parts are done. After any failure, reads and decodes the whole record
    /// instead.
    pub(crate) fn complete(
        &mut self,
        context: Context<'_>,
        large: &LargeRecord,
        staged: &[StagedValue],
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        if !large.is_whole() {
            return self.decode_alone(context, large.shard(), target);
        }
        let added = &AddedRecords::read(context, large.shard(), target.at)?;
        let record = target.record(context, large.shard(), RecordBytes::Parts { large, staged });
        self.decode_or_read(context, RowRecord { added, ..record }, target)
    }

    /// Decodes a row. If that fails, reads and decodes the whole record to get an error that names the cause.
    fn decode_or_read(
        &mut self,
        context: Context<'_>,
        record: RowRecord<'_>,
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        let promised = target.dims.to_vec();
        if self.decode_fields(context, record, target).is_ok() {
            return Ok(());
        }
        target.dims.copy_from_slice(&promised);
        self.decode_alone(context, record.shard, target)
    }

    fn decode_alone(&mut self, context: Context<'_>, shard: &Shard, target: &mut RowTarget<'_>) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.record);
        let result = read_checked(shard, target.at, &mut buffer, context.counters).and_then(|(frame, bytes)| {
            let payload = RecordBytes::Whole { frame: &frame, bytes };
            self.decode_payload(target.record(context, shard, payload), context, target)
        });
        // Large records are read here only after an error, so their buffer is not kept.
        if context.recipe.fields.large_bytes.is_none_or(|large| (buffer.len() as u64) < large) {
            self.record = buffer;
        }
        result
    }

    pub(crate) fn part(&mut self, large: &LargeRecord, number: usize, counters: &Counters) {
        large.work(number, &mut self.tools.arrays, &mut self.parts, counters);
    }

    fn decode_record(
        &mut self,
        context: Context<'_>,
        shard: &Shard,
        bytes: &[u8],
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        let start = Instant::now();
        let record = target.record(context, shard, RecordBytes::Elsewhere);
        let frame = check(shard, target.at.record, bytes).map_err(|error| record.named(error))?;
        add_since(&context.counters.crc, start);
        let record = RowRecord { payload: RecordBytes::Whole { frame: &frame, bytes }, ..record };
        self.decode_payload(record, context, target)
    }

    fn decode_payload(
        &mut self,
        record: RowRecord<'_>,
        context: Context<'_>,
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        let added = &AddedRecords::read(context, record.shard, record.at)?;
        let record = RowRecord { added, ..record };
        let record = self.placed(record).map_err(|error| record.named(error))?;
        self.decode_fields(context, record, target)
    }

    /// Sets the position of the patch if a mask determines it.
    pub(super) fn placed<'a>(&mut self, record: RowRecord<'a>) -> Result<RowRecord<'a>, FormatError> {
        let mut draws = [record.at];
        if let Some(plan) = &record.recipe.fields.patches {
            self.place_by_class(record, plan, &mut draws)?;
        }
        let [at] = draws;
        Ok(RowRecord { at, ..record })
    }

    pub(super) fn decode_fields(
        &mut self,
        context: Context<'_>,
        record: RowRecord<'_>,
        target: &mut RowTarget<'_>,
    ) -> Result<()> {
        let Context { recipe, counters, .. } = context;
        let RowTarget { row, dims, .. } = target;
        let start = Instant::now();
        self.begin();
        let before = counted(&self.tools.pictures);
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let Some(dims) = dims.get_mut(field.dims_range()) else { bug("a row has too few axes") };
            if let RecordBytes::Parts { large, .. } = record.payload {
                self.was_cut(large, number)?;
                if large.complete(number, row, dims).map_err(|error| record.named(error))? {
                    continue;
                }
            }
            let of = RowField { record, field, number };
            let spot = if field.staged { row.spot(number) } else { None };
            let there = match spot {
                Some((slot, spot)) => self.stage_field(context, &of, &*slot, &spot, dims),
                None => self.decode_field(&of, row.part(number), dims),
            };
            if !there.map_err(|error| record.named(name_field(&field.name, error)))? {
                if self.decoder(number).is_zero_if_missing() {
                    row.clear(number);
                }
                dims.fill(0);
                self.notes.missing.extend(u32::try_from(number));
            }
        }
        self.count_since(before, counters);
        self.notes.objects = self.objects(record)?;
        self.notes.patch = self.tools.window.filter(|window| window.origin.is_some()).map(|w| w.at(record.at.patch));
        self.finish(record, row, dims)?;
        add_since(&counters.decode, start);
        Ok(())
    }

    /// Adds the picture decoder's counts since `before` to the loader's counters.
    pub(super) fn count_since(&self, before: [u64; 2], counters: &Counters) {
        let after = counted(&self.tools.pictures);
        let all = before.into_iter().zip(after).zip([&counters.narrowed, &counters.wrong_indexes]);
        for ((before, after), counter) in all.filter(|((before, after), _)| after > before) {
            add(counter, after - before);
        }
    }

    /// Applies the window that was found while decoding an array in parts to the other arrays of the row. Fails if
    /// their sizes differ.
    fn was_cut(&mut self, large: &LargeRecord, number: usize) -> Result<()> {
        let (Some(window), others) = (large.window(number), self.tools.window) else { return Ok(()) };
        if others.is_some_and(|others| others.size != window.size) {
            // Not shown to users: the record is read whole next, which reports the same error.
            return Err(FormatError::usage("arrays in one row differ in size").into());
        }
        self.tools.window = Some(window);
        Ok(())
    }

    pub(super) fn objects(&mut self, record: RowRecord<'_>) -> Result<Vec<Option<crate::fields::Object>>> {
        let plans = &record.recipe.fields.objects;
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let tools = &mut self.tools;
        let mut viewed = ViewedRecord { record, pictures: &mut tools.pictures, arrays: &mut tools.objects };
        let made = objects::of_sample(plans, &mut viewed, record.limits());
        made.map_err(|error| record.named(error))
    }

    /// Adds noise, and then runs the caller's transform.
    pub(super) fn finish(&self, record: RowRecord<'_>, row: &mut RowMut, dims: &[u64]) -> Result<()> {
        self.add_noise(record, row, dims).map_err(|error| record.named(error))?;
        let Some(transform) = &record.recipe.transform else { return Ok(()) };
        transform::change(&**transform, record, row, dims, &self.notes.missing).map_err(|error| record.named(error))
    }

    pub(super) fn decoder(&self, number: usize) -> &dyn super::fields::FieldDecoder {
        self.fields.get(number).map_or_else(|| bug("a field has no decoder"), |decoder| &**decoder)
    }

    /// Decodes a field. Returns false and writes nothing if the sample has no value for it.
    pub(super) fn decode_field(
        &mut self,
        of: &RowField<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        let Some(decoder) = self.fields.get_mut(of.number) else { bug("a field has no decoder") };
        decoder.decode(&mut self.tools, of, out, dims)
    }
}

/// Returns the number of pictures that were reduced to 8 bits, and of pictures with a wrong segment index.
pub(super) const fn counted(pictures: &PictureDecoder) -> [u64; 2] {
    [pictures.narrowed(), pictures.wrong_indexes()]
}
