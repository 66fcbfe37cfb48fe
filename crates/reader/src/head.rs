//! Reads the head of a record, which contains the types and lengths of its values.

use crate::error::Result;
use crate::shard::Shard;
use shardpack_format::{Frame, to_usize};

/// Number of bytes to read at first for a head. Most heads are shorter.
pub const HEAD_BYTES: usize = 4 << 10;

/// Reads the frame and head of a record. Checks them against the head's CRC32 and the index, but not against
/// the body's CRC32.
///
/// # Errors
/// `Io` if it cannot be read, `Format` if the frame or the index is damaged, `Limit` if the record is too
/// large.
pub fn read_head(shard: &Shard, record: u64) -> Result<(Frame, Vec<u8>)> {
    let span = shard.span(&(record..record.saturating_add(1)))?;
    let length = to_usize(span.end - span.start);
    let mut bytes = vec![0; length.min(HEAD_BYTES)];
    shard.file().read_exact_at(&mut bytes, span.start)?;
    let frame = Frame::parse(&bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    let wanted = to_usize(frame.head_bytes).min(length);
    if wanted > bytes.len() {
        shard.check_length(record)?;
        bytes.resize(wanted, 0);
        shard.file().read_exact_at(&mut bytes, span.start)?;
    }
    bytes.truncate(wanted);
    Ok((frame, bytes))
}
