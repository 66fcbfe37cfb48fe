//! Refuses views that look right and are not: a picture and an array of one sample cut at different
//! places, and masks between whose classes a resize would make up others.

use super::fields::{FieldPlan, From, Size};
use shardpack_jpeg::PixelLayout;
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};

/// A view of a picture that has a size of its own cuts and scales it; nothing cuts an array of the
/// sample in the same way.
///
/// # Errors
/// `Usage` if such a view stands beside a patch of an array, or beside a mask or an array of the
/// picture's size that happens to have the size of the view; or if it is asked of a mask.
pub(super) fn check(plans: &[FieldPlan], layout: PixelLayout) -> Result<()> {
    let viewed = plans.iter().filter_map(|plan| match &plan.from {
        From::Picture { view, .. } => Some((plan.name.as_str(), view.size()?)),
        _ => None,
    });
    for (picture, (height, width)) in viewed {
        if is_mask(picture) {
            return Err(Error::usage(
                format!("field `{}`", picture.escape_debug()),
                "a mask that is stored as an array",
                "one that is stored as a picture, which a view scales: classes would become others\n\
                 hint: load it as it is (`full` or `raw`), leave it out of the fields, or pack masks as arrays",
            ));
        }
        let size = [u64::from(height), u64::from(width)];
        let Some(array) = plans.iter().find(|plan| is_cut_elsewhere(plan, size, layout)) else { continue };
        return Err(Error::usage(
            "views",
            "pictures and arrays cut at the same place",
            format!(
                "a view of `{}`, which is cut and scaled, beside `{}`, which is not cut there\n\
                 hint: load one of the two (`fields`), or whole pictures beside whole arrays",
                picture.escape_debug(),
                array.name.escape_debug()
            ),
        ));
    }
    Ok(())
}

/// Whether an array would be taken for what a view of `size` shows of the sample.
fn is_cut_elsewhere(plan: &FieldPlan, size: [u64; 2], layout: PixelLayout) -> bool {
    let From::Array { cut, indexed, .. } = &plan.from else { return false };
    if cut.as_ref().is_some_and(|cut| cut.place.is_some()) {
        return true;
    }
    // A whole array that has the size of its picture, or is a mask, is taken for what the view
    // shows only if it has the view's size.
    let sides = match (&*plan.shape, layout) {
        (&[_, height, width], PixelLayout::ChannelsHeightWidth) => [height, width],
        (&[height, width] | &[height, width, _], _) => [height, width],
        _ => return false,
    };
    (*indexed || is_mask(&plan.name)) && matches!(plan.size, Size::Dense { .. }) && sides == size
}
