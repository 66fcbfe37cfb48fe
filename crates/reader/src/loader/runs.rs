//! Runs of records in memory: which are wanted, which are there, and the buffers that they go round in.

use super::plan::{Key, PlannedRead};
use crate::error::Result;
use crate::shard::{Shard, room};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A run's bytes, as they stand in the file.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) shard: Option<Arc<Shard>>,
    /// Offset in the file.
    pub(super) start: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Loaded {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.used).unwrap_or_default()
    }
}

/// The rows of one batch that wait for a run: the number of the batch, and of the read in its plan.
pub(super) type Waiting = (u64, u32);

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
}

#[derive(Debug)]
enum RunState {
    Queued,
    Reading,
    Ready(Arc<Loaded>),
}

/// A run to be read, and the buffer for it.
#[derive(Debug)]
pub(super) struct ReadJob {
    pub(super) generation: u64,
    pub(super) key: Key,
    shard: Arc<Shard>,
    records: Range<u64>,
    into: Arc<Loaded>,
    bytes: u64,
}

impl ReadJob {
    /// Reads the run. Its bytes are not compared with anything yet.
    pub(super) fn read(&mut self) -> Result<u64> {
        let Some(loaded) = Arc::get_mut(&mut self.into) else { return Ok(0) };
        // Only a run of one record can be over the limit, unless the limit is below the size of a run: then every record counts.
        self.records.clone().try_for_each(|record| self.shard.check_length(record))?;
        let span = self.shard.span(&self.records)?;
        let length = span.end - span.start;
        let bytes = room(&mut loaded.buffer, whole_class(length))?;
        let bytes = bytes.get_mut(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default();
        self.shard.file().read_exact_at(bytes, span.start)?;
        (loaded.start, loaded.used) = (span.start, bytes.len());
        loaded.shard = Some(Arc::clone(&self.shard));
        Ok(length)
    }
}

/// Size of the buffer for a run: steps of 3 to 6 %, so that buffers fit again and again though no two runs are alike.
fn whole_class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 32).max(512);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// All runs that are wanted or in memory.
#[derive(Debug, Default)]
pub(super) struct Runs {
    generation: u64,
    runs: HashMap<Key, Run>,
    /// In the order in which they are needed.
    queue: VecDeque<Key>,
    /// Runs that no planned row needs, but perhaps a later one; the first is the first to go.
    idle: VecDeque<Key>,
    free: Vec<Arc<Loaded>>,
    /// Bytes of the runs that are read or being read.
    held: u64,
    free_bytes: u64,
    reading: usize,
    budget: u64,
    pub(super) peak: u64,
}

impl Runs {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Forgets everything; what is being read comes back to nobody.
    pub(super) fn restart(&mut self, generation: u64) {
        self.generation = generation;
        self.queue.clear();
        self.idle.clear();
        let runs = std::mem::take(&mut self.runs);
        for run in runs.into_values() {
            self.retire(run);
        }
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading > 0 || !self.queue.is_empty()
    }

    /// Notes that rows of a batch want this run: the run, if it is in memory, and whether it has to be read.
    pub(super) fn want(&mut self, batch: u64, read: u32, planned: &PlannedRead) -> (Option<Arc<Loaded>>, bool) {
        let mut fresh = false;
        let queue = &mut self.queue;
        let run = self.runs.entry(planned.key).or_insert_with(|| {
            fresh = true;
            queue.push_back(planned.key);
            let span = planned.shard.span(&planned.records).unwrap_or(0..0);
            Run {
                shard: Arc::clone(&planned.shard),
                records: planned.records.clone(),
                bytes: whole_class(span.end - span.start),
                state: RunState::Queued,
                first_waiting: None,
                more_waiting: Vec::new(),
                pending: 0,
                used: 0,
                closing: false,
                listed: false,
                needed_by: batch,
            }
        });
        run.pending += planned.rows;
        run.closing |= planned.closing;
        if let RunState::Ready(loaded) = &run.state {
            return (Some(Arc::clone(loaded)), false);
        }
        match run.first_waiting {
            None => run.first_waiting = Some((batch, read)),
            Some(_) => run.more_waiting.push((batch, read)),
        }
        (None, fresh)
    }

