//! The pipeline. Encoding threads pass records to the writer (the calling thread), which passes bytes to a hash thread
//! and finished shards to a commit thread.

use crate::commit::{CommitMessage, Committer, Done};
use crate::error::{Error, Result};
use crate::gate::{Gate, SampleResult, StopOnDrop, StopReason, Stopped};
use crate::journal::OpenJournal;
use crate::names::{shard_count, shard_temporary};
use crate::options::WriteOptions;
use crate::plan::Plan;
use crate::record_buffers::RecordBuffers;
use crate::report::Progress;
use crate::shard_file::{CHUNKS_WAITING, HashLine, ShardFile, hash};
use crate::source::{Encoded, SampleSource};
use crate::target::Target;
use crossbeam_channel::{RecvTimeoutError, SendTimeoutError, Sender, bounded, unbounded};
use shardpack_format::{Explain, Identity, Limits, Record, Schema};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which `cancel` is checked and progress is reported.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes between two syncs of a shard that is being written. Syncing early keeps the disk busy from the start and
/// leaves little to sync at the end: packing 600 MB to a virtual disk took 17 % less time. With an interval of 256 MiB,
/// it took as long as with 64 MiB.
const SYNC_AHEAD_BYTES: u64 = 64 << 20;

pub(crate) struct Pipeline<'a, S> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) metadata: &'a [u8],
    pub(crate) source: &'a S,
    pub(crate) options: &'a WriteOptions<'a>,
}

impl<S: SampleSource> Pipeline<'_, S> {
    /// Writes shards. Finished shards are added to `done` and to the journal, even if the run fails later.
    pub(crate) fn shards(
        &self,
        todo: &[u32],
        journal: &OpenJournal,
        done: &Done,
        progress: Progress,
    ) -> Result<(), StopReason> {
        self.target.uploads.restart();
        let gate = Gate::new(self.options.memory_bytes, self.options.threads);
        let buffers = RecordBuffers::new(self.options.threads.saturating_add(1));
        let samples = todo.iter().flat_map(|&n| self.plan.samples(n).iter().map(move |&s| (n, u64::from(s))));
        let line = Mutex::new(Line { source: self.source, samples, ahead: VecDeque::new(), announced: 0 });
        thread::scope(|scope| {
            // If the caller's progress callback panics, dropping this wakes the other threads.
            let _stop = StopOnDrop(&gate);
            let spawned = |result: std::io::Result<_>| {
                result.map_err(|e| Error::io("start a thread to write", self.target.path(), e))
            };
            let (gate, line, buffers, source) = (&gate, &line, &buffers, self.source);
            for i in 0..self.options.threads {
                let name = thread::Builder::new().name(format!("encode-{i}"));
                let plan = self.plan;
                spawned(name.spawn_scoped(scope, move || encode(source, plan, gate, line, buffers)))?;
            }
            let (hash_sender, hash_messages) = bounded(CHUNKS_WAITING);
            let (free_sender, free) = unbounded();
            let name = thread::Builder::new().name("hash".into());
            spawned(name.spawn_scoped(scope, move || hash(&hash_messages, &free_sender, gate, buffers)))?;
            let (commit_sender, commit_messages) = bounded(1);
            let committer = Committer { target: self.target, journal, done, gate };
            let name = thread::Builder::new().name("commit".into());
            let (end, ended) = bounded::<()>(0);
            let commit = move || {
                let _end = end;
                committer.run(&commit_messages);
            };
            spawned(name.spawn_scoped(scope, commit))?;
            let hash_line = HashLine { messages: hash_sender, free };
            let mut writer = Writer {
                pipeline: self,
                gate,
                buffers,
                hash: &hash_line,
                commits: commit_sender,
                ready: VecDeque::new(),
                done,
                progress,
                reported: Instant::now(),
            };
            // Ignore the result, because the gate stores the reason for a failure.
            let _ = todo.iter().try_for_each(|&number| writer.shard(number));
            // The hash thread and the commit thread end once all senders are dropped.
            let progress = writer.progress;
            drop(writer);
            drop(hash_line);
            // The last shards are not on disk yet. The commit thread closes the channel when it ends.
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(PATIENCE) {
                if self.is_cancelled() {
                    gate.fail(Error::Cancelled.into());
                }
                self.report(Progress { shards: finished(done), ..progress });
            }
            self.report(Progress { shards: finished(done), ..progress });
            Ok::<(), Error>(())
        })?;
        match gate.into_reason() {
            // The cancellation aborted the uploads, and this error is only the consequence.
            Some(StopReason::Fatal(Error::Io { .. })) if self.target.is_store() && self.is_cancelled() => {
                Err(Error::Cancelled.into())
            }
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.options.is_cancelled()
    }

    pub(crate) fn report(&self, progress: Progress) {
        if let Some(on_progress) = self.options.on_progress {
            on_progress(&progress.with(&self.target.uploads));
        }
    }
}

