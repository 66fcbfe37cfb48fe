//! Checks the content of records whose structure is intact. Labels are compared with the classes. On request,
//! every field is decoded, and every segment index is compared with its picture.

use super::{DecodePicture, VerifyOptions};
use crate::decode::name_field;
use crate::sample::image_of;
use crate::scalar::Scalar;
use crate::scratch::room;
use crate::shard::Shard;
use shardpack_array::{ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, FieldKind, FieldValue, Limits, Record, bug, check_json};
use shardpack_jpeg::{SegmentIndex, SegmentIndexer};

/// Checks the fields of records, reusing its scratch memory between them.
#[derive(Default)]
pub(super) struct FieldChecker {
    decoder: ArrayDecoder,
    decoded: Vec<u8>,
    indexer: SegmentIndexer,
}

impl FieldChecker {
    pub(super) fn check(&mut self, shard: &Shard, record: &Record<'_>, options: &VerifyOptions<'_>) -> Vec<Error> {
        let metadata = shard.index().metadata();
        let mut out = Vec::new();
        if let Some(classes) = &metadata.classes {
            out.extend(check_label(shard, record, classes.len() as u64));
        }
        for (position, field) in metadata.schema.stored().enumerate() {
            if let Some(Err(error)) = self.segments(shard, record, position, options) {
                out.push(name_field(&field.name, error));
            }
        }
        let Some(picture) = options.deep else { return out };
        for (field, value) in metadata.schema.stored().zip(&record.fields) {
            let Some(value) = value else { continue };
            if let Err(e) = self.decode(field.kind, value, &options.limits, picture) {
                out.push(name_field(&field.name, e));
            }
        }
        out
    }

    /// Checks the segment index of a picture. Returns `None` if stored field `position` has no segment indexes.
    fn segments(
        &mut self,
        shard: &Shard,
        record: &Record<'_>,
        position: usize,
        options: &VerifyOptions<'_>,
    ) -> Option<Result<(), Error>> {
        let value = |position: usize| record.fields.get(position).and_then(Option::as_ref);
        let index = value(shard.segments_at(position)?)?;
        if index.codec != Codec::Raw {
            return Some(Err(Error::format("codec of the segment index", "raw", index.codec.name())));
        }
        match value(position) {
            None => Some(Err(Error::malformed("there is a segment index, but no picture"))),
            Some(picture) if picture.codec != Codec::Jpeg => {
                Some(Err(Error::malformed("there is a segment index, but the picture is not a JPEG")))
            }
            Some(picture) if options.deep.is_some() => {
                Some(self.indexer.verify(picture.bytes, index.bytes, &options.limits))
            }
            Some(_) => Some(SegmentIndex::parse(index.bytes).map(drop)),
        }
    }

    fn decode(
        &mut self,
        kind: FieldKind,
        value: &FieldValue<'_>,
        limits: &Limits,
        picture: &DecodePicture<'_>,
    ) -> Result<(), Error> {
        let bytes = || decode_bytes(value.codec, value.bytes, value.decoded_bytes, limits);
        match kind {
            FieldKind::Image => {
                let image = image_of(value)?;
                let failed =
                    |e: String| Error::malformed(format!("cannot decode the picture as {}: {e}", image.media_type));
                picture(image.media_type, image.bytes).map_err(failed)
            }
            FieldKind::Array => self.decode_array(value, limits),
            FieldKind::Text => std::str::from_utf8(&bytes()?)
                .map(|_| ())
                .map_err(|e| Error::malformed(format!("the text is not valid UTF-8: {e}"))),
            FieldKind::Json => check_json(&bytes()?, limits),
            _ => bytes().map(|_| ()),
        }
    }

    fn decode_array(&mut self, value: &FieldValue<'_>, limits: &Limits) -> Result<(), Error> {
        let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
        ArrayDecoder::check_length(value.codec, &descriptor, value.bytes, limits)?;
        let out = room(&mut self.decoded, descriptor.decoded_bytes()?).map_err(|e| Error::usage(e.to_string()))?;
        self.decoder.decode_into(value.codec, &descriptor, value.bytes, out, limits)
    }
}

/// Checks an integer label against the classes. The specification does not restrict other labels.
fn check_label(shard: &Shard, record: &Record<'_>, classes: u64) -> Option<Error> {
    let schema = &shard.index().metadata().schema;
    let (range, dtype) = schema.scalar_range("label")?;
    if matches!(dtype, Dtype::Bool | Dtype::F16 | Dtype::F32 | Dtype::F64) {
        return None;
    }
    let value = record.scalars.get(range).unwrap_or_else(|| bug("scalars whose length was compared"));
    let value = Scalar::from_bytes(dtype, value).unwrap_or_else(|| bug("a label has the wrong length"));
    let fits = value.as_i64().and_then(|v| u64::try_from(v).ok()).is_some_and(|v| v < classes);
    (!fits).then(|| Error::format("label", format!("a class number below {classes}"), value))
}
