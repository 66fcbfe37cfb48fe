//! Source of the values of a sample that are not tensors.

use super::shape::Shape;
use crate::fields::Followed;
use shardpack_format::{Error as FormatError, FieldValue};
use shardpack_reader::Result;

/// Source of the values of one sample.
pub(crate) trait SampleValues {
    /// A stored value; `None` if the sample has none.
    fn value(&self, position: usize) -> Result<Option<FieldValue<'_>>, FormatError>;

    /// The part of a picture that its view shows; `None` if the sample has none.
    fn shape(&mut self, picture: &Followed) -> Result<Option<Shape>, FormatError>;
}
