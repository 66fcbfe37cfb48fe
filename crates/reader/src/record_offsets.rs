//! Places of a record's parts within its bytes.

use shardpack_format::{Codec, FieldValue, Frame, Record, bug, to_usize};
use std::ops::Range;

/// Offsets of a record's parts, relative to its start. A type that owns its record stores these, because it cannot
/// contain references into it.
#[derive(Debug, Clone)]
pub(crate) struct RecordOffsets {
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
    pub(crate) fn of(record: &Record<'_>, base: &[u8]) -> Self {
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

    pub(crate) const fn sample_id(&self) -> u64 {
        self.frame.sample_id
    }

    pub(crate) fn record_bytes(&self) -> usize {
        to_usize(self.frame.record_bytes)
    }

    pub(crate) fn key<'a>(&self, base: &'a [u8]) -> &'a str {
        let key = std::str::from_utf8(slice(base, &self.key));
        debug_assert!(key.is_ok(), "was UTF-8 when the record was parsed: {key:?}");
        key.unwrap_or_default()
    }

    /// Returns the record. `base` contains the bytes that were passed to [`Self::of`].
    pub(crate) fn record<'a>(&self, base: &'a [u8]) -> Record<'a> {
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

fn slice<'a>(base: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    debug_assert!(range.end <= base.len(), "the parts were measured in these bytes: {range:?}");
    base.get(range.clone()).unwrap_or_default()
}
