//! Pictures: kept to the byte, tiled, or re-encoded, and laid out as records.

use super::picture_sizes::{Sizes, refuse_huge};
use super::picture_totals::{self, PictureFigures, ReencodedFigures};
use super::{FieldTotals, Jpeg, PackOptions, PictureOptions, PictureTotals, SampleError, Tally, schema, tables};
use crate::sources::picture::Picture;
use crate::sources::{Content, Entry, Listing};
use serde_json::{Value, json};
use shardpack_codec::encode_bytes;
use shardpack_codec::jpeg::{
    ChromaSampling, JpegHeader, JpegReencoder, JpegTiler, Metadata, PixelCheck, Quality, ReencodeOptions,
    ReencodeOutcome, Resize, TileOptions, TileOutcome,
};
use shardpack_format::{Codec, Dtype, Field, FieldKind, Limits, Recipe, RecordBuilder, Schema, StoredField};
use shardpack_writer::{Encoded, EncodedSample, SampleSource};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// The pictures of a listing.
pub(super) struct Images<'a> {
    listing: &'a Listing,
    options: &'a PictureOptions,
    schema: Schema,
    /// Whether the schema has a field for ICC profiles.
    icc: bool,
    skip: bool,
    sizes: Sizes<'a>,
    idle: Mutex<Vec<Bench>>,
}

/// What one thread works with, kept from picture to picture.
#[derive(Default)]
struct Bench {
    tiler: JpegTiler,
    reencoder: Option<JpegReencoder>,
    check: PixelCheck,
    source: Vec<u8>,
    made: Vec<u8>,
}

/// The bytes of a stored picture.
enum Body<'a> {
    /// Those of the source, not read yet.
    File,
    Bytes(&'a [u8]),
}

/// How one picture is stored.
struct Stored<'a> {
    body: Body<'a>,
    width: u32,
    height: u32,
    /// What a reader has to apply.
    orientation: u8,
    gpu_jpeg: bool,
    icc: Option<Vec<u8>>,
    figures: PictureFigures,
    kept_because: Option<&'static str>,
    /// An ICC profile that is damaged, or of colours that the picture no longer has.
    profile_dropped: bool,
}

impl<'a> Images<'a> {
    /// Gets ready, and re-encodes a few pictures to know how large they become. Runs on the caller's rayon pool.
    pub(super) fn new(listing: &'a Listing, options: &'a PackOptions) -> anyhow::Result<Self> {
        let pictures = &options.pictures;
        let has_icc = |entry: &Entry| picture(entry).and_then(|p| p.jpeg).is_some_and(|jpeg| jpeg.icc);
        let icc = pictures.jpeg != Jpeg::Keep && !pictures.keep_metadata && listing.samples.iter().any(has_icc);
        let schema = schema::metadata(listing, fields(listing, pictures, icc), Recipe::new())?.schema;
        let skip = options.skips();
        if pictures.jpeg != Jpeg::Keep && !skip {
            refuse_huge(listing)?;
        }
        let sizes = Sizes::new(listing, pictures)?;
        Ok(Self { listing, options: pictures, schema, icc, skip, sizes, idle: Mutex::new(Vec::new()) })
    }

    pub(super) fn fields(&self) -> Vec<Field> {
        fields(self.listing, self.options, self.icc)
    }

    pub(super) fn recipe(&self, options: &PackOptions) -> Recipe {
        let mut recipe = schema::recipe(self.listing, options);
        let mut image = serde_json::Map::new();
        image.insert("jpeg".into(), json!(self.options.jpeg.name()));
        match &self.options.jpeg {
            Jpeg::Keep => {}
            Jpeg::Tile => {
                image.insert("upright".into(), json!(self.options.upright));
                image.insert("check_pixels".into(), json!(self.options.check_pixels.name()));
            }
            Jpeg::Reencode(how) => {
                image.insert("reencode".into(), recipe_of(how));
                image.insert("score".into(), json!(self.options.score.name()));
            }
        }
        if self.options.jpeg != Jpeg::Keep {
            image.insert("keep_metadata".into(), json!(self.options.keep_metadata));
        }
        recipe.insert("image".into(), Value::Object(image));
        recipe
    }

