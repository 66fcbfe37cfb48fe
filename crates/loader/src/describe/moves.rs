//! Plans random affine maps of arrays: which arrays move, and how their pixels are resampled.

use super::array_augmentation::array_augmentation;
use super::examples::Examples;
use crate::fields::{FieldPlan, FieldType};
use crate::options::LoaderOptions;
use shardpack_array::{Resampling, element_bytes};
use shardpack_augment::{Augmentation, Outside};
use shardpack_format::{ElementType, Hint, Schema, Voice};
use shardpack_reader::{Error, Result};

/// Returns how the pixels of a field are resampled, or `None` if the field does not move.
pub(crate) fn sampling(
    schema: &Schema,
    field: &str,
    element: ElementType,
    examples: &Examples,
    options: &LoaderOptions,
) -> Result<Option<Resampling>> {
    let Some(Outside { fill, mask_fill }) = array_augmentation(schema, options).and_then(|moves| moves.outside())
    else {
        return Ok(None);
    };
    if !(2..=3).contains(&examples.axes(field, options)) {
        return Ok(None);
    }
    if examples.are_mixed(schema, field, options) {
        return Ok(Some(Resampling::Bilinear { outside: fill }));
    }
    self::mask_fill(field, element, mask_fill)?;
    Ok(Some(Resampling::Nearest { outside: mask_fill }))
}

/// Returns the element for pixels from outside a mask.
pub(super) fn mask_fill(field: &str, element: ElementType, value: f64) -> Result<Vec<u8>> {
    element_bytes(element, value).ok_or_else(|| {
        let field = field.escape_debug();
        let hint = Hint::new("set another fill value, such as ")
            .only(Voice::Python, "sp.augment.random_affine(…, mask_fill=0)")
            .only(Voice::Rust, "`random_affine(degrees=10,mask_fill=0)`")
            .only(Voice::Command, "`random_affine(degrees=10,mask_fill=0)`");
        Error::usage(format!("field `{field}`: {element} cannot represent `mask_fill` {value}")).with_hint(hint)
    })
}

/// Fails if there are augmentations that apply to no array.
pub(crate) fn check(plans: &[FieldPlan], schema: &Schema, options: &LoaderOptions) -> Result<()> {
    let changes = &options.view.augment_pictures;
    if changes.is_empty() {
        return Ok(());
    }
    if let Some(moves) = array_augmentation(schema, options) {
        moves.check()?;
        let is_moved = |plan: &FieldPlan| plan.kind.sampling().is_some();
        let is_other = |plan: &&FieldPlan| is_moved(plan) && !matches!(plan.kind, FieldType::Volume(_));
        if let (Some(_), Some(other)) = (moves.of_volumes(), plans.iter().find(is_other)) {
            let name = other.name.escape_debug();
            return Err(Error::usage(format!(
                "`random_affine_3d` applies only to volumes, but field `{name}` is not one"
            ))
            .with_hint("load volumes with `patchDxHxW`, or choose `random_affine` for arrays of two or three axes"));
        }
        return match (plans.iter().any(is_moved), moves.of_volumes()) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(Error::usage("`random_affine_3d` needs a volume, but none is loaded")
                .with_hint("load volumes with `patchDxHxW`")),
            (false, None) => Err(Error::usage(
                "`random_affine` and `random_rotation` need a decoded picture, or an array with two or three axes, \
                 but none is loaded",
            )),
        };
    }
    let is_picture = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Picture(_));
    if plans.iter().any(|plan| is_picture(&plan)) {
        if changes.iter().any(|change| change.of_volumes().is_some()) {
            return Err(Error::usage("`random_affine_3d` applies only to volumes, but pictures are loaded")
                .with_hint("choose `random_affine` for pictures"));
        }
        // If pictures are loaded, only masks that follow them use `mask_fill`, and nothing uses
        // `fill`.
        let has_masks = plans.iter().any(|plan| matches!(plan.kind, FieldType::Mask(_)));
        let unused = |outside: Outside| {
            let Outside { fill, mask_fill } = Outside::default();
            outside.fill != fill || !has_masks && outside.mask_fill != mask_fill
        };
        let has_unused = |change: &Augmentation| change.outside().is_some_and(unused);
        return match (changes.iter().any(has_unused), has_masks) {
            (true, false) => Err(Error::usage("`fill` and `mask_fill` apply only to arrays, but pictures are loaded")
                .with_hint("leave out `fill` and `mask_fill`")),
            (true, true) => {
                Err(Error::usage("`fill` applies only to arrays, but pictures are loaded")
                    .with_hint("leave out `fill`"))
            }
            (false, _) => Ok(()),
        };
    }
    let error = Error::usage("picture augmentation needs a field with decoded pictures, but none is loaded");
    Err(match changes.iter().any(|change| change.outside().is_some()) {
        true => error.with_hint(
            "to move the pixels of arrays, pass a single `random_affine`, `random_affine_3d` or `random_rotation` \
             without other picture augmentations",
        ),
        false => error,
    })
}
