//! What a thread does with one row: find the record in its run, check it, and decode its fields to where they stay.

use super::fields::{FieldPlan, Fields, From, handed_out};
use super::options::LoaderOptions;
use super::rows::RowMut;
use super::runs::Loaded;
use super::stats::{Counters, add_since};
use crate::decode::name_field;
use crate::error::{Error, Result};
use crate::fetch::slice;
use crate::shard::Shard;
use shardpack_codec::jpeg::{DecodeOptions, DrawKey, JpegHeader, PixelLayout, Rendering, View};
use shardpack_codec::{ArrayDecoder, PictureDecoder};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, Error as FormatError, FieldValue, Frame, Layout, Limits, Record, Transform,
};
use std::sync::Arc;
use std::time::Instant;

/// What is the same for all rows of an epoch.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) fields: Arc<Fields>,
    pub(super) seed: u64,
    pub(super) layout: PixelLayout,
    pub(super) keep_float16: bool,
    pub(super) decode: DecodeOptions,
}

impl Recipe {
    pub(super) fn new(fields: Arc<Fields>, seed: u64, options: &LoaderOptions) -> Self {
        let LoaderOptions { layout, keep_float16, decode, .. } = options.clone();
        Self { fields, seed, layout, keep_float16, decode }
    }
}

/// One thread's decoders and scratch memory: used again for every row.
pub(super) struct Bench {
    arrays: ArrayDecoder,
    pictures: PictureDecoder,
    scratch: Vec<u8>,
    /// By field the last descriptor of an array: in most datasets all are alike.
    descriptors: Vec<Option<(Vec<u8>, ArrayDescriptor)>>,
}

/// The sample of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleAt {
    pub(super) sample: u64,
    pub(super) record: u64,
    pub(super) epoch: u32,
}

impl Bench {
    pub(super) fn new(recipe: &Recipe) -> Self {
        Self {
            arrays: ArrayDecoder::new(),
            pictures: PictureDecoder::new(recipe.decode.clone()),
            scratch: Vec::new(),
            descriptors: recipe.fields.plans.iter().map(|_| None).collect(),
        }
    }

    /// Checks a record and decodes its fields into the row. `dims` hold the axes that the index promised; where only the record knows, they
    /// are put right.
    pub(super) fn decode(
        &mut self,
        recipe: &Recipe,
        run: &Loaded,
        at: SampleAt,
        row: &mut RowMut,
        dims: &mut [u64],
        counters: &Counters,
    ) -> Result<()> {
        let Some(shard) = &run.shard else { return Err(Error::usage("run", "one that was read", "none")) };
        let bytes = slice(shard, at.record, run.start, run.bytes())?;
        let place = |error| name(shard, at, error);
        let start = Instant::now();
        let frame = check(shard, at.record, bytes).map_err(place)?;
        add_since(&counters.crc, start);
        let start = Instant::now();
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let end = field.dims_at + if field.is_ragged() { field.shape.len() } else { 0 };
            let dims = dims.get_mut(field.dims_at..end).unwrap_or_default();
            let record = FieldOf { shard, frame: &frame, bytes, at, field, number };
            self.field(recipe, &record, row.part(number), dims).map_err(|e| place(name_field(&field.name, e)))?;
        }
        add_since(&counters.decode, start);
        Ok(())
    }

    fn field(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<(), FormatError> {
        match &of.field.from {
            From::Scalar(column) => {
                let value = column.bytes(of.shard, of.at.record);
                if value.len() != out.len() {
                    return Err(FormatError::format("scalar in the index", out.len(), value.len()));
                }
                out.copy_from_slice(value);
                Ok(())
            }
            From::Raw { position } => {
                let value = of.value(*position)?;
                let length = value.bytes.len();
                let Some(out) = out.get_mut(..length) else {
                    return Err(FormatError::format("stored bytes", format!("at most {}", out.len()), length));
                };
                out.copy_from_slice(value.bytes);
                dims.fill(length as u64);
                Ok(())
            }
            From::Picture { position, view, orientation } => {
                let value = of.value(*position)?;
                let stored = orientation.and_then(|column| column.length(of.shard, of.at.record));
                self.picture(recipe, of, &value, *view, stored, out, dims)
            }
            From::Array { position, channels_first } => {
                let value = of.value(*position)?;
                self.array(recipe, of, &value, *channels_first, out, dims)
            }
        }
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
        // What the packer found, or, in datasets that do not say, what the file itself says.
        let orientation = match orientation {
            Some(stored) => u8::try_from(stored).unwrap_or(0),
            None if value.codec != Codec::Jpeg => 1,
            None => JpegHeader::parse(value.bytes).ok().and_then(|header| header.orientation).unwrap_or(1),
        };
        let orientation = if (1..=8).contains(&orientation) { orientation } else { 1 };
        let key = DrawKey { seed: recipe.seed, epoch: of.at.epoch.into(), sample: of.at.sample };
        let rendering = Rendering { view, key, orientation, layout: recipe.layout };
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
        // Only now it is known whether the upright picture is the stored one turned by 90°; the bytes are as many.
        let (height, width) = (u64::from(decoded.height), u64::from(decoded.width));
        if let [a, b, c] = dims {
            (*a, *b, *c) = match recipe.layout {
                PixelLayout::HeightWidthChannels => (height, width, 3),
                PixelLayout::ChannelsHeightWidth => (3, height, width),
            };
        }
        Ok(())
    }

    fn array(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        channels_first: bool,
        out: &mut [u8],
        dims: &[u64],
    ) -> Result<(), FormatError> {
        let limits = &of.shard.options().limits;
        let dtype = of.field.dtype;
        let cached = self
            .descriptors
            .get_mut(of.number)
            .ok_or_else(|| FormatError::usage("field", "one of the batch", of.number))?;
        let descriptor = match cached {
            Some((bytes, descriptor)) if bytes == value.descriptor => descriptor,
            _ => {
                let mut descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
                descriptor.decoded = handed_out(&descriptor, recipe.keep_float16);
                &mut cached.insert((value.descriptor.to_vec(), descriptor)).1
            }
        };
        if descriptor.decoded != dtype {
            let expected = format!("{dtype}, as in the first sample");
            return Err(FormatError::format("element type of the array", expected, descriptor.decoded));
        }
        let expected = if of.field.is_ragged() { dims } else { &of.field.shape };
        let same = match (channels_first, expected, &*descriptor.shape) {
            (true, &[a, b, c], &[height, width, channels]) => [a, b, c] == [channels, height, width],
            (true, ..) => false,
            (false, expected, shape) => expected == shape,
        };
        if !same {
            let expected = match of.field.is_ragged() {
                true => format!("{expected:?}, by the columns of the index"),
                false => format!("{expected:?}, as in the first sample"),
            };
            return Err(FormatError::format("shape of the array", expected, format!("{:?}", descriptor.shape)));
        }
        if !channels_first {
            return self.arrays.decode_into(value.codec, descriptor, value.bytes, out, limits);
        }
        let &[height, width, channels] = &*descriptor.shape else { return Ok(()) };
        if is_stored_channels_first(descriptor) {
            // As stored: nothing to turn.
            let turned =
                ArrayDescriptor { layout: Layout::AsShape, shape: vec![channels, height, width], ..descriptor.clone() };
            return self.arrays.decode_into(value.codec, &turned, value.bytes, out, limits);
        }
        if self.scratch.len() < out.len() {
            self.scratch.resize(out.len(), 0);
        }
        let scratch = self.scratch.get_mut(..out.len()).unwrap_or_default();
        self.arrays.decode_into(value.codec, descriptor, value.bytes, scratch, limits)?;
        turn(scratch, usize::try_from(channels).unwrap_or(0), dtype, out);
        Ok(())
    }
}

