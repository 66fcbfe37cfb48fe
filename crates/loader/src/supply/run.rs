//! A run of records in memory. It is read whole or, if that fails, record by record.

use super::buffer::class_room;
use crate::fault;
use shardpack_format::{bug, to_usize};
use shardpack_reader::raw::slice;
use shardpack_reader::{Error, Result, Shard};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct LoadedRun {
    shard: Arc<Shard>,
    /// Offset of the run in the file.
    start: u64,
    /// Buffer for the run. It is never truncated, so it is zeroed only once.
    buffer: Vec<u8>,
    used: usize,
    faults: Vec<(u64, Error)>,
}

impl LoadedRun {
    /// Reads a run without checking its records. If it cannot be read whole, reads the records one by one, so that a
    /// bad sector affects only one sample. Also returns the number of bytes read.
    pub(crate) fn read(shard: &Arc<Shard>, records: &Range<u64>, buffer: Vec<u8>) -> Result<(Self, u64)> {
        let span = shard.span(records)?;
        let mut run = Self { shard: Arc::clone(shard), start: span.start, buffer, used: 0, faults: Vec::new() };
        let allowed = records.clone().try_for_each(|record| shard.check_length(record));
        if let (Err(error), 1) = (&allowed, records.end - records.start) {
            run.faults.push((records.start, error.clone()));
            return Ok((run, 0));
        }
        let length = span.end - span.start;
        run.used = to_usize(length);
        let (bytes, _) = class_room(&mut run.buffer, length)?.split_at_mut(run.used);
        let Err(error) = allowed.and_then(|()| shard.file().read_exact_at(bytes, span.start)) else {
            return Ok((run, length));
        };
        let mut read = 0;
        for record in records.clone() {
            match read_again(shard, record, span.start, bytes, &error) {
                Ok(more) => read += more,
                Err(error) => run.faults.push((record, fault::of_record(error, shard, record))),
            }
        }
        Ok((run, read))
    }

    pub(crate) const fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Returns the bytes of a record, including its padding.
    pub(crate) fn record(&self, record: u64) -> Result<&[u8]> {
        if let Some((_, error)) = self.faults.iter().find(|(failed, _)| *failed == record) {
            return Err(error.clone());
        }
        slice(&self.shard, record, self.start, self.buffer.get(..self.used).unwrap_or_default())
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// Reads one record of a run again, to its position in the run's buffer, after reading the whole run failed with the
/// error `whole`. Tries once more even if the run consists of this record alone.
fn read_again(shard: &Shard, record: u64, start: u64, run: &mut [u8], whole: &Error) -> Result<u64> {
    shard.check_length(record)?;
    if !fault::is_local(whole) {
        return Err(whole.clone());
    }
    let span = shard.span(&(record..record + 1))?;
    let range = to_usize(span.start - start)..to_usize(span.end - start);
    let Some(place) = run.get_mut(range) else { bug("a record exceeds its run") };
    shard.file().read_exact_at(place, span.start)?;
    Ok(span.end - span.start)
}
