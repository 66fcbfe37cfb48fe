//! Pictures: read straight into their records.

use super::{PackOptions, SampleError, Tally, schema, tables};
use crate::sources::{Content, Entry, Listing};
use serde_json::json;
use shardpack_codec::encode_bytes;
use shardpack_format::{Codec, Dtype, Field, FieldKind, Recipe, RecordBuilder, Schema, StoredField};
use shardpack_writer::{Encoded, EncodedSample, SampleSource};
use std::borrow::Cow;

/// What a record takes beside the picture: frame, head and padding.
pub(super) const OVERHEAD_BYTES: u64 = 256;

/// The pictures of a listing.
pub(super) struct Images<'a> {
    listing: &'a Listing,
    schema: Schema,
}

impl<'a> Images<'a> {
    pub(super) fn new(listing: &'a Listing) -> anyhow::Result<Self> {
        let metadata = schema::metadata(listing, fields(listing), Recipe::new())?;
        Ok(Self { listing, schema: metadata.schema })
    }

    pub(super) fn fields(&self) -> Vec<Field> {
        fields(self.listing)
    }

    pub(super) fn recipe(&self, options: &PackOptions) -> Recipe {
        let mut recipe = schema::recipe(self.listing, options);
        recipe.insert("image".into(), json!({ "jpeg": options.jpeg.name() }));
        recipe
    }

    fn entry(&self, sample: u64) -> Option<(usize, &'a Entry)> {
        let position = usize::try_from(sample).ok()?;
        Some((position, self.listing.samples.get(position)?))
    }
}

fn fields(listing: &Listing) -> Vec<Field> {
    let mut fields = vec![Field::stored("image", FieldKind::Image)];
    fields.extend(tables::label_field(listing));
    fields.push(Field::scalar("height", Dtype::U32));
    fields.push(Field::scalar("width", Dtype::U32));
    fields.push(Field::scalar("gpu_jpeg", Dtype::Bool));
    fields
}

impl SampleSource for Images<'_> {
    type Tally = Tally;
    type Error = SampleError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.entry(sample).map_or("", |(_, entry)| &entry.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.entry(sample).map_or(0, |(_, entry)| entry.bytes + OVERHEAD_BYTES)
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Tally>, SampleError> {
        let Some((position, entry)) = self.entry(sample) else {
            return Err(shardpack_format::Error::usage("sample", "one of the listing", sample).into());
        };
        let Content::Picture(picture) = &entry.content else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        let mut scalars = Vec::with_capacity(32);
        tables::append_label(&mut scalars, entry);
        scalars.extend(picture.height.to_le_bytes());
        scalars.extend(picture.width.to_le_bytes());
        scalars.push(u8::from(picture.jpeg.as_ref().is_some_and(|jpeg| jpeg.gpu_jpeg)));
        tables::append_columns(&mut scalars, self.listing, position);

        let image = StoredField {
            codec: if picture.jpeg.is_some() { Codec::Jpeg } else { Codec::Raw },
            stored_bytes: entry.bytes,
            decoded_bytes: entry.bytes,
            descriptor: picture.media_type.as_bytes(),
        };
        let texts: Vec<_> = tables::texts(self.listing, position)
            .into_iter()
            .map(|text| encode_bytes(text.as_bytes()).map(|(codec, bytes)| (codec, bytes, text.len() as u64)))
            .collect::<Result<_, _>>()?;
        let mut stored = vec![Some(image)];
        stored.extend(texts.iter().map(|(codec, bytes, decoded_bytes)| {
            let stored_bytes = bytes.len() as u64;
            Some(StoredField { codec: *codec, stored_bytes, decoded_bytes: *decoded_bytes, descriptor: &[] })
        }));
        let mut record = RecordBuilder::new(buffer, &self.schema, shard_number, sample, &entry.key, &scalars, &stored)?;
        self.listing.read_into(entry, record.field_mut(0))?;
        for (i, (_, bytes, _)) in texts.iter().enumerate() {
            record.field_mut(i + 1).copy_from_slice(bytes);
        }
        let (record, frame) = record.finish();
        let source_bytes = entry.source_bytes();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes, tally: Tally::default() }))
    }
}
