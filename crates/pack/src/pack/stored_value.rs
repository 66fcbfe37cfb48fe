//! The stored value of a field, and records of such values: for cubes from files and for the
//! samples of a program.

use shardpack_array::{EncodedArray, StoredArray, encode_bytes};
use shardpack_format::{Codec, Frame, RecordBuilder, Result, Schema, StoredField};

/// A stored value of a field, with its descriptor's bytes.
pub(crate) struct StoredValue {
    pub(crate) codec: Codec,
    pub(crate) decoded_bytes: u64,
    pub(crate) descriptor: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// The first stored value of a record that is built around it: its payload is the end of `buffer`,
/// from byte `at` on.
pub(crate) struct Standing {
    pub(crate) buffer: Vec<u8>,
    pub(crate) at: usize,
    pub(crate) codec: Codec,
    pub(crate) decoded_bytes: u64,
    pub(crate) descriptor: Vec<u8>,
}

impl Standing {
    /// An array whose payload was appended to `buffer` when that held `at` bytes.
    pub(crate) fn array(buffer: Vec<u8>, at: usize, stored: &StoredArray) -> Result<Self> {
        let (codec, decoded_bytes) = (stored.codec, stored.descriptor.stored_bytes()?);
        Ok(Self { buffer, at, codec, decoded_bytes, descriptor: stored.descriptor.encode()? })
    }
}

impl StoredValue {
    /// An array that was encoded.
    pub(crate) fn array(encoded: EncodedArray) -> Result<Self> {
        Ok(Self {
            codec: encoded.codec,
            decoded_bytes: encoded.descriptor.stored_bytes()?,
            descriptor: encoded.descriptor.encode()?,
            payload: encoded.payload,
        })
    }

    /// Text, JSON or bytes, which need no descriptor. Compressed if that is smaller.
    pub(crate) fn bytes(bytes: &[u8]) -> Result<Self> {
        let (codec, payload) = encode_bytes(bytes)?;
        Ok(Self { codec, decoded_bytes: bytes.len() as u64, descriptor: Vec::new(), payload })
    }

    /// What a record says about it.
    pub(crate) fn describe(&self) -> StoredField<'_> {
        StoredField {
            codec: self.codec,
            stored_bytes: self.payload.len() as u64,
            decoded_bytes: self.decoded_bytes,
            descriptor: &self.descriptor,
        }
    }
}

/// Lays out the record of `key`, sample `sample_id`, around the value of its first stored field.
/// `values` has one entry for each of the other fields.
///
/// # Errors
/// As [`RecordBuilder::around`].
pub(crate) fn record_around(
    first: Standing,
    schema: &Schema,
    shard_number: u32,
    sample_id: u64,
    key: &str,
    scalars: &[u8],
    values: &[Option<StoredValue>],
) -> Result<(Vec<u8>, Frame)> {
    let Standing { buffer, at, codec, decoded_bytes, descriptor } = first;
    let stored_bytes = buffer.len().saturating_sub(at) as u64;
    let first = StoredField { codec, stored_bytes, decoded_bytes, descriptor: &descriptor };
    let others = values.iter().map(|value| value.as_ref().map(StoredValue::describe));
    let fields: Vec<_> = std::iter::once(Some(first)).chain(others).collect();
    let record = RecordBuilder::around(buffer, at, schema, shard_number, sample_id, key, scalars, &fields)?;
    Ok(filled(record, 1, values))
}

/// Lays out the record of `key`, sample `sample_id`, in `buffer`, which is empty or a used one.
/// There is one value for each stored field of the schema.
///
/// # Errors
/// As [`RecordBuilder::new`].
pub(crate) fn record(
    buffer: Vec<u8>,
    schema: &Schema,
    shard_number: u32,
    sample_id: u64,
    key: &str,
    scalars: &[u8],
    values: &[Option<StoredValue>],
) -> Result<(Vec<u8>, Frame)> {
    let fields: Vec<_> = values.iter().map(|value| value.as_ref().map(StoredValue::describe)).collect();
    let record = RecordBuilder::new(buffer, schema, shard_number, sample_id, key, scalars, &fields)?;
    Ok(filled(record, 0, values))
}

/// The record with the payloads of `values`; the first of them is stored field `first`.
fn filled(mut record: RecordBuilder, first: usize, values: &[Option<StoredValue>]) -> (Vec<u8>, Frame) {
    for (position, value) in (first..).zip(values) {
        if let Some(value) = value {
            record.field_mut(position).copy_from_slice(&value.payload);
        }
    }
    record.finish()
}