    /// Estimated size of a sample's record.
    pub(super) fn estimate(&self, entry: &Entry) -> u64 {
        self.sizes.estimate(entry)
    }

    /// The looks that are taken at a sample.
    fn looks_at(&self, sample: u64) -> Look {
        let count = self.listing.samples.len() as u64;
        Look {
            check: self.options.jpeg == Jpeg::Tile && self.options.check_pixels.takes(sample, count),
            score: self.options.score.takes(sample, count),
        }
    }

    fn entry(&self, sample: u64) -> Option<(usize, &'a Entry)> {
        let position = usize::try_from(sample).ok()?;
        Some((position, self.listing.samples.get(position)?))
    }

    /// Runs `work` with a bench that no other thread has.
    fn with_bench<T>(&self, work: impl FnOnce(&mut Bench) -> Result<T, SampleError>) -> Result<T, SampleError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut bench = taken.unwrap_or_default();
        let result = work(&mut bench);
        idle().push(bench);
        result
    }

    /// The source's own bytes as they are stored.
    fn kept<'b>(&self, body: Body<'b>, picture: &Picture, entry: &Entry, because: Option<&'static str>) -> Stored<'b> {
        let reencode = matches!(self.options.jpeg, Jpeg::Reencode(_));
        Stored {
            body,
            width: picture.width,
            height: picture.height,
            orientation: picture.jpeg.and_then(|jpeg| jpeg.orientation).unwrap_or(1),
            gpu_jpeg: picture.jpeg.is_some_and(|jpeg| jpeg.gpu_jpeg),
            icc: None,
            figures: PictureFigures {
                source_bytes: entry.bytes,
                tiles_per_row: 0,
                pixels_checked: false,
                reencoded: reencode.then_some(ReencodedFigures { quality: 0, score: f32::NAN }),
            },
            kept_because: because,
            profile_dropped: false,
        }
    }

    /// Reads a picture and makes what is stored of it.
    fn make<'b>(&self, bench: &'b mut Bench, entry: &Entry, look: Look) -> Result<Stored<'b>, SampleError> {
        let bad = |error| SampleError::Picture { error };
        let Some(picture) = picture(entry) else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        let length = usize::try_from(entry.bytes).unwrap_or(usize::MAX);
        bench.source.resize(length, 0);
        self.listing.read_into(entry, &mut bench.source)?;
        bench.made.clear();
        let kept = |source: &'b [u8], because| self.kept(Body::Bytes(source), picture, entry, because);
        let Some(facts) = &picture.jpeg else {
            return Ok(kept(&bench.source, Some(picture.media_type)));
        };
        // The codec does not read what it cannot tell the frame of.
        if let Some(rare @ "hierarchical JPEG") = facts.rare {
            return Ok(kept(&bench.source, Some(rare)));
        }
        let mut figures = kept(&[], None).figures;
        // The profile of a CMYK picture says nothing of the RGB one that may be made of it.
        let beside = facts.icc && self.icc && facts.components != 4;
        let icc = if beside { Metadata::read(&bench.source).map_err(bad)?.icc } else { None };
        // A profile that cannot be taken out stays in.
        let keep_metadata = self.options.keep_metadata || (beside && icc.is_none());
        let mut profile_dropped = false;
        let (width, height, orientation, applied, outcome) = match &self.options.jpeg {
            Jpeg::Keep => return Ok(kept(&bench.source, None)),
            Jpeg::Tile => {
                let options = TileOptions { keep_metadata, upright: self.options.upright, ..TileOptions::default() };
                let tiled = bench.tiler.tile(&bench.source, &options, &mut bench.made).map_err(bad)?;
                (tiled.width, tiled.height, tiled.orientation, tiled.applied, tiled.outcome)
            }
            Jpeg::Reencode(how) => {
                let reencoder = match &mut bench.reencoder {
                    Some(reencoder) => reencoder,
                    none => none.insert(JpegReencoder::new()?),
                };
                let made = reencoder.reencode(&bench.source, how, look.score, &mut bench.made).map_err(bad)?;
                #[allow(clippy::cast_possible_truncation, reason = "a score has three digits")]
                let score = made.score.map_or(f32::NAN, |score| score as f32);
                let (quality, outcome) = match made.outcome {
                    ReencodeOutcome::Encoded { quality, interval, tiles_per_row, tile_rows } => {
                        (quality, TileOutcome::Tiled { interval, tiles_per_row, tile_rows })
                    }
                    ReencodeOutcome::Source(outcome) => (0, outcome),
                };
                figures.reencoded = Some(ReencodedFigures { quality, score });
                profile_dropped = facts.icc && self.icc && icc.is_none();
                (made.width, made.height, made.orientation, made.applied, outcome)
            }
        };
        let tiles_per_row = match outcome {
            TileOutcome::Kept(why) => return Ok(Stored { figures, ..kept(&bench.source, Some(why.name())) }),
            TileOutcome::Tiled { tiles_per_row, .. } => tiles_per_row,
        };
        figures.tiles_per_row = u16::try_from(tiles_per_row).unwrap_or(u16::MAX);
        if look.check {
            if !bench.check.same(&bench.source, &bench.made, applied, &Limits::default()).map_err(bad)? {
                // Never seen: but a defect of the transcoder must not cost a picture.
                return Ok(kept(&bench.source, Some("pixels differ")));
            }
            figures.pixels_checked = true;
        }
        let gpu_jpeg = JpegHeader::parse(&bench.made).is_ok_and(|header| header.hardware_decodable());
        Ok(Stored {
            body: Body::Bytes(&bench.made),
            width,
            height,
            orientation,
            gpu_jpeg,
            icc,
            figures,
            kept_because: None,
            profile_dropped,
        })
    }
}

