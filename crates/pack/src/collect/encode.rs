//! Encodes the values of a sample as a record, on the thread that adds the sample.

use super::error::{CollectError, Result, SampleRefusal};
use super::kind::Kind;
use super::labels::LabelClasses;
use super::layout::{FieldEncoder, LayoutOrigin, ProgramField, ProgramLayout};
use super::value::{Number, Sample, SampleValue};
use crate::encode::{
    ArrayChoice, ArrayRecorder, ArrayWorkspace, FinishedRecord, FrameFile, OddPicture, PackedPicture, PictureChecks,
    PictureEncoder, PictureNote, PictureRecorder, RawPicture, RecordDraft, RecordNumber, SampleError, StoredValue,
};
use sha2::{Digest, Sha256};
use shardpack_array::Array;
use shardpack_format::{Dtype, FRAME_BYTES, Hint, Limits, Setting, bug, check_json, to_usize};
use shardpack_recipe::Share;
use shardpack_sources::pictures::{PictureInfo, probe_picture};
use std::borrow::Cow;
use std::fmt;

/// The option `sample` checks one picture in this many.
const LOOKED_AT: u64 = 32;

/// Encoders and buffers of one thread, reused for each sample.
#[derive(Default)]
pub(super) struct RecordWorkspace {
    fields: Vec<FieldWorkspace>,
    record: Vec<u8>,
}

#[derive(Default)]
struct FieldWorkspace {
    picture: Option<Box<PictureEncoder>>,
    array: ArrayWorkspace,
}

/// A record for the spool, with the facts needed to plan the dataset.
pub(super) struct ProgramRecord {
    pub(super) record: Vec<u8>,
    pub(super) source_bytes: u64,
    /// Digest of the sample's record, excluding the frame.
    pub(super) digest: [u8; 16],
    /// Notes on pictures, each paired with the position of its field.
    pub(super) notes: Vec<(usize, PictureNote)>,
    pub(super) pictures: PictureCounts,
}

#[derive(Debug, Default)]
pub(super) struct PictureCounts {
    /// True if a picture's colour profile is stored in a separate field.
    pub(super) has_profile: bool,
    /// Number of pictures with more than 8 bits per sample.
    pub(super) deep: u64,
    /// Number of pictures with extra bands. Extra bands are stored but not decoded.
    pub(super) banded: u64,
    pub(super) odd: Vec<OddPicture>,
}

impl PictureCounts {
    pub(super) fn merge(&mut self, next: Self) {
        self.has_profile |= next.has_profile;
        self.deep += next.deep;
        self.banded += next.banded;
        self.odd.extend(next.odd);
    }
}

impl RecordWorkspace {
    pub(super) fn encode(
        &mut self,
        layout: &ProgramLayout,
        key: &str,
        sequence: u64,
        sample: &Sample,
    ) -> Result<ProgramRecord> {
        let given = || sample.values.iter().filter_map(|(_, value)| value.as_ref());
        let values = arrange(layout, key, sample)?;
        if self.fields.len() < layout.fields.len() {
            self.fields.resize_with(layout.fields.len(), FieldWorkspace::default);
        }
        let mut draft = RecordDraft::new(&layout.schema, std::mem::take(&mut self.record));
        let (mut notes, mut pictures) = (Vec::new(), PictureCounts::default());
        let fields = layout.fields.iter().zip(values).zip(&mut self.fields);
        for (position, ((field, value), workspace)) in fields.enumerate() {
            let one = FieldOfSample { key, field, layout };
            match (&field.encoder, value) {
                (FieldEncoder::Scalar(columns, dtype), value) => {
                    draft.set_scalars(columns, &one.scalar(*dtype, value)?);
                }
                (FieldEncoder::Picture(field), None) => field.put_none(&mut draft),
                (FieldEncoder::Picture(field), Some(value)) => {
                    let encoder = workspace.picture.get_or_insert_default();
                    let note = one.picture(field, encoder, value, &mut draft, &mut pictures)?;
                    notes.extend((note != PictureNote::default()).then_some((position, note)));
                }
                (FieldEncoder::Array(field, _), None) => field.put_none(&mut draft),
                (FieldEncoder::Array(field, choice), Some(value)) => {
                    one.array(field, choice, &mut workspace.array, value, &mut draft)?;
                }
                (FieldEncoder::Bytes(_), None) => {}
                (FieldEncoder::Bytes(position), Some(value)) => draft.set(*position, one.bytes(value)?),
            }
        }
        let FinishedRecord { record, frame, .. } = draft.finish(RecordNumber { shard: 0, sample: sequence }, key)?;
        let limit = Limits::default().max_record_bytes;
        if frame.record_bytes > limit {
            let text = format!("the record has {} bytes, more than the limit of {limit}", frame.record_bytes);
            return Err(CollectError::of_sample(key, text, ""));
        }
        // The sample number in the frame is provisional, so digest only the bytes after the frame.
        let Some(body) = record.get(to_usize(FRAME_BYTES)..) else { bug("a record without a frame") };
        let mut digest = [0; 16];
        digest.iter_mut().zip(Sha256::digest(body)).for_each(|(to, from)| *to = from);
        Ok(ProgramRecord {
            record,
            source_bytes: given().map(SampleValue::source_bytes).sum(),
            digest,
            notes,
            pictures,
        })
    }

