//! Determines the fields and generated columns for samples that a program adds to an existing dataset.

use super::recipe::AppendRecipe;
use crate::collect::error::{CollectError, Result};
use crate::collect::kind::Kind;
use crate::collect::layout::{LayoutOrigin, LayoutParts, ProgramLayout};
use crate::encode::{ArrayChoice, ArrayRecorder, PictureRecorder, fidelity, is_figure};
use shardpack_format::{ArrayDescriptor, Dtype, Field, FieldKind, Limits, Manifest, Schema};
use shardpack_jpeg::Resize;
use shardpack_reader::Dataset;
use shardpack_reader::mask_names::is_mask;
use shardpack_recipe::{DatasetRecipe, Entry};
use std::collections::BTreeMap;

/// Maximum number of records to read to find out the element types and axes of arrays. The first record is
/// usually enough.
const READ: u64 = 64;

#[derive(Debug, Default)]
struct ArrayForm {
    form: Option<(Dtype, usize)>,
    /// True if the shape columns describe this field in all records read so far.
    is_described: bool,
}

pub(super) fn layout(opened: &Dataset, base: &Manifest, recipe: &AppendRecipe) -> Result<ProgramLayout> {
    let schema = &base.schema;
    let has = |name: &str, dtype| schema.scalar_position(name).is_some_and(|(_, found)| found == dtype);
    let said = said_by_program(base)?;
    let pictures: Vec<&Field> = schema.fields().iter().filter(|field| field.kind == FieldKind::Image).collect();
    let is_own = |name: &str| said.as_ref().is_some_and(|said| said.contains_key(name));
    let columns = |names: &[&str], dtype: Dtype| names.iter().all(|name| has(name, dtype) && !is_own(name));
    let described = if let [only] = pictures.as_slice()
        && PictureRecorder::SIZE.iter().all(|(name, dtype)| columns(&[name], *dtype))
    {
        Some(only.name.as_str())
    } else {
        None
    };
    let how = &recipe.pictures;
    let takes_profile = described.is_some() && how.takes_profiles_out();
    if takes_profile && is_own(PictureRecorder::PROFILE) {
        return Err(strange(PictureRecorder::PROFILE));
    }
    let axes = [3, 2]
        .into_iter()
        .find(|&axes| pictures.is_empty() && columns(ArrayRecorder::SHAPE.get(..axes).unwrap_or_default(), Dtype::U32));
    let forms = forms(opened, schema, axes)?;
    let shaped = axes.and_then(|axes| {
        let is = |field: &&Field| {
            let form = forms.get(&field.name);
            field.kind == FieldKind::Array
                && form.is_some_and(|form| form.is_described && form.form.is_none_or(|(_, found)| found == axes))
        };
        schema.fields().iter().find(is).map(|field| (field.name.as_str(), axes))
    });
    let has_profile = takes_profile && schema.stored_position(PictureRecorder::PROFILE).is_some();
    let is_made = |field: &Field| {
        let name = field.name.as_str();
        let is_count = name
            .strip_suffix(".frames")
            .is_some_and(|of| has(name, Dtype::U32) && pictures.iter().any(|picture| picture.name == of));
        (has_profile && name == PictureRecorder::PROFILE)
            || (described.is_some() && PictureRecorder::SIZE.iter().any(|(column, _)| *column == name))
            || shaped.is_some_and(|(_, axes)| ArrayRecorder::SHAPE.iter().take(axes).any(|column| *column == name))
            || is_count
            || schema.is_segment_index(field)
            || is_figure(schema, name)
    };
    let mut kinds = Vec::new();
    for field in schema.fields() {
        let said = match &said {
            Some(said) => said.get(&field.name).copied(),
            None if is_made(field) => None,
            None => Some(kind_of(field, schema)),
        };
        let Some(kind) = said else { continue };
        let form = forms.get(&field.name).and_then(|form| form.form);
        let kind = match (kind, form) {
            (Kind::Array(_), Some((dtype, _))) => Kind::Array(Some(dtype)),
            (kind, _) => kind,
        };
        kinds.push((field.name.clone(), kind));
    }
    let position = |name: &str| kinds.iter().position(|(known, _)| known == name);
    let figures = |(name, kind): &(String, Kind)| matches!(kind, Kind::Array(_)) && fidelity::has_figures(schema, name);
    let is_indexed =
        |name: &str| schema.stored_position(name).is_some_and(|position| schema.segments_position(position).is_some());
    let parts = LayoutParts {
        pictures: how.clone(),
        takes_profile,
        has_profile,
        described_picture: described.and_then(position),
        described_array: shaped.and_then(|(name, axes)| Some((position(name)?, axes))),
        figures: kinds.iter().map(figures).collect(),
        indexed: kinds.iter().map(|(name, kind)| *kind == Kind::Image && is_indexed(name)).collect(),
        kinds,
    };
    refuse_others(schema, &parts.declare())?;
    let choice = |name: &str| {
        let form = forms.get(name).and_then(|form| form.form);
        ArrayChoice::known(form, recipe.chosen.get(name).cloned())
    };
    Ok(ProgramLayout {
        fields: parts.fields(schema, choice)?,
        schema: schema.clone(),
        pictures: parts.pictures,
        arrays: recipe.arrays,
        threads: 1,
        labels: None,
        origin: LayoutOrigin::Program,
    })
}

