//! Plans the crops of a picture. Each crop is a separate field.

use super::pictures;
use crate::fields::{Col, CropField, FieldType, Fields};
use crate::options::{ImageMode, LoaderOptions, PictureCrop};
use shardpack_augment::Augmentation;
use shardpack_format::{Field, Hint, Schema, Setting, bug};
use shardpack_jpeg::{Framing, View};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

fn refuse<T>(reason: String, hint: impl Into<Hint>) -> Result<T> {
    Err(Error::usage(format!("crops: {reason}")).with_hint(hint.into()))
}

impl Fields {
    pub(super) fn add_crops(
        &mut self,
        schema: &Schema,
        field: &Field,
        position: usize,
        options: &LoaderOptions,
    ) -> Result<()> {
        let of_field = field.name.escape_debug();
        if is_mask(&field.name) {
            let hint = Hint::new("leave the mask out of ").and([Setting::named("fields")]);
            return refuse(
                format!("`{of_field}` is a mask, and its crops would not match the crops of the picture"),
                hint,
            );
        }
        let (first, crops) = (self.plans.len(), &options.view.crops);
        let of: Arc<str> = field.name.as_str().into();
        let views: Arc<[View]> = crops.iter().map(|crop| crop.view).collect();
        let size = Col::find(schema, "height").zip(Col::find(schema, "width")).map(|(height, width)| [height, width]);
        for (number, crop) in (0..).zip(crops) {
            let name = crop.name.clone().unwrap_or_else(|| format!("{}_{number}", field.name));
            let is_taken = self.plans.iter().any(|plan| plan.name == name)
                || self.objects.iter().any(|object| object.name == name)
                || schema.fields().iter().any(|other| other.name == name && other.name != field.name);
            if is_taken {
                let reason = format!("two fields have the name `{}`", name.escape_debug());
                return refuse(reason, "give each crop a different name");
            }
            let mut described = pictures::plan(schema, &field.name, position, crop.view, options)?;
            let FieldType::Picture(picture) = &mut described.kind else { bug("a picture has another type") };
            let changes = augmentations(crop, options).into();
            let (of, views) = (Arc::clone(&of), Arc::clone(&views));
            picture.crop = Some(CropField { picture: of, number, first, views, size, changes });
            self.push(name, described, options);
        }
        Ok(())
    }
}

fn augmentations(crop: &PictureCrop, options: &LoaderOptions) -> Vec<Augmentation> {
    options.view.augment_pictures.iter().chain(&crop.augment).copied().collect()
}

/// Fails if other options contradict the crops.
pub(super) fn check(options: &LoaderOptions) -> Result<()> {
    if options.view.crops.is_empty() {
        return Ok(());
    }
    if options.view.image != ImageMode::View(View::whole()) {
        let hint = Hint::new("leave ").and([Setting::named("image")]).then(" out");
        return refuse("each crop has its own view, so there cannot be a view for all pictures".into(), hint);
    }
    if options.view.crops.iter().any(|crop| matches!(crop.view.framing, Framing::IouCrop { .. })) {
        let reason = "a view that depends on boxes needs aligned boxes, which cannot follow several crops".to_owned();
        return refuse(reason, "load the picture with a separate loader that has no crops");
    }
    if let Some((name, _)) = options.view.align.first() {
        let reason =
            format!("field `{}` is aligned with one picture and cannot follow several crops", name.escape_debug());
        return refuse(reason, "load the field with a separate loader that has no crops");
    }
    Ok(())
}

/// Fails if there are crops but no picture, or if a crop's augmentations fail [`pictures::check`].
pub(super) fn check_planned(fields: &Fields, options: &LoaderOptions) -> Result<()> {
    if !options.view.crops.is_empty() && !fields.plans.iter().any(|plan| matches!(plan.kind, FieldType::Picture(_))) {
        let hint = Hint::new("add a picture field to ").and([Setting::named("fields")]);
        return Err(Error::usage("crops need a picture field, but none is loaded").with_hint(hint));
    }
    options.view.crops.iter().filter(|crop| !crop.augment.is_empty()).try_for_each(|crop| {
        let mut of_crop = options.clone();
        of_crop.view.augment_pictures = augmentations(crop, options);
        pictures::check(&fields.plans, &of_crop)
    })
}
