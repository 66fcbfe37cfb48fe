//! What the threads of a loader share, under one lock: batches in order, their slots, the runs they
//! wait for.

mod mend;
mod open;
mod runs;
mod slots;

use crate::fault;
use crate::job::{Claim, Job, Made, Mended, Outcome, Want};
use crate::large::Large;
use crate::openings::Openings;
use crate::options::OnCorrupt;
use crate::plan::{NONE, Plan};
use crate::read::ReadJob;
use crate::rows::Rows;
use crate::stage::{Ending, Room};
use open::{Open, Phase, Work, judge};
use runs::Runs;
use shardpack_format::to_usize;
use shardpack_reader::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that a thread takes at most at a time: at the start of a large batch of small samples,
/// where the lock would be asked for too often.
const MAX_CHUNK: usize = 16;

pub(crate) struct State {
    pub(crate) closed: bool,
    /// What ended the loader's work for good.
    pub(crate) broken: Option<Error>,
    pub(crate) generation: u64,
    /// Threads that run.
    pub(crate) alive: usize,
    /// Threads that wait for work.
    pub(crate) asleep: usize,
    /// The epoch that the caller is in.
    epoch: u32,
    /// The first epoch of which batches are still to be planned: the one at hand, the next one, or,
    /// once that is planned, too, the one after it.
    unplanned: u64,
    /// Whether the next epoch is begun while the one at hand ends.
    pub(crate) goes_on: bool,
    planning: bool,
    /// Shards of the batch that is being planned.
    openings: Option<Arc<Openings>>,
    batches: VecDeque<Open>,
    /// Large records of which there are parts to be taken, as they were opened.
    large: Vec<Arc<Large>>,
    runs: Runs,
    free: Vec<Arc<Rows>>,
    spare_plans: Vec<Plan>,
    spare_work: Vec<Work>,
    /// Slots that exist, or are being made.
    slots: usize,
    /// Slots in the caller's hands.
    lent: usize,
    extra: usize,
    /// Whether a larger slot is being made in place of another.
    growing: bool,
    /// Slots that nobody needs any more.
    discarded: Vec<Arc<Rows>>,
    limits: Bounds,
    pub(crate) samples: u64,
    pub(crate) skipped: u64,
    pub(crate) extra_slots: u64,
    pub(crate) grown_slots: u64,
    pub(crate) device_rows: u64,
}

/// What a loader was told, as far as the state needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) slots: usize,
    /// A slot has at least this room.
    pub(crate) room: Room,
    pub(crate) threads: usize,
    pub(crate) run_bytes: u64,
    /// What they take in one epoch: the next one gets no more while this one ends.
    pub(crate) held_bytes: u64,
    pub(crate) on_corrupt: OnCorrupt,
    /// Axes of the ragged fields of a row.
    pub(crate) dims: usize,
    /// Whether rows are of values that stay on a device: most cost microseconds.
    pub(crate) is_resident: bool,
    /// Whether runs are scenes, of which some are decoded ahead of their batches.
    pub(crate) are_scenes: bool,
}

