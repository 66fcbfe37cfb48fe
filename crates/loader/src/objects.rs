//! Values of a batch that are no tensors: texts, and arrays whose length differs from sample to
//! sample. They come out of the record that a thread has in hand for its tensors.

use super::align::{self, Align, Followed, Kept, Shape};
use super::batch::Batch;
use super::options::LoaderOptions;
use shardpack_array::{Array, ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, Error as FormatError, FieldKind, FieldValue, Limits, Schema};
use shardpack_reader::raw::name_field;
use shardpack_reader::{Error, Result};

/// A value of one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// Of a field of arrays.
    Array(Array),
    /// Of a field of texts.
    Text(String),
    /// Of a field of JSON, as text.
    Json(String),
    /// Of a field of bytes.
    Bytes(Vec<u8>),
}

/// A field of such values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObjectPlan {
    pub(super) name: String,
    kind: FieldKind,
    /// Among the stored fields.
    position: usize,
    follows: Follows,
}

impl ObjectPlan {
    /// Positions of the stored fields that it is made of.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        let picture = match &self.follows {
            Follows::Picture { picture, .. } => Some(picture.position),
            Follows::Nothing | Follows::Boxes(_) => None,
        };
        [Some(self.position), picture].into_iter().flatten()
    }
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq)]
enum Follows {
    /// It comes as it is stored.
    Nothing,
    /// Boxes or keypoints go where the view of their picture goes; the rows of keypoints with those
    /// of the boxes of this number.
    Picture { align: Align, picture: Followed, boxes: Option<usize> },
    /// Its rows belong to the boxes of this number.
    Boxes(usize),
}

