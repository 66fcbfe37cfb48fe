//! Arrays of two or three axes, or arrays of any shape if they are not cut.

use super::Cut;
use shardpack_array::Finish;
use shardpack_format::{ArrayDescriptor, Codec};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayField {
    pub(crate) position: usize,
    pub(crate) channels_first: bool,
    pub(crate) cut: Option<Cut>,
    /// True if the index contains the shape.
    pub(crate) indexed: bool,
    /// Steps after decoding. For each sample its own values are added: its turn, its factors if `is_banded`,
    /// and its no-data value if there is a `fill`.
    pub(crate) finish: Option<Box<Finish>>,
    pub(crate) is_banded: bool,
    pub(crate) fill: Option<f32>,
    /// Examples of how the field stores its arrays.
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// True if a stage that accepts the field wants its stored bytes in staging memory.
    pub(crate) is_shared: bool,
}

impl ArrayField {
    pub(crate) fn is_patch(&self) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.place.is_some())
    }
}
