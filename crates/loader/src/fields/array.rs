//! Arrays of two or three axes, or arrays of any shape if they are not cut.

use super::Cut;
use shardpack_array::{Finish, Resampling};
use shardpack_format::{ArrayDescriptor, Codec};

/// Bytes that are held for each element of an array while an affine map moves it: as float32 or in its own
/// type, a mark of no-data, and rows of the output.
pub(crate) const MOVED_BYTES: u64 = 16;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayField {
    pub(crate) position: usize,
    pub(crate) channels_first: bool,
    pub(crate) cut: Option<Cut>,
    /// True if the index contains the shape.
    pub(crate) indexed: bool,
    /// How pixels are made if random affine maps move them.
    pub(crate) sampling: Option<Resampling>,
    /// Steps after decoding. For each sample its own values are added: its map and turn, its factors if
    /// `is_banded`, and its no-data value if there is a `fill`.
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
