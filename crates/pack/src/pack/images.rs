//! Pictures: kept byte for byte, tiled, or re-encoded, and laid out as records.

use super::clip_maker::ClipMaker;
use super::picture_maker::{Look, PictureMaker, Stored};
use super::picture_masks::{self, PictureMasks};
use super::picture_sizes::{Sizes, picture, refuse_huge};
use super::stored_value::StoredValue;
use super::{OddPicture, PackOptions, SampleError, Tally, picture_totals, schema, tables, tries};
use shardpack_array::{ArrayEncoder, Trial};
use shardpack_format::{Codec, Dtype, Field, FieldKind, Recipe, RecordBuilder, Schema, StoredField, to_usize};
use shardpack_recipe::{FolderRecipe, PictureOptions};
use shardpack_sources::pictures::probe_picture;
use shardpack_sources::{Listing, SourceSample};
use shardpack_writer::{Encoded, EncodedSample, SampleSource};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Fields that pictures have beside their pixels.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Whether there is a field for ICC profiles.
    pub(crate) icc: bool,
    /// How masks are stored, if there are any.
    pub(crate) masks: Option<Trial>,
}

impl Beside {
    /// What the pictures of a listing need. Runs on the caller's rayon pool.
    pub(crate) fn of(listing: &Listing, options: &PackOptions) -> crate::Result<Self> {
        let icc = has_icc(listing, &options.pictures);
        Ok(Self { icc, masks: tries::choose_for_masks(listing, options)? })
    }
}

/// The pictures of a listing.
pub(crate) struct Images<'a> {
    listing: &'a Listing,
    options: &'a PictureOptions,
    fields: Vec<Field>,
    schema: Schema,
    /// Whether the schema has a field for ICC profiles.
    icc: bool,
    masks: Option<PictureMasks>,
    skip: bool,
    sizes: Sizes<'a>,
    idle: Mutex<Vec<ImageEncoder>>,
    odd: Mutex<Vec<OddPicture>>,
}

/// What one thread works with, reused from picture to picture.
#[derive(Default)]
struct ImageEncoder {
    pictures: PictureReader,
    masks: Option<ArrayEncoder>,
}

/// Makes stored pictures of files, in memory that is used again.
#[derive(Default)]
struct PictureReader {
    maker: PictureMaker,
    source: Vec<u8>,
    /// The frames of a clip.
    clip: Vec<u8>,
}

impl<'a> Images<'a> {
    /// Prepares, and re-encodes a few pictures to learn how large they become. Runs on the caller's
    /// rayon pool.
    pub(crate) fn new(listing: &'a Listing, options: &'a PackOptions, beside: &Beside) -> crate::Result<Self> {
        let pictures = &options.pictures;
        let fields = fields(listing, pictures, beside);
        let schema = schema::metadata(listing, fields.clone(), Recipe::new())?.schema;
        let skip = options.skips();
        if !pictures.keeps_files() && !skip {
            refuse_huge(listing)?;
        }
        let sizes = Sizes::new(listing, pictures)?;
        Ok(Self {
            listing,
            options: pictures,
            fields,
            schema,
            icc: beside.icc,
            masks: beside.masks.clone().map(|trial| PictureMasks::new(trial, options)),
            skip,
            sizes,
            idle: Mutex::default(),
            odd: Mutex::default(),
        })
    }

    /// The pictures with oddities, by key.
    pub(crate) fn odd(self) -> Vec<OddPicture> {
        let mut odd = self.odd.into_inner().unwrap_or_else(PoisonError::into_inner);
        odd.sort_by(|a, b| a.key.cmp(&b.key));
        odd
    }

    pub(crate) fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    pub(super) fn recipe(&self, options: &PackOptions) -> FolderRecipe {
        let mask = self.masks.as_ref().map(|masks| tries::recipe_of_arrays("mask", masks.trial(), &options.arrays));
        FolderRecipe {
            image: Some(self.options.clone().into()),
            clips: self.listing.is_of_clips().then(|| true.into()),
            mask: mask.map(Into::into),
            ..schema::recipe(self.listing, options)
        }
    }

    /// Estimated size of a sample's record.
    pub(crate) fn estimate(&self, entry: &SourceSample) -> u64 {
        let mask = self.masks.as_ref().map_or(0, |masks| masks.estimate(entry));
        self.sizes.estimate(entry).saturating_add(mask)
    }

