//! Reads the fields and scalars of a record.

use shardpack_format::{Error, FieldValue, Limits, Record, Result, Schema};
use shardpack_writer::EncodedSample;

/// Returns the value of the first stored field. This is the picture or the cube.
pub(super) fn first_field<'a, T>(sample: &'a EncodedSample<T>, limits: &Limits) -> Result<FieldValue<'a>> {
    Record::field_at(&sample.frame, &sample.record, 0, limits)?
        .ok_or_else(|| Error::format("first field of a record", "a value", "none"))
}

pub(super) fn scalar<'a>(schema: &Schema, packed: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    packed.get(schema.scalar_range(wanted)?.0)
}

/// Returns the limits for the report's own records, and for sources already accepted by the listing.
pub(super) fn limits() -> Limits {
    Limits { max_record_bytes: 1 << 40, max_decoded_bytes: 1 << 40, ..Limits::default() }
}