/// Iterates over the samples with their shard numbers, in order. Announces upcoming samples to the source.
struct Line<'a, S, I> {
    source: &'a S,
    samples: I,
    /// Announced samples and their sizes in bytes.
    ahead: VecDeque<((u32, u64), u64)>,
    announced: u64,
}

impl<S: SampleSource, I: Iterator<Item = (u32, u64)>> Iterator for Line<'_, S, I> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        let most = self.source.read_ahead_bytes();
        while self.announced < most {
            let Some(next) = self.samples.next() else { break };
            // Ignore errors here: encoding the sample will report them.
            let bytes = guard(|| self.source.announce(next.1)).unwrap_or(0).max(1);
            self.announced = self.announced.saturating_add(bytes);
            self.ahead.push_back((next, bytes));
        }
        let Some((first, bytes)) = self.ahead.pop_front() else { return self.samples.next() };
        self.announced = self.announced.saturating_sub(bytes);
        Some(first)
    }
}

fn encode<S: SampleSource>(
    source: &S,
    plan: &Plan,
    gate: &Gate<S::Tally>,
    line: &Mutex<Line<'_, S, impl Iterator<Item = (u32, u64)>>>,
    buffers: &RecordBuffers,
) {
    loop {
        // Keep the lock while waiting for memory, so that samples are admitted in order.
        let mut turn = line.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((shard, sample)) = turn.next() else { return };
        let memory = guard(|| source.memory_bytes(sample));
        let Some(place) = gate.admit(*memory.as_ref().unwrap_or(&0)) else { return };
        drop(turn);
        let key = guard(|| source.key(sample).into_owned());
        let encoded = || source.encode(sample, shard, buffers.take()).map_err(|e| Arc::new(e) as _);
        let result = memory.and_then(|_| guard(encoded)).and_then(|result| result);
        let (key, result) = match key {
            Ok(key) => (key, result),
            Err(e) => (format!("number {sample}"), Err(e)),
        };
        let result = result.map_err(|e| Error::Source { key: key.clone(), source: e });
        let result = result.and_then(|encoded| renumber(encoded, plan, sample));
        let result = result.and_then(|encoded| check_readable(encoded, &plan.metadata().schema, &key));
        gate.put(&place, sample, key, result);
    }
}

/// Replaces the record's id, which the source counts from 0, with its id in the plan.
fn renumber<T>(mut encoded: Encoded<T>, plan: &Plan, sample: u64) -> Result<Encoded<T>> {
    if let Encoded::Record(record) = &mut encoded
        && record.frame.sample_id == sample
    {
        record.frame.renumber(&mut record.record, plan.id(sample))?;
    }
    Ok(encoded)
}

/// Checks a record as a reader would, before any byte is written. Does not check the maximum size of a record. The
/// source is responsible for that.
fn check_readable<T>(encoded: Encoded<T>, schema: &Schema, key: &str) -> Result<Encoded<T>> {
    let Encoded::Record(sample) = &encoded else { return Ok(encoded) };
    let limits = Limits { max_record_bytes: u64::MAX, max_decoded_bytes: u64::MAX, ..Limits::default() };
    let of_source = |error: shardpack_format::Error| Error::Source { key: key.to_owned(), source: Arc::new(error) };
    let record = Record::parse_trusted(sample.frame, &sample.record, &limits).map_err(of_source)?;
    record.check_schema(schema, &limits).map_err(of_source)?;
    if (record.key, record.scalars) != (key, sample.scalars.as_slice()) {
        let key = key.escape_debug();
        return Err(Error::usage(
            format!("record for sample `{key}`: the key or scalars differ from those in the source"),
            "",
        ));
    }
    Ok(encoded)
}

/// Calls the source, and turns a panic into an error. The source is not used again after a panic.
fn guard<R>(f: impl FnOnce() -> R) -> Result<R, Arc<dyn Explain + Send + Sync>> {
    catch_unwind(AssertUnwindSafe(f))
        .map_err(|panic| Arc::new(shardpack_format::Error::panicked("encoding the sample", &*panic)) as _)
}

