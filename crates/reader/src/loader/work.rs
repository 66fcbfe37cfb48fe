//! What a thread does with one row: find the record in its run, check it, and decode its fields to
//! where they stay.

use super::array_row::ArrayRows;
use super::cached;
use super::fields::{FieldPlan, Fields, From};
use super::options::LoaderOptions;
use super::read::Loaded;
use super::rows::RowMut;
use super::stats::{Counters, add, add_since};
use crate::decode::name_field;
use crate::error::{Error, Result};
use crate::shard::Shard;
use shardpack_codec::PictureDecoder;
use shardpack_codec::jpeg::{DecodeOptions, DrawKey, PixelLayout, Rendering, View};
use shardpack_format::{Codec, Error as FormatError, FieldValue, Frame, Limits, Record};
use std::sync::Arc;
use std::time::Instant;

/// What is the same for all rows of an epoch.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) fields: Arc<Fields>,
    pub(super) seed: u64,
    pub(super) layout: PixelLayout,
    pub(super) decode: DecodeOptions,
}

impl Recipe {
    pub(super) fn new(fields: Arc<Fields>, seed: u64, options: &LoaderOptions) -> Self {
        let LoaderOptions { layout, decode, .. } = options.clone();
        Self { fields, seed, layout, decode }
    }

    /// What random views and patches of a sample draw from.
    pub(super) fn key(&self, at: SampleAt) -> DrawKey {
        draw_key(self.seed, at)
    }
}

/// One thread's decoders and scratch memory: used again for every row.
pub(super) struct Bench {
    arrays: ArrayRows,
    pictures: PictureDecoder,
    /// The record, where the page cache holds its run.
    record: Vec<u8>,
    /// Fields of the last row that its sample has no value for, by number.
    pub(super) missing: Vec<u32>,
}

/// The sample of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleAt {
    pub(super) sample: u64,
    pub(super) record: u64,
    pub(super) epoch: u32,
    pub(super) repetition: u32,
}

/// Repetitions count in the upper half of the epoch.
pub(super) fn draw_key(seed: u64, at: SampleAt) -> DrawKey {
    DrawKey { seed, epoch: u64::from(at.repetition) << 32 | u64::from(at.epoch), sample: at.sample }
}

impl Bench {
    pub(super) fn new(recipe: &Recipe) -> Self {
        Self {
            arrays: ArrayRows::new(recipe),
            pictures: PictureDecoder::new(recipe.decode.clone()),
            record: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Checks a record and decodes its fields into the row. `dims` hold the axes that the index
    /// promised; where only the record knows, they are put right.
    pub(super) fn decode(
        &mut self,
        recipe: &Recipe,
        run: &Loaded,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
        counters: &Counters,
    ) -> Result<()> {
        self.missing.clear();
        let Some(shard) = &run.shard else { return Err(Error::internal("run of a row", "one that was read", "none")) };
        if !run.is_cached {
            return self.decode_record(recipe, run.record(shard, at.record)?, shard, at, row, dims, counters);
        }
        let start = Instant::now();
        let mut buffer = std::mem::take(&mut self.record);
        let result = cached::read(shard, at.record, &mut buffer).and_then(|bytes| {
            add_since(&counters.read, start);
            add(&counters.read_bytes, bytes.len() as u64);
            self.decode_record(recipe, bytes, shard, at, row, dims, counters)
        });
        self.record = buffer;
        result
    }

    #[expect(clippy::too_many_arguments, reason = "a record, where it is from, and where its fields go")]
    fn decode_record(
        &mut self,
        recipe: &Recipe,
        bytes: &[u8],
        shard: &Shard,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
        counters: &Counters,
    ) -> Result<()> {
        let place = |error| name(shard, at, error);
        let start = Instant::now();
        let frame = check(shard, at.record, bytes).map_err(place)?;
        add_since(&counters.crc, start);
        let start = Instant::now();
        self.arrays.begin();
        let narrowed = self.pictures.narrowed();
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let end = field.dims_at + if field.is_ragged() { field.shape.len() } else { 0 };
            let Some(dims) = dims.get_mut(field.dims_at..end) else {
                return Err(place(FormatError::internal("axes of a row", end, dims.len())));
            };
            let record = FieldOf { shard, frame: &frame, bytes, at, field, number };
            let part = row.part(number);
            let there = self.field(recipe, &record, part, dims).map_err(|e| place(name_field(&field.name, e)))?;
            if !there {
                part.fill(0);
                dims.fill(0);
                self.missing.extend(u32::try_from(number));
            }
        }
        let narrowed = self.pictures.narrowed().saturating_sub(narrowed);
        if narrowed > 0 {
            add(&counters.narrowed, narrowed);
        }
        add_since(&counters.decode, start);
        Ok(())
    }

    /// Decodes a field; false, and nothing is written, if the sample has no value for it.
    fn field(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        match &of.field.from {
            From::Scalar(column) => {
                let value = column.bytes(of.shard, of.at.record);
                if value.len() != out.len() {
                    return Err(FormatError::format("scalar in the index", out.len(), value.len()));
                }
                out.copy_from_slice(value);
            }
            From::Raw { position } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let length = value.bytes.len();
                let Some(out) = out.get_mut(..length) else {
                    return Err(FormatError::format("stored bytes", format!("at most {}", out.len()), length));
                };
                out.copy_from_slice(value.bytes);
                dims.fill(length as u64);
            }
            From::Picture { position, view, orientation } => {
                let Some(value) = of.value(*position)? else { return Ok(false) };
                let stored = orientation.and_then(|column| column.length(of.shard, of.at.record));
                self.picture(recipe, of, &value, *view, stored, out, dims)?;
            }
            From::Array { position, channels_first, cut, .. } => {
                // A part of an array counts by its own size: `ArrayRows` compares it with the
                // limits.
                let limits = &of.shard.options().limits;
                let value = match cut {
                    Some(_) => of.value_within(*position, &limits_of_a_part(limits)),
                    None => of.value_within(*position, limits),
                };
                let Some(value) = value? else { return Ok(false) };
                self.arrays.decode(recipe, of, &value, (*channels_first, cut.as_ref()), out, dims)?;
            }
        }
        Ok(true)
    }

