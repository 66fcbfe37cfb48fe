//! What stands in a record that was just encoded.

use shardpack_format::{Error, FieldValue, Limits, Record, Result, Schema};
use shardpack_writer::EncodedSample;

/// The value of the first stored field: the picture or the cube.
pub(super) fn first_field<'a, T>(sample: &'a EncodedSample<T>, limits: &Limits) -> Result<FieldValue<'a>> {
    Record::field_at(&sample.frame, &sample.record, 0, limits)?
        .ok_or_else(|| Error::internal("first field of a record", "a value", "none"))
}

/// The first byte of a scalar, by its name.
pub(super) fn scalar_byte(schema: &Schema, packed: &[u8], wanted: &str) -> Option<u8> {
    let mut rest = packed;
    for (name, dtype) in schema.scalars() {
        let (value, tail) = rest.split_at_checked(dtype.size())?;
        if name == wanted {
            return value.first().copied();
        }
        rest = tail;
    }
    None
}

/// What the report accepts of what it has made itself, and of sources that were accepted.
pub(super) fn limits() -> Limits {
    Limits { max_record_bytes: 1 << 40, max_decoded_bytes: 1 << 40, ..Limits::default() }
}
