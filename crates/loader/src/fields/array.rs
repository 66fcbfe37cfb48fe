//! Arrays of two or three axes, or of any shape if they are not cut.

use super::Cut;
use shardpack_array::Finish;
use shardpack_format::{ArrayDescriptor, Codec};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayField {
    pub(crate) position: usize,
    pub(crate) channels_first: bool,
    pub(crate) cut: Option<Cut>,
    /// The index contains its shape.
    pub(crate) indexed: bool,
    /// Steps after decoding. The turn of a sample is set later, as are the factors if `is_banded`, and
    /// the no-data value if there is a `fill`.
    pub(crate) finish: Option<Box<Finish>>,
    pub(crate) is_banded: bool,
    pub(crate) fill: Option<f32>,
    /// Examples of stored arrays of the field.
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// A stage that accepts the field wants its stored bytes in staging memory.
    pub(crate) is_shared: bool,
}

impl ArrayField {
    /// Returns true if a patch is cut out of the array.
    pub(crate) fn is_patch(&self) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.place.is_some())
    }
}
