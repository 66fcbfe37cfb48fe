//! Properties of a picture that its own field and the fields that follow the picture need.

use super::PictureField;
use super::axis::Col;
use crate::options::Clip;
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, Error, FieldValue, saturating_u64};
use shardpack_jpeg::{Crops, DrawKey, Frames, PixelLayout, View};
use shardpack_reader::Shard;
use std::sync::Arc;

pub(crate) const JPEG: &str = "image/jpeg";

/// A field whose values are lists of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClipField {
    pub(crate) clip: Clip,
    /// Column with the number of frames.
    pub(crate) count: Col,
}

impl ClipField {
    /// Returns how many frames of a record a row takes, and about how many of the record's bytes these are.
    pub(crate) fn chosen(&self, shard: &Shard, record: u64) -> (u64, u64) {
        /// No JPEG is smaller, so a larger number of frames is wrong.
        const LEAST_BYTES: u64 = 100;
        let length = shard.index().row(record).map_or(0, |row| row.length);
        let total = self.count.length(shard, record).unwrap_or(0).clamp(1, (length / LEAST_BYTES).max(1));
        let chosen = self.clip.frames.count().map_or(total, u64::from);
        if chosen == total {
            return (chosen, length);
        }
        // The chosen frames may be larger than the others, and repeated frames count each time.
        let bytes = saturating_u64(u128::from(length) * u128::from(chosen) * 2 / u128::from(total));
        (chosen, if chosen < total { bytes.min(length) } else { bytes })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Followed {
    pub(crate) position: usize,
    pub(crate) view: View,
    pub(crate) orientation: Option<Col>,
}

/// One of several crops of a picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CropField {
    /// Name of the picture field in the dataset.
    pub(crate) picture: Arc<str>,
    /// Number among the crops.
    pub(crate) number: u32,
    /// Index of the first crop among the fields of a batch.
    pub(crate) first: usize,
    /// Views of all crops.
    pub(crate) views: Arc<[View]>,
    /// Augmentations that all crops have in common, followed by the augmentations of this crop.
    pub(crate) changes: Arc<[Augmentation]>,
}

impl CropField {
    /// Returns all crops of the sample with this key.
    pub(crate) fn of(&self, key: DrawKey) -> Crops<'_> {
        Crops { views: &self.views, key }
    }
}

impl PictureField {
    /// Returns the axes of each picture of a row if single pictures have the axes `pictures`.
    pub(crate) fn layout(&self, pictures: PixelLayout) -> PixelLayout {
        self.clip.map_or(pictures, |of| of.clip.layout.of_frames(pictures))
    }

    /// Returns the augmentations of the field. `all` are the augmentations of pictures in general.
    pub(crate) fn changes<'a>(&'a self, all: &'a [Augmentation]) -> &'a [Augmentation] {
        self.crop.as_ref().map_or(all, |crop| &crop.changes)
    }

    /// Returns the key of the draws of the field, for a sample with this key.
    pub(crate) fn key(&self, of_sample: DrawKey) -> DrawKey {
        of_sample.of_crop(self.crop.as_ref().map_or(0, |crop| crop.number))
    }
}

/// Returns the orientation of a picture, from a column of the index or from the picture itself.
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

/// Returns height and width of a mask; `None` if an array like this is no mask.
pub(crate) fn mask_size(descriptor: &ArrayDescriptor) -> Option<[u32; 2]> {
    let [height, width] = match *descriptor.shape {
        [height, width] => [height, width],
        [height, width, channels] if channels > 0 => [height, width],
        _ => return None,
    };
    Some([u32::try_from(height).ok()?, u32::try_from(width).ok()?])
}

/// Returns the segment index of a picture from the value of its field. An index that cannot be read is as wrong as
/// an empty one, which decoders count before they decode the picture from its start.
pub(crate) fn segments_of<'a>(value: Result<Option<FieldValue<'a>>, Error>) -> Option<&'a [u8]> {
    value.map_or(Some(&[]), |value| value.map(|value| value.bytes))
}
