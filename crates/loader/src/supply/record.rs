//! Reads one record, or only its head, and checks it before decoding.

use crate::fault;
use shardpack_format::{Error as FormatError, Frame, Record, to_usize};
use shardpack_reader::{Result, Shard};

/// Number of bytes to read for a head at first. Most heads are shorter.
pub(crate) const HEAD_BYTES: usize = 4 << 10;

/// Checks the head's CRC32 and the index, but not the body's CRC.
pub(crate) fn read_head(shard: &Shard, record: u64) -> Result<(Frame, Vec<u8>)> {
    let span = shard.span(&(record..record.saturating_add(1)))?;
    let length = to_usize(span.end - span.start);
    let mut bytes = vec![0; length.min(HEAD_BYTES)];
    shard.file().read_exact_at(&mut bytes, span.start)?;
    let frame = Frame::parse(&bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    let wanted = to_usize(frame.head_bytes).min(length);
    if wanted > bytes.len() {
        // `check_length` applies the limits to the whole record, which is longer than its head.
        shard.check_length(record)?;
        bytes.resize(wanted, 0);
        shard.file().read_exact_at(&mut bytes, span.start)?;
    }
    bytes.truncate(wanted);
    Ok((frame, bytes))
}

/// Reads a record into the front of `buffer`, which grows if needed. The returned bytes include padding and
/// are not checked yet.
///
/// # Errors
/// `Io`, with the name of the sample, if the record cannot be read; `Limit` if it is too large.
pub(crate) fn read_alone<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.read_record(record, buffer).map_err(|error| fault::of_record(error, shard, record))
}

/// Unlike [`Shard::record`], skips the key and the scalars, which the loader takes from the index.
pub(crate) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}