/// The picture of an entry; `None` for a cube.
pub(super) fn picture(entry: &Entry) -> Option<&Picture> {
    match &entry.content {
        Content::Picture(picture) => Some(picture),
        Content::Cube(_) => None,
    }
}

fn fields(listing: &Listing, options: &PictureOptions, icc: bool) -> Vec<Field> {
    let mut fields = vec![Field::stored("image", FieldKind::Image)];
    if icc {
        fields.push(Field::stored("icc", FieldKind::Bytes));
    }
    fields.extend(tables::label_field(listing));
    fields.push(Field::scalar("height", Dtype::U32));
    fields.push(Field::scalar("width", Dtype::U32));
    fields.push(Field::scalar("orientation", Dtype::U8));
    fields.push(Field::scalar("gpu_jpeg", Dtype::Bool));
    if options.jpeg != Jpeg::Keep {
        fields.extend(picture_totals::fields(matches!(options.jpeg, Jpeg::Reencode(_))));
    }
    fields
}

/// Options of re-encoding, as the recipe spells them.
fn recipe_of(how: &ReencodeOptions) -> Value {
    let quality = match how.quality {
        Quality::Fixed(quality) => json!(quality),
        Quality::Ssimulacra2(score) => json!({ "ssimulacra2": score }),
    };
    let subsampling = match how.subsampling {
        ChromaSampling::Keep => "keep",
        ChromaSampling::S420 => "4:2:0",
        ChromaSampling::S444 => "4:4:4",
    };
    let mut out = json!({ "quality": quality, "subsampling": subsampling });
    match how.resize {
        Resize::No => {}
        Resize::ShortSide(side) => out["short_side"] = json!(side),
        Resize::LongSide(side) => out["long_side"] = json!(side),
    }
    out
}

/// Which costly looks are taken at a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) check: bool,
    pub(super) score: bool,
}

