//! Rejects views that look right but are wrong: they would cut a sample's picture and array at different positions,
//! or mix the classes of a mask by resizing it.

use crate::fields::{ArrayField, FieldPlan, FieldType, PictureField, RowSize};
use crate::options::LoaderOptions;
use shardpack_format::{Hint, Setting, Voice};
use shardpack_jpeg::{Framing, PixelLayout};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};

/// Fails if the view shows a different part of the sample than an array does.
///
/// # Errors
/// `Usage` in these cases:
///
/// - A view with a size is combined with a patch of an array.
/// - A view with a size is combined with a mask, or with an array of the picture's size, that happens to be
///   as large as the view.
/// - Whole pictures are mirrored while masks or arrays of the picture's size are loaded.
/// - Whole pictures are loaded, in a dataset without a cube, together with patches or rotations of such arrays.
/// - A view with a size is requested for a mask.
pub(crate) fn check(plans: &[FieldPlan], options: &LoaderOptions) -> Result<()> {
    let turned = !options.view.augment.is_none();
    // In a dataset with cubes, a mask belongs to its cube. The picture is only a preview of the whole cube.
    let is_cube = |plan: &FieldPlan| {
        matches!(plan.kind, FieldType::Array(_) | FieldType::Volume(_)) && plan.shape.len() > 2 && !is_mask(&plan.name)
    };
    let has_cube = plans.iter().any(is_cube);
    let viewed = plans.iter().filter_map(|plan| match &plan.kind {
        FieldType::Picture(PictureField { view, .. }) => Some((plan.name.as_str(), *view)),
        _ => None,
    });
    for (picture, view) in viewed {
        let size = view.size().map(|(height, width)| [u64::from(height), u64::from(width)]);
        let is_whole = view.framing == Framing::Whole;
        if !is_whole && is_mask(picture) {
            return Err(Error::usage(format!(
                "field `{}` is a mask stored as a picture: scaling it would mix its classes",
                picture.escape_debug()
            ))
            .with_hint(
                "load the mask unscaled (`full` or `raw`), leave it out of the fields, or pack masks as arrays",
            ));
        }
        let is_elsewhere = |plan: &&FieldPlan| match size {
            Some(size) => is_cut_elsewhere(plan, size, options.output.layout),
            None => is_of_a_picture(plan) && (!is_whole || view.flip > 0.0 || !has_cube && (is_cut(plan) || turned)),
        };
        let Some(array) = plans.iter().find(is_elsewhere) else { continue };
        let follow = match size {
            None if is_whole && turned => "align the array with the picture (`align`) and mirror both in the view, ",
            _ => "align the array with the picture (`align`), ",
        };
        let hint = Hint::new("")
            .only(Voice::Python, follow)
            .only(Voice::Rust, follow)
            .then("load only one of the two with ")
            .and([Setting::named("fields")])
            .then(", or load both whole");
        let (picture, name) = (picture.escape_debug(), array.name.escape_debug());
        let reason = match size {
            None if is_whole && is_cut(array) => {
                format!("picture `{picture}` is whole, but patches are cut from `{name}`")
            }
            None if is_whole && turned => format!("picture `{picture}` is whole, but `{name}` is flipped or rotated"),
            _ => format!("picture `{picture}` is cut, scaled or mirrored, but `{name}` is not"),
        };
        return Err(
            Error::usage(format!("the pixels of pictures and arrays would not match: {reason}")).with_hint(hint)
        );
    }
    Ok(())
}

fn is_cut(plan: &FieldPlan) -> bool {
    plan.kind.is_patch()
}

/// Returns true if the user could mistake an array for the part of the picture that a view of `size` shows.
fn is_cut_elsewhere(plan: &FieldPlan, size: [u64; 2], layout: PixelLayout) -> bool {
    if is_cut(plan) {
        return true;
    }
    let FieldType::Array(ArrayField { indexed, .. }) = &plan.kind else { return false };
    // A mask or a whole array of the picture's size can be mistaken for the visible part only if it is as large as the
    // view.
    let sides = match (&*plan.shape, layout) {
        (&[_, height, width], PixelLayout::ChannelsHeightWidth) => [height, width],
        (&[height, width] | &[height, width, _], _) => [height, width],
        _ => return false,
    };
    (*indexed || is_mask(&plan.name)) && matches!(plan.size, RowSize::Dense { .. }) && sides == size
}

/// Returns true if a user could expect the array to match the whole picture pixel by pixel.
fn is_of_a_picture(plan: &FieldPlan) -> bool {
    match plan.kind {
        FieldType::Array(ArrayField { indexed, .. }) => indexed || is_mask(&plan.name),
        FieldType::Volume(_) => is_mask(&plan.name),
        FieldType::Scalar(_)
        | FieldType::OneHot(_)
        | FieldType::Picture(_)
        | FieldType::Mask(_)
        | FieldType::Raw(_) => false,
    }
}