/// The fields of a batch that are no tensors: those that are asked for, and boxes and the like.
///
/// # Errors
/// `Usage` if a field is unknown, or holds what comes as a tensor, or cannot be aligned.
pub(super) fn plan(schema: &Schema, options: &LoaderOptions) -> Result<Vec<ObjectPlan>> {
    let is_object = |(_, align): &&(String, Align)| !matches!(align, Align::Mask { .. });
    let aligned = options.align.iter().filter(is_object).map(|(name, _)| name);
    let mut names: Vec<&String> = options.objects.iter().collect();
    for name in aligned {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let number_of = |name: &str| names.iter().position(|known| **known == name);
    let mut objects = Vec::new();
    for name in &names {
        let field = schema.fields().iter().find(|field| field.name == **name);
        let objects_of = |kind| matches!(kind, FieldKind::Array | FieldKind::Text | FieldKind::Json | FieldKind::Bytes);
        let Some((field, position)) = field.filter(|field| objects_of(field.kind)).zip(schema.stored_position(name))
        else {
            let found = format!("`{}`", name.escape_debug());
            return Err(Error::usage("field of objects", "arrays, texts, JSON or bytes", found));
        };
        let align = options.align.iter().find(|(known, _)| known == *name).map(|(_, align)| align);
        let follows = match align {
            None => Follows::Nothing,
            Some(Align::Mask { .. }) => {
                return Err(Error::usage("field of objects", "no mask, which is a tensor", name.as_str()));
            }
            Some(Align::Rows { of }) => Follows::Boxes(number_of(of).unwrap_or(usize::MAX)),
            Some(align) => Follows::Picture {
                align: align.clone(),
                picture: align::followed(schema, options, name, align.picture())?,
                boxes: align.rows().and_then(|of| number_of(of)),
            },
        };
        objects.push(ObjectPlan { name: (*name).clone(), kind: field.kind, position, follows });
    }
    Ok(objects)
}

/// What the values of a sample are taken from.
pub(super) trait Values {
    /// A stored value; `None` if the sample has none.
    fn value(&self, position: usize) -> Result<Option<FieldValue<'_>>, FormatError>;

    /// What the view shows of a picture; `None` if the sample has none.
    fn shape(&mut self, picture: &Followed) -> Result<Option<Shape>, FormatError>;
}

/// The values of one sample, field by field; `None` where it has none.
///
/// # Errors
/// With the name of the field: as the decoders, or as alignment.
pub(super) fn of_sample(
    plans: &[ObjectPlan],
    record: &mut dyn Values,
    (decoder, limits): (&mut ArrayDecoder, &Limits),
) -> Result<Vec<Option<Object>>, FormatError> {
    let mut objects: Vec<Option<Object>> = Vec::with_capacity(plans.len());
    for plan in plans {
        let named = |error| name_field(&plan.name, error);
        let value = record.value(plan.position).map_err(named)?;
        let object = value.map(|value| decoded(plan.kind, &value, (&mut *decoder, limits)));
        objects.push(object.transpose().map_err(named)?);
    }
    let mut kept: Vec<Option<Kept>> = vec![None; plans.len()];
    // Boxes first: others follow them.
    for of_boxes in [true, false] {
        for (number, plan) in plans.iter().enumerate() {
            let named = |error| name_field(&plan.name, error);
            let Some(Some(Object::Array(array))) = objects.get(number) else { continue };
            let of = |boxes: Option<usize>| boxes.and_then(|boxes| kept.get(boxes)?.as_ref());
            let followed = match &plan.follows {
                Follows::Picture { align, picture, boxes } if matches!(align, Align::Boxes { .. }) == of_boxes => {
                    let shape = if boxes.is_some() && of(*boxes).is_none() {
                        None
                    } else {
                        record.shape(picture).map_err(named)?
                    };
                    shape.map(|shape| align::moved(align, array, &shape, of(*boxes))).transpose().map_err(named)?
                }
                Follows::Boxes(boxes) if !of_boxes => {
                    let rows = of(Some(*boxes)).map(|kept| Ok((align::rows_of(array, kept)?, None)));
                    rows.transpose().map_err(named)?
                }
                _ => continue,
            };
            // Without its picture, or its boxes, nobody knows where it would be.
            let (array, rows) = followed.map_or((None, None), |(array, rows)| (Some(array), rows));
            if let (Some(object), Some(kept)) = (objects.get_mut(number), kept.get_mut(number)) {
                (*object, *kept) = (array.map(Object::Array), rows);
            }
        }
    }
    Ok(objects)
}

fn decoded(
    kind: FieldKind,
    value: &FieldValue<'_>,
    (decoder, limits): (&mut ArrayDecoder, &Limits),
) -> Result<Object, FormatError> {
    if kind == FieldKind::Array {
        let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
        return decoder.decode(value.codec, &descriptor, value.bytes, limits).map(Object::Array);
    }
    let bytes = decode_bytes(value.codec, value.bytes, value.decoded_bytes, limits)?;
    if kind == FieldKind::Bytes {
        return Ok(Object::Bytes(bytes));
    }
    let text = String::from_utf8(bytes).map_err(|e| FormatError::format("text", "UTF-8", e.utf8_error()))?;
    Ok(if kind == FieldKind::Json { Object::Json(text) } else { Object::Text(text) })
}

impl Batch {
    /// For each row its value of a field of [`LoaderOptions::objects`], or of one that is aligned
    /// ([`Align`]); `None` for padding, and where the sample has none. `None` for a field that is
    /// none of these.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, Loader, LoaderOptions, Object};
    /// let align = vec![("boxes".into(), "boxes,format=xywh".parse()?)];
    /// let options = LoaderOptions { image: "rrc224".parse()?, align, ..Default::default() };
    /// let mut loader = Loader::open(&Dataset::open("train")?, options)?;
    /// let batch = loader.next_batch().unwrap()?;
    /// for boxes in batch.objects("boxes").unwrap().into_iter().flatten() {
    ///     if let Object::Array(boxes) = boxes {
    ///         assert_eq!(boxes.shape()[1], 4);
    ///     }
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    #[must_use]
    pub fn objects(&self, field: &str) -> Option<Vec<Option<&Object>>> {
        let number = self.fields_of_loader().objects.iter().position(|plan| plan.name == field)?;
        let mut rows = vec![None; self.len()];
        for (row, objects) in self.objects_of_rows() {
            if let Some(to) = usize::try_from(*row).ok().and_then(|row| rows.get_mut(row)) {
                *to = objects.get(number).and_then(Option::as_ref);
            }
        }
        Some(rows)
    }
}