    pub(super) fn reuse(&mut self, record: Vec<u8>) {
        self.record = record;
    }
}

fn arrange<'s>(layout: &ProgramLayout, key: &str, sample: &'s Sample) -> Result<Vec<Option<&'s SampleValue>>> {
    // A field stays `None` if the sample does not mention it.
    let mut values: Vec<Option<Option<&SampleValue>>> = layout.fields.iter().map(|_| None).collect();
    // Fields usually come in layout order, so each search starts after the previous match.
    let mut next = 0;
    for (name, value) in &sample.values {
        let is = |field: &ProgramField| field.name == *name;
        let position = match layout.fields.get(next) {
            Some(field) if is(field) => Some(next),
            _ => layout.fields.iter().position(is),
        };
        let Some((position, place)) = position.and_then(|position| Some((position, values.get_mut(position)?))) else {
            let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
            let (whose, hint) = match layout.origin {
                LayoutOrigin::Dataset { .. } => (
                    "the dataset has",
                    "omit the field, or write the samples to a new dataset and load both datasets with `concat`",
                ),
                LayoutOrigin::Program => (
                    "the schema and the first sample have",
                    "pass all fields in the first sample, with None for missing values, or pass a schema",
                ),
            };
            let text = format!("{whose} no such field, only {}", names.join(", "));
            return Err(CollectError::misfit(key, name, text, hint));
        };
        if place.replace(value.as_ref()).is_some() {
            return Err(CollectError::of_sample(key, format!("field `{name}` occurs twice"), ""));
        }
        next = position + 1;
    }
    let unnamed = layout.fields.iter().zip(&values).find(|(_, value)| value.is_none());
    if let (LayoutOrigin::Dataset { names_all: true }, Some((field, _))) = (layout.origin, unnamed) {
        let text = format!("the dataset has this field (of kind {}), but the sample does not", field.kind);
        return Err(CollectError::misfit(key, &field.name, text, "pass None if the sample has no value"));
    }
    Ok(values.into_iter().map(Option::flatten).collect())
}

struct FieldOfSample<'a> {
    key: &'a str,
    field: &'a ProgramField,
    layout: &'a ProgramLayout,
}

enum NoPicture {
    /// The value cannot be stored as a picture. Contains a description of the value and a hint.
    Misfit(String, &'static str),
    /// The file, or a frame of the clip, is damaged or not supported. Contains the whole message.
    Unusable(String),
    Refused(SampleError),
}

impl From<SampleError> for NoPicture {
    fn from(error: SampleError) -> Self {
        Self::Refused(error)
    }
}

impl FieldOfSample<'_> {
    fn misfit(&self, text: impl fmt::Display, hint: impl Into<Hint>) -> CollectError {
        CollectError::misfit(self.key, &self.field.name, text, hint)
    }

    fn expected(&self, expected: &str, found: &str, hint: &'static str) -> CollectError {
        self.misfit(format!("expected {expected}, found {found}"), hint)
    }

    fn refused(&self, source: impl Into<SampleError>) -> CollectError {
        let refusal = SampleRefusal::Encode { field: self.field.name.clone(), source: Box::new(source.into()) };
        CollectError::Sample { key: self.key.to_owned(), refusal }
    }

    fn scalar(&self, dtype: Dtype, value: Option<&SampleValue>) -> Result<Vec<u8>> {
        let labels = self.layout.labels.as_ref().filter(|_| self.field.name == "label" && !dtype.is_float());
        let number = match (value, labels) {
            (Some(SampleValue::Number { value, .. }), Some(labels)) => {
                labels.by_number(*value).map_err(|label| self.no_class(labels, label))?
            }
            (Some(SampleValue::Number { value, .. }), _) => *value,
            (Some(SampleValue::Text(name)), Some(labels)) => labels.by_name(name).ok_or_else(|| {
                let new = Hint::new("pass ").and([Setting::named("classes")]).then(" to add new classes");
                let hint = if self.layout.origin == LayoutOrigin::Program { Hint::new("") } else { new };
                self.misfit(format!("there is no class `{}`", name.escape_debug()), hint)
            })?,
            (Some(SampleValue::Array(array)), _) if array.shape().is_empty() => {
                let found = "a zero-dimensional array";
                return Err(self.expected(dtype.name(), found, "pass the number itself instead of an array"));
            }
            (Some(other), _) => return Err(self.expected(dtype.name(), &other.found(), "")),
            (None, _) => {
                let hint = match dtype.is_float() {
                    true => "pass NaN for a missing number",
                    false => "pass a number that stands for a missing value, such as -1",
                };
                return Err(self.expected(dtype.name(), "no value", hint));
            }
        };
        let mut packed = Vec::new();
        match number.append(dtype, &mut packed) {
            true => Ok(packed),
            false => Err(self.expected(dtype.name(), &number.found(), "")),
        }
    }