    #[expect(clippy::too_many_arguments, reason = "a picture, how to show it, and where")]
    fn picture(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        view: View,
        orientation: Option<u64>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<(), FormatError> {
        let media_type = std::str::from_utf8(value.descriptor)
            .map_err(|e| FormatError::format("media type of a picture", "UTF-8", e))?;
        let stored = orientation.map(|stored| i64::try_from(stored).unwrap_or(0));
        let orientation = crate::decode::orientation(stored, value.codec == Codec::Jpeg, value.bytes);
        let rendering = Rendering { view, key: recipe.key(of.at), orientation, layout: recipe.layout };
        let room = out.len();
        let decoded =
            self.pictures.decode_into(media_type, value.bytes, &rendering, out).map_err(|error| match error {
                // The slot was made by what the index says: it is not the caller who is wrong.
                FormatError::Usage { what, expected, .. } if dims.len() == 3 => FormatError::format(
                    what,
                    format!("{room} bytes, by height and width in the index"),
                    format!("{expected}, by the picture itself"),
                ),
                FormatError::Usage { what, expected, found } => FormatError::format(what, expected, found),
                other => other,
            })?;
        // Only now it is known whether the upright picture is the stored one turned by 90°; the
        // bytes are as many.
        let (height, width) = (u64::from(decoded.height), u64::from(decoded.width));
        if let [a, b, c] = dims {
            (*a, *b, *c) = match recipe.layout {
                PixelLayout::HeightWidthChannels => (height, width, 3),
                PixelLayout::ChannelsHeightWidth => (3, height, width),
            };
        }
        Ok(())
    }
}

/// Says which sample an error is about.
pub(super) fn name(shard: &Shard, at: SampleAt, error: FormatError) -> Error {
    match error {
        FormatError::Usage { what, expected, found } => {
            let key = shard.index().key(at.record).unwrap_or_default().escape_debug();
            let (found, hint) = found.split_at(found.find("\nhint:").unwrap_or(found.len()));
            Error::usage(what, expected, format!("{found}: sample {}, `{key}`{hint}", at.sample))
        }
        other => shard.in_record(at.record, other).into(),
    }
}

/// A field of the record that is being decoded.
pub(super) struct FieldOf<'a> {
    pub(super) shard: &'a Shard,
    frame: &'a Frame,
    bytes: &'a [u8],
    pub(super) at: SampleAt,
    pub(super) field: &'a FieldPlan,
    pub(super) number: usize,
}

impl<'a> FieldOf<'a> {
    /// The stored value; `None` if the sample has none.
    fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.value_within(position, &self.shard.options().limits)
    }

    fn value_within(&self, position: usize, limits: &Limits) -> Result<Option<FieldValue<'a>>, FormatError> {
        Record::field_at(self.frame, self.bytes, position, limits)
    }
}

/// Limits for the whole of an array of which only a part is decoded.
pub(super) fn limits_of_a_part(limits: &Limits) -> Limits {
    Limits { max_decoded_bytes: u64::MAX, ..limits.clone() }
}

/// Compares a record with the index and with its CRC32. What is left out of the checks of
/// [`crate::check`] are the parts that the loader takes from the index instead: key and scalars.
pub(super) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}