    /// Which checks are made on a sample.
    fn looks_at(&self, sample: u64) -> Look {
        let count = self.listing.samples.len() as u64;
        Look { check: self.options.checked().takes(sample, count), score: self.options.scored().takes(sample, count) }
    }

    fn entry(&self, sample: u64) -> Option<(usize, &'a SourceSample)> {
        let position = usize::try_from(sample).ok()?;
        Some((position, self.listing.samples.get(position)?))
    }

    /// Runs `work` with an encoder that no other thread is using.
    fn with_encoder<T>(
        &self,
        work: impl FnOnce(&mut ImageEncoder) -> Result<T, SampleError>,
    ) -> Result<T, SampleError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut encoder = taken.unwrap_or_default();
        let result = work(&mut encoder);
        idle().push(encoder);
        result
    }

    /// Reads a picture and makes the stored one.
    fn make<'b>(
        &self,
        reader: &'b mut PictureReader,
        entry: &SourceSample,
        look: Look,
    ) -> Result<Stored<'b>, SampleError> {
        let Some(picture) = picture(entry) else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        if !entry.frames.is_empty() {
            return self.make_clip(reader, entry, look);
        }
        let PictureReader { maker, source, .. } = reader;
        source.resize(to_usize(entry.bytes), 0);
        self.listing.read_into(entry, source)?;
        maker.make(source, picture, self.options, self.icc, look)
    }

    /// Reads the frames of a clip and makes the list of the stored ones.
    fn make_clip<'b>(
        &self,
        reader: &'b mut PictureReader,
        entry: &SourceSample,
        look: Look,
    ) -> Result<Stored<'b>, SampleError> {
        let PictureReader { maker, source, clip: out } = reader;
        let mut clip = ClipMaker::default();
        for (number, frame) in entry.frames.iter().enumerate() {
            source.resize(to_usize(frame.bytes), 0);
            self.listing.read_frame(frame, source)?;
            let picture = probe_picture(source).ok().flatten().filter(|picture| picture.jpeg.is_some());
            let picture = picture.ok_or_else(|| SampleError::Picture {
                error: shardpack_format::Error::format(format!("frame {number}"), "a JPEG", "none"),
            })?;
            clip.add(maker.make(source, &picture, self.options, self.icc, look)?)?;
        }
        clip.finish(out)
    }

    fn note_oddity(&self, entry: &SourceSample, what: String) {
        let mut odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        odd.push(OddPicture { key: entry.key.clone(), what });
    }
}

/// Whether the dataset has a field for ICC profiles.
pub(super) fn has_icc(listing: &Listing, options: &PictureOptions) -> bool {
    let has_icc = |entry: &SourceSample| picture(entry).and_then(|p| p.jpeg).is_some_and(|jpeg| jpeg.icc);
    options.takes_profiles_out() && listing.samples.iter().any(has_icc)
}

pub(crate) fn fields(listing: &Listing, options: &PictureOptions, beside: &Beside) -> Vec<Field> {
    let mut fields = vec![Field::stored("image", FieldKind::Image)];
    if beside.masks.is_some() {
        fields.push(Field::stored("mask", FieldKind::Array));
    }
    if beside.icc {
        fields.push(Field::stored("icc", FieldKind::Bytes));
    }
    fields.extend(tables::label_field(listing));
    fields.push(Field::scalar("height", Dtype::U32));
    fields.push(Field::scalar("width", Dtype::U32));
    fields.push(Field::scalar("orientation", Dtype::U8));
    fields.push(Field::scalar("gpu_jpeg", Dtype::Bool));
    if listing.is_of_clips() {
        fields.push(Field::scalar("image.frames", Dtype::U32));
    }
    if !options.keeps_files() {
        fields.extend(picture_totals::fields("image", options.reencodes()));
    }
    fields
}

