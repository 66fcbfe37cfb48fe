//! Reads one record, and checks it before decoding.

use crate::fault;
use shardpack_format::{Error as FormatError, Frame, Record};
use shardpack_reader::{Result, Shard};

/// Reads a record into the front of `buffer`, which grows if needed. The returned bytes include padding and
/// have not been checked.
///
/// # Errors
/// `Io`, with the name of the sample, if the record cannot be read; `Limit` if it is too large.
pub(crate) fn read_alone<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.read_record(record, buffer).map_err(|error| fault::of_record(error, shard, record))
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
