//! Plans the pictures and clips of a batch.

use super::align;
use super::parts::{Description, axes, no_sides, sides};
use crate::fields::{ArrayField, Axis, ClipField, Col, FieldPlan, FieldType, PictureField};
use crate::options::{Clip, LoaderOptions};
use shardpack_augment::Augmentation;
use shardpack_format::{Dtype, ElementType, FieldKind, Schema, to_usize};
use shardpack_jpeg::{FloatTable, Scaling, View};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};

pub(crate) fn plan(
    schema: &Schema,
    name: &str,
    position: usize,
    view: View,
    options: &LoaderOptions,
) -> Result<Description> {
    view.check()?;
    // If `dtype` names picture fields, scale only these. Otherwise scale all pictures.
    let is_named = |name: &str| options.output.dtype.of(name, 3).is_some();
    let mut pictures = schema.fields().iter().filter(|field| field.kind == FieldKind::Image);
    let is_scaled =
        options.output.scaling.is_some() && (is_named(name) || !pictures.any(|field| is_named(&field.name)));
    let dtype = options.output.dtype.of_pictures(name, is_scaled);
    let floats = match dtype {
        ElementType::Dtype(Dtype::U8) => None,
        _ => Some(Box::new(FloatTable::new(options.output.scaling.unwrap_or(Scaling::UNIT), dtype)?)),
    };
    let layout = options.output.layout;
    let clip = Clip { frames: options.view.frames, layout: options.output.clip_layout };
    let clip = frames_column(schema, name).map(|count| ClipField { clip, count });
    let boxes = align::boxes_of(options, schema, name, view)?;
    if boxes.is_some() && clip.is_some() {
        let reason = "only single pictures can be cropped around boxes, but the field contains clips";
        return Err(Error::usage(format!("field `{}`: {reason}", name.escape_debug())));
    }
    let kind = FieldType::Picture(PictureField {
        position,
        view,
        orientation: Col::find(schema, "orientation"),
        boxes,
        floats,
        clip,
        crop: None,
    });
    let fixed = |axis: &Axis| if let Axis::Fixed(length) = axis { Some(*length) } else { None };
    let [height, width] = sides(schema, view).ok_or_else(no_sides)?;
    let channels = Axis::Fixed(3);
    let axes = match clip {
        None => axes(layout, height, width, channels).to_vec(),
        Some(ClipField { clip: Clip { frames, layout: order }, count }) => {
            let time = frames.count().map_or(Axis::Column(count), |count| Axis::Fixed(count.into()));
            order.axes(time, axes(order.of_frames(layout), height, width, channels)).to_vec()
        }
    };
    let Some(shape) = axes.iter().map(fixed).collect::<Option<Vec<u64>>>() else {
        return Ok(Description::ragged(kind, dtype, axes));
    };
    let bytes = to_usize(dtype.array_bytes(&shape)?);
    Ok(Description::dense(kind, dtype, shape, bytes))
}

fn frames_column(schema: &Schema, field: &str) -> Option<Col> {
    Col::find(schema, &format!("{field}.frames"))
}

/// Fails if picture augmentations would have no effect or would make training wrong.
pub(crate) fn check(plans: &[FieldPlan], options: &LoaderOptions) -> Result<()> {
    let changes = &options.view.augment_pictures;
    if changes.is_empty() {
        return Ok(());
    }
    changes.iter().try_for_each(Augmentation::check)?;
    if changes.len() > Augmentation::MOST as usize {
        let (most, found) = (Augmentation::MOST, changes.len());
        return Err(Error::usage(format!("at most {most} picture augmentations are supported, not {found}")));
    }
    let refuse = |reason: String| Err(Error::usage(reason));
    let is_picture = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Picture(_));
    // Without pictures, the augmentations apply to arrays.
    let Some(first) = plans.iter().find(is_picture) else { return Ok(()) };
    if let Some(mask) = plans.iter().filter(is_picture).find(|plan| is_mask(&plan.name)) {
        return refuse(format!("picture augmentation would change the classes in mask `{}`", mask.name.escape_debug()))
            .map_err(|error| error.with_hint("leave the mask out of the fields, or pack masks as arrays"));
    }
    let fits = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Array(ArrayField { indexed, .. }) if indexed || is_mask(&plan.name));
    if let (Some(_), Some(array)) = (changes.iter().find(|change| change.moves()), plans.iter().find(fits)) {
        let (picture, array) = (first.name.escape_debug(), array.name.escape_debug());
        let reason = format!(
            "picture augmentation would move `{picture}` but not `{array}`, so their pixels would no longer match"
        );
        return refuse(reason).map_err(|error| {
            error.with_hint("leave one of the two out of the fields, or choose augmentations that change only colours")
        });
    }
    Ok(())
}
