//! Cuts a run into reads, because the order counts samples, but memory and disks count bytes.
//!
//! A run averages 4 MiB, but can be ten times as large. The cuts depend only on the run and the index, so the
//! read that contains a sample is found without a table.

use crate::order::Runs;
use shardpack_reader::Dataset;
use shardpack_reader::Result;
use shardpack_reader::Shard;
use std::ops::Range;

/// Maximum size in bytes of a run that stays in one piece. It allows slightly more than 4 MiB.
const WHOLE_BYTES: u64 = Runs::BYTES + Runs::BYTES / 2;

/// Maximum size in bytes of a read with several records: 4 MiB, plus a record that starts at the very end.
pub(crate) const MOST_BYTES: u64 = 2 * Runs::BYTES;

/// Returns the read that contains `record`, out of `records` of one shard. It has at most [`MOST_BYTES`]
/// bytes, or consists of the record alone. A record of `large` bytes or more is always read alone, because
/// several threads read it in parts.
pub(crate) fn piece(shard: &Shard, records: &Range<u64>, record: u64, large: Option<u64>) -> Result<Range<u64>> {
    let records = &between_large(shard, records, record, large);
    let span = shard.span(records)?;
    let bytes = span.end - span.start;
    if bytes <= WHOLE_BYTES || records.end - records.start == 1 {
        return Ok(records.clone());
    }
    // The parts of the run have equal sizes in bytes. A record belongs to the part in which it starts.
    let width = bytes.div_ceil(bytes.div_ceil(Runs::BYTES)).max(1);
    let part_of =
        |record: u64| shard.index().row(record).map_or(0, |row| row.offset.saturating_sub(span.start) / width);
    let part = part_of(record);
    let first = partition(records, |r| part_of(r) < part);
    let mut end = partition(records, |r| part_of(r) <= part);
    // If the last record that starts in a part is as large as a part, it is read alone.
    let last = end.saturating_sub(1);
    if shard.row(last)?.length >= width && last > first {
        if record == last {
            return Ok(last..end);
        }
        end = last;
    }
    Ok(first..end)
}

/// Returns the records around `record` up to the nearest large ones, or `record` alone if it is large itself.
fn between_large(shard: &Shard, records: &Range<u64>, record: u64, large: Option<u64>) -> Range<u64> {
    let Some(large) = large else { return records.clone() };
    let is_large = |record: &u64| shard.index().row(*record).is_some_and(|row| row.length >= large);
    if is_large(&record) {
        return record..record + 1;
    }
    let start = (records.start..record).rev().find(is_large).map_or(records.start, |before| before + 1);
    start..(record + 1..records.end).find(is_large).unwrap_or(records.end)
}

/// Returns the first record for which `before` is false. `before` must be true for a prefix of `records`.
fn partition(records: &Range<u64>, before: impl Fn(u64) -> bool) -> u64 {
    let Range { mut start, mut end } = records.clone();
    while start < end {
        let middle = start + (end - start) / 2;
        if before(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

/// Calls `each` with the first sample of every read within `samples`. Skips shards that are not open.
pub(crate) fn reads_of(
    dataset: &Dataset,
    samples: Range<u64>,
    large: Option<u64>,
    mut each: impl FnMut(u64),
) -> Result<()> {
    let mut at = samples.start;
    for (number, records) in dataset.records_of(samples) {
        let first = at - records.start;
        at = first + records.end;
        // A shard that is damaged or not open was never read.
        if !dataset.is_open(number) {
            continue;
        }
        let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
        let mut record = records.start;
        while record < records.end {
            each(first + record);
            record = piece(&shard, &records, record, large)?.end.max(record + 1);
        }
    }
    Ok(())
}
