//! From values to a record: the work of a thread that adds a sample.

use super::error::{CollectError, Result};
use super::kind::Kind;
use super::layout::{FieldLayout, Layout};
use super::picture::{self, NoPicture, Picture, Size};
use super::value::{Number, Sample, Value};
use super::{Classes, Collector};
use crate::pack::picture_maker::{Look, PictureMaker, PictureNote};
use crate::pack::picture_totals::{PictureFigures, ReencodedFigures};
use crate::pack::stored_value::{self, StoredValue};
use crate::pack::{OddPicture, SampleError, fidelity};
use sha2::{Digest, Sha256};
use shardpack_array::{Array, ArrayEncoder, Fidelity};
use shardpack_format::{Dtype, Hint, Limits, Setting, check_json};
use shardpack_recipe::Share;

/// With the option `sample`, one in this many pictures is checked closely.
const LOOKED_AT: u64 = 32;

/// What one thread works with, reused from sample to sample.
#[derive(Default)]
pub(super) struct Bench {
    maker: PictureMaker,
    /// Encoders by field, with the settings they were made for.
    encoders: Vec<Option<ArrayEncoder>>,
    record: Vec<u8>,
}

/// A record for the spool, and what the plan has to know about it.
pub(super) struct Encoded {
    pub(super) record: Vec<u8>,
    pub(super) source_bytes: u64,
    /// Bytes of everything in the sample.
    pub(super) digest: [u8; 16],
    /// What the columns do not tell about pictures, by field.
    pub(super) notes: Vec<(usize, PictureNote)>,
    pub(super) has_icc: bool,
    /// Pictures with more than 8 bits per sample, which decode to 8.
    pub(super) deep_pictures: u64,
    /// Pictures with bands that are not decoded.
    pub(super) banded_pictures: u64,
    /// Pictures with oddities.
    pub(super) odd_pictures: Vec<OddPicture>,
}

/// What was found out about a sample on the way, for its columns.
#[derive(Default)]
struct Found {
    size: Size,
    shape: Vec<u64>,
    icc: Option<Vec<u8>>,
    figures: Vec<u8>,
    notes: Vec<(usize, PictureNote)>,
    deep_pictures: u64,
    banded_pictures: u64,
    odd_pictures: Vec<OddPicture>,
}

impl Bench {
    /// Lays out the record of a sample, with `sequence` as its number.
    pub(super) fn encode(
        &mut self,
        layout: &Layout,
        collector: &Collector,
        key: &str,
        sequence: u64,
        sample: Sample,
    ) -> Result<Encoded> {
        let source_bytes = sample.values.iter().filter_map(|(_, value)| value.as_ref()).map(Value::source_bytes).sum();
        let values = arrange(layout, collector, key, sample)?;
        let mut scalars = Vec::new();
        let mut stored = Vec::new();
        let mut found = Found::default();
        for (position, (field, value)) in layout.fields.iter().zip(values).enumerate() {
            let of = Of { key, position, field, layout, collector };
            match field.kind {
                Kind::Scalar(dtype) => of.scalar(dtype, value, &mut scalars)?,
                Kind::Image | Kind::Frames => stored.push(of.picture(&mut self.maker, value, &mut found)?),
                Kind::Array(_) => stored.push(of.array(&mut self.encoders, value, &mut found)?),
                Kind::Text | Kind::Json | Kind::Bytes => stored.push(of.small(value)?),
            }
        }
        let has_icc = found.icc.is_some();
        if layout.has_icc {
            stored.push(found.icc.map(|icc| StoredValue::bytes(&icc)).transpose()?);
        } else if has_icc {
            return Err(no_profile(layout, key));
        }
        if layout.described_picture.is_some() {
            let Size { height, width, orientation, gpu_jpeg } = found.size;
            scalars.extend([height, width].iter().flat_map(|side| side.to_le_bytes()));
            scalars.extend([orientation, u8::from(gpu_jpeg)]);
        }
        if let Some((_, axes)) = layout.described_array {
            let mut shape = found.shape;
            shape.resize(axes, 0);
            for axis in shape {
                let fail = |_| of_sample(key, "axis of an array", "below 2^32", axis);
                scalars.extend(u32::try_from(axis).map_err(fail)?.to_le_bytes());
            }
        }
        scalars.extend(found.figures);
        if let Some(order) = &layout.order {
            (stored, scalars) = order.arrange(stored, &scalars)?;
        }

        let buffer = std::mem::take(&mut self.record);
        let (record, frame) = stored_value::record(buffer, &layout.schema, 0, sequence, key, &scalars, &stored)?;
        let limit = Limits::default().max_record_bytes;
        if frame.record_bytes > limit {
            return Err(of_sample(key, "bytes of the record", format!("at most {limit}"), frame.record_bytes));
        }
        // The frame holds the number, which is not final yet. The rest defines the sample.
        let body = usize::try_from(shardpack_format::FRAME_BYTES).ok().and_then(|frame| record.get(frame..));
        let body = body.ok_or_else(|| shardpack_format::Error::internal("record", "a frame", record.len()))?;
        let mut digest = [0; 16];
        digest.iter_mut().zip(Sha256::digest(body)).for_each(|(to, from)| *to = from);
        let Found { notes, deep_pictures, banded_pictures, odd_pictures, .. } = found;
        Ok(Encoded { record, source_bytes, digest, notes, has_icc, deep_pictures, banded_pictures, odd_pictures })
    }

