//! Runs of records in memory: which are wanted, which are there, and the buffers that they go round
//! in.

use crate::memory::suits;
use crate::plan::PlannedRead;
use crate::read::{Loaded, ReadJob, Scene, SceneRead, size_class};
use crate::sample::Key;
use shardpack_reader::Shard;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The rows of one batch that wait for a run: the number of the batch, and of the read in its plan.
pub(crate) type Waiting = (u64, u32);

#[derive(Debug)]
struct Run {
    shard: Arc<Shard>,
    records: Range<u64>,
    bytes: u64,
    state: RunState,
    first_waiting: Option<Waiting>,
    more_waiting: Vec<Waiting>,
    /// Rows that were planned and are not decoded.
    pending: usize,
    /// Rows that were decoded.
    used: u64,
    closing: bool,
    /// Whether it is in the list of idle runs.
    listed: bool,
    /// The first batch that needs it.
    needed_by: u64,
    /// What is decoded, if it is a scene.
    scene: Option<Arc<SceneRead>>,
    /// It is a scene whose memory is needed until its last patch.
    is_whole: bool,
}

impl Run {
    /// Rows that come out of it.
    fn rows(&self) -> u64 {
        self.scene.as_ref().map_or(self.records.end - self.records.start, |scene| scene.patches.len() as u64)
    }
}

#[derive(Debug)]
enum RunState {
    Queued,
    Reading,
    Ready(Arc<Loaded>),
}

/// All runs that are wanted or in memory.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    generation: u64,
    /// The epoch at hand.
    epoch: u32,
    runs: HashMap<Key, Run>,
    /// In the order in which they are needed.
    queue: VecDeque<Key>,
    /// Runs that no planned row needs, but perhaps a later one; the first is the first to go.
    idle: VecDeque<Key>,
    free: Vec<Arc<Loaded>>,
    /// Bytes of the buffers of runs that are read or being read.
    held: u64,
    free_bytes: u64,
    reading: usize,
    budget: u64,
    /// The same for the reads of the next epoch: with those of the epoch at hand.
    budget_ahead: u64,
    pub(crate) peak: u64,
}

impl Runs {
    pub(crate) fn new(epoch: u32, budget: u64, budget_ahead: u64) -> Self {
        Self { epoch, budget, budget_ahead, ..Self::default() }
    }

    /// Gives back all memory that no run is in.
    pub(crate) fn forget_free(&mut self) {
        self.free.clear();
        self.free_bytes = 0;
    }

    /// Forgets everything; what is being read comes back to nobody.
    pub(crate) fn restart(&mut self, generation: u64, epoch: u32) {
        (self.generation, self.epoch) = (generation, epoch);
        self.queue.clear();
        self.idle.clear();
        let runs = std::mem::take(&mut self.runs);
        for run in runs.into_values() {
            self.retire(run);
        }
    }

    /// Goes on to the next epoch, and forgets what the one before it has left.
    pub(crate) fn go_on(&mut self, epoch: u32) {
        self.epoch = epoch;
        let left: Vec<Key> = self.runs.keys().filter(|(of, ..)| *of != epoch).copied().collect();
        for run in left.iter().filter_map(|key| self.runs.remove(key)).collect::<Vec<_>>() {
            self.retire(run);
        }
        self.queue.retain(|(of, ..)| *of == epoch);
        self.idle.retain(|(of, ..)| *of == epoch);
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading > 0 || !self.queue.is_empty()
    }

    /// Notes that rows of a batch want this run: the run, if it is in memory, and whether it has to
    /// be read.
    pub(crate) fn want(&mut self, batch: u64, read: u32, planned: &PlannedRead) -> (Option<Arc<Loaded>>, bool) {
        let (run, fresh) = self.run(batch, planned);
        run.pending += planned.rows;
        if let RunState::Ready(loaded) = &run.state {
            return (Some(Arc::clone(loaded)), false);
        }
        match run.first_waiting {
            None => run.first_waiting = Some((batch, read)),
            Some(_) => run.more_waiting.push((batch, read)),
        }
        (None, fresh)
    }

    /// Notes that rows of a later batch will want this run; whether nobody has wanted it before.
    pub(crate) fn announce(&mut self, batch: u64, planned: &PlannedRead) -> bool {
        self.run(batch, planned).1
    }

