//! Arrays of two or three axes, or of any shape if nothing is cut.

use super::Cut;
use shardpack_array::Finish;
use shardpack_format::{ArrayDescriptor, Codec};

/// An array, decoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayField {
    /// Among the stored fields.
    pub(crate) position: usize,
    pub(crate) channels_first: bool,
    pub(crate) cut: Option<Cut>,
    /// Whether its shape stands in the index.
    pub(crate) indexed: bool,
    /// Steps after decoding. The turn of a sample is put in later, its factors if `is_banded`, and
    /// its no-data value if there is a `fill`.
    pub(crate) finish: Option<Box<Finish>>,
    /// Whether its bands are changed at random.
    pub(crate) is_banded: bool,
    /// Value in the place of no-data.
    pub(crate) fill: Option<f32>,
    /// Examples of how it is stored.
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// Whether a stage that takes it wants it in staging memory as it is stored.
    pub(crate) is_shared: bool,
}

impl ArrayField {
    /// Whether a patch is cut out of it.
    pub(crate) fn is_patch(&self) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.place.is_some())
    }
}
