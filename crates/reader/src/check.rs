//! Checks the bytes of a record before the reader returns them. The rules are in
//! `shardpack_format`. This module applies them in order and adds file offsets to the errors.

use shardpack_format::{Error, FRAME_BYTES, Frame, Index, Limits, Record, bug, to_usize};

/// How to obtain a record's CRC32.
#[derive(Debug, Clone, Copy)]
pub enum Crc {
    /// Compute it from the bytes.
    Compute,
    /// Use this value, computed while the bytes were read.
    Known(u32),
    /// Skip the check, as requested by the caller.
    Skip,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedRecord<'a> {
    pub(crate) shard_number: u32,
    pub(crate) record: u64,
    pub(crate) limits: &'a Limits,
}

/// Checks the frame, CRC32, head and padding of a record, and compares it with the index and the schema.
/// `bytes` includes the padding. Errors include their offset in the file.
pub(crate) fn check_record<'a>(
    index: &Index,
    expected: &ExpectedRecord<'_>,
    bytes: &'a [u8],
    crc: Crc,
) -> Result<Record<'a>, Error> {
    let ExpectedRecord { shard_number: number, record, limits } = *expected;
    let offset = index.row(record).map_or(0, |row| row.offset);
    let frame = Frame::parse(bytes).map_err(|e| e.at(offset))?;
    // Compare with the index first: an intact record in the wrong place must not be reported as damaged.
    index.check_frame(record, number, &frame)?;
    let end = to_usize(frame.record_bytes);
    check_crc(&frame, bytes, end, crc).map_err(|e| e.at(offset))?;
    let parsed = Record::parse_trusted(frame, bytes, limits).map_err(|e| e.at(offset))?;
    index.check_record(record, number, &parsed, limits)?;
    check_padding(bytes, end).map_err(|e| e.at(offset))?;
    Ok(parsed)
}

fn check_crc(frame: &Frame, bytes: &[u8], end: usize, crc: Crc) -> Result<(), Error> {
    let computed = match crc {
        Crc::Compute => bytes.get(64..end).map(crc32fast::hash),
        Crc::Known(crc32) => Some(crc32),
        Crc::Skip => Some(frame.body_crc32),
    };
    match computed {
        Some(computed) if computed == frame.body_crc32 => Ok(()),
        Some(computed) => Err(frame.body_differs(computed)),
        None => {
            let (needed, found) = (frame.record_bytes, bytes.len());
            let text = format!("the record is truncated: only {found} of its {needed} bytes can be read");
            Err(Error::malformed(text).at(FRAME_BYTES))
        }
    }
}

fn check_padding(bytes: &[u8], end: usize) -> Result<(), Error> {
    let padding = bytes.get(end..).unwrap_or_else(|| bug("a record ends beyond its bytes"));
    match padding.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(i) => Err(Error::malformed("the padding after the record is not all zeros").at((end + i) as u64)),
    }
}
