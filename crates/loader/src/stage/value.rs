//! Fields and values for a stage.

use super::memo::Memo;
use super::row_noise::RowNoise;
use shardpack_array::{Finish, Region};
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Limits};
use shardpack_jpeg::{PixelLayout, Rendering, Scaling, View};

/// Description of a field of a batch for a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// Type of the elements of a row.
    pub dtype: ElementType,
    /// Its values.
    pub source: FieldSource<'a>,
}

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldSource<'a> {
    /// Pictures.
    Picture {
        /// Their view.
        view: View,
        /// Order of the axes.
        layout: PixelLayout,
        /// Conversion of levels to floats, if [`FieldSpec::dtype`] is a float type.
        scaling: Scaling,
        /// Augmentations of their levels.
        changes: &'a [Augmentation],
    },
    /// Arrays.
    Array {
        /// Examples of stored arrays, before the steps after decoding.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Size and bands of the part, if rows are parts of arrays. The place differs from row to row;
        /// without rows (a height of 0) the part has all pixels.
        part: Option<&'a Region>,
    },
    /// Columns of the index, and stored bytes.
    Other,
}

/// A value of a checked record.
#[derive(Debug, Clone, Copy)]
pub enum RecordValue<'a> {
    /// A picture.
    Picture {
        /// Media type, which identifies its encoding.
        media_type: &'a str,
        /// Stored bytes.
        bytes: &'a [u8],
        /// The part that is shown, and its rendering.
        how: &'a Rendering,
        /// Augmentations of its levels, before any other step, with the draws of [`Rendering::key`].
        changes: &'a [Augmentation],
        /// Element type of the output.
        dtype: ElementType,
        /// Conversion of levels to floats.
        scaling: &'a Scaling,
        /// Limits of decoding.
        limits: &'a Limits,
    },
    /// An array.
    Array {
        /// Encoding of the payload.
        codec: Codec,
        /// Its type and shape; `decoded` is the requested type, or the type that `finish` converts to
        /// it.
        descriptor: &'a ArrayDescriptor,
        /// The payload.
        bytes: &'a [u8],
        /// The requested part, in the requested order of axes; `None` for the whole array, in stored
        /// order.
        region: Option<&'a Region>,
        /// Steps after decoding.
        finish: &'a Finish,
        /// Noise to add after that.
        noise: Option<RowNoise>,
        /// The note of the stage about the array, if several rows take a part of it.
        memo: Option<&'a Memo>,
        /// Limits of decoding.
        limits: &'a Limits,
    },
}