/// Says which sample an error is about.
fn name(shard: &Shard, at: SampleAt, error: FormatError) -> Error {
    match error {
        FormatError::Usage { what, expected, found } => {
            let key = shard.index().key(at.record).unwrap_or_default().escape_debug();
            Error::usage(what, expected, format!("{found}: sample {}, `{key}`", at.sample))
        }
        other => shard.in_record(at.record, other).into(),
    }
}

struct FieldOf<'a> {
    shard: &'a Shard,
    frame: &'a Frame,
    bytes: &'a [u8],
    at: SampleAt,
    field: &'a FieldPlan,
    number: usize,
}

impl<'a> FieldOf<'a> {
    fn value(&self, position: usize) -> Result<FieldValue<'a>, FormatError> {
        let limits: &Limits = &self.shard.options().limits;
        let value = Record::field_at(self.frame, self.bytes, position, limits)?
            .ok_or_else(|| FormatError::usage("value", "one in every sample that is loaded", "a sample without one"))?;
        Ok(value)
    }
}

/// Compares a record with the index and with its CRC32. What is left out of the checks of [`crate::check`] are the parts that the loader takes from the
/// index instead: key and scalars.
fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}

/// Whether the payload, decoded as if its shape were `[channels, height, width]`, is just that.
fn is_stored_channels_first(descriptor: &ArrayDescriptor) -> bool {
    let by_band = matches!(descriptor.transform, Transform::Fixed { .. });
    descriptor.layout == Layout::BandMajor && !descriptor.band_difference && !by_band
}

/// `[pixels, channels]` to `[channels, pixels]`.
fn turn(from: &[u8], channels: usize, dtype: Dtype, to: &mut [u8]) {
    match dtype.bytes() {
        1 => turn_by::<1>(from, channels, to),
        2 => turn_by::<2>(from, channels, to),
        4 => turn_by::<4>(from, channels, to),
        _ => turn_by::<8>(from, channels, to),
    }
}

fn turn_by<const N: usize>(from: &[u8], channels: usize, to: &mut [u8]) {
    /// Pixels at a time: what is read stays in the first cache while every band takes its part.
    const BLOCK: usize = 64;
    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    let pixels = from.len().checked_div(channels).unwrap_or(0);
    for start in (0..pixels).step_by(BLOCK) {
        let block = from.get(start * channels..(start + BLOCK).min(pixels) * channels).unwrap_or_default();
        for (band, plane) in to.chunks_exact_mut(pixels).enumerate() {
            let values = block.iter().skip(band).step_by(channels);
            for (value, out) in values.zip(plane.iter_mut().skip(start)) {
                *out = *value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_moves_every_element() {
        for (pixels, channels) in [(1, 1), (5, 3), (64, 2), (200, 7)] {
            let from: Vec<u8> = (0..251).cycle().take(pixels * channels * 2).collect();
            let mut to = vec![0; from.len()];
            turn(&from, channels, Dtype::U16, &mut to);
            for pixel in 0..pixels {
                for band in 0..channels {
                    let (a, b) = (2 * (pixel * channels + band), 2 * (band * pixels + pixel));
                    assert_eq!(from[a..a + 2], to[b..b + 2]);
                }
            }
        }
    }
}
