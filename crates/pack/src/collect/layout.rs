//! Determines the declared fields and the generated columns in the records of a program's samples.

use super::error::{CollectError, Result};
use super::kind::Kind;
use super::labels::LabelClasses;
use super::options::CollectOptions;
use super::value::{Sample, SampleValue};
use crate::encode::{ArrayChoice, ArrayRecorder, Columns, PictureColumns, PictureRecorder, fidelity};
use shardpack_array::ArrayOptions;
use shardpack_format::{Dtype, Field, FieldKind, Schema};
use shardpack_recipe::PictureOptions;

#[derive(Debug)]
pub(super) struct ProgramField {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) encoder: FieldEncoder,
}

#[derive(Debug)]
pub(super) enum FieldEncoder {
    Picture(PictureRecorder),
    Array(ArrayRecorder, ArrayChoice),
    /// Text, JSON or bytes. The number is the field's position among the stored fields.
    Bytes(usize),
    Scalar(Columns, Dtype),
}

/// Fields and columns of the stored samples. They come from the existing dataset if samples are added to one,
/// and otherwise from the declared schema and the first sample.
#[derive(Debug)]
pub(super) struct ProgramLayout {
    pub(super) fields: Vec<ProgramField>,
    /// The schema of records in the spool, with a field for profiles if pictures may have them.
    pub(super) schema: Schema,
    pub(super) pictures: PictureOptions,
    /// Storage options for array fields that have no array yet.
    pub(super) arrays: ArrayOptions,
    pub(super) threads: usize,
    pub(super) labels: Option<LabelClasses>,
    pub(super) origin: LayoutOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayoutOrigin {
    Program,
    Dataset {
        /// True if each sample must name all fields, because no schema was declared.
        names_all: bool,
    },
}

pub(super) struct LayoutParts {
    pub(super) kinds: Vec<(String, Kind)>,
    pub(super) pictures: PictureOptions,
    /// True if the colour profile of `described_picture` is stored in a separate field.
    pub(super) takes_profile: bool,
    pub(super) has_profile: bool,
    /// The picture field that the picture columns describe, or `None` unless there is exactly one picture field.
    pub(super) described_picture: Option<usize>,
    /// The array field that the shape columns describe, and the number of its axes.
    pub(super) described_array: Option<(usize, usize)>,
    /// For each field, true if it is an array field with figure columns.
    pub(super) figures: Vec<bool>,
    /// For each field, true if it is a picture field with segment indexes.
    pub(super) indexed: Vec<bool>,
}

impl ProgramLayout {
    pub(super) fn new(
        schema: Option<&[(String, Kind)]>,
        first: &Sample,
        key: &str,
        options: &CollectOptions,
    ) -> Result<Self> {
        let value = |name: &str| first.values.iter().find(|(field, _)| field == name).and_then(|(_, v)| v.as_ref());
        let kinds: Vec<(String, Kind)> = match schema {
            Some(schema) => schema.to_vec(),
            None => {
                let kind = |(name, v): &(String, Option<SampleValue>)| {
                    let is_class =
                        name == "label" && options.classes.is_some() && matches!(v, Some(SampleValue::Text(_)));
                    let kind = if is_class { Kind::Scalar(Dtype::I64) } else { Kind::of(key, name, v.as_ref())? };
                    Ok((name.clone(), kind))
                };
                first.values.iter().map(kind).collect::<Result<_>>()?
            }
        };
        if kinds.is_empty() {
            return Err(CollectError::usage("a sample needs at least one field", ""));
        }
        let picture_fields: Vec<usize> = positions(&kinds, |kind| kind.is_picture());
        let described_picture = if let [only] = picture_fields.as_slice() { Some(*only) } else { None };
        let mut pictures = options.pictures.clone();
        // The columns can describe the orientation and profile of only one picture per sample. With several
        // pictures, each keeps its own metadata.
        if picture_fields.len() > 1 {
            pictures.keep_metadata();
        }
        let has_profile = described_picture.is_some() && pictures.takes_profiles_out();
        let taken = |name: &str| kinds.iter().any(|(field, _)| field == name);
        let shaped = positions(&kinds, |kind| matches!(kind, Kind::Array(_))).into_iter().find_map(|position| {
            let (name, _) = kinds.get(position)?;
            match value(name) {
                Some(SampleValue::Array(array)) if (2..=3).contains(&array.shape().len()) => {
                    Some((position, array.shape().len()))
                }
                _ => None,
            }
        });
        // Without these columns, a loader would assume that all arrays have the shape of the first one.
        let described_array = shaped.filter(|(_, axes)| {
            picture_fields.is_empty() && !ArrayRecorder::SHAPE.iter().take(*axes).any(|name| taken(name))
        });
        let figures = kinds.iter().map(|(name, kind)| match kind {
            // Integers are always stored losslessly.
            Kind::Array(Some(dtype)) => dtype.is_float(),
            Kind::Array(None) => !matches!(value(name), Some(SampleValue::Array(array)) if !array.dtype().is_float()),
            _ => false,
        });
        let figures = figures.collect();
        let indexed = kinds.iter().map(|(_, kind)| *kind == Kind::Image && pictures.has_segment_index()).collect();
        let takes_profile = has_profile;
        refuse_index(&kinds)?;
        let parts = LayoutParts {
            kinds,
            pictures,
            takes_profile,
            has_profile,
            described_picture,
            described_array,
            figures,
            indexed,
        };
        let schema = Schema::new(parts.declare()).map_err(|error| {
            let hint = "rename the field: in a dataset of pictures, icc, height, width, orientation, gpu_jpeg and \
                        names such as `image.score` are reserved";
            CollectError::usage(error.to_string(), hint)
        })?;
        let labels = options.classes.as_deref().map(LabelClasses::new);
        Ok(Self {
            fields: parts.fields(&schema, |_| ArrayChoice::default())?,
            schema,
            pictures: parts.pictures,
            arrays: options.arrays,
            threads: options.threads,
            labels,
            origin: LayoutOrigin::Program,
        })
    }

