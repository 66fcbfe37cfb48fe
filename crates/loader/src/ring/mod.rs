//! State shared by the threads of a loader, under one lock: batches in order, their slots, and the runs that
//! they need.

mod batch;
mod mend;
mod runs;
mod slots;

use crate::openings::Openings;
use crate::options::OnCorrupt;
use crate::plan::{Announcement, BatchPlan, ReadSource};
use crate::rows::Rows;
use crate::stage::{Ending, SlotRoom};
use crate::supply::{LargeRecord, Supply};
use crate::task::{Idle, MendedRow, ReadTask, RowDone, RowNotes, RowTask, SubmitTask, Task};
use batch::{BatchWork, OpenBatch, judge};
use runs::{OpenRuns, RunStatus};
use shardpack_format::bug;
use shardpack_reader::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of rows that a thread claims at once. Claiming several keeps threads from competing for the
/// lock at the start of a large batch of small samples.
const MAX_CHUNK: usize = 16;

#[derive(Debug)]
pub(crate) enum Condition {
    Working,
    Broken(Error),
    Closed,
}

pub(crate) struct Ring {
    condition: Condition,
    pub(crate) generation: u64,
    pub(crate) alive: usize,
    pub(crate) asleep: usize,
    epoch: u32,
    /// First epoch whose batches are not all planned: the current epoch, or one of the next two.
    unplanned: u64,
    /// True if work on the next epoch starts before this one ends.
    pub(crate) goes_on: bool,
    planning: bool,
    openings: Option<Arc<Openings>>,
    batches: VecDeque<OpenBatch>,
    /// Large records with parts that no thread has taken yet, in the order in which the records were opened.
    large: Vec<Arc<LargeRecord>>,
    runs: OpenRuns,
    free: Vec<Arc<Rows>>,
    spare_plans: Vec<BatchPlan>,
    spare_work: Vec<BatchWork>,
    slots: usize,
    lent: usize,
    extra: usize,
    /// True while a slot is being replaced by a larger one.
    growing: bool,
    discarded: Vec<Arc<Rows>>,
    limits: RingLimits,
    pub(crate) samples: u64,
    pub(crate) skipped: u64,
    pub(crate) extra_slots: u64,
    pub(crate) grown_slots: u64,
    pub(crate) device_rows: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RingLimits {
    pub(crate) slots: usize,
    pub(crate) room: SlotRoom,
    pub(crate) threads: usize,
    pub(crate) run_bytes: u64,
    /// Maximum total size of an epoch's runs, in bytes. When work on the next epoch starts, both epochs share this
    /// limit.
    pub(crate) held_bytes: u64,
    pub(crate) on_corrupt: OnCorrupt,
    /// Total number of axes in a row's ragged fields.
    pub(crate) dims: usize,
    /// True if the values of rows stay on a device. Preparing a row then usually takes only microseconds.
    pub(crate) is_resident: bool,
    /// True if runs are scenes. Some scenes are decoded ahead of their batches.
    pub(crate) are_scenes: bool,
}

impl Ring {
    pub(crate) fn new(limits: RingLimits, epoch: u32) -> Self {
        Self {
            condition: Condition::Working,
            generation: 0,
            alive: 0,
            asleep: 0,
            epoch,
            unplanned: u64::from(epoch),
            goes_on: false,
            planning: false,
            openings: None,
            batches: VecDeque::new(),
            large: Vec::new(),
            runs: OpenRuns::new(epoch, limits.run_bytes, limits.held_bytes.min(limits.run_bytes)),
            free: Vec::new(),
            spare_plans: Vec::new(),
            spare_work: Vec::new(),
            slots: 0,
            lent: 0,
            extra: 0,
            growing: false,
            discarded: Vec::new(),
            limits,
            samples: 0,
            skipped: 0,
            extra_slots: 0,
            grown_slots: 0,
            device_rows: 0,
        }
    }

    pub(crate) const fn peak_run_bytes(&self) -> u64 {
        self.runs.peak
    }

    pub(crate) fn break_down(&mut self, error: Error) {
        if matches!(self.condition, Condition::Working) {
            self.condition = Condition::Broken(error);
        }
    }

    pub(crate) fn close(&mut self) {
        self.condition = Condition::Closed;
    }

    pub(crate) const fn broken(&self) -> Option<&Error> {
        match &self.condition {
            Condition::Broken(error) => Some(error),
            Condition::Working | Condition::Closed => None,
        }
    }

    const fn is_working(&self) -> bool {
        matches!(self.condition, Condition::Working)
    }

