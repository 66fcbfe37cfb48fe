//! Plans the fields of a batch from the options and the dataset. A field that cannot be loaded causes an error that
//! explains why.

mod align;
mod array_augmentation;
mod arrays;
mod classes;
mod crops;
mod examples;
mod mixing;
mod moves;
mod objects;
mod parts;
mod patches;
mod pictures;
mod views;
mod volumes;

pub use arrays::varying_arrays;

use crate::decode::is_in_parts;
use crate::fields::{Col, FieldPlan, FieldType, Fields, PictureField, RawField, RowSize};
use crate::options::{ClipLayout, CubeMode, FrameMode, ImageMode, LoaderOptions};
use crate::patches::PatchPlan;
use array_augmentation::array_augmentation;
use parts::{Description, several_shapes};
use shardpack_augment::BandAugmentation;
use shardpack_format::{Dtype, Field, FieldKind, Hint, Schema, Setting, Voice, to_usize};
use shardpack_jpeg::{Framing, Scaling};
use shardpack_reader::{Dataset, Error, Result};
use std::sync::Arc;

/// Number of parts from which several threads share a record. Smaller records are too little work to share.
const LARGE_PARTS: u64 = 4;
/// Maximum size, in parts, of a staged array that is kept in memory while another array of its record is read in
/// parts.
const KEPT_PARTS: u64 = 2;

impl Fields {
    pub(crate) fn plan(dataset: &Dataset, options: &LoaderOptions) -> Result<Self> {
        let schema = dataset.schema();
        arrays::check(options)?;
        check_view(schema, options)?;
        align::check(schema, options)?;
        crops::check(options)?;
        let scaling = options.output.scaling.unwrap_or(Scaling::UNIT);
        let objects = objects::plan(schema, options)?;
        let mut fields = Self {
            plans: Vec::new(),
            objects,
            dims: 0,
            layout: options.output.layout,
            scaling,
            changes: options.view.augment_pictures.clone().into(),
            moves: array_augmentation(schema, options),
            large_bytes: None,
            patches: None,
        };
        match &options.output.fields {
            None => {
                let batched = |kind| matches!(kind, FieldKind::Scalar | FieldKind::Image | FieldKind::Array);
                let is_tensor =
                    |field: &&Field| batched(field.kind) && !fields.objects.iter().any(|o| o.name == field.name);
                let tensors: Vec<&Field> = schema.fields().iter().filter(is_tensor).collect();
                for field in tensors {
                    fields.add(dataset, field, options)?;
                }
            }
            Some(names) => {
                for name in names.iter().filter(|name| !options.is_aligned_object(name)) {
                    let field = schema.fields().iter().find(|field| field.name == *name).ok_or_else(|| {
                        Error::usage(format!(
                            "there is no field `{}`: expected {}",
                            name.escape_debug(),
                            known_fields(schema)
                        ))
                    })?;
                    fields.add(dataset, field, options)?;
                }
            }
        }
        if !dataset.is_empty() {
            arrays::check_used(&fields.plans, options)?;
            views::check(&fields.plans, options)?;
            moves::check(&fields.plans, schema, options)?;
            pictures::check(&fields.plans, options)?;
            crops::check_planned(&fields, options)?;
            mixing::plan(&mut fields.plans, options)?;
            fields.check_floats(options)?;
            fields.check_frames(options)?;
        }
        let patches = match dataset.is_empty() {
            true => None,
            false => PatchPlan::new(dataset, &fields.plans, options)?,
        };
        if let Some(stage) = &options.resources.stage {
            let Self { plans, layout, scaling, changes, .. } = &mut fields;
            // A transform changes rows in host memory, so with a transform no field is staged.
            for plan in plans.iter_mut().filter(|_| options.output.transform.is_none()) {
                plan.staged = stage.takes(&plan.spec(*layout, *scaling, changes));
            }
        }
        if let Some(patches) = patches {
            let patches = match options.resources.stage {
                Some(_) => patches.staged(&mut fields.plans, options)?,
                None => patches,
            };
            // Records are not split, because one thread reads each scene whole.
            fields.patches = Some(Arc::new(patches));
            return Ok(fields);
        }
        let plans = &fields.plans;
        let part_bytes = options.resources.part_bytes as u64;
        let in_parts = match plans.iter().any(|plan| plan.staged) {
            false => plans.iter().any(|plan| is_in_parts(&plan.kind)),
            true => {
                let is_copied = |plan: &FieldPlan| plan.is_copied_from(part_bytes.saturating_mul(KEPT_PARTS));
                plans.iter().any(FieldPlan::is_shared) && !plans.iter().any(is_copied)
            }
        };
        if in_parts {
            fields.large_bytes = Some(part_bytes.saturating_mul(LARGE_PARTS));
        }
        Ok(fields)
    }

