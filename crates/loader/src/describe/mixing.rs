//! Checks the options for Mixup and CutMix, and turns the planned label field into weights of
//! classes.

use crate::fields::{FieldPlan, FieldType, OneHotField, PictureField, RowSize};
use crate::options::{BatchMix, LoaderOptions};
use shardpack_augment::Mix;
use shardpack_format::{Dtype, ElementType, Hint, Setting, Voice};
use shardpack_reader::{Error, Result};

const LABEL: &str = "label";

pub(crate) fn plan(plans: &mut [FieldPlan], options: &LoaderOptions) -> Result<()> {
    let Some(mix) = &options.output.mix else { return Ok(()) };
    mix.choices.iter().try_for_each(Mix::check)?;
    let refuse = |reason: &str| Err(Error::usage(reason));
    let leave_out = |error: Error| error.with_hint("leave the field out");
    if mix.choices.is_empty() {
        return refuse("mixing a batch needs at least one of mixup, cutmix and mosaic");
    }
    if !plans.iter().any(|plan| matches!(plan.kind, FieldType::Picture(_) | FieldType::Raw(_))) {
        let hint = Hint::new("add a picture field to ").and([Setting::named("fields")]);
        return refuse("mixing a batch needs a picture field, but none is loaded")
            .map_err(|error| error.with_hint(hint));
    }
    let is_dense = |plan: &FieldPlan| matches!(plan.size, RowSize::Dense { .. });
    if !plans
        .iter()
        .any(|plan| matches!(plan.kind, FieldType::Picture(PictureField { clip: None, .. })) && is_dense(plan))
    {
        return refuse("mixing a batch needs decoded pictures of a fixed size")
            .map_err(|error| error.with_hint("choose a view such as `rrc224`"));
    }
    let is_mixed = |plan: &FieldPlan| match plan.kind {
        FieldType::Picture(PictureField { clip, .. }) => clip.is_none(),
        FieldType::Scalar(_) | FieldType::OneHot(_) | FieldType::Mask(_) => true,
        FieldType::Array(_) | FieldType::Volume(_) | FieldType::Raw(_) => false,
    };
    if let Some(other) = plans.iter().find(|plan| !is_mixed(plan) || !is_dense(plan)) {
        let name = other.name.escape_debug();
        let reason =
            format!("field `{name}` cannot be mixed: only fixed-size pictures, their aligned masks and scalars can be");
        return refuse(&reason).map_err(leave_out);
    }
    let mask = plans.iter().find(|plan| matches!(plan.kind, FieldType::Mask(_)));
    if let Some(mask) = mask.filter(|_| mix.choices.iter().any(|mix| matches!(mix, Mix::Mixup { .. }))) {
        let name = mask.name.escape_debug();
        let reason = format!("mixup cannot blend the classes of the mask `{name}`");
        return refuse(&reason).map_err(|error| error.with_hint("use cutmix or mosaic, or leave the field out"));
    }
    plan_label(plans, mix, !options.view.align.is_empty())
}

/// Converts integer labels to class weights, unless all batches are mosaics. Batches with fields that follow their
/// picture need no labels.
fn plan_label(plans: &mut [FieldPlan], mix: &BatchMix, is_aligned: bool) -> Result<()> {
    let refuse = |reason: &str| Err(Error::usage(reason));
    let mosaics = mix.choices.iter().filter(|mix| matches!(mix, Mix::Mosaic(_))).count();
    if mosaics == mix.choices.len() {
        return Ok(());
    }
    for plan in plans {
        let FieldType::Scalar(column) = plan.kind else { continue };
        let is_integer = matches!(plan.dtype, ElementType::Dtype(dtype) if !dtype.is_float());
        if plan.name != LABEL || !is_integer {
            continue;
        }
        if mosaics > 0 {
            return refuse("a mosaic shows four pictures, which have no common `label`")
                .map_err(|error| error.with_hint("leave the field out, or use only mixup and cutmix"));
        }
        if mix.classes == 0 {
            let hint = Hint::new("")
                .only(Voice::Python, "pass the number of classes as `num_classes`")
                .only(Voice::Rust, "set the number of `classes` in `BatchMix`");
            return refuse("cannot mix the field `label`: the number of classes is 0")
                .map_err(|error| error.with_hint(hint));
        }
        plan.kind = FieldType::OneHot(OneHotField { column, classes: mix.classes });
        plan.dtype = Dtype::F32.into();
        plan.shape = vec![mix.classes.into()];
        plan.size = RowSize::Dense { bytes: mix.classes as usize * 4 };
        return Ok(());
    }
    if is_aligned { Ok(()) } else { refuse("mixing a batch needs an integer field `label`, but none is loaded") }
}