    /// Returns the number of batches at the front that are ready for the caller.
    pub(crate) fn finished(&self) -> usize {
        let is_ready = |open: &&OpenBatch| open.plan.epoch == self.epoch && open.has_slot() && open.state.is_over();
        self.batches.iter().take_while(is_ready).count()
    }

    /// Starts an epoch from scratch and discards all prepared work. A slot becomes free when its rows are no longer
    /// being written.
    ///
    /// If `cached` is true, the epoch's window is in the page cache, so the buffers of runs are freed.
    pub(crate) fn restart(&mut self, generation: u64, epoch: u32, cached: bool) {
        self.generation = generation;
        self.planning = false;
        self.openings = None;
        (self.epoch, self.unplanned) = (epoch, epoch.into());
        self.drop_batches(|_| true);
        self.runs.restart(generation, epoch);
        if cached {
            self.runs.forget_free();
        }
    }

    /// Continues with the next epoch, which is partly planned already. Discards the rest of the current one.
    pub(crate) fn go_on(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.unplanned = self.unplanned.max(epoch.into());
        self.drop_batches(|of| of != epoch);
        self.runs.go_on(epoch);
    }

    fn drop_batches(&mut self, is_over: impl Fn(u32) -> bool) {
        while self.batches.front().is_some_and(|open| is_over(open.plan.epoch)) {
            let Some(mut open) = self.batches.pop_front() else { break };
            open.work.clear();
            self.spare_work.push(open.work);
            self.free.extend(open.state.into_slot());
        }
        let over = self.large.extract_if(.., |large| is_over(large.of.at.epoch));
        over.for_each(|large| large.abandon());
    }

    fn batch(&mut self, number: u64) -> Option<&mut OpenBatch> {
        batch_of(&mut self.batches, number)
    }

    /// Adds finished rows. `dims` are the axes of their ragged fields, row by row. Returns true if this
    /// completes a batch.
    pub(crate) fn post(&mut self, rows: &mut Vec<RowDone>, dims: &[u64]) -> bool {
        let stride = self.limits.dims;
        let mut finished = false;
        for (i, RowDone { of, made }) in rows.drain(..).enumerate() {
            if of.generation != self.generation {
                continue;
            }
            if let Some(run) = of.run {
                self.runs.release(run, 1);
            }
            let Some(open) = self.batch(of.batch) else { continue };
            match made {
                Ok(RowNotes { missing, staged, objects, patch }) => {
                    open.work.staged += staged;
                    open.plan.patches.extend(patch.map(|patch| (of.row, patch)));
                    open.plan.missing.extend(missing.iter().map(|&field| (of.row, field)));
                    if !objects.is_empty() {
                        open.plan.objects.push((of.row, objects));
                    }
                    let from = dims.get(i * stride..(i + 1) * stride).unwrap_or_default();
                    let to = open.plan.dims_of_mut(of.row, stride);
                    if to.len() == from.len() {
                        to.copy_from_slice(from);
                    }
                }
                Err(error) => open.work.faults.push((of.row, error)),
            }
            finished |= open.row_done();
        }
        finished
    }

