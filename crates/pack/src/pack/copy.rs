//! Copies a record under another number: for records that are moved, not made.

use shardpack_format::{Frame, Record, RecordBuilder, Result, Schema, StoredField};

/// Lays `record` out again as sample `sample` of shard `shard_number`. No byte of its values
/// changes.
pub(crate) fn copy_record(
    record: &Record<'_>,
    schema: &Schema,
    shard_number: u32,
    sample: u64,
    buffer: Vec<u8>,
) -> Result<(Vec<u8>, Frame)> {
    let fields = record.fields.iter().map(|value| {
        value.as_ref().map(|value| StoredField {
            codec: value.codec,
            stored_bytes: value.bytes.len() as u64,
            decoded_bytes: value.decoded_bytes,
            descriptor: value.descriptor,
        })
    });
    let fields: Vec<_> = fields.collect();
    let mut copy = RecordBuilder::new(buffer, schema, shard_number, sample, record.key, record.scalars, &fields)?;
    for (position, value) in record.fields.iter().enumerate() {
        if let Some(value) = value {
            copy.field_mut(position).copy_from_slice(value.bytes);
        }
    }
    Ok(copy.finish())
}
