//! Array fields. Only arrays of two or three axes can be cut.

use super::Cut;
use shardpack_array::{Finish, Resampling};
use shardpack_format::{ArrayDescriptor, Codec};

/// Memory in bytes per element for moving an array with an affine map: the element as float32 or in its own type, a
/// no-data mark, and rows of the output.
pub(crate) const MOVED_BYTES: u64 = 16;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayField {
    pub(crate) position: usize,
    pub(crate) channels_first: bool,
    pub(crate) cut: Option<Cut>,
    /// True if the index contains the shape.
    pub(crate) indexed: bool,
    /// How pixels are resampled when random affine maps move them.
    pub(crate) sampling: Option<Resampling>,
    /// Processing after decoding. Each sample adds its own values: its map and rotation, its factors if `is_banded`,
    /// and its no-data value if `fill` is set.
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
