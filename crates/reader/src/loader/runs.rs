//! Runs of records in memory: which are wanted, which are there, and the buffers that they go round in.

use super::fault;
use super::plan::{Key, PlannedRead};
use crate::error::{Error, Result};
use crate::fetch::slice;
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
    /// Never shorter than when it was new, so that it is filled with zeros once.
    buffer: Vec<u8>,
    used: usize,
    /// Records that could not be read; the others are there.
    faults: Vec<(u64, Error)>,
}

impl Loaded {
    /// The bytes of a record, padding included.
    ///
    /// # Errors
    /// Why it could not be read.
    pub(super) fn record(&self, shard: &Shard, record: u64) -> Result<&[u8]> {
        if let Some((_, error)) = self.faults.iter().find(|(failed, _)| *failed == record) {
            return Err(fault::copy(error));
        }
        slice(shard, record, self.start, self.buffer.get(..self.used).unwrap_or_default())
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
    /// Reads the run. Its bytes are not compared with anything yet. If it cannot be read as a whole, its records are read one by one, so that one bad
    /// sector costs one sample.
    ///
    /// # Errors
    /// `Usage` if there is no memory for it. A record that cannot be read is an error of its row.
    pub(super) fn read(&mut self) -> Result<u64> {
        let Some(loaded) = Arc::get_mut(&mut self.into) else { return Ok(0) };
        let shard = &self.shard;
        let span = shard.span(&self.records)?;
        (loaded.start, loaded.used) = (span.start, 0);
        loaded.faults.clear();
        loaded.shard = Some(Arc::clone(shard));
        let allowed = self.records.clone().try_for_each(|record| shard.check_length(record));
        if let (Err(error), 1) = (&allowed, self.records.end - self.records.start) {
            // Before memory is taken for it.
            loaded.faults.push((self.records.start, fault::copy(error)));
            return Ok(0);
        }
        let length = span.end - span.start;
        let bytes = room(&mut loaded.buffer, size_class(length))?;
        let bytes = bytes.get_mut(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default();
        loaded.used = bytes.len();
        let Err(error) = allowed.and_then(|()| shard.file().read_exact_at(bytes, span.start)) else {
            return Ok(length);
        };
        let mut read = 0;
        for record in self.records.clone() {
            match read_one(shard, record, span.start, bytes, &error) {
                Ok(more) => read += more,
                Err(error) => loaded.faults.push((record, fault::of_record(error, shard, record))),
            }
        }
        Ok(read)
    }
}

/// Reads one record to its place in the buffer of a run that failed with `whole`: once more, even if it is all of the run.
fn read_one(shard: &Shard, record: u64, start: u64, buffer: &mut [u8], whole: &Error) -> Result<u64> {
    shard.check_length(record)?;
    if !fault::is_local(whole) {
        return Err(fault::copy(whole));
    }
    let span = shard.span(&(record..record + 1))?;
    let range = usize::try_from(span.start - start).unwrap_or(usize::MAX)
        ..usize::try_from(span.end - start).unwrap_or(usize::MAX);
    let place = buffer.get_mut(range).ok_or_else(|| Error::usage("record", "inside the run", record))?;
    shard.file().read_exact_at(place, span.start)?;
    Ok(span.end - span.start)
}

/// Size of the buffer for a run: steps of 6 to 12 %, and whole pages, so that buffers fit again and again though no two runs are alike.
pub(super) fn size_class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 16).max(4096);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// Whether a buffer of `length` is right for a run of `bytes`: large enough, and not so large that much of it would be held for nothing.
const fn suits(length: u64, bytes: u64) -> bool {
    length >= bytes && length - bytes <= bytes / 4 + (16 << 10)
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
    /// Bytes of the buffers of runs that are read or being read.
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
                bytes: size_class(span.end - span.start),
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
        if let RunState::Ready(loaded) = &run.state {
            return (Some(Arc::clone(loaded)), false);
        }
        match run.first_waiting {
            None => run.first_waiting = Some((batch, read)),
            Some(_) => run.more_waiting.push((batch, read)),
        }
        (None, fresh)
    }

    /// Nobody needs the run any more once its planned rows are decoded.
    pub(super) fn close(&mut self, key: Key) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.closing = true;
        if run.pending == 0
            && let Some(run) = self.runs.remove(&key)
        {
            self.retire(run);
        }
    }

    /// The batch that needs the next run to be read, if there is room for it. Over the budget, one at a time is read for the batch at the front, or nothing
    /// would ever go on.
    pub(super) fn next_needed_by(&mut self, front: u64) -> Option<u64> {
        let run = self.runs.get(self.queue.front()?)?;
        let (bytes, needed_by) = (run.bytes, run.needed_by);
        // A run that is idle is needed again, as a rule: reading ahead is not worth reading twice, going on is.
        while needed_by <= front && self.held.saturating_add(bytes) > self.budget && self.forget_one() {}
        let fits = self.held.saturating_add(bytes) <= self.budget;
        (fits || (needed_by <= front && self.reading == 0)).then_some(needed_by)
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
        let wanted = self.runs.get(&key)?.bytes;
        let (bytes, into) = self.buffer(wanted);
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
        })
    }

    /// A buffer for `bytes`, and what it takes: a free one that suits, or a new one. Free ones that do not go when there is no room for both.
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
        own.faults.clear();
        let bytes = own.buffer.len() as u64;
        if bytes > 0 && self.held.saturating_add(self.free_bytes).saturating_add(bytes) <= self.budget {
            self.free_bytes += bytes;
            self.free.push(loaded);
        }
    }
}