    fn add(&mut self, dataset: &Dataset, field: &Field, options: &LoaderOptions) -> Result<()> {
        let schema = dataset.schema();
        let position = schema.stored_position(&field.name).unwrap_or(0);
        let raw = || Description {
            kind: FieldType::Raw(RawField { position }),
            dtype: Dtype::U8.into(),
            shape: vec![0],
            size: RowSize::Stored,
        };
        let described = match field.kind {
            FieldKind::Scalar => {
                let column = Col::find(schema, &field.name)
                    .ok_or_else(|| Error::usage(format!("field `{}` is not a column in the index", field.name)))?;
                let bytes = to_usize(column.dtype.bytes());
                Description::dense(FieldType::Scalar(column), column.dtype.into(), Vec::new(), bytes)
            }
            FieldKind::Image if !options.view.crops.is_empty() => {
                return self.add_crops(schema, field, position, options);
            }
            FieldKind::Image => match options.view.image {
                ImageMode::Raw => raw(),
                ImageMode::View(view) => pictures::plan(schema, &field.name, position, view, options)?,
            },
            FieldKind::Array if options.aligned(&field.name).is_some() => {
                align::plan_mask(dataset, &field.name, position, options)?
            }
            FieldKind::Array => match options.view.cube {
                CubeMode::Raw => raw(),
                CubeMode::Volume { size, place } => {
                    match volumes::plan(dataset, &field.name, position, size.map(u64::from), place, options)? {
                        Some(described) => described,
                        None if options.output.fields.is_none() => return Ok(()),
                        None => return Err(several_shapes(&field.name)),
                    }
                }
                CubeMode::Whole | CubeMode::Patch { .. } => {
                    match arrays::plan(dataset, &field.name, position, options)? {
                        Some(described) => described,
                        // The field was not requested by name, so leaving it out is not an error.
                        None if options.output.fields.is_none() => return Ok(()),
                        None => return Err(several_shapes(&field.name)),
                    }
                }
            },
            _ => {
                let (name, kind) = (&field.name, field.kind);
                let text =
                    format!("field `{name}` is of kind `{kind}`, but batches contain only scalars, images and arrays");
                return Err(Error::usage(text).with_hint("read the field sample by sample"));
            }
        };
        self.push(field.name.clone(), described, options);
        Ok(())
    }

    fn push(&mut self, name: String, described: Description, options: &LoaderOptions) {
        let Description { kind, dtype, shape, size } = described;
        let is_banded = kind.is_banded();
        let mut plan = FieldPlan {
            name,
            dtype,
            kind,
            shape,
            size,
            dims_at: self.dims,
            staged: false,
            is_noisy: is_banded && options.view.augment_bands.iter().any(BandAugmentation::is_last),
        };
        if plan.is_ragged() {
            self.dims += plan.shape.len();
        } else {
            plan.dims_at = 0;
        }
        self.plans.push(plan);
    }