    fn no_class(&self, labels: &LabelClasses, label: i128) -> CollectError {
        let expected = format!("a class number from 0 to {}", labels.len().saturating_sub(1));
        self.expected(&expected, &label.to_string(), "")
    }

    /// Returns the checks for this picture. They depend only on the options and the key, so every run checks
    /// the same pictures.
    fn checks(&self, field: &PictureRecorder) -> PictureChecks {
        let takes = |share: Share| match share {
            Share::None => false,
            Share::All => true,
            Share::Sample => spread(self.key).is_multiple_of(LOOKED_AT),
        };
        PictureChecks { pixels: takes(field.options().checked()), score: takes(field.options().scored()) }
    }

    fn picture<'v>(
        &self,
        field: &PictureRecorder,
        encoder: &'v mut PictureEncoder,
        value: &'v SampleValue,
        draft: &mut RecordDraft<'v>,
        counts: &mut PictureCounts,
    ) -> Result<PictureNote> {
        let packed = self.put_picture(field, encoder, value, draft, counts).map_err(|error| match error {
            NoPicture::Misfit(found, hint) => {
                let expected = match self.field.kind {
                    Kind::Frames => "a list of complete JPEG files",
                    _ => {
                        "a complete JPEG, PNG, WebP, BMP or TIFF file (or uint8 pixels of shape [height, width], \
                         [height, width, 1] or [height, width, 3])"
                    }
                };
                self.expected(expected, &found, hint)
            }
            NoPicture::Unusable(text) => self.misfit(text, ""),
            NoPicture::Refused(error) => self.refused(error),
        })?;
        if packed.has_profile && !field.has_profile() {
            let text = "the picture has a colour profile, but the dataset has no field `icc` to store it";
            return Err(
                self.misfit(text, "write these samples to another dataset, and load both datasets with `concat`")
            );
        }
        counts.has_profile |= packed.has_profile;
        counts.odd.extend(packed.oddity.map(|what| OddPicture {
            key: self.key.to_owned(),
            what: format!("field `{}`: {what}", self.field.name.escape_debug()),
        }));
        Ok(packed.note)
    }

    fn put_picture<'v>(
        &self,
        field: &PictureRecorder,
        encoder: &'v mut PictureEncoder,
        value: &'v SampleValue,
        draft: &mut RecordDraft<'v>,
        counts: &mut PictureCounts,
    ) -> Result<PackedPicture, NoPicture> {
        let checks = self.checks(field);
        match (self.field.kind, value) {
            (Kind::Frames, SampleValue::Frames(frames)) => {
                let files = frames.iter().enumerate().map(|(number, bytes)| frame(number, bytes));
                let none = || NoPicture::Misfit("an empty list".into(), "pass None if the sample has no clip");
                field.put_clip(encoder, files, checks, draft)?.ok_or_else(none)
            }
            (Kind::Frames, other) => {
                Err(NoPicture::Misfit(other.found(), "pass a clip with one frame as a list with one file"))
            }
            (_, SampleValue::Bytes(file)) => {
                let info = probe(file)?.ok_or_else(|| {
                    let head = file.get(..8).unwrap_or(file);
                    let found = match file.len() {
                        0 => "an empty file".to_owned(),
                        bytes => format!("{bytes} bytes that begin with `{}`", head.escape_ascii()),
                    };
                    NoPicture::Misfit(found, "")
                })?;
                counts.deep += u64::from(info.deep);
                counts.banded += u64::from(info.beside.is_some());
                Ok(field.put_file(encoder, file, &info, checks, draft)?)
            }
            (_, SampleValue::Array(array) | SampleValue::Pixels(array)) => {
                let pixels = RawPicture::of(array).ok_or_else(|| {
                    let found = format!("an array of {} with shape {:?}", array.dtype(), array.shape());
                    NoPicture::Misfit(found, "use a field of kind `array`, which accepts any shape and type")
                })?;
                Ok(field.put_pixels(encoder, pixels, checks, draft)?)
            }
            (_, SampleValue::Text(_)) => {
                Err(NoPicture::Misfit("text".into(), "pass the bytes of the file, not its name"))
            }
            (_, other) => Err(NoPicture::Misfit(other.found(), "")),
        }
    }

    fn array(
        &self,
        field: &ArrayRecorder,
        choice: &ArrayChoice,
        workspace: &mut ArrayWorkspace,
        value: &SampleValue,
        draft: &mut RecordDraft<'_>,
    ) -> Result<()> {
        let number;
        let array = match value {
            SampleValue::Array(array) => array,
            // Store a number with an explicit type as an array without axes.
            SampleValue::Number { value, dtype: Some(dtype) } => {
                let mut bytes = Vec::new();
                value.append(*dtype, &mut bytes);
                number = Array::new(*dtype, Vec::new(), bytes)?;
                &number
            }
            other => return Err(self.expected("an array", &other.found(), "")),
        };
        self.check_form(choice, array)?;
        let settings = choice.settings(array, &self.layout.arrays, self.layout.threads);
        let put = settings.and_then(|settings| field.put(workspace, settings, array, None, draft));
        put.map(drop).map_err(|e| self.refused(e))
    }

    /// Checks that an array has the same type and number of axes as the field's first array.
    /// Otherwise a loader could not return a batch as one tensor.
    fn check_form(&self, choice: &ArrayChoice, array: &Array) -> Result<()> {
        if let Kind::Array(Some(dtype)) = self.field.kind
            && array.dtype() != dtype
        {
            let text = format!("expected an array of {dtype}, found an array of {}", array.dtype());
            return Err(self.misfit(text, "convert the array to the expected type"));
        }
        choice.compare(array).map_err(|(dtype, axes)| {
            let found = format!("an array of {} with shape {:?}", array.dtype(), array.shape());
            let whose = match self.layout.origin {
                LayoutOrigin::Dataset { .. } => "as in the dataset",
                LayoutOrigin::Program => "as in the first sample",
            };
            let noun = if axes == 1 { "axis" } else { "axes" };
            self.expected(&format!("an array of {dtype} with {axes} {noun} ({whose})"), &found, "")
        })
    }

    fn bytes(&self, value: &SampleValue) -> Result<StoredValue<'static>> {
        let expected = |kind: &str, value: &SampleValue| self.expected(kind, &value.found(), "");
        let bytes: Cow<'_, [u8]> = match (self.field.kind, value) {
            (Kind::Text, SampleValue::Text(text)) => text.as_bytes().into(),
            (Kind::Text, other) => return Err(expected("text", other)),
            (Kind::Bytes, SampleValue::Bytes(bytes)) => bytes.into(),
            (Kind::Bytes, other) => return Err(expected("bytes", other)),
            (_, SampleValue::Json(json)) => json.as_bytes().into(),
            (_, SampleValue::Text(text)) => serde_json::Value::from(text.as_str()).to_string().into_bytes().into(),
            (_, SampleValue::Number { value: Number::Bool(value), .. }) => value.to_string().into_bytes().into(),
            (_, SampleValue::Number { value: Number::Int(value), .. }) => value.to_string().into_bytes().into(),
            (_, SampleValue::Number { value: Number::Float(value), .. }) if value.is_finite() => {
                serde_json::Value::from(*value).to_string().into_bytes().into()
            }
            (_, other) => return Err(expected("a JSON document", other)),
        };
        if self.field.kind == Kind::Json {
            check_json(&bytes, &Limits::default()).map_err(|error| match error {
                shardpack_format::Error::Format { what, .. } => self.misfit(what, ""),
                other => self.refused(other),
            })?;
        }
        StoredValue::bytes(&bytes).map_err(|e| self.refused(e))
    }
}

fn probe(file: &[u8]) -> Result<Option<PictureInfo>, NoPicture> {
    probe_picture(file).map_err(|flaw| NoPicture::Unusable(flaw.detail))
}

fn frame(number: usize, file: &[u8]) -> Result<FrameFile<'_>, NoPicture> {
    let unusable = |why: String| Err(NoPicture::Unusable(format!("frame {number} {why}")));
    match probe_picture(file) {
        Ok(Some(info)) if info.jpeg.is_some() => Ok(FrameFile { bytes: file.into(), info }),
        Ok(Some(info)) => unusable(format!("must be a JPEG, not {}", info.media_type)),
        Ok(None) => unusable("must be a JPEG, but is not a picture".to_owned()),
        Err(flaw) => unusable(format!("cannot be used: {}", flaw.detail)),
    }
}

/// Hashes a key to an evenly distributed number that is the same on every machine.
fn spread(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
