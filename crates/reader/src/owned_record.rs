//! A record that owns its bytes.

use crate::check::Crc;
use crate::error::Result;
use crate::shard::Shard;
use shardpack_format::{Codec, FieldValue, Frame, Record, bug, to_usize};
use std::ops::Range;

/// A checked record that owns its bytes.
#[derive(Debug, Clone)]
pub(crate) struct OwnedRecord {
    /// The record as stored, without the padding after it.
    bytes: Vec<u8>,
    offsets: RecordOffsets,
}

impl OwnedRecord {
    /// Reads and checks a record.
    pub(crate) fn read(shard: &Shard, number: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        let (padded, crc) = shard.read_with_crc(number, &mut bytes)?;
        let offsets = RecordOffsets::of(&shard.check(number, padded, crc)?, padded);
        bytes.truncate(offsets.record_bytes());
        Ok(Self { bytes, offsets })
    }

    /// Checks a record, and copies it. `padded` is the record with its padding.
    pub(crate) fn copied(shard: &Shard, number: u64, padded: &[u8], crc: Crc) -> Result<Self> {
        let offsets = RecordOffsets::of(&shard.check(number, padded, crc)?, padded);
        let bytes = whole(padded, offsets.record_bytes()).to_vec();
        Ok(Self { bytes, offsets })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) const fn sample_id(&self) -> u64 {
        self.offsets.frame.sample_id
    }

    pub(crate) fn key(&self) -> &str {
        self.offsets.key(&self.bytes)
    }

    pub(crate) fn record(&self) -> Record<'_> {
        self.offsets.record(&self.bytes)
    }
}

impl Shard {
    /// Reads the records of a sample in the columns files (spec §3.6), in their order. Contains `None` for a file
    /// without stored fields, because its values are in its index.
    pub(crate) fn added(&self, record: u64) -> Result<Vec<Option<OwnedRecord>>> {
        let has_records = |file: &Self| file.index().metadata().schema.stored_count() > 0;
        let read = |file| has_records(file).then(|| OwnedRecord::read(file, record)).transpose();
        self.columns_files().iter().map(read).collect()
    }
}

/// Offsets of a record's parts, relative to its start. An owned record stores these, because it cannot contain
/// references into its bytes.
#[derive(Debug, Clone)]
struct RecordOffsets {
    frame: Frame,
    key: Range<usize>,
    scalars: Range<usize>,
    fields: Vec<Option<FieldOffsets>>,
}

#[derive(Debug, Clone)]
struct FieldOffsets {
    codec: Codec,
    decoded_bytes: u64,
    descriptor: Range<usize>,
    bytes: Range<usize>,
}

impl RecordOffsets {
    /// Returns the offsets of `record`'s parts in `base`, the bytes from which `record` was parsed.
    fn of(record: &Record<'_>, base: &[u8]) -> Self {
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr().checked_sub(base.as_ptr().addr());
            let range = start.map(|start| start..start + part.len()).filter(|range| range.end <= base.len());
            range.unwrap_or_else(|| bug("a part of a record is outside the record's bytes"))
        };
        let part = |f: FieldValue<'_>| {
            let (descriptor, bytes) = (range(f.descriptor), range(f.bytes));
            FieldOffsets { codec: f.codec, decoded_bytes: f.decoded_bytes, descriptor, bytes }
        };
        Self {
            frame: record.frame,
            key: range(record.key.as_bytes()),
            scalars: range(record.scalars),
            fields: record.fields.iter().map(|field| field.map(part)).collect(),
        }
    }

    fn record_bytes(&self) -> usize {
        to_usize(self.frame.record_bytes)
    }

    fn key<'a>(&self, base: &'a [u8]) -> &'a str {
        let key = std::str::from_utf8(slice(base, &self.key));
        debug_assert!(key.is_ok(), "was UTF-8 when the record was parsed: {key:?}");
        key.unwrap_or_default()
    }

    /// Returns the record. `base` contains the bytes that were passed to [`Self::of`].
    fn record<'a>(&self, base: &'a [u8]) -> Record<'a> {
        let fields = self.fields.iter().map(|part| {
            part.as_ref().map(|p| FieldValue {
                codec: p.codec,
                decoded_bytes: p.decoded_bytes,
                descriptor: slice(base, &p.descriptor),
                bytes: slice(base, &p.bytes),
            })
        });
        let fields = fields.collect();
        Record { frame: self.frame, key: self.key(base), scalars: slice(base, &self.scalars), fields }
    }
}

/// Returns a record without the padding after it.
pub(crate) fn whole(padded: &[u8], length: usize) -> &[u8] {
    padded.get(..length).unwrap_or_else(|| bug("a record is shorter than its length"))
}

fn slice<'a>(base: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    debug_assert!(range.end <= base.len(), "the parts were measured in these bytes: {range:?}");
    base.get(range.clone()).unwrap_or_default()
}