    /// Returns the next task for a thread. Planning comes first, because it is cheap and creates work for all
    /// threads. Tasks for the earliest batch follow.
    pub(crate) fn next(&mut self, rows: &mut Vec<RowTask>, dims: &mut Vec<u64>) -> Task {
        if !self.is_working() {
            return Task::Exit;
        }
        if let Some(epoch) = self.to_be_planned() {
            self.planning = true;
            let mut plan = self.spare_plans.pop().unwrap_or_default();
            (plan.generation, plan.epoch) = (self.generation, epoch);
            return Task::Plan(plan);
        }
        if !self.discarded.is_empty() {
            return Task::Free(std::mem::take(&mut self.discarded));
        }
        // Work that the device or the consumer waits for comes before decoding.
        for open in &mut self.batches {
            if let Some(slot) = open.submit() {
                let BatchPlan { generation, number, in_epoch, .. } = open.plan;
                return Task::Submit(SubmitTask { generation, batch: number, in_epoch, slot });
            }
        }
        let stride = self.limits.dims;
        for open in &mut self.batches {
            match open.mend(stride) {
                Ok(Some(mend)) => return Task::Mend(mend),
                Ok(None) => {}
                Err(error) => {
                    self.condition = Condition::Broken(error);
                    return Task::Exit;
                }
            }
        }
        if let Some((room, replaced)) = self.attach() {
            return Task::Allocate(room, replaced);
        }
        self.large.retain(|large| large.has_parts());
        if let Some(large) = self.large.iter().min_by_key(|large| large.of.batch) {
            return Task::Parts(Arc::clone(large));
        }
        let mut with_slots = self.batches.iter().take_while(|open| open.has_slot());
        let decodable = with_slots.find(|open| !open.work.ready.is_empty()).map(|open| open.plan.number);
        let front = self.batches.front().map_or(0, |open| open.plan.number);
        // Nothing is read for a batch without a slot. The system already has the announced bytes, so reading
        // them now would only take memory.
        let filling = self.batches.iter().take_while(|open| open.has_slot()).last().map(|open| open.plan.number);
        let readable = filling.and_then(|last| self.runs.next_needed_by(front).filter(|&by| by <= last));
        if let Some(needed_by) = readable
            && decodable.is_none_or(|decodable| needed_by < decodable)
            && let Some(read) = self.runs.take()
        {
            return Task::Read(read);
        }
        if let Some(number) = decodable {
            self.claim(number, rows, dims);
            return Task::Decode;
        }
        if let Some(openings) = self.openings.as_ref().filter(|openings| openings.is_left()) {
            return Task::Open(Arc::clone(openings));
        }
        // A scene can be read without a slot, because its decoded patches are kept outside the slots.
        if self.limits.are_scenes
            && self.runs.next_needed_by(front).is_some()
            && let Some(read) = self.runs.take()
        {
            return Task::Read(read);
        }
        let undone = self.batches.iter().any(|open| open.has_slot() && !open.state.is_over());
        Task::Wait(match undone {
            true if self.runs.is_reading() => Idle::ForData,
            true => Idle::Done,
            false if self.batches.is_empty() || self.planning => Idle::Done,
            false => Idle::ForSlot,
        })
    }

    fn to_be_planned(&self) -> Option<u32> {
        let is_wanted = self.unplanned <= u64::from(self.epoch) + u64::from(self.goes_on);
        let has_room = !self.planning && self.batches.len() <= self.limits.slots;
        // Epoch numbers end at `u32::MAX`.
        if is_wanted && has_room { u32::try_from(self.unplanned).ok() } else { None }
    }

    /// Completes a batch that a device has worked on. If it belongs to an earlier epoch, only its slot is released.
    pub(crate) fn completed(&mut self, generation: u64, number: u64, ending: Ending) {
        let is_current = generation == self.generation;
        match ending {
            Ending::Lost(error) => self.break_down(error),
            Ending::Decoded(odd) => {
                let Some(open) = batch_of(&mut self.batches, number).filter(|_| is_current) else { return };
                self.device_rows += open.work.staged.saturating_sub(odd.len() as u64);
                open.decoded(odd);
            }
            Ending::Failed(error) => {
                let Some(open) = self.batch(number).filter(|_| is_current) else { return };
                open.complete();
                open.plan.error.get_or_insert(error);
            }
        }
    }

    pub(crate) fn mended(&mut self, generation: u64, number: u64, rows: Vec<MendedRow>) {
        if generation != self.generation {
            return;
        }
        let stride = self.limits.dims;
        if let Some(open) = self.batch(number) {
            open.mended(rows, stride);
        }
    }

    /// Shares a large record among all threads. A record of an earlier epoch is dropped together with its row.
    pub(crate) fn share(&mut self, large: LargeRecord) {
        if large.of.generation == self.generation && self.batch(large.of.batch).is_some() {
            self.large.push(Arc::new(large));
        }
    }

    fn claim(&mut self, number: u64, rows: &mut Vec<RowTask>, dims: &mut Vec<u64>) {
        let RingLimits { dims: stride, threads, is_resident, .. } = self.limits;
        let Some(open) = self.batch(number) else { return };
        // Claim several of the ready rows from a full batch, but only one at a time near its end, so all threads
        // finish at about the same time.
        let first = open.work.ready.front().and_then(|(_, supply)| supply.as_ref());
        let in_parts = first.is_some_and(|supply| supply.is_in_parts());
        let ready = open.work.ready.len();
        // Cheap rows are claimed in larger groups, because other threads have other batches to work on.
        let least = if is_resident { (open.plan.rows.len() / threads).clamp(1, MAX_CHUNK) } else { 1 };
        let count = if in_parts { 1 } else { ready.div_ceil(2 * threads).min(MAX_CHUNK).max(least).min(ready) };
        open.claim(count, stride, rows, dims);
    }

