//! The fields of a record against the schema, and their content where the caller wants it decoded.

use super::VerifyOptions;
use crate::decode::{array_descriptor, check_codec, name_field};
use crate::sample::image_of;
use crate::scalar::Scalar;
use crate::shard::{Shard, room};
use shardpack_codec::{ArrayDecoder, decode_bytes};
use shardpack_format::{Error, FieldKind, FieldValue, Record};

/// Checks the fields of records; keeps its scratch memory between them.
#[derive(Default)]
pub(super) struct FieldChecker {
    decoder: ArrayDecoder,
    decoded: Vec<u8>,
}

impl FieldChecker {
    /// Everything that is wrong with the fields of a record whose bytes are whole.
    pub(super) fn check(&mut self, shard: &Shard, record: &Record<'_>, options: &VerifyOptions<'_>) -> Vec<Error> {
        let metadata = shard.index().metadata();
        let mut out = Vec::new();
        if let Some(classes) = &metadata.classes {
            out.extend(check_label(shard, record, classes.len() as u64));
        }
        for (field, value) in metadata.schema.stored().zip(&record.fields) {
            let Some(value) = value else { continue };
            if let Err(e) = self.check_value(field.kind, value, options) {
                out.push(name_field(&field.name, e));
            }
        }
        out
    }

    fn check_value(
        &mut self,
        kind: FieldKind,
        value: &FieldValue<'_>,
        options: &VerifyOptions<'_>,
    ) -> Result<(), Error> {
        check_codec(kind, value.codec)?;
        match (kind, options.deep) {
            (FieldKind::Image, deep) => {
                let image = image_of(value)?;
                let Some(decode) = deep else { return Ok(()) };
                let expected = || format!("one that decodes as {}", image.media_type);
                decode(image.media_type, image.bytes).map_err(|e| Error::format("picture", expected(), e))
            }
            (FieldKind::Array, None) => array_descriptor(value, &options.limits).map(|_| ()),
            (FieldKind::Array, Some(_)) => self.decode_array(value, options),
            (_, None) => Ok(()),
            (kind, Some(_)) => decode_text(kind, value, options),
        }
    }

    fn decode_array(&mut self, value: &FieldValue<'_>, options: &VerifyOptions<'_>) -> Result<(), Error> {
        let limits = &options.limits;
        let descriptor = array_descriptor(value, limits)?;
        let out = room(&mut self.decoded, descriptor.decoded_bytes()?)
            .map_err(|e| Error::usage("decoded array", "a size that fits in memory", e))?;
        self.decoder.decode_into(value.codec, &descriptor, value.bytes, out, limits)
    }
}

fn decode_text(kind: FieldKind, value: &FieldValue<'_>, options: &VerifyOptions<'_>) -> Result<(), Error> {
    let bytes = decode_bytes(value.codec, value.bytes, value.decoded_bytes, &options.limits)?;
    match kind {
        FieldKind::Text => std::str::from_utf8(&bytes).map(|_| ()).map_err(|e| Error::format("text", "UTF-8", e)),
        FieldKind::Json => serde_json::from_slice::<serde::de::IgnoredAny>(&bytes)
            .map(|_| ())
            .map_err(|e| Error::format("JSON", "one that parses", e)),
        _ => Ok(()),
    }
}

fn check_label(shard: &Shard, record: &Record<'_>, classes: u64) -> Option<Error> {
    let mut rest = record.scalars;
    for (name, dtype) in shard.index().metadata().schema.scalars() {
        let (value, tail) = rest.split_at_checked(usize::try_from(dtype.bytes()).unwrap_or(usize::MAX))?;
        if name == "label" {
            let value = Scalar::from_bytes(dtype, value)?;
            let fits = value.as_i64().and_then(|v| u64::try_from(v).ok()).is_some_and(|v| v < classes);
            return (!fits).then(|| Error::format("label", format!("a class below {classes}"), value));
        }
        rest = tail;
    }
    None
}
