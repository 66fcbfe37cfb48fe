//! Values of a batch that are no tensors: texts, and arrays whose length differs from sample to
//! sample.

use super::picture::Followed;
use crate::options::Align;
use shardpack_array::Array;
use shardpack_format::FieldKind;

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
pub(crate) struct ObjectPlan {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    /// Among the stored fields.
    pub(crate) position: usize,
    pub(crate) follows: Follows,
}

impl ObjectPlan {
    /// Positions of the stored fields that it is made of.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let picture = match &self.follows {
            Follows::Picture { picture, .. } => Some(picture.position),
            Follows::Nothing | Follows::Boxes(_) => None,
        };
        [Some(self.position), picture].into_iter().flatten()
    }
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Follows {
    /// It comes as it is stored.
    Nothing,
    /// Boxes or keypoints go where the view of their picture goes; the rows of keypoints with those
    /// of the boxes of this number.
    Picture { align: Align, picture: Followed, boxes: Option<usize> },
    /// Its rows belong to the boxes of this number.
    Boxes(usize),
}
