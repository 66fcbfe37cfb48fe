//! Properties of a picture, used by its own field and by all fields that follow the picture.

use super::PictureField;
use super::axis::Col;
use crate::options::{BoxFormat, Clip};
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, Error, FieldValue, Result, saturating_u64};
use shardpack_jpeg::{Crops, DrawKey, Frames, PixelLayout, View};
use shardpack_reader::Shard;
use std::sync::Arc;

pub(crate) const JPEG: &str = "image/jpeg";

/// A field whose values are clips: lists of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClipField {
    pub(crate) clip: Clip,
    /// Column with the number of frames.
    pub(crate) count: Col,
}

impl ClipField {
    /// Returns the number of frames that a row loads from a record, and their approximate size in bytes.
    pub(crate) fn chosen(&self, shard: &Shard, record: u64) -> (u64, u64) {
        /// Smallest possible size of a JPEG. A frame count that implies smaller ones is wrong.
        const LEAST_BYTES: u64 = 100;
        let length = shard.index().row(record).map_or(0, |row| row.length);
        let total = self.count.length(shard, record).unwrap_or(0).clamp(1, (length / LEAST_BYTES).max(1));
        let chosen = self.clip.frames.count().map_or(total, u64::from);
        if chosen == total {
            return (chosen, length);
        }
        // Double the estimate, because the chosen frames may be larger than the others. Repeated frames count each
        // time.
        let bytes = saturating_u64(u128::from(length) * u128::from(chosen) * 2 / u128::from(total));
        (chosen, if chosen < total { bytes.min(length) } else { bytes })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Followed {
    pub(crate) position: usize,
    pub(crate) view: View,
    pub(crate) orientation: Option<Col>,
    /// Boxes that choose the crop, if the view depends on boxes.
    pub(crate) boxes: Option<ViewBoxes>,
}

/// The field with the boxes of a picture, whose view depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewBoxes {
    pub(crate) position: usize,
    pub(crate) format: BoxFormat,
    pub(crate) relative: bool,
}

/// One of several crops of a picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CropField {
    /// Name of the picture field in the dataset.
    pub(crate) picture: Arc<str>,
    /// Index among the crops.
    pub(crate) number: u32,
    /// Index of the first crop's field in the batch.
    pub(crate) first: usize,
    pub(crate) views: Arc<[View]>,
    /// Columns with the height and width of the whole picture.
    pub(crate) size: Option<[Col; 2]>,
    /// Augmentations of this crop: first those that all crops share, then its own.
    pub(crate) changes: Arc<[Augmentation]>,
}

impl CropField {
    /// Returns all crops of the sample with this key.
    pub(crate) fn of(&self, key: DrawKey) -> Crops<'_> {
        Crops { views: &self.views, key }
    }

    /// Returns the number of pixels of the whole picture, or 0 if the dataset does not store it. A number that is
    /// impossible for the size of the record counts as 0.
    pub(crate) fn pixels(&self, shard: &Shard, record: u64) -> u64 {
        /// A byte of a baseline JPEG holds fewer pixels: with chroma of half the height and width, 256 pixels have six
        /// blocks, and a block has at least two bits.
        const PIXELS_A_BYTE: u64 = 256;
        let side = |column: &Col| column.length(shard, record).unwrap_or(0);
        let pixels = self.size.as_ref().map_or(0, |[height, width]| side(height).saturating_mul(side(width)));
        let length = shard.index().row(record).map_or(0, |row| row.length);
        if pixels <= length.saturating_mul(PIXELS_A_BYTE) { pixels } else { 0 }
    }
}

impl PictureField {
    /// Returns the axes of each picture in a row, where `pictures` is the layout of single pictures.
    pub(crate) fn layout(&self, pictures: PixelLayout) -> PixelLayout {
        self.clip.map_or(pictures, |of| of.clip.layout.of_frames(pictures))
    }

    /// Returns the augmentations of this field. `all` are the augmentations in the options for all pictures.
    pub(crate) fn changes<'a>(&'a self, all: &'a [Augmentation]) -> &'a [Augmentation] {
        self.crop.as_ref().map_or(all, |crop| &crop.changes)
    }

    /// Returns the draw key of this field for a sample with the key `of_sample`.
    pub(crate) fn key(&self, of_sample: DrawKey) -> DrawKey {
        of_sample.of_crop(self.crop.as_ref().map_or(0, |crop| crop.number))
    }
}

pub(crate) fn media_type_of<'v>(value: &FieldValue<'v>) -> Result<&'v str> {
    std::str::from_utf8(value.descriptor).map_err(|e| {
        let found = format!("an invalid byte at position {}", e.valid_up_to());
        Error::format("picture media type", "UTF-8", found)
    })
}

/// Returns the orientation of a picture, from a column of the index or else from the picture itself.
pub(crate) fn orientation_of(column: Option<Col>, shard: &Shard, record: u64, value: &FieldValue<'_>) -> u8 {
    let column = column.filter(|column| column.is_in(shard));
    let stored = column.and_then(|column| column.length(shard, record));
    let stored = stored.map(|stored| i64::try_from(stored).unwrap_or(0));
    // A clip has the orientation of its first frame.
    let media_type = std::str::from_utf8(value.descriptor).unwrap_or_default();
    let list = Frames::of(media_type, value.bytes).ok().filter(Frames::is_list);
    let (is_jpeg, bytes) = list.map_or((value.codec == Codec::Jpeg, value.bytes), |list| (true, list.first()));
    shardpack_reader::raw::orientation(stored, is_jpeg, bytes)
}

/// Returns the height and width of a mask, or `None` if an array of this shape cannot be a mask.
pub(crate) fn mask_size(descriptor: &ArrayDescriptor) -> Option<[u32; 2]> {
    let [height, width] = match *descriptor.shape {
        [height, width] => [height, width],
        [height, width, channels] if channels > 0 => [height, width],
        _ => return None,
    };
    Some([u32::try_from(height).ok()?, u32::try_from(width).ok()?])
}

/// Returns the segment index of a picture from the value of its field. An unreadable index is treated like an
/// empty one: the decoder counts it as wrong and decodes the picture from the start.
pub(crate) fn segments_of<'a>(value: Result<Option<FieldValue<'a>>, Error>) -> Option<&'a [u8]> {
    value.map_or(Some(&[]), |value| value.map(|value| value.bytes))
}
