//! Reads a row's values that are not tensors from the same record as its tensors.

use super::fields::instances;
use super::points::moved;
use super::polygons;
use super::record::ViewedRecord;
use super::shape::{RemainingRows, Shape, rows_of};
use crate::fields::{Followed, Follows, Object, ObjectPlan};
use crate::options::Align;
use shardpack_array::{ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, Error as FormatError, FieldKind, FieldValue, Limits, bug};
use shardpack_reader::Result;
use shardpack_reader::raw::name_field;

pub(crate) fn of_sample(
    plans: &[ObjectPlan],
    record: &mut ViewedRecord<'_>,
    limits: &Limits,
) -> Result<Vec<Option<Object>>, FormatError> {
    let mut objects: Vec<Option<Object>> = Vec::with_capacity(plans.len());
    for plan in plans {
        let named = |error| name_field(&plan.name, error);
        let value = record.record.value(plan.position).map_err(named)?;
        let object = value.map(|value| decoded(plan.kind, &value, record.arrays, limits));
        objects.push(object.transpose().map_err(named)?);
    }
    align(plans, &mut objects, limits, |picture| record.shape(picture))?;
    Ok(objects)
}

/// Aligns a sample's objects with their pictures. `shape` returns the shape of a picture, or `None` if the sample
/// lacks that picture.
///
/// # Errors
/// The error of a value that contradicts its declaration, with the name of its field.
pub(crate) fn align(
    plans: &[ObjectPlan],
    objects: &mut [Option<Object>],
    limits: &Limits,
    mut shape_of: impl FnMut(&Followed) -> Result<Option<Shape>, FormatError>,
) -> Result<(), FormatError> {
    let mut kept: Vec<Option<RemainingRows>> = vec![None; plans.len()];
    // Align boxes first, because other fields keep only the rows of the boxes that remain.
    for of_boxes in [true, false] {
        for (number, plan) in plans.iter().enumerate() {
            let named = |error| plan.named(plans, error);
            let Some(Some(object)) = objects.get(number) else { continue };
            let of = |boxes: Option<usize>| boxes.and_then(|boxes| kept.get(boxes)?.as_ref());
            let followed = match &plan.follows {
                Follows::Picture { align, picture, boxes } if matches!(align, Align::Boxes { .. }) == of_boxes => {
                    let shape = if boxes.is_some() && of(*boxes).is_none() {
                        None
                    } else {
                        shape_of(picture).map_err(named)?
                    };
                    let follow = |shape| follow(align, object, &shape, of(*boxes), limits);
                    shape.map(follow).transpose().map_err(named)?
                }
                Follows::Boxes(boxes) if !of_boxes => {
                    let Object::Array(array) = object else { continue };
                    let rows = of(Some(*boxes)).map(|kept| Ok((Object::Array(rows_of(array, kept)?), None)));
                    rows.transpose().map_err(named)?
                }
                _ => continue,
            };
            let (followed, rows) = followed.map_or((None, None), |(object, rows)| (Some(object), rows));
            if let (Some(object), Some(kept)) = (objects.get_mut(number), kept.get_mut(number)) {
                (*object, *kept) = (followed, rows);
            }
        }
    }
    Ok(())
}

fn follow(
    align: &Align,
    object: &Object,
    shape: &Shape,
    kept: Option<&RemainingRows>,
    limits: &Limits,
) -> Result<(Object, Option<RemainingRows>), FormatError> {
    match (align, object) {
        (Align::Instances { .. }, Object::Array(array)) => {
            Ok((Object::Array(instances(array, shape, kept, limits)?), None))
        }
        (Align::Polygons { relative, .. }, Object::Json(text)) => {
            Ok((Object::Json(polygons::of_json(text, *relative, shape, kept, limits)?), None))
        }
        (_, Object::Array(array)) => moved(align, array, shape, kept).map(|(array, rows)| (Object::Array(array), rows)),
        _ => bug("a text or bytes cannot be aligned"),
    }
}

fn decoded(
    kind: FieldKind,
    value: &FieldValue<'_>,
    decoder: &mut ArrayDecoder,
    limits: &Limits,
) -> Result<Object, FormatError> {
    if kind == FieldKind::Array {
        let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
        return decoder.decode(value.codec, &descriptor, value.bytes, limits).map(Object::Array);
    }
    let bytes = decode_bytes(value.codec, value.bytes, value.decoded_bytes, limits)?;
    if kind == FieldKind::Bytes {
        return Ok(Object::Bytes(bytes));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let found = format!("an invalid byte at position {}", e.utf8_error().valid_up_to());
        FormatError::format("text", "UTF-8", found)
    })?;
    Ok(if kind == FieldKind::Json { Object::Json(text) } else { Object::Text(text) })
}
