//! Assembles one record from a sample's values.

use super::totals::FidelityTotals;
use shardpack_array::{EncodedArray, encode_bytes};
use shardpack_format::{
    Codec, Field, FieldValue, Frame, Record, RecordBuilder, Result, Schema, StoredField, bug, to_usize,
};
use shardpack_writer::EncodedSample;
use std::borrow::Cow;
use std::ops::Range;

/// Space reserved for small values, padding, and the last unit of an incompressible array.
const RESERVE_BYTES: usize = 64 << 10;

pub(crate) struct StoredValue<'a> {
    pub(super) codec: Codec,
    pub(super) decoded_bytes: u64,
    pub(super) descriptor: Cow<'a, [u8]>,
    pub(super) payload: Cow<'a, [u8]>,
}

impl<'a> StoredValue<'a> {
    pub(crate) fn array(encoded: EncodedArray) -> Result<Self> {
        Ok(Self {
            codec: encoded.codec,
            decoded_bytes: encoded.descriptor.stored_bytes()?,
            descriptor: encoded.descriptor.encode()?.into(),
            payload: encoded.payload.into(),
        })
    }

    /// Wraps text, JSON or bytes. They need no descriptor, and are compressed if that makes them smaller.
    pub(crate) fn bytes(bytes: &[u8]) -> Result<Self> {
        let (codec, payload) = encode_bytes(bytes)?;
        Ok(Self { codec, decoded_bytes: bytes.len() as u64, descriptor: Cow::default(), payload: payload.into() })
    }

    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        let decoded_bytes = bytes.len() as u64;
        Self { codec: Codec::Raw, decoded_bytes, descriptor: Cow::default(), payload: bytes.into() }
    }

    pub(crate) fn picture(payload: Cow<'a, [u8]>, media_type: &'static str) -> Self {
        let codec = if media_type == "image/jpeg" { Codec::Jpeg } else { Codec::Raw };
        Self { codec, decoded_bytes: payload.len() as u64, descriptor: media_type.as_bytes().into(), payload }
    }

    fn describe(&self) -> StoredField<'_> {
        StoredField {
            codec: self.codec,
            stored_bytes: self.payload.len() as u64,
            decoded_bytes: self.decoded_bytes,
            descriptor: &self.descriptor,
        }
    }
}

/// Byte ranges of some scalar fields within a record's packed scalars.
#[derive(Debug, Clone)]
pub(crate) struct Columns(Vec<Range<usize>>);