    /// The batch that needs the next run to be read, if there is room for it: for the batch at the front there always is.
    pub(super) fn next_needed_by(&mut self, front: u64) -> Option<u64> {
        let run = self.runs.get(self.queue.front()?)?;
        let (bytes, needed_by) = (run.bytes, run.needed_by);
        // A run that is idle is needed again, as a rule: reading ahead is not worth reading twice, going on is.
        while needed_by <= front && self.held.saturating_add(bytes) > self.budget && self.forget_one() {}
        (self.held.saturating_add(bytes) <= self.budget || needed_by <= front).then_some(needed_by)
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
    pub(super) fn take(&mut self) -> Option<ReadJob> {
        let key = self.queue.pop_front()?;
        let run = self.runs.get_mut(&key)?;
        run.state = RunState::Reading;
        let (shard, records, bytes) = (Arc::clone(&run.shard), run.records.clone(), run.bytes);
        self.held = self.held.saturating_add(bytes);
        self.reading += 1;
        let into = self.buffer(bytes);
        Some(ReadJob { generation: self.generation, key, shard, records, into, bytes })
    }

    /// A buffer for `bytes`, out of those that are free; where none is large enough, an empty one in place of the largest: so there are never more than were needed at
    /// a time, and they fit soon.
    fn buffer(&mut self, bytes: u64) -> Arc<Loaded> {
        let fits = |loaded: &Arc<Loaded>| loaded.buffer.len() as u64 >= bytes;
        // The last one given back is the one that is in the processor's cache.
        let fitting = self.free.iter().rposition(fits);
        let largest = || (0..self.free.len()).max_by_key(|&i| self.free.get(i).map_or(0, |free| free.buffer.len()));
        let mut loaded = match fitting.or_else(largest) {
            Some(place) => self.free.remove(place),
            None => Arc::default(),
        };
        self.free_bytes -= loaded.buffer.len() as u64;
        if fitting.is_none()
            && let Some(own) = Arc::get_mut(&mut loaded)
        {
            // Not grown: what it holds would be copied for nothing.
            own.buffer = Vec::new();
        }
        self.peak = self.peak.max(self.held.saturating_add(self.free_bytes));
        loaded
    }

    /// A run has been read: the rows that waited for it. Nothing if nobody wants it any more.
    pub(super) fn loaded(&mut self, job: ReadJob, ok: bool, mut each: impl FnMut(Waiting, Option<&Arc<Loaded>>)) {
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
            run.state = RunState::Ready(job.into);
        } else {
            // Who needs it later tries again.
            self.runs.remove(&job.key);
            self.recycle(job.bytes, job.into);
        }
    }

    /// `rows` rows out of this run are decoded, and hold no reference to it.
    pub(super) fn release(&mut self, key: Key, rows: usize) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.pending = run.pending.saturating_sub(rows);
        run.used += rows as u64;
        if run.pending > 0 {
            return;
        }
        if run.closing || run.used >= run.records.end - run.records.start {
            if let Some(run) = self.runs.remove(&key) {
                self.retire(run);
            }
        } else if !std::mem::replace(&mut run.listed, true) {
            self.idle.push_back(key);
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
        own.shard = None;
        let bytes = own.buffer.len() as u64;
        // What was needed once is kept, over the budget too: records of many MiB would be read to fresh pages each time, which costs more than the read.
        let room = self.budget.max(self.peak);
        if bytes > 0 && self.held.saturating_add(self.free_bytes).saturating_add(bytes) <= room {
            self.free_bytes += bytes;
            self.free.push(loaded);
        }
    }
}
