//! Fields and values as they are described to a stage.

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
    /// Values of the field.
    pub source: FieldSource<'a>,
}

/// Where the values of a field come from.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldSource<'a> {
    /// Pictures.
    Picture {
        /// View of the pictures.
        view: View,
        /// Order of the axes.
        layout: PixelLayout,
        /// Conversion of levels to floats, if [`FieldSpec::dtype`] is a float type.
        scaling: Scaling,
        /// Augmentations of the pictures' levels.
        changes: &'a [Augmentation],
        /// How clips fill the rows, if each value is a list of pictures.
        clip: Option<Clip>,
        /// True if an earlier field shows another crop of the same pictures, so that a stage has most of their
        /// bytes already.
        is_shown_before: bool,
    },
    /// Arrays.
    Array {
        /// Examples of stored arrays, before the steps that follow decoding.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Size and bands of the part, if rows are parts of arrays. The place of the part differs from row to
        /// row. A height of 0 means all pixels.
        part: Option<&'a Region>,
    },
    /// Volumes, of which rows are boxes.
    Volume {
        /// Examples of stored arrays, before the steps that follow decoding.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Size of the boxes. Their place differs from row to row.
        part: &'a Voxels,
    },
    /// Masks that follow the views of pictures.
    Mask {
        /// Examples of stored masks.
        stored: &'a [(Codec, ArrayDescriptor)],
    },
    /// A column of the index, or stored bytes.
    Other,
}

/// The crops of a picture that are fields of the same row.
#[derive(Debug, Clone, Copy)]
pub struct CropsOfRow<'a> {
    /// All crops.
    pub all: Crops<'a>,
    /// Index in the batch of the field with the first crop. It is prepared before the others.
    pub first_field: u32,
}

/// A value of a checked record.
#[derive(Debug, Clone, Copy)]
pub enum RecordValue<'a> {
    /// A picture.
    Picture {
        /// The stored picture.
        picture: StoredPicture<'a>,
        /// How the picture is rendered, including the part that is shown.
        how: &'a Rendering,
        /// All crops of the picture, if several fields of the row show it.
        crops: Option<CropsOfRow<'a>>,
        /// Augmentations of the levels, applied before any other step. They use the draws of [`Rendering::key`].
        changes: &'a [Augmentation],
        /// Element type of the output.
        dtype: ElementType,
        /// Conversion of levels to floats.
        scaling: &'a Scaling,
        /// Limits for decoding.
        limits: &'a Limits,
        /// How the frames fill the row, if the value is a list of pictures. All of them are rendered alike.
        clip: Option<Clip>,
    },
    /// An array.
    Array {
        /// Encoding of the payload.
        codec: Codec,
        /// Type and shape of the array. `decoded` is the requested type, or the type from which `finish`
        /// converts to the requested one.
        descriptor: &'a ArrayDescriptor,
        /// The payload.
        bytes: &'a [u8],
        /// Requested part, in the requested order of axes; `None` for the whole array in stored order.
        region: Option<&'a Region>,
        /// Requested box, if the array is a volume. There is then no region.
        voxels: Option<&'a Voxels>,
        /// Steps after decoding.
        finish: &'a Finish,
        /// Gamma and noise, after `finish`.
        noise: Option<RowNoise>,
        /// The stage's note about the array, if several rows take a part of it.
        memo: Option<&'a Memo>,
        /// Limits for decoding.
        limits: &'a Limits,
    },
    /// A mask of a picture, resampled to the picture's view.
    Mask {
        /// Encoding of the payload.
        codec: Codec,
        /// Type and shape of the mask, `[height, width]` or `[height, width, channels]`. `decoded` is the requested type.
        descriptor: &'a ArrayDescriptor,
        /// The payload.
        bytes: &'a [u8],
        /// Part of the mask that the view shows, in the requested order of axes.
        region: &'a Region,
        /// Pixel of the region for each pixel of the view.
        view: &'a MaskView,
        /// Limits for decoding.
        limits: &'a Limits,
    },
}
