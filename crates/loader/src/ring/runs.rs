//! Runs of records in memory: wanted runs, loaded runs, and reusable buffers.

use crate::memory::suits;
use crate::plan::PlannedRun;
use crate::sample::RunKey;
use crate::supply::{SceneRead, Supply, size_class};
use crate::task::ReadTask;
use shardpack_reader::Shard;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Rows of one batch that wait for a run: the index of the batch, and the index of the read in its plan.
pub(crate) type WaitingRead = (u64, u32);

pub(crate) enum RunStatus {
    Ready(Arc<Supply>),
    /// Rows that were planned earlier already need the run.
    Queued,
    New,
}

#[derive(Debug)]
struct WantedRun {
    shard: Arc<Shard>,
    records: Range<u64>,
    bytes: u64,
    state: RunState,
    first_waiting: Option<WaitingRead>,
    more_waiting: Vec<WaitingRead>,
    pending: usize,
    used: u64,
    closing: bool,
    listed: bool,
    needed_by: u64,
    scene: Option<Arc<SceneRead>>,
    /// True for a whole scene, whose memory is needed until its last patch is copied.
    is_whole: bool,
}

impl WantedRun {
    fn rows(&self) -> u64 {
        self.scene.as_ref().map_or(self.records.end - self.records.start, |scene| scene.patches.len() as u64)
    }
}

#[derive(Debug)]
enum RunState {
    Queued,
    Reading,
    Ready(Arc<Supply>),
}

#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    generation: u64,
    epoch: u32,
    runs: HashMap<RunKey, WantedRun>,
    /// Keys of the runs to read, in the order in which they are needed.
    queue: VecDeque<RunKey>,
    /// Runs that no planned row needs, but that later rows may need. The first run is dropped first.
    idle: VecDeque<RunKey>,
    free: Vec<Vec<u8>>,
    /// Total size, in bytes, of the buffers whose runs are loaded or being read.
    held: u64,
    free_bytes: u64,
    reading: usize,
    budget: u64,
    /// Maximum size in bytes of all runs while runs of the next epoch are read. Runs of the current epoch count too.
    budget_ahead: u64,
    pub(crate) peak: u64,
}

impl OpenRuns {
    pub(crate) fn new(epoch: u32, budget: u64, budget_ahead: u64) -> Self {
        Self { epoch, budget, budget_ahead, ..Self::default() }
    }

    pub(crate) fn forget_free(&mut self) {
        self.free.clear();
        self.free_bytes = 0;
    }

    pub(crate) fn restart(&mut self, generation: u64, epoch: u32) {
        (self.generation, self.epoch) = (generation, epoch);
        self.queue.clear();
        self.idle.clear();
        let runs = std::mem::take(&mut self.runs);
        for run in runs.into_values() {
            self.retire(run);
        }
    }

    /// Continues with the next epoch. Discards the remaining runs of the previous one.
    pub(crate) fn go_on(&mut self, epoch: u32) {
        self.epoch = epoch;
        let left: Vec<RunKey> = self.runs.keys().filter(|key| key.epoch != epoch).copied().collect();
        for run in left.iter().filter_map(|key| self.runs.remove(key)).collect::<Vec<_>>() {
            self.retire(run);
        }
        self.queue.retain(|key| key.epoch == epoch);
        self.idle.retain(|key| key.epoch == epoch);
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading > 0 || !self.queue.is_empty()
    }

    pub(crate) fn want(&mut self, batch: u64, read: u32, rows: usize, planned: &PlannedRun) -> RunStatus {
        let (run, is_new) = self.run(batch, planned);
        run.pending += rows;
        if let RunState::Ready(supply) = &run.state {
            return RunStatus::Ready(Arc::clone(supply));
        }
        match run.first_waiting {
            None => run.first_waiting = Some((batch, read)),
            Some(_) => run.more_waiting.push((batch, read)),
        }
        if is_new { RunStatus::New } else { RunStatus::Queued }
    }

    /// Records that a later batch will want this run. Returns true if the run is new.
    pub(crate) fn announce(&mut self, batch: u64, planned: &PlannedRun) -> bool {
        self.run(batch, planned).1
    }

