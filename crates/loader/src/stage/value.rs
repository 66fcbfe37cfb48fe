//! Describes fields and values to a stage.

use super::mask_view::MaskView;
use super::memo::Memo;
use super::row_noise::RowNoise;
use crate::options::Clip;
use shardpack_array::{Finish, Region, Voxels};
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Limits};
use shardpack_jpeg::{Crops, PixelLayout, Rendering, Scaling, StoredPicture, View};

/// A field of a batch, as described to a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldSpec<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Element type of a row.
    pub dtype: ElementType,
    /// The stored values from which the field is decoded.
    pub source: FieldSource<'a>,
}

/// Total sizes of several rows of a staged field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldRows {
    /// Number of rows, or of chosen frames if the rows are clips.
    pub rows: u64,
    /// Total size in bytes of the rows' records or, for clips, of their chosen frames.
    pub record_bytes: u64,
    /// Size of the output in bytes.
    pub output_bytes: u64,
    /// Number of pixels of the whole pictures if the field is the first of several crops of each; otherwise 0. Also 0
    /// if the dataset does not store the sizes of its pictures.
    pub pixels: u64,
}

/// The stored values from which a field is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldSource<'a> {
    /// Pictures.
    Picture {
        /// Which part of each picture to show, and at which size.
        view: View,
        /// Axis order.
        layout: PixelLayout,
        /// How levels are converted to floats, if [`FieldSpec::dtype`] is a float type.
        scaling: Scaling,
        /// Augmentations that change the levels of the pictures.
        changes: &'a [Augmentation],
        /// Frames to load and their axis order, if each value is a list of pictures.
        clip: Option<Clip>,
        /// True if an earlier field shows another crop of the same pictures. A stage then has most of their
        /// bytes already.
        is_shown_before: bool,
    },
    /// Arrays, whole or in part.
    Array {
        /// Codecs and descriptors of a few stored arrays. Rows may be converted further after decoding.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Size and bands of the part that a row contains, or `None` if rows are whole arrays. The position of the
        /// part differs from row to row. A height of 0 means all pixels. If random maps read voxels outside the
        /// boxes of volumes, this is the approximate size of the largest source box.
        part: Option<ArrayPart<'a>>,
    },
    /// Masks that follow the views of pictures.
    Mask {
        /// Codecs and descriptors of a few stored masks.
        stored: &'a [(Codec, ArrayDescriptor)],
    },
    /// Values that no stage decodes: a column of the index, or stored bytes.
    Other,
}

/// The crops of one picture in a row. Each crop is a separate field.
#[derive(Debug, Clone, Copy)]
pub struct CropsOfRow<'a> {
    /// All crops of the picture, in the order of the fields.
    pub all: Crops<'a>,
    /// Index in the batch of the field with the first crop, which is prepared before the others.
    pub first_field: u32,
}

/// The requested part of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArrayPart<'a> {
    /// A rectangle of pixels with some bands, in the requested order of axes.
    Region(&'a Region),
    /// A box of a volume.
    Voxels(&'a Voxels),
}

/// A stored array, and the part of it that a row needs.
#[derive(Debug, Clone, Copy)]
pub struct ArrayValue<'a> {
    /// Codec of the payload.
    pub codec: Codec,
    /// Type and shape of the array. `decoded` is the requested type, or the type from which a [`Finish`] converts.
    pub descriptor: &'a ArrayDescriptor,
    /// The payload.
    pub bytes: &'a [u8],
    /// Requested part, or `None` for the whole array in stored order.
    pub part: Option<ArrayPart<'a>>,
    /// Limits for decoding.
    pub limits: &'a Limits,
}

/// A value to decode, from a record that has been checked.
#[derive(Debug, Clone, Copy)]
pub enum RecordValue<'a> {
    /// A picture.
    Picture {
        /// The stored picture.
        picture: StoredPicture<'a>,
        /// How to render the picture, including which part is visible.
        how: &'a Rendering,
        /// All crops of the picture, if several fields of the row show it.
        crops: Option<CropsOfRow<'a>>,
        /// Augmentations that change the levels, applied before any other step. Their random draws use
        /// [`Rendering::key`].
        changes: &'a [Augmentation],
        /// Element type of the output.
        dtype: ElementType,
        /// How levels are converted to floats.
        scaling: &'a Scaling,
        /// Limits for decoding.
        limits: &'a Limits,
        /// Frames to load and their axis order, if the value is a list of pictures. All frames are rendered alike.
        clip: Option<Clip>,
    },
    /// An array.
    Array {
        /// The array and its part.
        array: ArrayValue<'a>,
        /// Processing after decoding.
        finish: &'a Finish,
        /// Gamma and noise, applied after `finish`.
        noise: Option<RowNoise>,
        /// The stage's note about the array, if several rows use parts of it.
        memo: Option<&'a Memo>,
    },
    /// A mask of a picture, resampled to the picture's view.
    Mask {
        /// The mask, of shape `[height, width]` or `[height, width, channels]`, and the region that the view shows.
        array: ArrayValue<'a>,
        /// Pixel of the region that each pixel of the view shows.
        view: &'a MaskView,
    },
}
