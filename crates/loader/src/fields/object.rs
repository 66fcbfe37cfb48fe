//! Values of a batch that are not tensors, such as strings, and arrays whose length differs between samples.

use super::picture::Followed;
use crate::options::Align;
use shardpack_array::Array;
use shardpack_format::{Error as FormatError, FieldKind};
use shardpack_reader::raw::name_field;

/// A value of one sample that is not a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// Value of an array field.
    Array(Array),
    /// Value of a text field.
    Text(String),
    /// Value of a JSON field, as text.
    Json(String),
    /// Value of a bytes field.
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectPlan {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    pub(crate) position: usize,
    pub(crate) follows: Follows,
}

impl ObjectPlan {
    /// Returns the positions of the stored fields from which the value is computed.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let picture = match &self.follows {
            Follows::Picture { picture, .. } => Some(picture.position),
            Follows::Nothing | Follows::Boxes(_) => None,
        };
        [Some(self.position), picture].into_iter().flatten()
    }

    /// Adds the name of the field to an error. If the value contradicts the declared alignment, the message also quotes
    /// the declaration. `plans` are the plans of all objects.
    pub(crate) fn named(&self, plans: &[Self], error: FormatError) -> FormatError {
        let said = match &self.follows {
            Follows::Picture { align, .. } => align.said(),
            Follows::Boxes(number) => {
                Align::Rows { of: plans.get(*number).map_or_else(String::new, |of| of.name.clone()) }.said()
            }
            Follows::Nothing => return name_field(&self.name, error),
        };
        match error {
            usage @ FormatError::Usage { .. } => usage.within(format_args!("field `{}` ({said})", self.name)),
            other => name_field(&self.name, other),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Follows {
    /// Follows nothing: the stored value is loaded unchanged.
    Nothing,
    /// Boxes or keypoints that follow the view of their picture. If `boxes` is set, it is the index of the boxes
    /// field, and each row of keypoints belongs to one of its boxes.
    Picture { align: Align, picture: Box<Followed>, boxes: Option<usize> },
    /// Each row of the array belongs to a box. The index selects the field with the boxes.
    Boxes(usize),
}