impl Columns {
    /// Returns the columns of these fields, in this order, or `None` if the schema lacks one of them.
    pub(crate) fn of(schema: &Schema, fields: &[Field]) -> Option<Self> {
        let place = |wanted: &Field| {
            let (range, dtype) = schema.scalar_range(&wanted.name)?;
            (wanted.dtype == Some(dtype)).then_some(range)
        };
        fields.iter().map(place).collect::<Option<_>>().map(Self)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A sample's record under construction. Values can be set in any order. Values that are never set
/// stay empty or zero.
pub(crate) struct RecordDraft<'a> {
    schema: &'a Schema,
    values: Vec<Option<StoredValue<'a>>>,
    scalars: Vec<u8>,
    buffer: Vec<u8>,
    /// Offset of the first stored field's payload, if it is already in `buffer`. Its payload in `values` is then empty.
    first_at: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordNumber {
    pub(crate) shard: u32,
    pub(crate) sample: u64,
}

pub(crate) struct FinishedRecord {
    pub(crate) record: Vec<u8>,
    pub(crate) frame: Frame,
    pub(crate) scalars: Vec<u8>,
}

impl FinishedRecord {
    pub(crate) fn into_sample(self, source_bytes: u64, totals: FidelityTotals) -> EncodedSample<FidelityTotals> {
        let Self { record, frame, scalars } = self;
        EncodedSample { record, frame, scalars, source_bytes, tally: totals }
    }
}

impl<'a> RecordDraft<'a> {
    /// Creates an empty record with this schema. Reuses the memory of `buffer`, whatever it contains.
    pub(crate) fn new(schema: &'a Schema, buffer: Vec<u8>) -> Self {
        let values = schema.stored().map(|_| None).collect();
        Self { schema, values, scalars: vec![0; to_usize(schema.scalar_bytes())], buffer, first_at: None }
    }

    pub(crate) fn set(&mut self, position: usize, value: StoredValue<'a>) {
        match self.values.get_mut(position) {
            Some(place) => *place = Some(value),
            None => bug("a value for a stored field that the schema does not have"),
        }
    }

    /// Sets scalars. `packed` contains the values of `columns`, in the same order.
    pub(crate) fn set_scalars(&mut self, columns: &Columns, packed: &[u8]) {
        let mut rest = packed;
        for place in &columns.0 {
            let (Some((value, after)), Some(to)) =
                (rest.split_at_checked(place.len()), self.scalars.get_mut(place.clone()))
            else {
                bug("fewer scalars than columns")
            };
            to.copy_from_slice(value);
            rest = after;
        }
        if !rest.is_empty() {
            bug("more scalars than columns");
        }
    }

    /// Returns the buffer, extended to the offset at which the first payload must start, with space reserved
    /// for `payload_bytes` more. The offset depends on the key, the values set so far, and `descriptor_bytes`,
    /// the size of the first value's descriptor.
    pub(super) fn head_for_first(&mut self, descriptor_bytes: usize, key: &str, payload_bytes: usize) -> Vec<u8> {
        let values = || self.values.iter().flatten();
        let descriptors = values().map(|value| value.descriptor.len()).sum::<usize>() + descriptor_bytes;
        let at = RecordBuilder::first_value_at(self.values.len(), self.scalars.len(), descriptors, key.len());
        let beside = at + values().map(|value| value.payload.len()).sum::<usize>() + RESERVE_BYTES;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // Reserve the maximum size once, because growing a large buffer copies it, and untouched pages occupy
        // no memory. If this fails, the encoder requests less later.
        let _ = buffer.try_reserve(payload_bytes.saturating_add(beside));
        buffer.resize(at, 0);
        buffer
    }

    /// Sets the value of the first stored field. Its payload starts at `at` in `buffer`.
    pub(super) fn set_first(&mut self, buffer: Vec<u8>, at: usize, value: StoredValue<'a>) {
        self.set(0, value);
        (self.buffer, self.first_at) = (buffer, Some(at));
    }

    pub(crate) fn finish(self, number: RecordNumber, key: &str) -> Result<FinishedRecord> {
        let Self { schema, values, scalars, buffer, first_at } = self;
        let RecordNumber { shard, sample } = number;
        let mut fields: Vec<_> = values.iter().map(|value| value.as_ref().map(StoredValue::describe)).collect();
        let mut record = match first_at {
            None => RecordBuilder::new(buffer, schema, shard, sample, key, &scalars, &fields)?,
            Some(at) => {
                if let Some(Some(first)) = fields.first_mut() {
                    first.stored_bytes = buffer.len().saturating_sub(at) as u64;
                }
                RecordBuilder::around(buffer, at, schema, shard, sample, key, &scalars, &fields)?
            }
        };
        for (position, value) in values.iter().enumerate().skip(usize::from(first_at.is_some())) {
            if let Some(value) = value {
                record.field_mut(position).copy_from_slice(&value.payload);
            }
        }
        let (record, frame) = record.finish();
        Ok(FinishedRecord { record, frame, scalars })
    }
}

/// Copies `record` and gives the copy a different number.
pub(crate) fn copy_record<'a>(
    record: &Record<'a>,
    schema: &'a Schema,
    number: RecordNumber,
    buffer: Vec<u8>,
) -> Result<FinishedRecord> {
    let copy = |value: &FieldValue<'a>| StoredValue {
        codec: value.codec,
        decoded_bytes: value.decoded_bytes,
        descriptor: value.descriptor.into(),
        payload: value.bytes.into(),
    };
    let values = record.fields.iter().map(|value| value.as_ref().map(copy)).collect();
    let draft = RecordDraft { schema, values, scalars: record.scalars.to_vec(), buffer, first_at: None };
    draft.finish(number, record.key)
}
