//! The verifying threads. They open shards, divide them into spans, and verify the spans from a common queue.

use super::problem::Problem;
use super::shard::{RecordFindings, Worker, hash_range};
use super::statements::Statements;
use super::target::Target;
use super::{Progress, VerifyOptions};
use crate::anatomy::Anatomy;
use crate::error::{Error, Result};
use crate::handles::ShardFile;
use crate::salvage::walk::{Step, Walk};
use crate::shard::{Shard, ShardOptions};
use sha2::{Digest, Sha256};
use shardpack_format::{Error as FormatError, HEADER_BYTES, Manifest, Record, bug, to_hex};
use shardpack_io::{Storage, cancel_flag, with_cancel_flag};
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Number of bytes per span: small enough to give every thread several spans, and large enough for sequential reading.
const SPAN_BYTES: u64 = 64 << 20;
/// Number of bytes per span over a network, where each span begins with a wait for its first bytes.
const FAR_SPAN_BYTES: u64 = 512 << 20;
const SHARDS_AHEAD: usize = 16;

/// Consecutive records of one shard, or all its records if a digest is requested.
#[derive(Debug)]
struct RecordSpan {
    shard: Arc<Shard>,
    target: usize,
    records: Range<u64>,
}

#[derive(Debug, Default)]
struct Queue {
    next_target: usize,
    opening: usize,
    spans: VecDeque<RecordSpan>,
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) records: RecordFindings,
    pub(super) statements: Statements,
    pub(super) bytes: u64,
    pub(super) cancelled: bool,
}

struct Run<'a> {
    targets: &'a [Target],
    manifest: Option<&'a Manifest>,
    storage: Option<&'a dyn Storage>,
    options: &'a VerifyOptions<'a>,
    /// Number of bytes that each thread announces in advance.
    window: u64,
    bytes_total: u64,
    bytes_done: AtomicU64,
    samples_done: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    done: Mutex<Findings>,
}

pub(super) fn run(
    targets: &[Target],
    manifest: Option<&Manifest>,
    storage: Option<&dyn Storage>,
    options: &VerifyOptions<'_>,
) -> Result<Findings> {
    let threads = match options.threads {
        0 => shardpack_io::cores(),
        n => n,
    };
    let run = Run {
        targets,
        manifest,
        storage,
        options,
        window: storage.map_or(0, Storage::read_ahead_bytes) / threads as u64,
        bytes_total: targets.iter().map(|t| t.bytes).sum(),
        bytes_done: AtomicU64::new(0),
        samples_done: AtomicU64::new(0),
        queue: Mutex::default(),
        changed: Condvar::new(),
        done: Mutex::default(),
    };
    let cancel = cancel_flag();
    std::thread::scope(|scope| {
        for number in 1..threads {
            let help = || with_cancel_flag(cancel.clone(), || run.work());
            let name = format!("shardpack-verify-{number}");
            // If a thread cannot be started, continue with fewer threads.
            let _ = std::thread::Builder::new().name(name).spawn_scoped(scope, help);
        }
        run.work();
    });
    let mut done = run.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.bytes = run.bytes_done.into_inner();
    done.cancelled = is_cancelled(options);
    Ok(done)
}

fn is_cancelled(options: &VerifyOptions<'_>) -> bool {
    options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
}

enum Task {
    Open(usize),
    Check(RecordSpan),
}

