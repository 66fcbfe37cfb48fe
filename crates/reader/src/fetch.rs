//! Reads a single sample, or many samples with as few reads as possible.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::owned_record::OwnedRecord;
use crate::sample::Sample;
use crate::scratch::room;
use crate::shard::Shard;
use std::sync::Arc;

/// Maximum size of a read that covers several records, in bytes.
const MAX_READ_BYTES: u64 = 4 << 20;
/// Maximum gap between two records in one read, in bytes. Reading the gap is cheaper than a second read.
const MAX_GAP_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    shard: usize,
    record: u64,
    index: u64,
    position: usize,
}

impl Dataset {
    /// Reads one sample.
    ///
    /// # Errors
    /// `Usage` past the end, `Io` if it cannot be read, `Format` if it is damaged, `Limit` if it is
    /// too large.
    pub fn get(&self, index: u64) -> Result<Sample> {
        let (number, record) = self.locate(index)?;
        sample_at(&self.shard(number)?, index, record)
    }

    /// Reads many samples in stored order, and returns them in the requested order. Neighbouring records share
    /// one read of up to 4 MiB, which may span gaps of up to 64 KiB.
    ///
    /// All samples are in memory at the same time.
    ///
    /// # Errors
    /// Same as [`Dataset::get`], for the first sample in stored order that fails.
    pub fn get_many(&self, indices: &[u64]) -> Result<Vec<Sample>> {
        let mut wanted = Vec::with_capacity(indices.len());
        for (position, &index) in indices.iter().enumerate() {
            let (shard, record) = self.locate(index)?;
            wanted.push(Wanted { shard, record, index, position });
        }
        wanted.sort_unstable();
        let mut out: Vec<(usize, Sample)> = Vec::with_capacity(indices.len());
        let mut buffer = Vec::new();
        let mut rest = wanted.as_slice();
        while let Some(first) = rest.first() {
            let shard = self.shard(first.shard)?;
            let (run, tail) = rest.split_at(run_length(&shard, first, rest)?);
            rest = tail;
            read_run(&shard, first, run, &mut buffer, &mut out)?;
        }
        out.sort_unstable_by_key(|(position, _)| *position);
        Ok(out.into_iter().map(|(_, sample)| sample).collect())
    }
}

fn read_run(
    shard: &Arc<Shard>,
    first: &Wanted,
    run: &[Wanted],
    buffer: &mut Vec<u8>,
    out: &mut Vec<(usize, Sample)>,
) -> Result<()> {
    let last = run.last().unwrap_or(first);
    if first.record == last.record {
        let sample = sample_at(shard, first.index, first.record)?;
        out.extend(run.iter().map(|wanted| (wanted.position, sample.clone())));
        return Ok(());
    }
    let span = shard.span(&(first.record..last.record + 1))?;
    let bytes = room(buffer, span.end - span.start)?;
    shard.file().read_exact_at(bytes, span.start)?;
    for wanted in run {
        let bytes = slice(shard, wanted.record, span.start, bytes)?;
        let record = OwnedRecord::copied(shard, wanted.record, bytes, shard.crc())?;
        out.push((wanted.position, Sample::of(wanted.index, wanted.record, shard, record)?));
    }
    Ok(())
}

fn sample_at(shard: &Arc<Shard>, index: u64, number: u64) -> Result<Sample> {
    Sample::of(index, number, shard, OwnedRecord::read(shard, number)?)
}

fn run_length(shard: &Shard, first: &Wanted, wanted: &[Wanted]) -> Result<usize> {
    shard.check_length(first.record)?;
    let mut span = shard.span(&(first.record..first.record + 1))?;
    let mut count = 1;
    for next in wanted.iter().skip(1).take_while(|w| w.shard == first.shard) {
        let range = shard.span(&(next.record..next.record + 1))?;
        let repeated = range.end == span.end;
        if !repeated && (range.start - span.end > MAX_GAP_BYTES || range.end - span.start > MAX_READ_BYTES) {
            break;
        }
        span.end = range.end;
        count += 1;
    }
    Ok(count)
}

/// Returns the bytes of a record, including padding, from a buffer that was read at offset `start`.
///
/// # Errors
/// `Usage` if the buffer does not contain the record, or if there is no such record.
pub fn slice<'b>(shard: &Shard, record: u64, start: u64, buffer: &'b [u8]) -> Result<&'b [u8]> {
    let span = shard.span(&(record..record + 1))?;
    let within = |at: u64| usize::try_from(at.checked_sub(start)?).ok();
    let range = within(span.start).zip(within(span.end));
    let bytes = range.and_then(|(start, end)| buffer.get(start..end));
    bytes.ok_or_else(|| Error::usage(format!("the buffer of {} bytes does not contain record {record}", buffer.len())))
}
