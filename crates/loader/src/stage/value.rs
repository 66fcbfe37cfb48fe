//! Fields and values, as a stage sees them.

use super::memo::Memo;
use super::row_noise::RowNoise;
use shardpack_array::{Finish, Region};
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Limits};
use shardpack_jpeg::{PixelLayout, Rendering, Scaling, View};

/// A field of a batch, as far as a stage has to know it.
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
        /// How they are shown.
        view: View,
        /// Order of the axes.
        layout: PixelLayout,
        /// How floats are made of levels, if [`FieldSpec::dtype`] is one.
        scaling: Scaling,
        /// How their levels are changed.
        changes: &'a [Augmentation],
    },
    /// Arrays.
    Array {
        /// Examples of how they are stored, before they are finished.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Of rows that are only a part of an array its size and its bands. Where it lies differs from
        /// row to row; without rows (a height of 0) it has all pixels.
        part: Option<&'a Region>,
    },
    /// Columns of the index, and stored bytes.
    Other,
}

/// A value of a record that was checked.
#[derive(Debug, Clone, Copy)]
pub enum RecordValue<'a> {
    /// A picture.
    Picture {
        /// By which its encoding is known.
        media_type: &'a str,
        /// As stored.
        bytes: &'a [u8],
        /// Which part of it is shown, and how.
        how: &'a Rendering,
        /// How its levels are changed before anything else is made of them, by the draws of
        /// [`Rendering::key`].
        changes: &'a [Augmentation],
        /// Type of the elements to make.
        dtype: ElementType,
        /// How floats are made of levels.
        scaling: &'a Scaling,
        /// Limits of decoding.
        limits: &'a Limits,
    },
    /// An array.
    Array {
        /// How the payload is encoded.
        codec: Codec,
        /// Its type and shape; `decoded` is the type that is asked for, or that of which `finish` makes
        /// it.
        descriptor: &'a ArrayDescriptor,
        /// The payload.
        bytes: &'a [u8],
        /// The part that is asked for, in the order that is asked for; all, as the descriptor has
        /// it, if there is none.
        region: Option<&'a Region>,
        /// Steps after decoding.
        finish: &'a Finish,
        /// Noise that is added then.
        noise: Option<RowNoise>,
        /// Of an array of which several rows take a part, what the stage has noted about it.
        memo: Option<&'a Memo>,
        /// Limits of decoding.
        limits: &'a Limits,
    },
}