    fn check_floats(&self, options: &LoaderOptions) -> Result<()> {
        let is_float = |plan: &FieldPlan| matches!(plan.kind, FieldType::Picture(PictureField { floats: Some(_), .. }));
        if options.output.scaling.is_none() || self.plans.iter().any(is_float) {
            return Ok(());
        }
        let is_picture = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Picture(_));
        let is_cube = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Array(_) | FieldType::Volume(_));
        if let (None, Some(cube)) = (self.plans.iter().find(is_picture), self.plans.iter().find(is_cube)) {
            let name = cube.name.escape_debug();
            let hint = Hint::new("")
                .only(Voice::Python, format!("name the array field: mean={{\"{name}\": …}}, std={{\"{name}\": …}}"))
                .only(Voice::Rust, format!("set the mean and std of `{name}` in `normalise`"));
            return Err(Error::usage(format!(
                "mean and std without a field name apply to pictures, but `{name}` is an array"
            ))
            .with_hint(hint));
        }
        Err(Error::usage("mean and std need pictures that are loaded as floats, but none are")
            .with_hint("load the pictures as float16, bfloat16 or float32"))
    }

    fn check_frames(&self, options: &LoaderOptions) -> Result<()> {
        let is_clip = |plan: &FieldPlan| matches!(plan.kind, FieldType::Picture(PictureField { clip: Some(_), .. }));
        let what = match (options.view.frames, options.output.clip_layout) {
            _ if self.plans.iter().any(is_clip) => return Ok(()),
            (FrameMode::All, ClipLayout::TimeFirst) => return Ok(()),
            (FrameMode::All, ClipLayout::ChannelsFirst) => "clip layout",
            _ => "clip frames",
        };
        let hint = Hint::new("add a clip field to ")
            .and([Setting::named("fields")])
            .then("; if the dataset has none, pack folders of pictures with ")
            .and([Setting::on("clips")]);
        let error = Error::usage(format!("cannot set the {what}: no clip field is decoded"));
        Err(error.with_hint(hint))
    }
}

/// Lists the fields of a schema. The many columns that describe a picture or an array, such as
/// `cube.max_abs_error`, are only counted.
fn known_fields(schema: &Schema) -> String {
    let is_stored = |name: &str| schema.fields().iter().any(|field| field.name == name && is_described(field.kind));
    let is_figure = |field: &Field| field.name.rsplit_once('.').is_some_and(|(of, _)| is_stored(of));
    let (figures, others) = schema.user_fields().partition::<Vec<&Field>, _>(|field| is_figure(field));
    let names: Vec<&str> = others.iter().map(|field| field.name.as_str()).collect();
    let names = names.join(", ");
    match figures.as_slice() {
        [] => format!("one of [{names}]"),
        [figure] => format!("one of [{names}, {}]", figure.name),
        [first, ..] => format!("one of [{names}], or one of {} columns such as {}", figures.len(), first.name),
    }
}

const fn is_described(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::Image | FieldKind::Array)
}

/// Fails if a view with a size is requested but the dataset has no pictures, because its arrays would be
/// loaded whole anyway. (16-bit pictures are stored as arrays.)
fn check_view(schema: &Schema, options: &LoaderOptions) -> Result<()> {
    let has_size = matches!(options.view.image, ImageMode::View(view) if view.framing != Framing::Whole);
    if !has_size || schema.fields().iter().any(|field| field.kind == FieldKind::Image) {
        return Ok(());
    }
    let hint = Hint::new("to cut patches from arrays, use ").and([Setting::word("cube", "patch224x224")]);
    Err(Error::usage("a picture view needs pictures, but the dataset has none").with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_field_are_counted() {
        let known = |scalars: &[&str]| {
            let scalars = scalars.iter().map(|name| Field::scalar(*name, Dtype::F64));
            let fields = [Field::stored("cube", FieldKind::Array), Field::stored("meta", FieldKind::Json)];
            known_fields(&Schema::new(fields.into_iter().chain(scalars).collect()).unwrap())
        };
        assert_eq!(known(&["label"]), "one of [cube, meta, label]");
        assert_eq!(known(&["label", "cube.nan"]), "one of [cube, meta, label, cube.nan]");
        let expected = "one of [cube, meta, label, meta.n, sun.angle], or one of 2 columns such as cube.values";
        assert_eq!(known(&["label", "cube.values", "cube.nan", "meta.n", "sun.angle"]), expected);
    }
}
