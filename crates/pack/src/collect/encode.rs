//! Encodes values to a record, in the thread that adds a sample.

use super::error::{CollectError, Result};
use super::kind::Kind;
use super::labels::LabelClasses;
use super::layout::{FieldEncoder, LayoutOrigin, ProgramField, ProgramLayout};
use super::value::{Number, Sample, Value};
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

/// With the option `sample`, one picture in this many gets the costly check.
const LOOKED_AT: u64 = 32;

/// Memory and encoders of one thread, reused from sample to sample.
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

/// A record for the spool, with the facts that the plan needs.
pub(super) struct ProgramRecord {
    pub(super) record: Vec<u8>,
    pub(super) source_bytes: u64,
    /// Digest of all bytes of the sample.
    pub(super) digest: [u8; 16],
    /// Facts about pictures that the columns do not hold, by field.
    pub(super) notes: Vec<(usize, PictureNote)>,
    pub(super) pictures: PictureCounts,
}

/// Counts of pictures for the report.
#[derive(Debug, Default)]
pub(super) struct PictureCounts {
    /// True if a picture has a profile in a separate field.
    pub(super) has_profile: bool,
    /// Number of pictures with more than 8 bits per sample, which decode to 8.
    pub(super) deep: u64,
    /// Number of pictures with bands that are not decoded.
    pub(super) banded: u64,
    /// Pictures with oddities.
    pub(super) odd: Vec<OddPicture>,
}

impl PictureCounts {
    /// Adds the counts of another sample.
    pub(super) fn merge(&mut self, next: Self) {
        self.has_profile |= next.has_profile;
        self.deep += next.deep;
        self.banded += next.banded;
        self.odd.extend(next.odd);
    }
}

impl RecordWorkspace {
    /// Encodes the record of a sample, with `sequence` as its number.
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
            let expected = format!("at most {limit}");
            return Err(CollectError::of_sample(key, "bytes of the record", expected, frame.record_bytes, ""));
        }
        // The frame holds the number, which is not final yet. The other bytes define the sample.
        let Some(body) = record.get(to_usize(FRAME_BYTES)..) else { bug("a record without a frame") };
        let mut digest = [0; 16];
        digest.iter_mut().zip(Sha256::digest(body)).for_each(|(to, from)| *to = from);
        Ok(ProgramRecord { record, source_bytes: given().map(Value::source_bytes).sum(), digest, notes, pictures })
    }

    /// Stores the memory of a record for reuse.
    pub(super) fn reuse(&mut self, record: Vec<u8>) {
        self.record = record;
    }
}

/// Returns the values in the order of the layout.
fn arrange<'s>(layout: &ProgramLayout, key: &str, sample: &'s Sample) -> Result<Vec<Option<&'s Value>>> {
    // `None` if the sample does not name the field.
    let mut values: Vec<Option<Option<&Value>>> = layout.fields.iter().map(|_| None).collect();
    // Fields mostly come in the order of the layout, so each search begins at the end of the last
    // one.
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
                LayoutOrigin::Dataset { .. } => ("dataset", "leave it out, or write it into a dataset of its own"),
                LayoutOrigin::Program => {
                    ("schema", "the first sample has all fields, with None for what it lacks, or give a schema")
                }
            };
            let found = value.as_ref().map_or_else(|| "no value".to_owned(), Value::found);
            let expected = format!("a field of the {whose}: {}", names.join(", "));
            return Err(CollectError::misfit(key, name, expected, format!("one that is not in it, of {found}"), hint));
        };
        if place.replace(value.as_ref()).is_some() {
            return Err(CollectError::of_sample(key, "fields", "each once", format!("`{name}` twice"), ""));
        }
        next = position + 1;
    }
    let unnamed = layout.fields.iter().zip(&values).find(|(_, value)| value.is_none());
    if let (LayoutOrigin::Dataset { names_all: true }, Some((field, _))) = (layout.origin, unnamed) {
        let expected = format!("{}, as in the dataset", field.kind);
        let hint = "None says that a sample has no value";
        return Err(CollectError::misfit(key, &field.name, expected, "no such field", hint));
    }
    Ok(values.into_iter().map(Option::flatten).collect())
}

/// One field of one sample.
struct FieldOfSample<'a> {
    key: &'a str,
    field: &'a ProgramField,
    layout: &'a ProgramLayout,
}