impl SampleSource for Images<'_> {
    type Tally = Tally;
    type Error = SampleError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.entry(sample).map_or("", |(_, entry)| &entry.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.entry(sample).map_or(0, |(_, entry)| {
            self.sizes.memory_bytes(entry, self.looks_at(sample)).saturating_add(picture_masks::memory_bytes(entry))
        })
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Tally>, SampleError> {
        let Some((position, entry)) = self.entry(sample) else {
            return Err(shardpack_format::Error::usage("sample", "one of the listing", sample).into());
        };
        let look = self.looks_at(sample);
        let encoded = self.with_encoder(|encoder| {
            match self.encode_with(encoder, position, entry, look, shard_number, buffer) {
                Err(SampleError::Picture { error }) if self.skip => {
                    // Without the hint, because leaving the picture out was the next step.
                    let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                    Ok(Encoded::Skipped { reason })
                }
                Err(error) if self.skip && error.is_of_source() && !self.is_cancelled() => {
                    // What a store does not give is no flaw of a mask.
                    self.listing.files.failure()?;
                    Ok(Encoded::Skipped { reason: error.to_string() })
                }
                encoded => encoded,
            }
        });
        self.listing.release(entry);
        encoded
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.listing.files.read_ahead_bytes()
    }

    fn announce(&self, sample: u64) -> u64 {
        let Some((_, entry)) = self.entry(sample) else { return 0 };
        self.listing.announce(entry);
        entry.source_bytes()
    }
}

impl Images<'_> {
    fn encode_with(
        &self,
        encoder: &mut ImageEncoder,
        position: usize,
        entry: &SourceSample,
        look: Look,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let stored = self.make(&mut encoder.pictures, entry, look)?;
        let is_turned = stored.orientation > 4;
        let size = if is_turned { [stored.width, stored.height] } else { [stored.height, stored.width] };
        let mask = match &self.masks {
            Some(masks) => masks.encode(&mut encoder.masks, self.listing, entry, size)?,
            None => None,
        };
        self.record(position, entry, shard_number, buffer, stored, mask)
    }

    fn is_cancelled(&self) -> bool {
        self.masks.as_ref().is_some_and(PictureMasks::is_cancelled)
    }

    /// Lays out the record.
    fn record(
        &self,
        position: usize,
        entry: &SourceSample,
        shard_number: u32,
        buffer: Vec<u8>,
        stored: Stored<'_>,
        mask: Option<StoredValue>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let Some(picture) = picture(entry) else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        let is_clip = !entry.frames.is_empty();
        let mut scalars = Vec::with_capacity(64);
        tables::append_label(&mut scalars, entry);
        scalars.extend(stored.height.to_le_bytes());
        scalars.extend(stored.width.to_le_bytes());
        scalars.push(stored.orientation);
        scalars.push(u8::from(stored.gpu_jpeg));
        if self.listing.is_of_clips() {
            let too_many = |_| shardpack_format::Error::usage("frames of a clip", "below 2^32", entry.frames.len());
            scalars.extend(u32::try_from(entry.frames.len()).map_err(too_many)?.to_le_bytes());
        }
        if !self.options.keeps_files() {
            stored.figures.append(&mut scalars);
        }
        let tally = stored.note().tally("image", &entry.key, &stored.figures, self.options);
        tables::append_columns(&mut scalars, self.listing, position);

        let bytes = stored.bytes.len() as u64;
        let image = StoredField {
            codec: if picture.jpeg.is_some() && !is_clip { Codec::Jpeg } else { Codec::Raw },
            stored_bytes: bytes,
            decoded_bytes: bytes,
            descriptor: if is_clip { ClipMaker::MEDIA_TYPE } else { picture.media_type }.as_bytes(),
        };
        let mut others = Vec::new();
        if self.masks.is_some() {
            others.push(mask);
        }
        if self.icc {
            others.push(stored.icc.as_deref().map(StoredValue::bytes).transpose()?);
        }
        for text in tables::texts(self.listing, position) {
            others.push(Some(StoredValue::bytes(text.as_bytes())?));
        }
        let fields: Vec<_> = std::iter::once(Some(image))
            .chain(others.iter().map(|value| value.as_ref().map(StoredValue::describe)))
            .collect();
        let sample = position as u64;
        let mut record = RecordBuilder::new(buffer, &self.schema, shard_number, sample, &entry.key, &scalars, &fields)?;
        record.field_mut(0).copy_from_slice(stored.bytes);
        if let Some(what) = stored.oddity {
            self.note_oddity(entry, what);
        }
        for (i, value) in others.iter().enumerate() {
            if let Some(value) = value {
                record.field_mut(i + 1).copy_from_slice(&value.payload);
            }
        }
        let (record, frame) = record.finish();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes: entry.source_bytes(), tally }))
    }
}
