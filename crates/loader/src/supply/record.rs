//! One record: read alone, or only its head; and the checks before it is decoded.

use crate::fault;
use shardpack_format::{Error as FormatError, Frame, Record, to_usize};
use shardpack_reader::{Result, Shard};

/// Larger than most heads.
pub(crate) const HEAD_BYTES: usize = 4 << 10;

/// Frame and head of a record, checked against the head's CRC32 and the index; the CRC of the body is
/// not checked.
pub(crate) fn read_head(shard: &Shard, record: u64) -> Result<(Frame, Vec<u8>)> {
    let span = shard.span(&(record..record.saturating_add(1)))?;
    let length = to_usize(span.end - span.start);
    let mut bytes = vec![0; length.min(HEAD_BYTES)];
    shard.file().read_exact_at(&mut bytes, span.start)?;
    let frame = Frame::parse(&bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    let wanted = to_usize(frame.head_bytes).min(length);
    if wanted > bytes.len() {
        // Limited by the length of the record, which the limits restrict.
        shard.check_length(record)?;
        bytes.resize(wanted, 0);
        shard.file().read_exact_at(&mut bytes, span.start)?;
    }
    bytes.truncate(wanted);
    Ok((frame, bytes))
}

/// Reads a record into the front of `buffer`, which grows if needed. Its bytes, including padding, are
/// not checked yet.
///
/// # Errors
/// `Io` with the sample if it cannot be read; `Limit` if it is too large.
pub(crate) fn read_alone<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.read_record(record, buffer).map_err(|error| fault::of_record(error, shard, record))
}

/// Compares a record with the index and with its CRC32. Key and scalars, which [`Shard::record`] also
/// compares, are skipped, because the loader takes them from the index.
pub(crate) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}