    /// Takes back the memory of a record.
    pub(super) fn reuse(&mut self, record: Vec<u8>) {
        self.record = record;
    }
}

pub(super) fn of_sample(
    key: &str,
    what: &'static str,
    expected: impl Into<String>,
    found: impl ToString,
) -> CollectError {
    let hint = Hint::new("");
    CollectError::Sample { key: key.to_owned(), what, expected: expected.into(), found: found.to_string(), hint }
}

/// A picture with a profile, of a dataset that has no field for it: it would be lost.
fn no_profile(layout: &Layout, key: &str) -> CollectError {
    let field = layout.described_picture.and_then(|position| layout.fields.get(position));
    CollectError::Misfit {
        key: key.to_owned(),
        field: field.map(|field| field.name.clone()).unwrap_or_default(),
        expected: "a picture without a colour profile: the dataset has no field `icc` for it".into(),
        found: "one with a profile".into(),
        hint: "write it into a dataset of its own; `concat` takes both as one".into(),
    }
}

/// The values in the order of the layout.
fn arrange(layout: &Layout, collector: &Collector, key: &str, sample: Sample) -> Result<Vec<Option<Value>>> {
    let mut values: Vec<Option<Value>> = layout.fields.iter().map(|_| None).collect();
    let mut seen = vec![false; values.len()];
    // Fields mostly come in the order of the layout, so the search begins where the last one ended.
    let mut next = 0;
    for (name, value) in sample.values {
        let is = |field: &FieldLayout| field.name == name;
        let position = match layout.fields.get(next) {
            Some(field) if is(field) => Some(next),
            _ => layout.fields.iter().position(is),
        };
        let place = position.and_then(|position| Some((position, values.get_mut(position)?, seen.get_mut(position)?)));
        let Some((position, place, seen)) = place else {
            let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
            let (whose, hint) = match collector.behind() {
                Some(_) => ("dataset", "leave it out, or write it into a dataset of its own"),
                None => ("schema", "the first sample has all fields, with None for what it lacks, or give a schema"),
            };
            let found = value.map_or_else(|| "no value".to_owned(), |value| value.found());
            return Err(CollectError::Misfit {
                key: key.to_owned(),
                field: name,
                expected: format!("a field of the {whose}: {}", names.join(", ")),
                found: format!("one that is not in it, of {found}"),
                hint: hint.into(),
            });
        };
        if std::mem::replace(seen, true) {
            return Err(of_sample(key, "fields", "each once", format!("`{name}` twice")));
        }
        *place = value;
        next = position + 1;
    }
    if collector.behind().is_some_and(|behind| behind.names_all)
        && let Some((field, _)) = layout.fields.iter().zip(&seen).find(|(_, seen)| !**seen)
    {
        return Err(CollectError::Misfit {
            key: key.to_owned(),
            field: field.name.clone(),
            expected: format!("{}, as in the dataset", field.kind),
            found: "no such field".into(),
            hint: "None says that a sample has no value".into(),
        });
    }
    Ok(values)
}

/// One field of one sample.
struct Of<'a> {
    key: &'a str,
    position: usize,
    field: &'a FieldLayout,
    layout: &'a Layout,
    collector: &'a Collector,
}