fn said_by_program(base: &Manifest) -> Result<Option<BTreeMap<String, Kind>>> {
    let DatasetRecipe::Program(recipe) = DatasetRecipe::read(&base.recipe) else { return Ok(None) };
    let Some(fields) = recipe.fields.as_ref().and_then(Entry::typed) else { return Ok(None) };
    let mut said = BTreeMap::new();
    for (name, kind) in fields {
        let kind = kind.as_str().and_then(|kind| kind.parse::<Kind>().ok());
        let field = base.schema.fields().iter().find(|field| field.name == *name);
        let fits = |kind: &Kind| match (kind, field) {
            (Kind::Scalar(dtype), Some(field)) => field.dtype == Some(*dtype),
            (kind, Some(field)) => kind.stored() == Some(field.kind),
            (_, None) => false,
        };
        let Some(kind) = kind.filter(fits) else { return Err(strange(name)) };
        said.insert(name.clone(), kind);
    }
    Ok(Some(said))
}

fn kind_of(field: &Field, schema: &Schema) -> Kind {
    match (field.kind, field.dtype) {
        (FieldKind::Image, _) => {
            let frames = schema.scalar_position(&format!("{}.frames", field.name));
            if frames.is_some_and(|(_, dtype)| dtype == Dtype::U32) { Kind::Frames } else { Kind::Image }
        }
        (FieldKind::Array, _) => Kind::Array(None),
        (FieldKind::Text, _) => Kind::Text,
        (FieldKind::Json, _) => Kind::Json,
        (_, Some(dtype)) => Kind::Scalar(dtype),
        (_, None) => Kind::Bytes,
    }
}

fn forms(opened: &Dataset, schema: &Schema, axes: Option<usize>) -> Result<BTreeMap<String, ArrayForm>> {
    let arrays = schema.fields().iter().filter(|field| field.kind == FieldKind::Array);
    let mut forms: BTreeMap<String, ArrayForm> =
        arrays.map(|field| (field.name.clone(), ArrayForm { form: None, is_described: true })).collect();
    for index in 0..opened.len().min(READ) {
        if forms.values().all(|form| form.form.is_some()) {
            break;
        }
        let sample = opened.get(index)?;
        let columns: Vec<Option<i64>> = ArrayRecorder::SHAPE
            .iter()
            .take(axes.unwrap_or(0))
            .map(|name| Ok(sample.view().scalar_if_any(name)?.and_then(|value| value.as_i64())))
            .collect::<Result<_>>()?;
        for (name, form) in &mut forms {
            let Some(value) = sample.field(name)? else { continue };
            let ArrayDescriptor { decoded, shape, .. } = ArrayDescriptor::parse(value.descriptor, &Limits::none())?;
            form.form.get_or_insert((decoded, shape.len()));
            let shape: Vec<Option<i64>> = shape.iter().map(|axis| i64::try_from(*axis).ok()).collect();
            form.is_described &= shape == columns;
        }
    }
    Ok(forms)
}

fn strange(field: &str) -> CollectError {
    CollectError::usage(
        format!(
            "cannot append to this dataset: the writer cannot create values for its field `{}`",
            field.escape_debug()
        ),
        "write the samples to a new dataset, and load both datasets with `concat`",
    )
}

/// Fails if the dataset's fields differ from the fields of a program's samples.
fn refuse_others(base: &Schema, made: &[Field]) -> Result<()> {
    let other = base.fields().iter().find(|field| !made.contains(field));
    match other.or_else(|| made.iter().find(|field| !base.fields().contains(field))) {
        Some(field) => Err(strange(&field.name)),
        None => Ok(()),
    }
}

/// Fails for a packed dataset whose masks were shrunk together with their pictures. A program's masks are
/// stored at full size, and loaders reject a mask whose size differs from its picture's.
pub(super) fn refuse_masks_of_shrunk(base: &Manifest, recipe: &AppendRecipe) -> Result<()> {
    let shrinks = recipe.pictures.resize() != Resize::No;
    if !shrinks || said_by_program(base)?.is_some() {
        return Ok(());
    }
    let fields = base.schema.fields();
    let has_pictures = fields.iter().any(|field| field.kind == FieldKind::Image);
    let mask = fields.iter().find(|field| has_pictures && field.kind == FieldKind::Array && is_mask(&field.name));
    let Some(mask) = mask else { return Ok(()) };
    Err(CollectError::usage(
        format!(
            "a writer cannot append to this dataset: its masks were shrunk, but new masks in `{}` would keep \
             their full size",
            mask.name.escape_debug()
        ),
        "put the pictures and masks into folders, and add them with `shardpack add`",
    ))
}

pub(super) fn compare(layout: &ProgramLayout, given: &[(String, Kind)]) -> Result<()> {
    let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
    let refuse = |text: String| Err(CollectError::usage(format!("schema: {text}"), ""));
    for (name, kind) in given {
        let Some(field) = layout.fields.iter().find(|field| field.name == *name) else {
            let text = format!("the dataset has no field `{}`, only {}", name.escape_debug(), names.join(", "));
            return refuse(text);
        };
        let is_same = *kind == field.kind || matches!((kind, field.kind), (Kind::Array(None), Kind::Array(_)));
        if !is_same {
            let (name, known) = (name.escape_debug(), field.kind);
            return refuse(format!(
                "the kind of the field `{name}` is {known} in the dataset, but {kind} in the schema"
            ));
        }
    }
    match layout.fields.iter().find(|field| !given.iter().any(|(name, _)| *name == field.name)) {
        Some(field) => refuse(format!("the field `{}` of the dataset is missing", field.name.escape_debug())),
        None => Ok(()),
    }
}
