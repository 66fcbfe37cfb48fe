//! Checks the records of a span, reading them in pieces that stay in the CPU cache.

use super::VerifyOptions;
use super::fields::FieldChecker;
use super::problem::Problem;
use crate::ahead::Ahead;
use crate::check::Crc;
use crate::error::Result;
use crate::fetch::slice;
use crate::handles::ShardFile;
use crate::scratch::room;
use crate::shard::Shard;
use crate::stream::run_from;
use sha2::{Digest, Sha256};
use shardpack_format::Error;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of bytes per read. They must fit into the cache of one core, together with the memory that the checks use.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

#[derive(Default)]
pub(crate) struct Worker {
    buffer: Vec<u8>,
    fields: FieldChecker,
}

#[derive(Debug, Default)]
pub(crate) struct RecordFindings {
    pub(crate) samples: u64,
    pub(crate) damaged_samples: u64,
    pub(crate) missing_samples: u64,
    pub(crate) problems: Vec<Problem>,
}

impl Worker {
    /// Checks records, and announces reads up to `window` bytes ahead. Calls `each_run` with the number of bytes and
    /// records of each run, and stops once `each_run` returns false.
    pub(crate) fn check_records(
        &mut self,
        shard: &Shard,
        records: Range<u64>,
        window: u64,
        options: &VerifyOptions<'_>,
        hasher: &mut Option<Sha256>,
        mut each_run: impl FnMut(u64, u64) -> bool,
    ) -> RecordFindings {
        let mut out = RecordFindings::default();
        let mut ahead = None;
        if let Ok(handle) = shard.file().handle() {
            handle.advise_sequential();
            ahead = shard.span(&records).ok().map(|span| Ahead::new(handle, span, window));
        }
        let mut next = records.start;
        while next < records.end {
            let run = run_from(shard, next, PIECE_BYTES as u64);
            let run = run.start..run.end.min(records.end);
            next = run.end;
            if let (Some(ahead), Ok(row)) = (&mut ahead, shard.row(run.start)) {
                ahead.reach(row.offset);
            }
            let read = self.check_run(shard, &run, options, hasher.as_mut(), &mut out);
            if let Err(error) = read {
                // Part of the shard cannot be read, so it has no digest.
                *hasher = None;
                if run.end - run.start == 1 {
                    out.damaged(shard, run.start, error);
                } else {
                    // Read the records of this run one by one, to find those with unreadable bytes.
                    for record in run.clone() {
                        if let Err(error) = self.check_run(shard, &(record..record + 1), options, None, &mut out) {
                            out.damaged(shard, record, error);
                        }
                    }
                }
            }
            out.samples += run.end - run.start;
            let bytes = shard.span(&run).map_or(0, |span| span.end - span.start);
            if !each_run(bytes, run.end - run.start) {
                break;
            }
        }
        out
    }

    /// Checks a run of records. Returns an error only if the read fails or a record exceeds the size limit.
    fn check_run(
        &mut self,
        shard: &Shard,
        run: &Range<u64>,
        options: &VerifyOptions<'_>,
        hasher: Option<&mut Sha256>,
        out: &mut RecordFindings,
    ) -> Result<()> {
        run.clone().try_for_each(|record| shard.check_length(record))?;
        let span = shard.span(run)?;
        let bytes = room(&mut self.buffer, span.end - span.start)?;
        let crc = if bytes.len() <= PIECE_BYTES {
            shard.file().read_exact_at(bytes, span.start)?;
            Crc::Compute
        } else {
            shard.read_hashing(run.start, bytes)?
        };
        if let Some(hasher) = hasher {
            hasher.update(&*bytes);
        }
        for record in run.clone() {
            let padded = slice(shard, record, span.start, bytes)?;
            let fields = &mut self.fields;
            // A panic in a library must not end the verification.
            let checked = catch_unwind(AssertUnwindSafe(|| {
                shard.check(record, padded, crc).map(|parsed| fields.check(shard, &parsed, options))
            }));
            let problems = match checked {
                Ok(Err(error)) => {
                    out.damaged(shard, record, error.into());
                    continue;
                }
                Ok(Ok(problems)) => problems,
                Err(panic) => {
                    // A panic may have left the decoders in an inconsistent state.
                    self.fields = FieldChecker::default();
                    vec![Error::panicked("checking the sample", &*panic)]
                }
            };
            if !problems.is_empty() {
                out.damaged_samples += 1;
                let file = shard.path().to_string_lossy();
                let place = problems.into_iter().map(|e| Problem::new(file.clone(), shard.in_record(record, e)));
                out.problems.extend(place);
            }
        }
        Ok(())
    }
}

impl RecordFindings {
    pub(crate) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.damaged_samples += other.damaged_samples;
        self.missing_samples += other.missing_samples;
        self.problems.extend(other.problems);
    }

    fn damaged(&mut self, shard: &Shard, record: u64, error: crate::Error) {
        let mut problem = Problem::new(shard.path().to_string_lossy(), error);
        problem.record.get_or_insert(record);
        if problem.key.is_none() {
            problem.key = shard.index().key(record).map(str::to_owned);
        }
        self.damaged_samples += 1;
        self.problems.push(problem);
    }
}

pub(crate) fn hash_range(file: &ShardFile, range: Range<u64>, hasher: &mut Sha256) -> Result<()> {
    let mut buffer = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let bytes = room(&mut buffer, (range.end - at).min(PIECE_BYTES as u64))?;
        file.read_exact_at(bytes, at)?;
        at += bytes.len() as u64;
        hasher.update(&*bytes);
    }
    Ok(())
}

pub(crate) fn hash_file(file: &ShardFile) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    hash_range(file, 0..file.len(), &mut hasher)?;
    Ok(hasher.finalize().into())
}