impl SampleSource for Images<'_> {
    type Tally = Tally;
    type Error = SampleError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.entry(sample).map_or("", |(_, entry)| &entry.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.entry(sample).map_or(0, |(_, entry)| self.sizes.memory_bytes(entry, self.looks_at(sample)))
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Tally>, SampleError> {
        let Some((position, entry)) = self.entry(sample) else {
            return Err(shardpack_format::Error::usage("sample", "one of the listing", sample).into());
        };
        if self.options.jpeg == Jpeg::Keep {
            return self.keep(position, entry, shard_number, buffer);
        }
        let look = self.looks_at(sample);
        self.with_bench(|bench| {
            let stored = match self.make(bench, entry, look) {
                Ok(stored) => stored,
                Err(SampleError::Picture { error }) if self.skip => {
                    // Without the hint of a next step: leaving the picture out was it.
                    let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                    return Ok(Encoded::Skipped { reason });
                }
                Err(error) => return Err(error),
            };
            self.record(position, entry, shard_number, buffer, stored)
        })
    }
}

impl Images<'_> {
    /// The source's own bytes, read straight into the record.
    fn keep(
        &self,
        position: usize,
        entry: &Entry,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let Some(picture) = picture(entry) else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        let stored = self.kept(Body::File, picture, entry, None);
        self.record(position, entry, shard_number, buffer, stored)
    }

    /// Lays out the record.
    fn record(
        &self,
        position: usize,
        entry: &Entry,
        shard_number: u32,
        buffer: Vec<u8>,
        stored: Stored<'_>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let Some(picture) = picture(entry) else {
            return Err(shardpack_format::Error::usage("sample", "a picture", "a cube").into());
        };
        let mut scalars = Vec::with_capacity(64);
        tables::append_label(&mut scalars, entry);
        scalars.extend(stored.height.to_le_bytes());
        scalars.extend(stored.width.to_le_bytes());
        scalars.push(stored.orientation);
        scalars.push(u8::from(stored.gpu_jpeg));
        let tally = match self.options.jpeg {
            Jpeg::Keep => Tally::default(),
            _ => {
                stored.figures.append(&mut scalars);
                let target = match &self.options.jpeg {
                    Jpeg::Reencode(ReencodeOptions { quality: Quality::Ssimulacra2(target), .. }) => Some(*target),
                    _ => None,
                };
                let mut totals = PictureTotals::of(&entry.key, &stored.figures, stored.kept_because);
                totals.note(stored.profile_dropped, target);
                Tally::of("image", FieldTotals::Picture(totals))
            }
        };
        tables::append_columns(&mut scalars, self.listing, position);

        let bytes = match stored.body {
            Body::File => entry.bytes,
            Body::Bytes(bytes) => bytes.len() as u64,
        };
        let image = StoredField {
            codec: if picture.jpeg.is_some() { Codec::Jpeg } else { Codec::Raw },
            stored_bytes: bytes,
            decoded_bytes: bytes,
            descriptor: picture.media_type.as_bytes(),
        };
        let mut small = Vec::new();
        if self.icc {
            small.push(stored.icc.as_deref());
        }
        small.extend(tables::texts(self.listing, position).into_iter().map(|text| Some(text.as_bytes())));
        let small: Vec<_> = small
            .into_iter()
            .map(|value| value.map(|value| Ok((encode_bytes(value)?, value.len() as u64))).transpose())
            .collect::<Result<_, SampleError>>()?;
        let fields: Vec<_> = std::iter::once(Some(image))
            .chain(small.iter().map(|value| {
                value.as_ref().map(|((codec, bytes), decoded_bytes)| StoredField {
                    codec: *codec,
                    stored_bytes: bytes.len() as u64,
                    decoded_bytes: *decoded_bytes,
                    descriptor: &[],
                })
            }))
            .collect();
        let sample = position as u64;
        let mut record = RecordBuilder::new(buffer, &self.schema, shard_number, sample, &entry.key, &scalars, &fields)?;
        match stored.body {
            Body::File => self.listing.read_into(entry, record.field_mut(0))?,
            Body::Bytes(bytes) => record.field_mut(0).copy_from_slice(bytes),
        }
        for (i, value) in small.iter().enumerate() {
            if let Some(((_, bytes), _)) = value {
                record.field_mut(i + 1).copy_from_slice(bytes);
            }
        }
        let (record, frame) = record.finish();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes: entry.source_bytes(), tally }))
    }
}
