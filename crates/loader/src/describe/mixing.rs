//! Checks the options for Mixup and CutMix, and turns the planned label field into weights of
//! classes.

use crate::fields::{FieldPlan, FieldType, OneHotField, PictureField, RowSize};
use crate::options::LoaderOptions;
use shardpack_augment::Mix;
use shardpack_format::{Dtype, ElementType, Hint, Setting};
use shardpack_reader::{Error, Result};

const LABEL: &str = "label";

pub(crate) fn plan(plans: &mut [FieldPlan], options: &LoaderOptions) -> Result<()> {
    let Some(mix) = &options.output.mix else { return Ok(()) };
    mix.choices.iter().try_for_each(Mix::check)?;
    let refuse = |reason: &str| Err(Error::usage(format!("mixed batches: {reason}")));
    let leave_out = |error: Error| error.with_hint("leave the field out");
    if mix.choices.is_empty() || mix.classes == 0 {
        let found = format!("{} and {}", mix.choices.len(), mix.classes);
        return refuse(&format!("expected at least one mix and one class, found {found}"));
    }
    let is_dense = |plan: &FieldPlan| matches!(plan.size, RowSize::Dense { .. });
    if let Some((name, _)) = options.view.align.first() {
        let reason = format!("field `{}` follows one picture and cannot follow a mix of two", name.escape_debug());
        return refuse(&reason).map_err(leave_out);
    }
    if !plans.iter().any(|plan| matches!(plan.kind, FieldType::Picture(_) | FieldType::Raw(_))) {
        let hint = Hint::new("load the picture field too (").and([Setting::named("fields")]).then(")");
        return refuse("no picture field is loaded").map_err(|error| error.with_hint(hint));
    }
    if !plans
        .iter()
        .any(|plan| matches!(plan.kind, FieldType::Picture(PictureField { clip: None, .. })) && is_dense(plan))
    {
        return refuse("expected decoded pictures with one fixed size")
            .map_err(|error| error.with_hint("choose a view such as `rrc224`"));
    }
    let is_other = |plan: &&FieldPlan| {
        let is_picture = matches!(plan.kind, FieldType::Picture(PictureField { clip: None, .. }));
        let is_number = matches!(plan.kind, FieldType::Scalar(_) | FieldType::OneHot(_));
        !(is_picture || is_number) || !is_dense(plan)
    };
    if let Some(other) = plans.iter().find(is_other) {
        let name = other.name.escape_debug();
        return refuse(&format!("field `{name}` is neither a fixed-size picture nor a scalar")).map_err(leave_out);
    }
    for plan in plans {
        let FieldType::Scalar(column) = plan.kind else { continue };
        let is_integer = matches!(plan.dtype, ElementType::Dtype(dtype) if !dtype.is_float());
        if plan.name != LABEL || !is_integer {
            continue;
        }
        plan.kind = FieldType::OneHot(OneHotField { column, classes: mix.classes });
        plan.dtype = Dtype::F32.into();
        plan.shape = vec![mix.classes.into()];
        plan.size = RowSize::Dense { bytes: mix.classes as usize * 4 };
        return Ok(());
    }
    refuse("no integer field `label` is loaded")
}
