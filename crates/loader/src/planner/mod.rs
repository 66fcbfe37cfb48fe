//! Plans the batches in order: the samples of each batch, and the location of each sample in the batch.

mod epochs;
mod held;
mod pieces;
mod predict;
mod read_ahead;
mod scenes;

pub(crate) use epochs::Epochs;
pub(crate) use held::Held;
pub(crate) use predict::{Predicted, predict};
pub(crate) use read_ahead::{ReadAhead, ReadAheadStart};

use crate::fields::{FieldPlan, Fields, RowSize};
use crate::openings::{Failed, Shards};
use crate::order::{OrderState, Share, Sources, Step, Steps};
use crate::plan::{
    Announcement, BatchPlan, PADDING, PlannedRead, PlannedRow, PlannedRun, ReadSource, aligned, alignment,
};
use crate::sample::{RunKey, SampleAt, draw_key};
use crate::stage::Stage;
use crate::supply::Supply;
use epochs::EpochStart;
use scenes::{Scenes, draw_of};
use shardpack_format::{Error as FormatError, bug, to_usize};
use shardpack_reader::{Dataset, Error, Result, Shard};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Planner {
    epochs: Arc<Epochs>,
    shards: Shards,
    sources: Sources,
    fields: Arc<Fields>,
    max_batch_bytes: u64,
    stage: Option<Arc<dyn Stage>>,
    pub(crate) generation: u64,
    pub(crate) start: OrderState,
    pub(crate) held: Held,
    on_device: bool,
    /// Supplies of the rows that are read when they are decoded.
    direct: HashMap<DirectKey, Arc<Supply>>,
    steps: Steps,
    /// Steps of the next batch, drawn before the batch is planned.
    drawn: VecDeque<Step>,
    next: u64,
    /// Index of the first batch of the epoch.
    first: u64,
    /// Number of reads started so far, across epochs.
    pub(crate) begun: u64,
    open: HashMap<RunKey, Range<u64>>,
    scenes: Option<Scenes>,
    reads: HashMap<ReadKey, u32>,
    sizes: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DirectKey {
    shard: usize,
    in_parts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReadKey {
    Run(RunKey),
    Direct(DirectKey),
}

impl Planner {
    pub(crate) fn new(
        epochs: Arc<Epochs>,
        sources: Sources,
        max_batch_bytes: u64,
        stage: Option<Arc<dyn Stage>>,
        on_device: bool,
        epoch: EpochStart,
    ) -> Self {
        let EpochStart { start, steps, ahead, held } = epoch;
        Self {
            shards: Shards::new(epochs.dataset.clone()),
            sources,
            fields: Arc::clone(&epochs.fields),
            max_batch_bytes,
            stage,
            generation: 0,
            start,
            held,
            on_device,
            direct: HashMap::new(),
            steps,
            drawn: VecDeque::new(),
            next: 0,
            first: 0,
            begun: 0,
            open: HashMap::new(),
            scenes: ahead.map(|ahead| Scenes::new(start.epoch, epochs.predicted.scenes_ahead, ahead)),
            reads: HashMap::new(),
            sizes: Vec::new(),
            epochs,
        }
    }

    pub(crate) fn restart(&mut self, epoch: EpochStart) {
        self.generation += 1;
        (self.next, self.begun) = (0, 0);
        self.enter(epoch);
    }

    fn enter(&mut self, epoch: EpochStart) {
        let EpochStart { start, steps, ahead, held } = epoch;
        let most = self.epochs.predicted.scenes_ahead;
        self.scenes = ahead.map(|ahead| Scenes::new(start.epoch, most, ahead).after(self.next, self.begun));
        (self.start, self.steps, self.held, self.first) = (start, steps, held, self.next);
        self.open.clear();
        self.drawn.clear();
    }

    /// Continues with the next epoch. Returns false if that epoch cannot begin, or if it keeps its window in the
    /// other place, for which no memory is reserved.
    fn go_on(&mut self) -> bool {
        // Ignore errors. The caller gets them when it starts the next epoch.
        let Ok(next) = self.epochs.begin(&self.start.next_epoch(), Some(self.held)) else { return false };
        let stays = (next.held == Held::Memory) == (self.held == Held::Memory);
        if stays {
            self.enter(next);
        }
        stays
    }

    pub(crate) const fn share(&self) -> &Share {
        self.steps.share()
    }

    pub(crate) const fn dataset(&self) -> &Dataset {
        &self.shards.dataset
    }

    /// Returns the shards that the next batch of `epoch` needs and that are not open yet. Reads nothing.
    pub(crate) fn unopened(&mut self, epoch: u32) -> Vec<usize> {
        if epoch != self.start.epoch && !self.go_on() {
            return Vec::new();
        }
        let filled = self.share().filled(self.next - self.first);
        while (self.drawn.len() as u64) < filled {
            let Some(step) = self.steps.next() else { break };
            self.drawn.push_back(step);
        }
        let begun = self.drawn.iter().filter(|step| step.read.is_some()).count() as u64;
        let scenes = self.scenes.as_mut().map(|scenes| scenes.draw(self.begun + begun));
        let dataset = &self.shards.dataset;
        let mut numbers = Vec::new();
        for step in self.drawn.iter().chain(scenes.into_iter().flatten()) {
            let Some(source) = self.sources.samples(step.at.source) else { continue };
            let all = |sample: u64| source.start.saturating_add(sample);
            let samples = match &step.read {
                Some(read) if self.held == (Held::PageCache { announce: true }) => read.samples.clone(),
                _ => step.at.sample..step.at.sample.saturating_add(1),
            };
            let records = dataset.records_of(all(samples.start)..all(samples.end));
            numbers.extend(records.map(|(number, _)| number).filter(|&number| !dataset.is_open(number)));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Plans the next batch of `plan.epoch`, which is the current or the next epoch. Reuses the memory of
    /// `plan`. Returns false at the end of that epoch. `failed` are the shards that could not be opened just
    /// before.
    pub(crate) fn fill(&mut self, plan: &mut BatchPlan, failed: Failed) -> bool {
        self.shards.failed = failed;
        plan.clear(self.generation, self.next);
        if plan.epoch != self.start.epoch && !self.go_on() {
            return false;
        }
        let in_epoch = self.next - self.first;
        let rows = self.share().rows(in_epoch);
        if in_epoch >= self.share().batches() || rows == 0 {
            self.close(&mut plan.closed);
            return false;
        }
        let filled = self.share().filled(in_epoch);
        self.next += 1;
        plan.in_epoch = in_epoch;
        self.reads.clear();
        self.sizes.clear();
        for row in 0..rows {
            let step = if row < filled { self.drawn.pop_front().or_else(|| self.steps.next()) } else { None };
            match step {
                Some(step) => self.put(plan, &step),
                None => self.put_nothing(plan, PADDING, None),
            }
        }
        self.lay_out(plan);
        if let (Some(scenes), Some(patches)) = (&mut self.scenes, &self.fields.patches) {
            scenes.advance(&self.shards, &self.sources, patches, self.begun, &mut plan.coming);
        }
        true
    }

    fn close(&mut self, closed: &mut Vec<RunKey>) {
        if let Some(scenes) = &mut self.scenes {
            scenes.forget_all(closed);
        }
        for (key, span) in std::mem::take(&mut self.open) {
            self.close_read(key, span, closed);
        }
    }

    fn close_read(&self, key: RunKey, span: Range<u64>, closed: &mut Vec<RunKey>) {
        if span.end - span.start > 1 && self.held == Held::Memory {
            // A shard that cannot be opened has no reads to release.
            let _ = pieces::reads_of(&self.shards.dataset, span, self.fields.large_bytes, |first| {
                closed.push(RunKey { sample: first, ..key })
            });
        }
    }

    fn put(&mut self, plan: &mut BatchPlan, step: &Step) {
        let Some(source) = self.sources.samples(step.at.source) else {
            let error = Error::usage(format!(
                "the order takes samples from dataset number {}, but the loader has no dataset with this number: \
                 create the order for the same datasets as the loader",
                step.at.source
            ));
            return self.put_nothing(plan, step.at.sample, Some(error));
        };
        self.begun += u64::from(step.read.is_some());
        // From here on, sample numbers refer to the whole dataset instead of the source.
        let all = |sample: u64| source.start.saturating_add(sample);
        let sample = all(step.at.sample);
        let key = RunKey { epoch: plan.epoch, sample: all(step.read_start), pass: step.pass };
        let known = match &step.read {
            Some(read) => Some(all(read.samples.start)..all(read.samples.end)),
            None => self.open.get(&key).cloned(),
        };
        // A custom order may refer to a read that it has never opened. The sample is then read alone.
        let span = known.unwrap_or(sample..sample.saturating_add(1));
        match (step.done, &step.read) {
            (true, _) => drop(self.open.remove(&key)),
            (false, Some(_)) => drop(self.open.insert(key, span.clone())),
            (false, None) => {}
        }
        if let Some(patches) = &self.fields.patches
            && let Some(scenes) = &mut self.scenes
        {
            scenes.know(key, sample, step, patches);
        }
        if let Err(error) = self.put_sample(plan, sample, step, &span) {
            self.put_nothing(plan, sample, Some(error));
        }
        if step.read.is_some() && self.held == (Held::PageCache { announce: true }) {
            for (number, records) in self.shards.dataset.records_of(span.clone()) {
                // Ignore errors. The batch of this sample reports them.
                let Ok(shard) = self.shards.get(number) else { continue };
                let Ok(span) = shard.span(&records) else { continue };
                plan.announced.push(Announcement { shard, span });
            }
        }
        if let Some(scenes) = self.scenes.as_mut().filter(|_| step.done) {
            scenes.forget(key);
            plan.closed.push(key);
        }
        if step.done {
            self.close_read(key, span, &mut plan.closed);
        }
    }

    fn put_sample(&mut self, plan: &mut BatchPlan, sample: u64, step: &Step, span: &Range<u64>) -> Result<()> {
        let (number, record) = self.shards.dataset.locate(sample)?;
        let shard = self.shards.get(number)?;
        // A run may extend into the next shard. Only its part in this shard counts, and within that part,
        // only the read that contains the sample.
        let first = sample - record;
        let records = span.start.saturating_sub(first).min(record)
            ..span.end.saturating_sub(first).clamp(record.saturating_add(1), shard.len().max(record + 1));
        let in_memory = self.held == Held::Memory;
        let large = self.fields.large_bytes;
        let records = if in_memory { pieces::piece(&shard, &records, record, large)? } else { record..record + 1 };
        let row = shard.row(record)?;
        let named = RunKey { epoch: plan.epoch, sample, pass: step.pass };
        let scene = self.scenes.as_ref().and_then(|scenes| scenes.of(named));
        let in_parts = !self.on_device && large.is_some_and(|bytes| row.length >= bytes);
        if in_parts && in_memory {
            let span = row.offset..row.offset.saturating_add(row.length);
            plan.announced.push(Announcement { shard: Arc::clone(&shard), span });
        }
        let patch = u32::try_from(step.patch).unwrap_or_else(|_| bug("a sample has more than 2³² patches"));
        let repetition = draw_of(step);
        let repetition = self.fields.patches.as_ref().map_or(repetition, |all| all.repetition(repetition, patch));
        let at = SampleAt { sample, record, epoch: plan.epoch, repetition, patch, origin: None };
        let draw_key = draw_key(self.epochs.sampling.seed(), at);
        let before = (self.sizes.len(), plan.dims.len());
        plan.dims.resize(before.1 + self.fields.dims, 0);
        for field in &self.fields.plans {
            let start = before.1 + field.dims_at;
            let axes = if field.is_ragged() { field.shape.len() } else { 0 };
            let dims = plan.dims.get_mut(start..start + axes).unwrap_or_default();
            match field.row(&shard, record, Some(&draw_key), dims) {
                Ok(bytes) => self.sizes.push(bytes),
                Err(error) => {
                    self.sizes.truncate(before.0);
                    plan.dims.truncate(before.1);
                    return Err(shard.in_record(record, error).into());
                }
            }
        }
        if let Some(stage) = &self.stage {
            let sizes = self.sizes.get(before.0..).unwrap_or_default();
            for (field, &bytes) in self.fields.plans.iter().zip(sizes).filter(|(field, _)| field.staged) {
                let spec = field.spec(self.fields.layout, self.fields.scaling, &self.fields.changes);
                let more = |sum: usize, bytes: u64| sum.saturating_add(to_usize(bytes));
                let rows = field.staged_row(&shard, record, bytes as u64);
                plan.staged_bytes = more(plan.staged_bytes, stage.staged_bytes(&spec, &rows));
                plan.between_bytes = more(plan.between_bytes, stage.between_bytes(&spec, &rows));
            }
        }
        let row = ordinal(plan.rows.len());
        let key = match scene {
            // In each shard, rows with large records form one read, and all other rows that are read when they are
            // decoded form another.
            _ if in_parts || !in_memory => ReadKey::Direct(DirectKey { shard: number, in_parts }),
            Some(_) => ReadKey::Run(named),
            None => ReadKey::Run(RunKey { sample: first + records.start, ..named }),
        };
        let count = ordinal(plan.reads.len());
        let read = *self.reads.entry(key).or_insert(count);
        if read == count {
            let source = match key {
                ReadKey::Direct(direct) => ReadSource::Direct(self.direct(direct, shard)),
                ReadKey::Run(key) => ReadSource::Run(PlannedRun { key, shard, records, scene }),
            };
            plan.reads.push(PlannedRead { source, first_row: None, rows: 0 });
        }
        let mut next = None;
        if let Some(planned) = plan.reads.get_mut(to_usize(read)) {
            next = planned.first_row.replace(row);
            planned.rows += 1;
        }
        plan.rows.push(PlannedRow { record, repetition, patch, read: Some(read), next });
        plan.indices.push(sample);
        plan.mask.push(true);
        Ok(())
    }

    fn direct(&mut self, key: DirectKey, shard: Arc<Shard>) -> Arc<Supply> {
        let supply = self.direct.entry(key).or_insert_with(|| {
            Arc::new(match key.in_parts {
                true => Supply::Parts(shard),
                false if self.on_device => Supply::Device(shard),
                false => Supply::PageCache(shard),
            })
        });
        Arc::clone(supply)
    }

    fn put_nothing(&mut self, plan: &mut BatchPlan, sample: u64, fault: Option<Error>) {
        if let Some(error) = fault {
            plan.faults.push((ordinal(plan.rows.len()), error));
        }
        let dense = |field: &FieldPlan| match field.size {
            RowSize::Dense { bytes } => bytes,
            _ => 0,
        };
        self.sizes.extend(self.fields.plans.iter().map(dense));
        plan.dims.resize(plan.dims.len() + self.fields.dims, 0);
        plan.rows.push(PlannedRow::default());
        plan.indices.push(sample);
        plan.mask.push(false);
    }

    /// Lays out the batch field by field, and each field row by row. Fields that the host decodes come first.
    fn lay_out(&self, plan: &mut BatchPlan) {
        let count = self.fields.plans.len();
        let rows = plan.rows.len();
        let alignment = alignment(self.stage.is_some());
        plan.parts.resize(count * rows, 0..0);
        let mut end = 0_usize;
        for staged in [false, true] {
            let fields = self.fields.plans.iter().enumerate().filter(|(_, field)| field.staged == staged);
            for (number, _) in fields {
                end = to_usize(aligned(end as u64, alignment));
                let parts = plan.parts.get_mut(number * rows..(number + 1) * rows).unwrap_or_default();
                for (sizes, part) in self.sizes.chunks(count).zip(parts) {
                    let start = end;
                    end = start.saturating_add(sizes.get(number).copied().unwrap_or(0));
                    *part = start..end;
                }
            }
            if !staged {
                plan.host_bytes = end;
            }
        }
        plan.bytes = end;
        if end as u64 > self.max_batch_bytes {
            let found = end as u64;
            let what = format!("batch {}", plan.in_epoch);
            let error = FormatError::limit(what, "max_batch_bytes", self.max_batch_bytes, found);
            plan.spoil(error.into());
        }
    }
}

fn ordinal(before: usize) -> u32 {
    u32::try_from(before).unwrap_or_else(|_| bug("a batch has more than 2³² rows"))
}