    /// The run, and whether it is new.
    fn run(&mut self, batch: u64, planned: &PlannedRead) -> (&mut Run, bool) {
        let mut fresh = false;
        let queue = &mut self.queue;
        let run = self.runs.entry(planned.key).or_insert_with(|| {
            fresh = true;
            queue.push_back(planned.key);
            let span = planned.shard.span(&planned.records).unwrap_or(0..0);
            let bytes = match &planned.scene {
                Some(scene) if !scene.is_stored => scene.bytes(),
                _ => size_class(span.end - span.start),
            };
            Run {
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
        (run, fresh)
    }

    /// Nobody needs the run any more once its planned rows are decoded.
    pub(crate) fn close(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.closing = true;
        if run.pending == 0
            && let Some(run) = self.runs.remove(&key)
        {
            self.retire(run);
        }
    }

    /// The batch that needs the next run to be read, if there is room for it. Over the budget, one
    /// at a time is read for the batch at the front, or nothing would ever go on.
    pub(crate) fn next_needed_by(&mut self, front: u64) -> Option<u64> {
        // Those that were given up again, or are read already, are passed over.
        let is_queued = |run: &Run| matches!(run.state, RunState::Queued);
        while !self.runs.get(self.queue.front()?).is_some_and(is_queued) {
            self.queue.pop_front();
        }
        let key = *self.queue.front()?;
        let run = self.runs.get(&key)?;
        let (bytes, needed_by) = (run.bytes, run.needed_by);
        let budget = if key.0 == self.epoch { self.budget } else { self.budget_ahead };
        // A run that is idle is needed again, as a rule: reading ahead is not worth reading twice,
        // going on is.
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

    /// What has filled the budget waits for later batches, and so does all at the head of the queue: a run
    /// of the batch at the front that came behind them, because it could not be had when it was its turn,
    /// goes first. The batch that needs it; `None` if there is none.
    fn bring_to_front(&mut self, front: u64) -> Option<u64> {
        let needed = |key: &Key| {
            let run = self.runs.get(key).filter(|run| matches!(run.state, RunState::Queued))?;
            (run.needed_by <= front).then_some(run.needed_by)
        };
        let place = self.queue.iter().position(|key| needed(key).is_some())?;
        let key = self.queue.remove(place)?;
        self.queue.push_front(key);
        self.runs.get(&key).map(|run| run.needed_by)
    }

    /// Drops the run that has been idle for the longest; false if none is.
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

    /// Takes the next run to be read.
    pub(crate) fn take(&mut self) -> Option<ReadJob> {
        let key = self.queue.pop_front()?;
        let run = self.runs.get(&key)?;
        let wanted = run.bytes;
        let (bytes, into) = if run.scene.is_some() {
            // Its patches have memory of their own.
            self.held = self.held.saturating_add(wanted);
            self.peak = self.peak.max(self.held);
            (wanted, Arc::default())
        } else {
            self.buffer(wanted)
        };
        let run = self.runs.get_mut(&key)?;
        run.state = RunState::Reading;
        run.bytes = bytes;
        self.reading += 1;
        Some(ReadJob {
            generation: self.generation,
            key,
            shard: Arc::clone(&run.shard),
            records: run.records.clone(),
            into,
            bytes,
            scene: run.scene.clone(),
        })
    }

    /// A buffer for `bytes`, and what it takes: a free one that suits, or a new one. Free ones that
    /// do not go when there is no room for both.
    fn buffer(&mut self, bytes: u64) -> (u64, Arc<Loaded>) {
        // The last one given back is the one that is in the processor's cache.
        let place = self.free.iter().rposition(|free| suits(free.buffer.len() as u64, bytes));
        let (bytes, loaded) = match place {
            Some(place) => {
                let loaded = self.free.remove(place);
                self.free_bytes -= loaded.buffer.len() as u64;
                (loaded.buffer.len() as u64, loaded)
            }
            None => (bytes, Arc::default()),
        };
        self.held = self.held.saturating_add(bytes);
        while self.held.saturating_add(self.free_bytes) > self.budget && !self.free.is_empty() {
            let oldest = self.free.remove(0);
            self.free_bytes -= oldest.buffer.len() as u64;
        }
        self.peak = self.peak.max(self.held.saturating_add(self.free_bytes));
        (bytes, loaded)
    }

    /// A run has been read: the rows that waited for it. Nothing if nobody wants it any more.
    pub(crate) fn loaded(&mut self, job: ReadJob, ok: bool, mut each: impl FnMut(Waiting, Option<&Arc<Loaded>>)) {
        self.reading = self.reading.saturating_sub(1);
        let known = (job.generation == self.generation).then(|| self.runs.get_mut(&job.key)).flatten();
        let Some(run) = known else {
            self.recycle(job.bytes, job.into);
            return;
        };
        let waiting = run.first_waiting.take().into_iter();
        let loaded = ok.then_some(&job.into);
        for waiting in waiting.chain(run.more_waiting.drain(..)) {
            each(waiting, loaded);
        }
        if ok {
            if let Some(bytes) = job.into.scene.as_ref().and_then(Scene::held_bytes) {
                self.held = self.held.saturating_sub(run.bytes).saturating_add(bytes);
                (run.bytes, run.is_whole) = (bytes, true);
            }
            run.state = RunState::Ready(job.into);
        } else {
            // Who needs it later tries again.
            self.runs.remove(&job.key);
            self.recycle(job.bytes, job.into);
        }
    }

    /// `rows` rows out of this run are decoded, and hold no reference to it.
    pub(crate) fn release(&mut self, key: Key, rows: usize) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.pending = run.pending.saturating_sub(rows);
        run.used += rows as u64;
        let is_held = matches!(run.state, RunState::Ready(_));
        if let Some(scene) = run.scene.as_ref().filter(|_| is_held && !run.is_whole) {
            // Patches that were handed on wait no longer.
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
            // The window of scenes is within the budget: none is decoded twice.
            self.idle.push_back(key);
            // Of those that are gone by another way, the list knows nothing.
            if self.idle.len() > 64 + 2 * self.runs.len() {
                self.idle.retain(|key| self.runs.contains_key(key));
            }
        }
    }

    fn retire(&mut self, run: Run) {
        if let RunState::Ready(loaded) = run.state {
            self.recycle(run.bytes, loaded);
        }
    }

    fn recycle(&mut self, bytes: u64, mut loaded: Arc<Loaded>) {
        self.held = self.held.saturating_sub(bytes);
        // Somebody still decodes out of it: its memory goes with him.
        let Some(own) = Arc::get_mut(&mut loaded) else { return };
        own.scene = None;
        own.shard = None;
        own.faults.clear();
        let bytes = own.buffer.len() as u64;
        // What was needed once is kept, over the budget too: records of many MiB would be read to
        // fresh pages each time, which costs more than the read.
        let room = self.budget.max(self.peak);
        if bytes > 0 && self.held.saturating_add(self.free_bytes).saturating_add(bytes) <= room {
            self.free_bytes += bytes;
            self.free.push(loaded);
        }
    }
}