    fn run(&mut self, batch: u64, planned: &PlannedRun) -> (&mut WantedRun, bool) {
        let mut is_new = false;
        let queue = &mut self.queue;
        let run = self.runs.entry(planned.key).or_insert_with(|| {
            is_new = true;
            queue.push_back(planned.key);
            let span = planned.span();
            let bytes = match &planned.scene {
                Some(scene) if !scene.is_stored => scene.bytes(),
                _ => size_class(span.end - span.start),
            };
            WantedRun {
                shard: Arc::clone(&planned.shard),
                records: planned.records.clone(),
                bytes,
                state: RunState::Queued,
                first_waiting: None,
                more_waiting: Vec::new(),
                pending: 0,
                used: 0,
                closing: false,
                listed: false,
                needed_by: batch,
                scene: planned.scene.clone(),
                is_whole: false,
            }
        });
        (run, is_new)
    }

    /// Drops the run as soon as its planned rows are decoded.
    pub(crate) fn close(&mut self, key: RunKey) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.closing = true;
        if run.pending == 0
            && let Some(run) = self.runs.remove(&key)
        {
            self.retire(run);
        }
    }

    /// Returns the first batch that needs the next run, or `None` if there is no memory for the run. To keep the
    /// loader from stalling, one run at a time is read for the front batch even over budget.
    pub(crate) fn next_needed_by(&mut self, front: u64) -> Option<u64> {
        let is_queued = |run: &WantedRun| matches!(run.state, RunState::Queued);
        while !self.runs.get(self.queue.front()?).is_some_and(is_queued) {
            self.queue.pop_front();
        }
        let key = *self.queue.front()?;
        let run = self.runs.get(&key)?;
        let (bytes, needed_by) = (run.bytes, run.needed_by);
        let budget = if key.epoch == self.epoch { self.budget } else { self.budget_ahead };
        // An idle run is usually needed again, so it is dropped only for the front batch and not to read ahead.
        while needed_by <= front && self.held.saturating_add(bytes) > budget && self.forget_one() {}
        let fits = self.held.saturating_add(bytes) <= budget;
        if fits || (needed_by <= front && self.reading == 0) {
            return Some(needed_by);
        }
        if needed_by > front && self.reading == 0 {
            return self.bring_to_front(front);
        }
        None
    }

    /// Moves a run that the front batch needs to the head of the queue, because runs of later batches may
    /// fill the budget. Returns the batch that needs the run.
    fn bring_to_front(&mut self, front: u64) -> Option<u64> {
        let needed = |key: &RunKey| {
            let run = self.runs.get(key).filter(|run| matches!(run.state, RunState::Queued))?;
            (run.needed_by <= front).then_some(run.needed_by)
        };
        let place = self.queue.iter().position(|key| needed(key).is_some())?;
        let key = self.queue.remove(place)?;
        self.queue.push_front(key);
        self.runs.get(&key).map(|run| run.needed_by)
    }

    fn forget_one(&mut self) -> bool {
        while let Some(key) = self.idle.pop_front() {
            let Some(run) = self.runs.get_mut(&key) else { continue };
            run.listed = false;
            if run.pending == 0
                && matches!(run.state, RunState::Ready(_))
                && let Some(run) = self.runs.remove(&key)
            {
                self.retire(run);
                return true;
            }
        }
        false
    }

    pub(crate) fn take(&mut self) -> Option<ReadTask> {
        let key = self.queue.pop_front()?;
        let run = self.runs.get(&key)?;
        let wanted = run.bytes;
        let (bytes, buffer) = if run.scene.is_some() {
            // A scene needs no buffer, because its patches have their own memory.
            self.held = self.held.saturating_add(wanted);
            self.peak = self.peak.max(self.held);
            (wanted, Vec::new())
        } else {
            self.buffer(wanted)
        };
        let run = self.runs.get_mut(&key)?;
        run.state = RunState::Reading;
        run.bytes = bytes;
        self.reading += 1;
        Some(ReadTask {
            generation: self.generation,
            key,
            shard: Arc::clone(&run.shard),
            records: run.records.clone(),
            buffer,
            bytes,
            scene: run.scene.clone(),
        })
    }

    /// Returns a free buffer of a suitable size, or else a new one. Frees other buffers if there is not
    /// enough room for all.
    fn buffer(&mut self, bytes: u64) -> (u64, Vec<u8>) {
        // The buffer released last is still in the processor's cache.
        let place = self.free.iter().rposition(|free| suits(free.len() as u64, bytes));
        let (bytes, buffer) = match place {
            Some(place) => {
                let buffer = self.free.remove(place);
                self.free_bytes -= buffer.len() as u64;
                (buffer.len() as u64, buffer)
            }
            None => (bytes, Vec::new()),
        };
        self.held = self.held.saturating_add(bytes);
        while self.held.saturating_add(self.free_bytes) > self.budget && !self.free.is_empty() {
            self.free_bytes -= self.free.remove(0).len() as u64;
        }
        self.peak = self.peak.max(self.held.saturating_add(self.free_bytes));
        (bytes, buffer)
    }

    /// Records that a run was read or failed, and calls `each` for the rows that waited for it.
    pub(crate) fn loaded(
        &mut self,
        task: &ReadTask,
        supply: Option<Supply>,
        mut each: impl FnMut(WaitingRead, Option<&Arc<Supply>>),
    ) {
        self.reading = self.reading.saturating_sub(1);
        let known = (task.generation == self.generation).then(|| self.runs.get_mut(&task.key)).flatten();
        let Some(run) = known else {
            self.recycle(task.bytes, supply.and_then(Supply::into_buffer));
            return;
        };
        let held = supply.as_ref().and_then(Supply::held_bytes);
        let supply = supply.map(Arc::new);
        for waiting in run.first_waiting.take().into_iter().chain(run.more_waiting.drain(..)) {
            each(waiting, supply.as_ref());
        }
        let Some(supply) = supply else {
            // Forget the run. Later rows that need it then try again.
            self.runs.remove(&task.key);
            self.recycle(task.bytes, None);
            return;
        };
        run.state = RunState::Ready(supply);
        if let Some(bytes) = held {
            self.held = self.held.saturating_sub(run.bytes).saturating_add(bytes);
            (run.bytes, run.is_whole) = (bytes, true);
        }
    }

    /// Records that these rows no longer need the run.
    pub(crate) fn release(&mut self, key: RunKey, rows: usize) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.pending = run.pending.saturating_sub(rows);
        run.used += rows as u64;
        let is_held = matches!(run.state, RunState::Ready(_));
        if let Some(scene) = run.scene.as_ref().filter(|_| is_held && !run.is_whole) {
            // Patches that have been copied to their rows no longer take memory.
            let bytes = scene.row_bytes.saturating_mul(rows as u64).min(run.bytes);
            run.bytes -= bytes;
            self.held = self.held.saturating_sub(bytes);
        }
        if run.pending > 0 {
            return;
        }
        if run.closing || run.used >= run.rows() {
            if let Some(run) = self.runs.remove(&key) {
                self.retire(run);
            }
        } else if run.scene.is_none() && !std::mem::replace(&mut run.listed, true) {
            // Scenes are never put on the idle list. Their memory is always within the budget, so a scene is not
            // dropped and decoded twice.
            self.idle.push_back(key);
            // The list may still contain runs that were dropped elsewhere.
            if self.idle.len() > 64 + 2 * self.runs.len() {
                self.idle.retain(|key| self.runs.contains_key(key));
            }
        }
    }

    fn retire(&mut self, run: WantedRun) {
        if let RunState::Ready(supply) = run.state {
            // If another thread is still decoding a row from the supply, that thread frees the memory.
            self.recycle(run.bytes, Arc::into_inner(supply).and_then(Supply::into_buffer));
        }
    }

    fn recycle(&mut self, bytes: u64, buffer: Option<Vec<u8>>) {
        self.held = self.held.saturating_sub(bytes);
        let Some(buffer) = buffer else { return };
        let bytes = buffer.len() as u64;
        // Keep as much memory as was needed once, even if that exceeds the budget. With records of many MiB, getting
        // fresh pages from the system takes longer than the read itself.
        let room = self.budget.max(self.peak);
        if bytes > 0 && self.held.saturating_add(self.free_bytes).saturating_add(bytes) <= room {
            self.free_bytes += bytes;
            self.free.push(buffer);
        }
    }
}
