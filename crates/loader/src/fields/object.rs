//! Values of a batch that are not tensors: texts, and arrays whose length differs from sample to
//! sample.

use super::picture::Followed;
use crate::options::Align;
use shardpack_array::Array;
use shardpack_format::FieldKind;

/// A value of one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// Value of a field of arrays.
    Array(Array),
    /// Value of a field of texts.
    Text(String),
    /// Value of a field of JSON, as text.
    Json(String),
    /// Value of a field of bytes.
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
    /// Positions of the stored fields that it is computed from.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let picture = match &self.follows {
            Follows::Picture { picture, .. } => Some(picture.position),
            Follows::Nothing | Follows::Boxes(_) => None,
        };
        [Some(self.position), picture].into_iter().flatten()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Follows {
    /// The value is loaded as it is stored.
    Nothing,
    /// Boxes or keypoints follow the view of their picture; rows of keypoints belong to the boxes of
    /// this number.
    Picture { align: Align, picture: Followed, boxes: Option<usize> },
    /// Rows belong to the boxes of this number.
    Boxes(usize),
}