impl Run<'_> {
    fn work(&self) {
        let mut worker = Worker::default();
        while let Some(task) = self.next_task() {
            match task {
                Task::Open(target) => {
                    // A panic must not leave other threads waiting for spans of this shard.
                    let opened = catch_unwind(AssertUnwindSafe(|| self.open(target)));
                    let spans = opened.unwrap_or_else(|panic| {
                        self.problem(target, FormatError::panicked("checking the shard", &*panic));
                        Vec::new()
                    });
                    let mut queue = self.queue();
                    queue.opening -= 1;
                    queue.spans.extend(spans);
                    drop(queue);
                    self.changed.notify_all();
                }
                Task::Check(span) => {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.check(&span, &mut worker))) {
                        // A panic may have left the decoders in an inconsistent state.
                        worker = Worker::default();
                        let RecordSpan { records, target, .. } = span;
                        let what = format!("checking records {} to {}", records.start, records.end);
                        self.problem(target, FormatError::panicked(what, &*panic));
                    }
                }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Findings> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next span or, if the queue has none, the next shard to open. Waits if another thread may still add
    /// spans.
    fn next_task(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if is_cancelled(self.options) {
                return None;
            }
            if let Some(span) = queue.spans.pop_front() {
                return Some(Task::Check(span));
            }
            if queue.next_target < self.targets.len() {
                let target = queue.next_target;
                queue.next_target += 1;
                queue.opening += 1;
                self.advise(target);
                return Some(Task::Open(target));
            }
            if queue.opening == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Announces the first few shards at once, then one more for each opened shard.
    fn advise(&self, target: usize) {
        let Some(storage) = self.storage else { return };
        let first = if target == 0 { 0 } else { target.saturating_add(SHARDS_AHEAD) };
        let next = target.saturating_add(SHARDS_AHEAD + 1).min(self.targets.len());
        for target in self.targets.get(first.min(next)..next).unwrap_or_default() {
            storage.advise_open(&target.name);
        }
    }

    fn problem(&self, target: usize, error: impl Into<Error>) {
        let path = self.targets.get(target).map(|t| t.path.to_string_lossy()).unwrap_or_default();
        self.done().records.problems.push(Problem::new(path, error));
    }

    fn advance(&self, bytes: u64, samples: u64) {
        let bytes_done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let samples_done = self.samples_done.fetch_add(samples, Ordering::Relaxed) + samples;
        if let Some(on_progress) = self.options.on_progress {
            let samples_total = self.manifest.map(|manifest| manifest.samples);
            on_progress(Progress { bytes_done, bytes_total: self.bytes_total, samples_done, samples_total });
        }
    }

    /// Checks everything in a shard except its records, and divides the records into spans.
    fn open(&self, target: usize) -> Vec<RecordSpan> {
        let wanted = self.targets.get(target).unwrap_or_else(|| bug("a shard to verify has no target"));
        let known = self.done().statements.known();
        let read = |file: ShardFile| Ok((Anatomy::read(&file, &self.options.limits, known.as_ref())?, file));
        let opened = wanted.file().and_then(read);
        let (anatomy, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.problem(target, error);
                self.missing(target, 0);
                return Vec::new();
            }
        };
        if let (Ok(header), Ok(footer)) = (&anatomy.header, &anatomy.footer)
            && let Err(e) = footer.check_header(header)
        {
            self.problem(target, e);
        }
        let header = anatomy.header.as_ref().ok().copied();
        anatomy.header.err().into_iter().for_each(|e| self.problem(target, e));
        let (footer, index) = match (anatomy.footer, anatomy.index) {
            (Ok(footer), Some(Ok(index))) => (footer, index),
            (footer, index) if wanted.columns.is_some() => {
                // The samples are found in the shard, so do not look for them in the columns file.
                footer.err().into_iter().for_each(|e| self.problem(target, e));
                index.and_then(Result::err).into_iter().for_each(|e| self.problem(target, e));
                return Vec::new();
            }
            (footer, index) => {
                let end = footer.as_ref().map_or(file.len(), |f| f.index_offset);
                footer.err().into_iter().for_each(|e| self.problem(target, e));
                index.and_then(Result::err).into_iter().for_each(|e| self.problem(target, e));
                self.walk(target, file, end, header.map(|h| h.shard_number));
                return Vec::new();
            }
        };
        let options = ShardOptions { limits: self.options.limits.clone(), check_crc: true };
        let shard = Arc::new(Shard::from_parts(file, footer, index, options));
        if let Some(columns) = wanted.columns {
            let (addition, number) = columns;
            let same = self.check_columns(addition, number, &shard);
            same.err().into_iter().for_each(|e| self.problem(target, e));
            self.advance(shard.file_bytes() - (shard.footer().index_offset - HEADER_BYTES), 0);
            return self.spans(target, &shard);
        }
        let number = shardpack_format::saturating_u32(target);
        if let Some(manifest) = self.manifest
            && let Err(e) = manifest.check_shard(number, shard.footer(), shard.index().metadata())
        {
            self.problem(target, e);
        }
        {
            let mut done = self.done();
            let identity = shard.identity();
            done.statements.unique.add(target, &shard);
            done.statements.push(
                target,
                identity.dataset_id,
                identity.shard_number,
                shard.index().shared_metadata().clone(),
            );
        }
        if let Some(on_shard) = self.options.on_shard {
            on_shard(target, &shard);
        }
        self.missing(target, shard.len());
        self.advance(shard.file_bytes() - (shard.footer().index_offset - HEADER_BYTES), 0);
        self.spans(target, &shard)
    }

    /// Compares a columns file with the manifest and with its shard.
    fn check_columns(&self, addition: usize, number: usize, file: &Shard) -> Result<(), FormatError> {
        let Some(manifest) = self.manifest else { bug("a columns file without a manifest") };
        let (stated, metadata) = (shardpack_format::saturating_u32(number), file.index().metadata());
        manifest.check_columns_file(addition, stated, file.footer(), metadata)?;
        let shard = self.targets.get(number).and_then(|shard| shard.file().ok());
        let anatomy = shard.and_then(|shard| Anatomy::read(&shard, &self.options.limits, None).ok());
        match anatomy.and_then(|anatomy| anatomy.index) {
            Some(Ok(index)) => index.check_columns(file.index()),
            // The problem of the shard is reported with the shard.
            _ => Ok(()),
        }
    }

    fn spans(&self, target: usize, shard: &Arc<Shard>) -> Vec<RecordSpan> {
        let mut out = Vec::new();
        let mut next = 0;
        let span_bytes = match (self.options.digest, self.window) {
            (true, _) => u64::MAX,
            (false, 0) => SPAN_BYTES,
            (false, _) => FAR_SPAN_BYTES,
        };
        while next < shard.len() {
            let records = crate::stream::run_from(shard, next, span_bytes);
            next = records.end;
            out.push(RecordSpan { shard: Arc::clone(shard), target, records });
        }
        if out.is_empty() && self.options.digest {
            out.push(RecordSpan { shard: Arc::clone(shard), target, records: 0..0 });
        }
        out
    }

    fn check(&self, span: &RecordSpan, worker: &mut Worker) {
        let RecordSpan { shard, target, records } = span;
        let of = self.targets.get(*target);
        let (expected, is_columns) = (of.and_then(|of| of.sha256), of.is_some_and(|of| of.columns.is_some()));
        let mut hasher = expected.filter(|_| self.options.digest).map(|_| Sha256::new());
        let ends = |range: Range<u64>, hasher: &mut Option<Sha256>| {
            if let Some(h) = hasher
                && let Err(error) = hash_range(shard.file(), range, h)
            {
                self.problem(*target, error);
                *hasher = None;
            }
        };
        ends(0..HEADER_BYTES, &mut hasher);
        let each_run = |bytes, samples| {
            self.advance(bytes, if is_columns { 0 } else { samples });
            !is_cancelled(self.options)
        };
        let mut outcome =
            worker.check_records(shard, records.clone(), self.window, self.options, &mut hasher, each_run);
        ends(shard.footer().index_offset..shard.file_bytes(), &mut hasher);
        if let (Some(hasher), Some(expected)) = (hasher, expected)
            && !is_cancelled(self.options)
        {
            let found: [u8; 32] = hasher.finalize().into();
            if found != expected {
                let what = "SHA-256 of the file";
                self.problem(
                    *target,
                    FormatError::format(what, format!("{} (from the manifest)", to_hex(&expected)), to_hex(&found)),
                );
            }
        }
        if is_columns {
            // The samples are counted in their shard.
            outcome.samples = 0;
        }
        self.done().records.add(outcome);
    }

    /// Checks a shard without a usable index. Finds the records by their frames, to name the damaged samples.
    fn walk(&self, target: usize, file: ShardFile, end: u64, shard_number: Option<u32>) {
        let mut walk = Walk::new(file, end, None, shard_number, &self.options.limits);
        let mut number = 0;
        while let Some(step) = walk.step() {
            if is_cancelled(self.options) {
                return;
            }
            let mut outcome = RecordFindings { samples: 1, ..RecordFindings::default() };
            match step {
                Step::Record { frame, bytes, .. } => {
                    if let Ok(record) = Record::parse_trusted(frame, &bytes, &self.options.limits) {
                        let mut done = self.done();
                        done.statements.unique.add_one(record.key, frame.sample_id, (target, number));
                    }
                    self.advance(frame.padded_bytes(), 1);
                }
                Step::Lost { range, key, why, .. } => {
                    let path = self.targets.get(target).map(|t| t.path.to_string_lossy()).unwrap_or_default();
                    let mut problem = Problem::new(path, why);
                    problem.key = key;
                    problem.offset.get_or_insert(range.start);
                    outcome.damaged_samples = 1;
                    outcome.problems.push(problem);
                    self.advance(range.end - range.start, 1);
                }
            }
            number += 1;
            self.done().records.add(outcome);
        }
        self.missing(target, number);
    }

    /// Counts the missing samples of a shard: the number in its manifest entry minus `found`.
    fn missing(&self, target: usize, found: u64) {
        let promised = self.manifest.and_then(|m| m.shards.get(target)).map_or(0, |entry| entry.samples);
        self.done().records.missing_samples += promised.saturating_sub(found);
    }
}