/// The reason why a value is not a picture.
enum NoPicture {
    /// A picture cannot be made from the value: the found value, and a next step.
    Misfit(String, &'static str),
    Refused(SampleError),
}

impl From<SampleError> for NoPicture {
    fn from(error: SampleError) -> Self {
        Self::Refused(error)
    }
}

impl FieldOfSample<'_> {
    fn misfit(&self, expected: impl Into<String>, found: impl Into<String>, hint: impl Into<Hint>) -> CollectError {
        CollectError::misfit(self.key, &self.field.name, expected, found, hint)
    }

    fn refused(&self, source: impl Into<SampleError>) -> CollectError {
        CollectError::Encode {
            key: self.key.to_owned(),
            field: self.field.name.clone(),
            source: Box::new(source.into()),
        }
    }

    fn scalar(&self, dtype: Dtype, value: Option<&Value>) -> Result<Vec<u8>> {
        let labels = self.layout.labels.as_ref().filter(|_| self.field.name == "label" && !dtype.is_float());
        let number = match (value, labels) {
            (Some(Value::Number { value, .. }), Some(labels)) => {
                labels.by_number(*value).map_err(|label| self.no_class(labels, label))?
            }
            (Some(Value::Number { value, .. }), _) => *value,
            (Some(Value::Text(name)), Some(labels)) => labels.by_name(name).ok_or_else(|| {
                let new = Hint::set([Setting::named("classes")]).then(" names those that are new");
                let hint = if self.layout.origin == LayoutOrigin::Program { Hint::new("") } else { new };
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
        let mut packed = Vec::new();
        match number.append(dtype, &mut packed) {
            true => Ok(packed),
            false => Err(self.misfit(dtype.name(), Value::Number { value: number, dtype: None }.found(), "")),
        }
    }

    fn no_class(&self, labels: &LabelClasses, label: i128) -> CollectError {
        let expected = format!("0 to {}, the number of a class", labels.len().saturating_sub(1));
        self.misfit(expected, label.to_string(), "")
    }

    /// Returns the checks of this picture: the same in every run and thread.
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
        value: &'v Value,
        draft: &mut RecordDraft<'v>,
        counts: &mut PictureCounts,
    ) -> Result<PictureNote> {
        let packed = self.put_picture(field, encoder, value, draft, counts).map_err(|error| match error {
            NoPicture::Misfit(found, hint) => {
                let expected = match self.field.kind {
                    Kind::Frames => "a list of whole JPEGs",
                    _ => "a whole JPEG, PNG, WebP, BMP or TIFF, or pixels: uint8 [height, width], [height, width, 1] or [height, width, 3]",
                };
                self.misfit(expected, found, hint)
            }
            NoPicture::Refused(error) => self.refused(error),
        })?;
        if packed.has_profile && !field.has_profile() {
            // The profile would be lost.
            let expected = "a picture without a colour profile: the dataset has no field `icc` for it";
            let hint = "write it into a dataset of its own; `concat` takes both as one";
            return Err(self.misfit(expected, "one with a profile", hint));
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
        value: &'v Value,
        draft: &mut RecordDraft<'v>,
        counts: &mut PictureCounts,
    ) -> Result<PackedPicture, NoPicture> {
        let checks = self.checks(field);
        match (self.field.kind, value) {
            (Kind::Frames, Value::Frames(frames)) => {
                let files = frames.iter().enumerate().map(|(number, bytes)| frame(number, bytes));
                let none = || NoPicture::Misfit("an empty list".into(), "None is a clip that the sample does not have");
                field.put_clip(encoder, files, checks, draft)?.ok_or_else(none)
            }
            (Kind::Frames, other) => Err(NoPicture::Misfit(other.found(), "a clip of one frame is a list of one")),
            (_, Value::Bytes(file)) => {
                let info = probe(file)?.ok_or_else(|| {
                    let head = file.get(..8).unwrap_or(file);
                    let found = format!("{} bytes that begin with `{}`", file.len(), head.escape_ascii());
                    NoPicture::Misfit(found, "")
                })?;
                counts.deep += u64::from(info.deep);
                counts.banded += u64::from(info.beside.is_some());
                Ok(field.put_file(encoder, file, &info, checks, draft)?)
            }
            (_, Value::Array(array) | Value::Pixels(array)) => {
                let pixels = RawPicture::of(array).ok_or_else(|| {
                    let found = format!("{:?} of {}", array.shape(), array.dtype());
                    NoPicture::Misfit(found, "a field of kind `array` holds any shape and type")
                })?;
                Ok(field.put_pixels(encoder, pixels, checks, draft)?)
            }
            (_, Value::Text(_)) => Err(NoPicture::Misfit("text".into(), "give the bytes of a file, not its name")),
            (_, other) => Err(NoPicture::Misfit(other.found(), "")),
        }
    }

    fn array(
        &self,
        field: &ArrayRecorder,
        choice: &ArrayChoice,
        workspace: &mut ArrayWorkspace,
        value: &Value,
        draft: &mut RecordDraft<'_>,
    ) -> Result<()> {
        let number;
        let array = match value {
            Value::Array(array) => array,
            // A number with a type is an array without axes.
            Value::Number { value, dtype: Some(dtype) } => {
                let mut bytes = Vec::new();
                value.append(*dtype, &mut bytes);
                number = Array::new(*dtype, Vec::new(), bytes)?;
                &number
            }
            other => return Err(self.misfit("an array", other.found(), "")),
        };
        self.check_form(choice, array)?;
        let settings = choice.settings(array, &self.layout.arrays, self.layout.threads);
        let put = settings.and_then(|settings| field.put(workspace, settings, array, None, draft));
        put.map(drop).map_err(|e| self.refused(e))
    }

    /// Compares an array with the first one of its field: a loader returns the arrays of a field in
    /// one tensor, so all need the same type and number of axes.
    fn check_form(&self, choice: &ArrayChoice, array: &Array) -> Result<()> {
        if let Kind::Array(Some(dtype)) = self.field.kind
            && array.dtype() != dtype
        {
            return Err(self.misfit(format!("an array of {dtype}"), format!("one of {}", array.dtype()), "convert it"));
        }
        choice.compare(array).map_err(|(dtype, axes)| {
            let found = format!("{:?} of {}", array.shape(), array.dtype());
            let whose = match self.layout.origin {
                LayoutOrigin::Dataset { .. } => "as in the dataset",
                LayoutOrigin::Program => "as the first one",
            };
            self.misfit(format!("an array of {axes} axes of {dtype}, {whose}"), found, "")
        })
    }

    /// Stores text, JSON or bytes.
    fn bytes(&self, value: &Value) -> Result<StoredValue<'static>> {
        let expected = |kind: &str, value: &Value| self.misfit(kind, value.found(), "");
        let bytes: Cow<'_, [u8]> = match (self.field.kind, value) {
            (Kind::Text, Value::Text(text)) => text.as_bytes().into(),
            (Kind::Text, other) => return Err(expected("text", other)),
            (Kind::Bytes, Value::Bytes(bytes)) => bytes.into(),
            (Kind::Bytes, other) => return Err(expected("bytes", other)),
            (_, Value::Json(json)) => json.as_bytes().into(),
            (_, Value::Text(text)) => serde_json::Value::from(text.as_str()).to_string().into_bytes().into(),
            (_, Value::Number { value: Number::Bool(value), .. }) => value.to_string().into_bytes().into(),
            (_, Value::Number { value: Number::Int(value), .. }) => value.to_string().into_bytes().into(),
            (_, Value::Number { value: Number::Float(value), .. }) if value.is_finite() => {
                serde_json::Value::from(*value).to_string().into_bytes().into()
            }
            (_, other) => return Err(expected("a JSON document", other)),
        };
        if self.field.kind == Kind::Json {
            check_json(&bytes, &Limits::default()).map_err(|error| match error {
                shardpack_format::Error::Format { expected, found, .. } => self.misfit(expected, found, ""),
                other => self.refused(other),
            })?;
        }
        StoredValue::bytes(&bytes).map_err(|e| self.refused(e))
    }
}

/// Inspects the first bytes of a file; `None` if it is no picture.
fn probe(file: &[u8]) -> Result<Option<PictureInfo>, NoPicture> {
    probe_picture(file).map_err(|flaw| NoPicture::Misfit(flaw.detail, ""))
}

/// Inspects a frame of a clip.
fn frame(number: usize, file: &[u8]) -> Result<FrameFile<'_>, NoPicture> {
    let misfit = |found: String| NoPicture::Misfit(format!("{found}, as frame {number}"), "");
    match probe_picture(file) {
        Ok(Some(info)) if info.jpeg.is_some() => Ok(FrameFile { bytes: file.into(), info }),
        Ok(Some(info)) => Err(misfit(info.media_type.into())),
        Ok(None) => Err(misfit(format!("{} bytes that are no picture", file.len()))),
        Err(flaw) => Err(misfit(flaw.detail)),
    }
}

/// Maps keys evenly to numbers, in the same way on every machine.
fn spread(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