impl State {
    pub(crate) fn new(limits: Bounds, epoch: u32) -> Self {
        Self {
            closed: false,
            broken: None,
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
            runs: Runs::new(epoch, limits.run_bytes, limits.held_bytes.min(limits.run_bytes)),
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

    /// Batches at the front that could be handed out.
    pub(crate) fn finished(&self) -> usize {
        let is_ready = |open: &&Open| open.plan.epoch == self.epoch && open.slot.is_some() && open.is_done();
        self.batches.iter().take_while(is_ready).count()
    }

    /// Begins an epoch anew: everything that was prepared is forgotten. Slots whose rows are still
    /// being written come free when they are done.
    ///
    /// With `cached`, the page cache holds its window: buffers for runs are of no more use.
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

    /// The caller goes on to the next epoch, which is planned in part: what is left of the one at
    /// hand is forgotten.
    pub(crate) fn go_on(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.unplanned = self.unplanned.max(epoch.into());
        self.drop_batches(|of| of != epoch);
        self.runs.go_on(epoch);
    }

    /// Forgets the first batches, as long as they are of such an epoch.
    fn drop_batches(&mut self, is_over: impl Fn(u32) -> bool) {
        while self.batches.front().is_some_and(|open| is_over(open.plan.epoch)) {
            let Some(mut open) = self.batches.pop_front() else { break };
            open.work.clear();
            self.spare_work.push(open.work);
            self.free.extend(open.slot);
        }
        let over = self.large.extract_if(.., |large| is_over(large.of.epoch));
        over.for_each(|large| large.abandon());
    }

    fn batch(&mut self, number: u64) -> Option<&mut Open> {
        batch_of(&mut self.batches, number)
    }

    /// Takes in what was decoded. `dims` are, outcome by outcome, the axes of ragged fields. True
    /// if a batch was finished.
    pub(crate) fn post(&mut self, outcomes: &mut Vec<Outcome>, dims: &[u64]) -> bool {
        let stride = self.limits.dims;
        let mut finished = false;
        for (i, outcome) in outcomes.drain(..).enumerate() {
            if outcome.generation != self.generation {
                continue;
            }
            if let Some(key) = outcome.key {
                self.runs.release(key, 1);
            }
            let Some(open) = self.batch(outcome.batch) else { continue };
            open.left = open.left.saturating_sub(1);
            finished |= open.is_done();
            let Made { missing, staged, objects, patch } = match outcome.made {
                Ok(made) => made,
                Err(error) => {
                    open.work.faults.push((outcome.row, error));
                    continue;
                }
            };
            open.work.staged += staged;
            open.plan.patches.extend(patch.map(|patch| (outcome.row, patch)));
            open.plan.missing.extend(missing.iter().map(|&field| (outcome.row, field)));
            if !objects.is_empty() {
                open.plan.objects.push((outcome.row, objects));
            }
            if stride > 0 {
                let row = to_usize(outcome.row).saturating_mul(stride);
                let from = dims.get(i * stride..(i + 1) * stride);
                if let (Some(to), Some(from)) = (open.plan.dims.get_mut(row..row.saturating_add(stride)), from) {
                    to.copy_from_slice(from);
                }
            }
        }
        finished
    }

    /// What a thread that has nothing to do should do. Planning is cheap and opens work for all;
    /// then whatever the earliest batch needs.
    pub(crate) fn next(&mut self, claims: &mut Vec<Claim>, dims: &mut Vec<u64>) -> Job {
        if self.closed || self.broken.is_some() {
            return Job::Exit;
        }
        if let Some(epoch) = self.to_be_planned() {
            self.planning = true;
            let mut plan = self.spare_plans.pop().unwrap_or_default();
            (plan.generation, plan.epoch) = (self.generation, epoch);
            return Job::Plan(plan);
        }
        if !self.discarded.is_empty() {
            return Job::Free(std::mem::take(&mut self.discarded));
        }
        // What the device waits for, or the consumer, comes first.
        if let Some(open) = self.batches.iter_mut().find(|open| open.is_to_submit())
            && let Some(slot) = &open.slot
        {
            open.phase = Phase::Submitted;
            let batch = [open.plan.number, open.plan.in_epoch];
            return Job::Submit(open.plan.generation, batch, Arc::clone(slot));
        }
        let dims_of_row = self.limits.dims;
        for open in self.batches.iter_mut().filter(|open| open.phase == Phase::Odd) {
            match open.mend(dims_of_row) {
                Ok(Some(mend)) => return Job::Mend(mend),
                Ok(None) => {}
                Err(error) => {
                    self.broken = Some(error);
                    return Job::Exit;
                }
            }
        }
        let missing = self.attach();
        if self.broken.is_some() {
            return Job::Exit;
        }
        if let Some((room, replaced)) = missing {
            return Job::Allocate(room, replaced);
        }
        // Before another record is opened: those that were are done the sooner.
        self.large.retain(|large| large.has_parts());
        if let Some(large) = self.large.iter().min_by_key(|large| large.of.batch) {
            return Job::Parts(Arc::clone(large));
        }
        let decodable = self.batches.iter().take_while(|open| open.slot.is_some()).find(|o| !o.work.ready.is_empty());
        let decodable = decodable.map(|open| open.plan.number);
        let front = self.batches.front().map_or(0, |open| open.plan.number);
        // For a batch without a slot nothing is read: the system has been told, and holds it; here
        // it would only take memory.
        let filling = self.batches.iter().take_while(|open| open.slot.is_some()).last().map(|open| open.plan.number);
        let readable = filling.and_then(|last| self.runs.next_needed_by(front).filter(|&by| by <= last));
        if let (Some(needed_by), decodable) = (readable, decodable.unwrap_or(u64::MAX))
            && needed_by < decodable
            && let Some(job) = self.runs.take()
        {
            return Job::Read(job);
        }
        if let Some(number) = decodable {
            self.claim(number, claims, dims);
            return Job::Decode;
        }
        if let Some(openings) = self.openings.as_ref().filter(|openings| openings.is_left()) {
            return Job::Open(Arc::clone(openings));
        }
        // What is decoded of a scene waits outside the slots.
        if self.limits.are_scenes
            && self.runs.next_needed_by(front).is_some()
            && let Some(job) = self.runs.take()
        {
            return Job::Read(job);
        }
        let undone = self.batches.iter().any(|open| open.slot.is_some() && !open.is_done());
        Job::Wait(match undone {
            true if self.runs.is_reading() => Want::Data,
            true => Want::Nothing,
            false if self.batches.is_empty() || self.planning => Want::Nothing,
            false => Want::Slot,
        })
    }

    /// The epoch of which a batch should be planned.
    fn to_be_planned(&self) -> Option<u32> {
        let is_wanted = self.unplanned <= u64::from(self.epoch) + u64::from(self.goes_on);
        let has_room = !self.planning && self.batches.len() <= self.limits.slots;
        // After the last epoch that can be counted comes none.
        if is_wanted && has_room { u32::try_from(self.unplanned).ok() } else { None }
    }

    /// Takes in what became of a batch on the device. One of an earlier epoch only gives its slot
    /// back.
    pub(crate) fn completed(&mut self, generation: u64, number: u64, ending: Ending) {
        if let Ending::Lost(error) = ending {
            self.broken.get_or_insert(error);
            return;
        }
        if generation != self.generation {
            return;
        }
        let Some(open) = batch_of(&mut self.batches, number) else { return };
        match ending {
            Ending::Decoded(faults) => {
                self.device_rows += open.work.staged.saturating_sub(faults.len() as u64);
                open.phase = if faults.is_empty() { Phase::Done } else { Phase::Odd };
                open.work.odd = faults;
            }
            Ending::Failed(error) => {
                open.phase = Phase::Done;
                open.plan.error.get_or_insert(error);
            }
            Ending::Lost(_) => {}
        }
    }

    /// Takes in what the host has made of what the device could not decode.
    pub(crate) fn mended(&mut self, generation: u64, number: u64, rows: Vec<Mended>) {
        if generation != self.generation {
            return;
        }
        let stride = self.limits.dims;
        if let Some(open) = self.batch(number) {
            open.mended(rows, stride);
        }
    }

    /// A large record was opened. Of an earlier epoch, it is dropped, and its row with it.
    pub(crate) fn share(&mut self, large: Large) {
        if large.of.generation == self.generation && self.batch(large.of.batch).is_some() {
            self.large.push(Arc::new(large));
        }
    }

    fn claim(&mut self, number: u64, claims: &mut Vec<Claim>, dims: &mut Vec<u64>) {
        let Bounds { dims: stride, threads, is_resident, .. } = self.limits;
        let Some(open) = self.batch(number) else { return };
        // A share of what is there: many rows of a full batch, one by one at its end, so that all
        // threads finish together.
        // A large record is opened alone, because all threads come to help.
        let large = open.work.ready.front().is_some_and(|(_, run)| run.as_ref().is_some_and(|run| run.is_large));
        let ready = open.work.ready.len();
        // Rows that cost next to nothing are taken in larger parts: other batches are under way.
        let least = if is_resident { (open.plan.rows.len() / threads).clamp(1, MAX_CHUNK) } else { 1 };
        let count = if large { 1 } else { ready.div_ceil(2 * threads).min(MAX_CHUNK).max(least).min(ready) };
        open.claim(count, stride, claims, dims);
    }

    /// Has all threads help to open these shards, which a plan of this generation waits for.
    pub(crate) fn open(&mut self, generation: u64, openings: &Arc<Openings>) {
        if generation == self.generation {
            self.openings = Some(Arc::clone(openings));
        }
    }

    /// Whether somebody waits for a plan of this generation.
    pub(crate) const fn is_at(&self, generation: u64) -> bool {
        generation == self.generation && !self.closed && self.broken.is_none()
    }

    /// Takes in a plan, or the end of its epoch. `fresh` gets the numbers of the reads that nobody
    /// has asked for before.
    pub(crate) fn planned(
        &mut self,
        mut plan: Plan,
        more: bool,
        fresh: &mut Vec<(Arc<shardpack_reader::Shard>, u64, u64)>,
    ) {
        self.planning = false;
        self.openings = None;
        if !more {
            self.unplanned = u64::from(plan.epoch) + 1;
            plan.closed.drain(..).for_each(|key| self.runs.close(key));
            self.spare_plans.push(plan);
            return;
        }
        let work = self.spare_work.pop().unwrap_or_default();
        let mut open = Open { slot: None, left: plan.rows.len(), work, plan, phase: Phase::Filling };
        // Rows without a run have nothing to wait for.
        for (row, planned) in (0..).zip(&open.plan.rows) {
            if planned.read == NONE {
                open.work.ready.push_back((row, None));
            }
        }
        fresh.append(&mut open.plan.announced);
        for (read, planned) in (0..).zip(&open.plan.reads) {
            if let Some(cached) = &planned.cached {
                open.work.ready.extend(open.plan.rows_of(read).map(|row| (row, Some(Arc::clone(cached)))));
                continue;
            }
            match self.runs.want(open.plan.number, read, planned) {
                (Some(loaded), _) => {
                    let rows = open.plan.rows_of(read).map(|row| (row, Some(Arc::clone(&loaded))));
                    open.work.ready.extend(rows);
                }
                (None, true) => {
                    let span = planned.shard.span(&planned.records).unwrap_or(0..0);
                    fresh.push((Arc::clone(&planned.shard), span.start, span.end - span.start));
                }
                (None, false) => {}
            }
        }
        for (batch, planned) in open.plan.coming.drain(..) {
            if self.runs.announce(batch, &planned) {
                let span = planned.shard.span(&planned.records).unwrap_or(0..0);
                fresh.push((Arc::clone(&planned.shard), span.start, span.end - span.start));
            }
        }
        // After its own reads are noted: what they bring is still needed.
        for key in open.plan.closed.drain(..) {
            self.runs.close(key);
        }
        self.batches.push_back(open);
    }

    /// Takes in a run that was read, or why it was not.
    pub(crate) fn read(&mut self, job: ReadJob, result: Result<()>) {
        let Self { batches, runs, .. } = self;
        runs.loaded(job, result.is_ok(), |(number, read), loaded| {
            let Some(open) = batch_of(batches, number) else { return };
            for row in open.plan.rows_of(read) {
                // Without a run, a row is filled with zeros; what is wrong with it is known
                // already.
                open.work.ready.push_back((row, loaded.cloned()));
                if let Err(error) = &result {
                    open.work.faults.push((row, fault::copy(error)));
                }
            }
        });
    }

    /// The next batch, if it is done. The slot of a batch that is an error goes back at once.
    pub(crate) fn take(&mut self) -> Option<Result<(Arc<Rows>, Plan)>> {
        let front = self.batches.front()?;
        if front.plan.epoch != self.epoch || !front.is_done() {
            return None;
        }
        let Open { mut plan, slot, mut work, .. } = self.batches.pop_front()?;
        let allowed = match self.limits.on_corrupt {
            OnCorrupt::Error => 0,
            OnCorrupt::Skip { max } => max.saturating_sub(self.skipped),
        };
        let verdict = judge(&mut plan, &mut work, allowed, self.limits.dims);
        work.clear();
        self.spare_work.push(work);
        Some(match (verdict, slot) {
            (Ok(_), None) => Err(Error::internal("slot of a finished batch", "one", "none")),
            (Ok(skipped), Some(slot)) => {
                self.skipped += skipped;
                self.lent += 1;
                self.samples += plan.mask.iter().filter(|&&there| there).count() as u64;
                Ok((slot, plan))
            }
            (Err(error), slot) => {
                self.free.extend(slot);
                self.spare_plans.push(plan);
                Err(error)
            }
        })
    }

    /// Whether nothing more comes of the epoch at hand.
    pub(crate) fn is_over(&self) -> bool {
        let is_left = self.batches.front().is_some_and(|open| open.plan.epoch == self.epoch);
        self.unplanned > u64::from(self.epoch) && !is_left
    }
}

fn batch_of(batches: &mut VecDeque<Open>, number: u64) -> Option<&mut Open> {
    let front = batches.front()?.plan.number;
    batches.get_mut(usize::try_from(number.checked_sub(front)?).ok()?)
}