impl Of<'_> {
    fn misfit(&self, expected: impl Into<String>, found: impl Into<String>, hint: impl Into<Hint>) -> CollectError {
        CollectError::Misfit {
            key: self.key.to_owned(),
            field: self.field.name.clone(),
            expected: expected.into(),
            found: found.into(),
            hint: hint.into(),
        }
    }

    fn refused(&self, source: impl Into<SampleError>) -> CollectError {
        CollectError::Encode {
            key: self.key.to_owned(),
            field: self.field.name.clone(),
            source: Box::new(source.into()),
        }
    }

    fn scalar(&self, dtype: Dtype, value: Option<Value>, out: &mut Vec<u8>) -> Result<()> {
        let classes = self.collector.classes.as_ref().filter(|_| self.field.name == "label" && !dtype.is_float());
        let number = match (value, classes) {
            (Some(Value::Number { value, .. }), Some(classes)) => {
                classes.by_number(value).map_err(|label| self.no_class(classes, label))?
            }
            (Some(Value::Number { value, .. }), _) => value,
            (Some(Value::Text(name)), Some(classes)) => classes.by_name(&name).ok_or_else(|| {
                let new = Hint::set([Setting::named("classes")]).then(" names those that are new");
                let hint = if self.collector.behind().is_some() { new } else { Hint::new("") };
                self.misfit("the name of a class", format!("`{}`", name.escape_debug()), hint)
            })?,
            (Some(Value::Array(array)), _) if array.shape().is_empty() => {
                let hint = "an array of no axes is no number: take its item";
                return Err(self.misfit(dtype.name(), "an array", hint));
            }
            (Some(other), _) => return Err(self.misfit(dtype.name(), other.found(), "")),
            (None, _) => {
                let hint = match dtype.is_float() {
                    true => "a number cannot be missing: use NaN instead",
                    false => "a number cannot be missing: choose one that means missing",
                };
                return Err(self.misfit(dtype.name(), "no value", hint));
            }
        };
        match number.append(dtype, out) {
            true => Ok(()),
            false => Err(self.misfit(dtype.name(), Value::Number { value: number, dtype: None }.found(), "")),
        }
    }

    fn no_class(&self, classes: &Classes, label: i128) -> CollectError {
        let expected = format!("0 to {}, the number of a class", classes.len().saturating_sub(1));
        self.misfit(expected, label.to_string(), "")
    }

    /// Which checks this picture gets: the same for every run and thread.
    fn look(&self) -> Look {
        let takes = |share: Share| match share {
            Share::None => false,
            Share::All => true,
            Share::Sample => spread(self.key).is_multiple_of(LOOKED_AT),
        };
        let how = &self.layout.pictures;
        Look { check: takes(how.checked()), score: takes(how.scored()) }
    }

    fn picture(
        &self,
        maker: &mut PictureMaker,
        value: Option<Value>,
        found: &mut Found,
    ) -> Result<Option<StoredValue>> {
        let how = &self.layout.pictures;
        if self.field.kind == Kind::Frames {
            let count = if let Some(Value::Frames(frames)) = &value { frames.len() } else { 0 };
            let too_many = |_| of_sample(self.key, "frames", "below 2^32", count);
            found.figures.extend(u32::try_from(count).map_err(too_many)?.to_le_bytes());
        }
        let Some(value) = value else {
            if self.field.figures {
                let reencoded = how.reencodes().then_some(ReencodedFigures { quality: 0, score: f32::NAN });
                let none = PictureFigures { source_bytes: 0, tiles_per_row: 0, pixels_checked: false, reencoded };
                none.append(&mut found.figures);
            }
            if self.layout.described_picture == Some(self.position) {
                found.size = Size { orientation: 1, ..Size::default() };
            }
            return Ok(None);
        };
        let is_described = self.layout.described_picture == Some(self.position);
        let (icc, look) = (self.layout.takes_icc && is_described, self.look());
        let made = match (self.field.kind, value) {
            (Kind::Frames, Value::Frames(frames)) => picture::make_clip(maker, &frames, how, icc, look),
            (Kind::Frames, other) => Err(NoPicture::Misfit(other.found(), "a clip of one frame is a list of one")),
            (_, value) => picture::make(maker, value, how, icc, look),
        };
        let Picture { codec, media_type, bytes, size, icc, figures, note, deep, banded, oddity } = made.map_err(|error| match error {
            NoPicture::Misfit(found, hint) => {
                let expected = match self.field.kind {
                    Kind::Frames => "a list of whole JPEGs",
                    _ => "a whole JPEG, PNG, WebP, BMP or TIFF, or pixels: uint8 [height, width], [height, width, 1] or [height, width, 3]",
                };
                self.misfit(expected, found, hint)
            }
            NoPicture::Refused(error) => self.refused(error),
        })?;
        if self.field.figures {
            figures.append(&mut found.figures);
        }
        found.deep_pictures += u64::from(deep);
        found.banded_pictures += u64::from(banded);
        found.odd_pictures.extend(oddity.map(|what| OddPicture {
            key: self.key.to_owned(),
            what: format!("field `{}`: {what}", self.field.name.escape_debug()),
        }));
        if note != PictureNote::default() {
            found.notes.push((self.position, note));
        }
        if is_described {
            found.size = size;
            found.icc = icc;
        }
        let decoded_bytes = bytes.len() as u64;
        Ok(Some(StoredValue { codec, decoded_bytes, descriptor: media_type.into(), payload: bytes }))
    }

    fn array(
        &self,
        encoders: &mut Vec<Option<ArrayEncoder>>,
        value: Option<Value>,
        found: &mut Found,
    ) -> Result<Option<StoredValue>> {
        let array = match value {
            Some(Value::Array(array)) => array,
            // A number with a type is an array without axes.
            Some(Value::Number { value, dtype: Some(dtype) }) => {
                let mut bytes = Vec::new();
                value.append(dtype, &mut bytes);
                Array::new(dtype, Vec::new(), bytes)?
            }
            Some(other) => return Err(self.misfit("an array", other.found(), "")),
            None => {
                if self.field.figures {
                    fidelity::append(&mut found.figures, &Fidelity::default());
                }
                return Ok(None);
            }
        };
        self.check_form(&array)?;
        let options = &self.collector.options;
        let settings = match &self.field.array {
            Some(field) => field.settings(&array, &options.arrays, options.threads).map_err(|e| self.refused(e))?,
            None => return Err(self.misfit(self.field.kind.to_string(), "an array", "")),
        };
        if encoders.len() <= self.position {
            encoders.resize_with(self.position + 1, || None);
        }
        let count = encoders.len();
        let slot = encoders.get_mut(self.position);
        let slot = slot.ok_or_else(|| shardpack_format::Error::internal("encoders", count, self.position))?;
        let encoder = match slot {
            Some(encoder) if *encoder.settings() == settings => encoder,
            slot => slot.insert(ArrayEncoder::new(settings)?),
        };
        let encoded = encoder.encode(&array, None).map_err(|e| self.refused(e))?;
        if self.field.figures {
            fidelity::append(&mut found.figures, &encoded.fidelity);
        }
        if self.layout.described_array.is_some_and(|(position, _)| position == self.position) {
            found.shape = array.shape().to_vec();
        }
        Ok(Some(StoredValue::array(encoded)?))
    }

    /// A loader hands out the arrays of a field in one tensor, so all must have the type and the
    /// number of axes of the first.
    fn check_form(&self, array: &Array) -> Result<()> {
        if let Kind::Array(Some(dtype)) = self.field.kind
            && array.dtype() != dtype
        {
            return Err(self.misfit(format!("an array of {dtype}"), format!("one of {}", array.dtype()), "convert it"));
        }
        let Some(field) = &self.field.array else { return Ok(()) };
        field.compare(array).map_err(|(dtype, axes)| {
            let found = format!("{:?} of {}", array.shape(), array.dtype());
            let whose = if self.collector.behind().is_some() { "as in the dataset" } else { "as the first one" };
            self.misfit(format!("an array of {axes} axes of {dtype}, {whose}"), found, "")
        })
    }

    fn small(&self, value: Option<Value>) -> Result<Option<StoredValue>> {
        let Some(value) = value else { return Ok(None) };
        let expected = |kind: &str, value: &Value| self.misfit(kind, value.found(), "");
        let bytes = match (self.field.kind, value) {
            (Kind::Text, Value::Text(text)) => text.into_bytes(),
            (Kind::Text, other) => return Err(expected("text", &other)),
            (Kind::Bytes, Value::Bytes(bytes)) => bytes,
            (Kind::Bytes, other) => return Err(expected("bytes", &other)),
            (_, Value::Json(json)) => json.into_bytes(),
            (_, Value::Text(text)) => serde_json::Value::from(text).to_string().into_bytes(),
            (_, Value::Number { value: Number::Bool(value), .. }) => value.to_string().into_bytes(),
            (_, Value::Number { value: Number::Int(value), .. }) => value.to_string().into_bytes(),
            (_, Value::Number { value: Number::Float(value), .. }) if value.is_finite() => {
                serde_json::Value::from(value).to_string().into_bytes()
            }
            (_, other) => return Err(expected("a JSON document", &other)),
        };
        if self.field.kind == Kind::Json {
            check_json(&bytes, &Limits::default()).map_err(|error| match error {
                shardpack_format::Error::Format { expected, found, .. } => self.misfit(expected, found, ""),
                other => self.refused(other),
            })?;
        }
        StoredValue::bytes(&bytes).map(Some).map_err(|e| self.refused(e))
    }
}

/// Spreads keys evenly over numbers, the same on every machine.
fn spread(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