fn finished(done: &Done) -> u32 {
    shard_count(done.lock().unwrap_or_else(PoisonError::into_inner).len())
}

struct Writer<'a, S: SampleSource> {
    pipeline: &'a Pipeline<'a, S>,
    gate: &'a Gate<S::Tally>,
    buffers: &'a RecordBuffers,
    hash: &'a HashLine,
    commits: Sender<CommitMessage>,
    ready: VecDeque<SampleResult<S::Tally>>,
    done: &'a Done,
    progress: Progress,
    reported: Instant,
}

impl<S: SampleSource> Writer<'_, S> {
    /// Writes a shard under its temporary name and passes it to the commit thread.
    fn shard(&mut self, number: u32) -> Result<(), Stopped> {
        let temporary = shard_temporary(number);
        let result = self.fill(number);
        if result.is_err() {
            // If this fails, the next run removes the file.
            let _ = self.pipeline.target.remove_scratch(&temporary);
        }
        let finished = result?;
        if self.pipeline.target.is_store() {
            self.pipeline.target.uploads.plan(finished.entry.file.bytes);
        }
        // The commit thread takes the shard when it has sent the previous shard. It removes the file if the run is stopped.
        let mut message = CommitMessage::Shard(Box::new(finished));
        loop {
            message = match self.commits.send_timeout(message, PATIENCE) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Disconnected(_)) => return Err(Stopped),
                Err(SendTimeoutError::Timeout(message)) => message,
            };
            // Ignore the result: the file must reach the commit thread in any case.
            let _ = self.look_around();
        }
    }

    fn fill(&mut self, number: u32) -> Result<crate::commit::Finished, Stopped> {
        let Pipeline { target, plan, .. } = *self.pipeline;
        let optional_features = plan.optional_features();
        let identity = Identity { optional_features, ..Identity::new(plan.dataset_id(), number) };
        let temporary = shard_temporary(number);
        let mut shard = self.gate.check(ShardFile::create(target, temporary, identity, plan.metadata(), self.hash))?;
        let written_before = self.progress.bytes_out;
        let mut sync_at = SYNC_AHEAD_BYTES;
        for _ in plan.samples(number) {
            let SampleResult { sample, key, result, charge } = self.next()?;
            match self.gate.check(result)? {
                Encoded::Skipped { reason } => {
                    shard.skip(key, reason);
                    self.progress.skipped += 1;
                    self.gate.release(charge);
                }
                Encoded::Record(encoded) => {
                    self.progress.bytes_in = self.progress.bytes_in.saturating_add(encoded.source_bytes);
                    if let Some(buffer) = self.gate.check(shard.append(plan.id(sample), &key, encoded, charge))? {
                        self.buffers.give_back(buffer);
                        self.gate.release(charge);
                    }
                }
            }
            self.progress.samples += 1;
            self.progress.bytes_out = written_before + shard.written();
            if shard.written() >= sync_at {
                sync_at = shard.written() + SYNC_AHEAD_BYTES;
                let temporary = self.pipeline.target.scratch_file(&shard.temporary);
                // If the commit thread is busy, so is the disk. Skip the sync.
                let _ = self.commits.try_send(CommitMessage::Ahead { number, temporary, file: shard.handle() });
            }
        }
        let finished = self.gate.check(shard.finish(self.pipeline.metadata))?;
        self.progress.bytes_out = written_before + shard.written();
        Ok(finished)
    }

    /// Stops the run if it has been cancelled, and reports progress if it is time.
    fn look_around(&mut self) -> Result<(), Stopped> {
        if self.pipeline.is_cancelled() {
            self.gate.fail(Error::Cancelled.into());
            return Err(Stopped);
        }
        if self.reported.elapsed() >= 2 * PATIENCE {
            self.progress.shards = finished(self.done);
            self.pipeline.report(self.progress);
            self.reported = Instant::now();
        }
        Ok(())
    }

    fn next(&mut self) -> Result<SampleResult<S::Tally>, Stopped> {
        loop {
            self.look_around()?;
            if let Some(outcome) = self.ready.pop_front() {
                return Ok(outcome);
            }
            if !self.gate.take_ready(&mut self.ready, PATIENCE) {
                return Err(Stopped);
            }
        }
    }
}
