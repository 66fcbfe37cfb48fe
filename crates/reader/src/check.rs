//! What must hold of a record: its own structure, and that the index says the same.

use crate::shard::Shard;
use shardpack_format::{Error, FRAME_BYTES, Frame, Record};

/// Where a record's CRC32 comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Crc {
    /// Compute it over the bytes.
    Compute,
    /// It was computed while the bytes came in.
    Known(u32),
    /// The caller asked not to compare it.
    Skip,
}

/// Compares what frame and index both say. Neither wins: a disagreement is an error.
pub(crate) fn check_frame(shard: &Shard, record: u64, frame: &Frame) -> Result<(), Error> {
    let row = shard.index().row(record).ok_or_else(|| Error::format("index row", "present", "missing"))?;
    let number = shard.identity().shard_number;
    let schema = &shard.index().metadata().schema;
    let pairs = [
        ("record length", row.length, frame.record_bytes, 16),
        ("sample id", row.sample_id, frame.sample_id, 8),
        ("record CRC32", u64::from(row.crc32), u64::from(frame.body_crc32), 28),
        ("shard number", u64::from(number), u64::from(frame.shard_number), 4),
        ("number of stored fields", schema.stored_count() as u64, u64::from(frame.field_count), 32),
        ("bytes of scalars", schema.scalar_bytes(), u64::from(frame.scalar_bytes), 40),
    ];
    for (what, index, frame, at) in pairs {
        if index != frame {
            let expected = format!("{index}, as in the index");
            return Err(Error::format(format!("{what} in the record's frame"), expected, frame).at(at));
        }
    }
    Ok(())
}

/// Checks a record whole: frame, agreement with the index, CRC32, head, key, scalars, padding. `bytes` are the record and its padding.
pub(crate) fn check_record<'a>(shard: &Shard, record: u64, bytes: &'a [u8], crc: Crc) -> Result<Record<'a>, Error> {
    let frame = Frame::parse(bytes)?;
    check_frame(shard, record, &frame)?;
    let end = usize::try_from(frame.record_bytes).unwrap_or(usize::MAX);
    let computed = match crc {
        Crc::Compute => bytes.get(64..end).map(crc32fast::hash),
        Crc::Known(crc32) => Some(crc32),
        Crc::Skip => Some(frame.body_crc32),
    };
    match computed {
        Some(computed) if computed == frame.body_crc32 => {}
        Some(computed) => {
            let expected = format!("{:#010x}", frame.body_crc32);
            return Err(Error::format("record CRC32", expected, format!("{computed:#010x} (damaged)")));
        }
        None => {
            let expected = format!("{} bytes", frame.record_bytes);
            return Err(Error::format("record", expected, format!("{} (truncated)", bytes.len())).at(FRAME_BYTES));
        }
    }
    let parsed = Record::parse_trusted(frame, bytes, &shard.options().limits)?;
    let key = shard.index().key(record).unwrap_or_default();
    if parsed.key != key {
        let found = format!("{:?}", parsed.key);
        return Err(Error::format("sample key in the record", format!("{key:?}, as in the index"), found));
    }
    if !shard.index().scalars_match(record, parsed.scalars) {
        let at = FRAME_BYTES + 24 * u64::from(frame.field_count);
        return Err(Error::format("scalars in the record", "those of the index", "others").at(at));
    }
    check_padding(bytes, end)?;
    Ok(parsed)
}

fn check_padding(bytes: &[u8], end: usize) -> Result<(), Error> {
    let padding = bytes.get(end..).unwrap_or_default();
    match padding.iter().position(|&b| b != 0) {
        None => Ok(()),
        Some(i) => Err(Error::format("padding after the record", "zero", "a non-zero byte").at((end + i) as u64)),
    }
}