    pub(super) fn profile_position(&self) -> Option<usize> {
        let has = |field: &ProgramField| matches!(&field.encoder, FieldEncoder::Picture(field) if field.has_profile());
        let has_profiles = self.fields.iter().any(has);
        has_profiles.then(|| self.schema.stored_position(PictureRecorder::PROFILE)).flatten()
    }
}

impl LayoutParts {
    pub(super) fn declare(&self) -> Vec<Field> {
        let field = |(name, kind): &(String, Kind)| match (kind, kind.stored()) {
            (Kind::Scalar(dtype), _) => Field::scalar(name, *dtype),
            (_, Some(stored)) => Field::stored(name, stored),
            // Unreachable, because every field except a scalar has a payload.
            (_, None) => Field::scalar(name, Dtype::U8),
        };
        let stored = self.kinds.iter().zip(&self.indexed).flat_map(|(kind, indexed)| {
            let segments = indexed.then(|| Field::segments(&kind.0));
            std::iter::once(field(kind)).chain(segments)
        });
        let mut all: Vec<Field> = stored.collect();
        if self.has_profile {
            all.push(Field::stored(PictureRecorder::PROFILE, FieldKind::Bytes));
        }
        if self.described_picture.is_some() {
            all.extend(PictureRecorder::size_columns());
        }
        if let Some((_, axes)) = self.described_array {
            all.extend(ArrayRecorder::shape_columns(axes));
        }
        for ((name, kind), figures) in self.kinds.iter().zip(&self.figures) {
            match kind {
                Kind::Frames => {
                    all.push(PictureRecorder::frames_column(name));
                    all.extend(PictureRecorder::figure_columns(name, &self.pictures));
                }
                Kind::Image => all.extend(PictureRecorder::figure_columns(name, &self.pictures)),
                _ if *figures => all.extend(fidelity::fields(name)),
                _ => {}
            }
        }
        all
    }

    /// Returns the program's fields with their positions in records of `schema`. The schema must have all
    /// declared fields, in any order.
    pub(super) fn fields(&self, schema: &Schema, choice: impl Fn(&str) -> ArrayChoice) -> Result<Vec<ProgramField>> {
        let field = |(position, (name, kind)): (usize, &(String, Kind))| {
            let has = |flags: &[bool]| flags.get(position).copied().unwrap_or_default();
            let encoder = match *kind {
                Kind::Image | Kind::Frames => {
                    let is_described = self.described_picture == Some(position);
                    let takes_profile = is_described && self.takes_profile;
                    let has_frames = *kind == Kind::Frames;
                    let columns =
                        PictureColumns { is_described, takes_profile, has_frames, has_segments: has(&self.indexed) };
                    FieldEncoder::Picture(PictureRecorder::new(schema, name, columns, &self.pictures)?)
                }
                Kind::Array(_) => {
                    let axes = self.described_array.filter(|(described, _)| *described == position);
                    let field = ArrayRecorder::new(schema, name, axes.map(|(_, axes)| axes), has(&self.figures))?;
                    FieldEncoder::Array(field, choice(name))
                }
                Kind::Text | Kind::Json | Kind::Bytes => {
                    FieldEncoder::Bytes(schema.stored_position(name).ok_or_else(|| fidelity::no_columns(schema, name))?)
                }
                Kind::Scalar(dtype) => {
                    let columns = Columns::of(schema, &[Field::scalar(name, dtype)]);
                    FieldEncoder::Scalar(columns.ok_or_else(|| fidelity::no_columns(schema, name))?, dtype)
                }
            };
            Ok(ProgramField { name: name.clone(), kind: *kind, encoder })
        };
        self.kinds.iter().enumerate().map(field).collect()
    }
}

/// Fails for a field name that readers would mistake for the segment indexes of a picture.
fn refuse_index(kinds: &[(String, Kind)]) -> Result<()> {
    let is_picture = |name: &str| kinds.iter().any(|(known, kind)| known == name && kind.is_picture());
    let taken = |name: &&String| Field::picture_of_segments(name).is_some_and(is_picture);
    let Some(name) = kinds.iter().map(|(name, _)| name).find(taken) else { return Ok(()) };
    let text =
        format!("field `{}`: this name is reserved for the segment index of the picture field", name.escape_debug());
    Err(CollectError::usage(text, "rename the field"))
}

fn positions(kinds: &[(String, Kind)], is: impl Fn(&Kind) -> bool) -> Vec<usize> {
    kinds.iter().enumerate().filter(|(_, (_, kind))| is(kind)).map(|(position, _)| position).collect()
}
