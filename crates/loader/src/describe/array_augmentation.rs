//! Finds the augmentation that moves arrays.

use crate::options::{ImageMode, LoaderOptions};
use shardpack_augment::Augmentation;
use shardpack_format::{FieldKind, Schema};

/// Returns the only picture augmentation in the options, if it can move arrays and no picture is decoded.
pub(super) fn array_augmentation(schema: &Schema, options: &LoaderOptions) -> Option<Augmentation> {
    let is_loaded = |name: &String| options.output.fields.as_ref().is_none_or(|fields| fields.contains(name));
    let is_decoded = matches!(options.view.image, ImageMode::View(_));
    let has_pictures =
        is_decoded && schema.fields().iter().any(|field| field.kind == FieldKind::Image && is_loaded(&field.name));
    match &*options.view.augment_pictures {
        [one] if !has_pictures => one.outside().map(|_| *one),
        _ => None,
    }
}