    /// Lets all threads help to open the shards that a plan of the current generation needs.
    pub(crate) fn open(&mut self, generation: u64, openings: &Arc<Openings>) {
        if generation == self.generation {
            self.openings = Some(Arc::clone(openings));
        }
    }

    pub(crate) const fn is_at(&self, generation: u64) -> bool {
        generation == self.generation && self.is_working()
    }

    /// Adds a plan, or records that its epoch has ended. Adds each byte range to fetch to `fresh` once.
    pub(crate) fn planned(&mut self, mut plan: BatchPlan, more: bool, fresh: &mut Vec<Announcement>) {
        self.planning = false;
        self.openings = None;
        if !more {
            self.unplanned = u64::from(plan.epoch) + 1;
            plan.closed.drain(..).for_each(|key| self.runs.close(key));
            self.spare_plans.push(plan);
            return;
        }
        let mut open = OpenBatch::new(plan, self.spare_work.pop().unwrap_or_default());
        let OpenBatch { plan, work, .. } = &mut open;
        let mut ready = |rows: &mut dyn Iterator<Item = u32>, supply: Option<&Arc<Supply>>| {
            work.ready.extend(rows.map(|row| (row, supply.cloned())));
        };
        let unread = (0..).zip(&plan.rows).filter(|(_, planned)| planned.read.is_none());
        ready(&mut unread.map(|(row, _)| row), None);
        fresh.append(&mut plan.announced);
        for (read, planned) in (0..).zip(&plan.reads) {
            let run = match &planned.source {
                ReadSource::Direct(supply) => {
                    ready(&mut plan.rows_of(read), Some(supply));
                    continue;
                }
                ReadSource::Run(run) => run,
            };
            match self.runs.want(plan.number, read, planned.rows, run) {
                RunStatus::Ready(supply) => ready(&mut plan.rows_of(read), Some(&supply)),
                RunStatus::New => fresh.push(run.announcement()),
                RunStatus::Queued => {}
            }
        }
        for (batch, run) in plan.coming.drain(..) {
            if self.runs.announce(batch, &run) {
                fresh.push(run.announcement());
            }
        }
        // Close runs only after recording the plan's own reads, which still need them.
        for key in plan.closed.drain(..) {
            self.runs.close(key);
        }
        self.batches.push_back(open);
    }

    pub(crate) fn read(&mut self, task: &ReadTask, result: Result<Supply>) {
        let Self { batches, runs, .. } = self;
        let (supply, error) = match result {
            Ok(supply) => (Some(supply), None),
            Err(error) => (None, Some(error)),
        };
        runs.loaded(task, supply, |(number, read), supply| {
            let Some(open) = batch_of(batches, number) else { return };
            for row in open.plan.rows_of(read) {
                // A row without a supply has already failed. It is filled with zeros.
                open.work.ready.push_back((row, supply.cloned()));
                open.work.faults.extend(error.as_ref().map(|error| (row, error.clone())));
            }
        });
    }

    /// Takes the next batch. If it has an error, its slot is released at once.
    pub(crate) fn take(&mut self) -> Option<Result<(Arc<Rows>, BatchPlan)>> {
        let front = self.batches.front()?;
        if front.plan.epoch != self.epoch || !front.state.is_over() {
            return None;
        }
        let OpenBatch { mut plan, state, mut work } = self.batches.pop_front()?;
        let allowed = match self.limits.on_corrupt {
            OnCorrupt::Error => 0,
            OnCorrupt::Skip { max } => max.saturating_sub(self.skipped),
        };
        let verdict = judge(&mut plan, &mut work, allowed, self.limits.dims);
        work.clear();
        self.spare_work.push(work);
        Some(match (verdict, state.into_slot()) {
            (Ok(skipped), Some(slot)) => {
                self.skipped += skipped;
                self.lent += 1;
                self.samples += plan.mask.iter().filter(|&&there| there).count() as u64;
                Ok((slot, plan))
            }
            (Ok(_), None) => bug("a batch has neither a slot nor an error"),
            (Err(error), slot) => {
                self.free.extend(slot);
                self.spare_plans.push(plan);
                Err(error)
            }
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        let is_left = self.batches.front().is_some_and(|open| open.plan.epoch == self.epoch);
        self.unplanned > u64::from(self.epoch) && !is_left
    }
}

fn batch_of(batches: &mut VecDeque<OpenBatch>, number: u64) -> Option<&mut OpenBatch> {
    let front = batches.front()?.plan.number;
    batches.get_mut(usize::try_from(number.checked_sub(front)?).ok()?)
}
