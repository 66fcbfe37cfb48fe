//! Reads one record, and checks it before decoding.

use crate::fault;
use crate::sample::{SampleAt, name};
use crate::stats::{Counters, add, add_since};
use shardpack_format::{Error as FormatError, Frame, Record};
use shardpack_reader::{Result, Shard};
use std::time::Instant;

/// Reads a record into the front of `buffer`, which grows if needed. The returned bytes include padding and
/// have not been checked.
///
/// # Errors
/// `Io`, with the name of the sample, if the record cannot be read; `Limit` if it is too large.
pub(crate) fn read_alone<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.read_record(record, buffer).map_err(|error| fault::of_record(error, shard, record))
}

/// Reads a record as [`read_alone`] does, and checks it.
///
/// The record's CRC32 also covers the bytes that a cache on the local disk would check, so the first read skips that
/// check. If the record is wrong, it is read again with the check, and the cache then reads damaged bytes from the
/// store.
///
/// # Errors
/// Same as [`read_alone`], and also `Format` if the record is damaged.
pub(crate) fn read_checked<'b>(
    shard: &Shard,
    at: SampleAt,
    buffer: &'b mut Vec<u8>,
    counters: &Counters,
) -> Result<(Frame, &'b [u8])> {
    let record = at.record;
    if shard.options().check_crc {
        let start = Instant::now();
        let bytes =
            shard.read_record_unchecked(record, buffer).map_err(|error| fault::of_record(error, shard, record))?;
        let length = bytes.len();
        add_since(&counters.read, start);
        let start = Instant::now();
        let frame = check(shard, record, bytes);
        add_since(&counters.crc, start);
        if let Ok(frame) = frame {
            add(&counters.read_bytes, length as u64);
            return Ok((frame, buffer.get(..length).unwrap_or_default()));
        }
    }
    let start = Instant::now();
    let bytes = read_alone(shard, record, buffer)?;
    add_since(&counters.read, start);
    add(&counters.read_bytes, bytes.len() as u64);
    let start = Instant::now();
    let frame = check(shard, record, bytes).map_err(|error| name(shard, at, error))?;
    add_since(&counters.crc, start);
    Ok((frame, bytes))
}

/// Checks a record. Unlike [`Shard::record`], skips the key and the scalars, because the loader takes them
/// from the index.
pub(crate) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}
