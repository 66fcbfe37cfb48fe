//! The stored value of a field, and records of such values: for cubes out of files and for the samples of a program.

use shardpack_codec::{EncodedArray, encode_bytes};
use shardpack_format::{Codec, Frame, RecordBuilder, Result, Schema, StoredField};

/// A stored value of a field, with its descriptor's bytes.
pub(crate) struct StoredValue {
    pub(crate) codec: Codec,
    pub(crate) decoded_bytes: u64,
    pub(crate) descriptor: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl StoredValue {
    /// An array, as it was encoded.
    pub(crate) fn array(encoded: EncodedArray) -> Result<Self> {
        Ok(Self {
            codec: encoded.codec,
            decoded_bytes: encoded.descriptor.stored_bytes()?,
            descriptor: encoded.descriptor.encode()?,
            payload: encoded.payload,
        })
    }

    /// Text, JSON or bytes, which need no descriptor: compressed where that is smaller.
    pub(crate) fn bytes(bytes: &[u8]) -> Result<Self> {
        let (codec, payload) = encode_bytes(bytes)?;
        Ok(Self { codec, decoded_bytes: bytes.len() as u64, descriptor: Vec::new(), payload })
    }

    /// What a record says of it.
    pub(crate) fn describe(&self) -> StoredField<'_> {
        StoredField {
            codec: self.codec,
            stored_bytes: self.payload.len() as u64,
            decoded_bytes: self.decoded_bytes,
            descriptor: &self.descriptor,
        }
    }
}

/// Lays out the record of `key`, sample `sample_id`, in `buffer`, which is empty or a used one. One value for each stored field of the schema.
///
/// # Errors
/// As [`RecordBuilder::new`].
pub(crate) fn record(
    buffer: Vec<u8>,
    schema: &Schema,
    (shard_number, sample_id): (u32, u64),
    key: &str,
    scalars: &[u8],
    values: &[Option<StoredValue>],
) -> Result<(Vec<u8>, Frame)> {
    let fields: Vec<_> = values.iter().map(|value| value.as_ref().map(StoredValue::describe)).collect();
    let mut record = RecordBuilder::new(buffer, schema, shard_number, sample_id, key, scalars, &fields)?;
    for (position, value) in values.iter().enumerate() {
        if let Some(value) = value {
            record.field_mut(position).copy_from_slice(&value.payload);
        }
    }
    Ok(record.finish())
}
