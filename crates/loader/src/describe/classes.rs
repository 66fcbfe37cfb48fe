//! Plans patches at positions where the mask has a requested class.

use crate::fields::{ArrayField, FieldPlan, FieldType};
use crate::options::{CubeMode, LoaderOptions};
use crate::patches::{ClassPlan, PatchClasses, Patches};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};
use std::collections::BTreeMap;

impl ClassPlan {
    /// Plans the classes requested for these fields. Returns `None` if patches may lie anywhere.
    pub(crate) fn new(plans: &[FieldPlan], options: &LoaderOptions) -> Result<Option<Self>> {
        let weights = match &options.view.patch_classes {
            PatchClasses::Any => return Ok(None),
            PatchClasses::Balanced => None,
            PatchClasses::Weighted(weights) => Some(weights.iter().copied().collect::<BTreeMap<_, _>>()),
        };
        if let Some(weights) = &weights {
            if let Some((class, weight)) = weights.iter().find(|(_, weight)| !(weight.is_finite() && **weight >= 0.0)) {
                return Err(Error::usage(format!(
                    "the weight of class {class} must be finite and not negative, but is {weight}"
                )));
            }
            if weights.values().all(|weight| *weight == 0.0) {
                return Err(Error::usage("drawing patches by class needs at least one class with a weight above 0"));
            }
        }
        let patch = match (options.view.cube, options.view.patches) {
            (CubeMode::Patch { height, width, .. }, Patches::PerSample(_)) => [1, height, width],
            (CubeMode::Volume { size, .. }, Patches::PerSample(_)) => size,
            _ => {
                return Err(Error::usage(
                    "drawing patches by class needs a number of patches per sample and a patch size such as \
                     `patch64x64` or `patch16x64x64`",
                ));
            }
        };
        let is_followed = |plan: &&FieldPlan| {
            let axes = match &plan.kind {
                FieldType::Array(ArrayField { cut: Some(cut), .. }) if cut.place.is_some() => 2,
                FieldType::Volume(_) => 3,
                _ => return false,
            };
            plan.shape.len() == axes && is_mask(&plan.name)
        };
        let Some((plan, position)) =
            plans.iter().find(is_followed).and_then(|plan| Some((plan, plan.kind.position()?)))
        else {
            let error = Error::usage("drawing patches by class needs an integer mask, but none is loaded");
            return Err(error.with_hint(
                "load a mask too, for example a field `mask` with the shape [height, width] or [depth, height, width]",
            ));
        };
        Ok(Some(Self { position, field: plan.name.clone(), patch: patch.map(u64::from), weights }))
    }
}
