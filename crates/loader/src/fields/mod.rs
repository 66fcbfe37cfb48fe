//! The fields of a batch: their sources, types and row sizes, all known from the index alone.

mod array;
mod axis;
mod cut;
mod object;
mod picture;
mod unfit;
mod volume;

pub(crate) use array::{ArrayField, MOVED_BYTES};
pub(crate) use axis::{Axis, Col, sides_of};
pub(crate) use cut::{Cut, CutOf, limits_of_a_part};
pub use object::Object;
pub(crate) use object::{Follows, ObjectPlan};
pub(crate) use picture::{
    ClipField, CropField, Followed, JPEG, ViewBoxes, mask_size, media_type_of, orientation_of, segments_of,
};
pub(crate) use unfit::{check_no_data, loses, too_large};
pub(crate) use volume::VolumeField;

use crate::patches::PatchPlan;
use crate::stage::{ArrayPart, FieldRows, FieldSource, FieldSpec};
use shardpack_array::Resampling;
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Error as FormatError, FRAME_BYTES, to_usize};
use shardpack_jpeg::{DrawKey, FloatTable, PixelLayout, Scaling, View};
use shardpack_reader::{Shard, raw};
use std::ops::Range;
use std::sync::Arc;

/// Type of a field, which determines how `decode/fields/` decodes its values and what a row contains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldType {
    Scalar(Col),
    OneHot(OneHotField),
    Picture(PictureField),
    Array(ArrayField),
    Volume(Box<VolumeField>),
    Mask(MaskField),
    Raw(RawField),
}

/// A column of class numbers, loaded as one weight per class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneHotField {
    pub(crate) column: Col,
    pub(crate) classes: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PictureField {
    pub(crate) position: usize,
    pub(crate) view: View,
    pub(crate) orientation: Option<Col>,
    /// Boxes that choose the crop, if the view depends on boxes.
    pub(crate) boxes: Option<ViewBoxes>,
    /// Conversion to floats, or `None` if pictures are loaded as levels.
    pub(crate) floats: Option<Box<FloatTable>>,
    /// Frames to load and their axis order, if each value is a list of pictures.
    pub(crate) clip: Option<ClipField>,
    /// Set if the field is one of several crops of the picture.
    pub(crate) crop: Option<CropField>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MaskField {
    pub(crate) position: usize,
    pub(crate) picture: Followed,
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// Fill element of the padding around a picture, as bytes.
    pub(crate) fill: Vec<u8>,
    /// For each picture augmentation: the fill element, as bytes, of pixels from outside the picture. Empty if no
    /// augmentation moves pixels.
    pub(crate) moved: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawField {
    pub(crate) position: usize,
}

impl FieldType {
    /// Returns the position among the stored fields, or `None` if the value is a column of the index.
    pub(crate) const fn position(&self) -> Option<usize> {
        match self {
            Self::Scalar(_) | Self::OneHot(_) => None,
            Self::Picture(field) => Some(field.position),
            Self::Array(field) => Some(field.position),
            Self::Volume(field) => Some(field.position),
            Self::Mask(field) => Some(field.position),
            Self::Raw(field) => Some(field.position),
        }
    }

    pub(crate) const fn is_banded(&self) -> bool {
        match self {
            Self::Array(field) => field.is_banded,
            Self::Volume(field) => field.is_banded,
            Self::Scalar(_) | Self::OneHot(_) | Self::Picture(_) | Self::Mask(_) | Self::Raw(_) => false,
        }
    }

    pub(crate) const fn fill(&self) -> Option<f32> {
        match self {
            Self::Array(field) => field.fill,
            Self::Volume(field) => field.fill,
            Self::Scalar(_) | Self::OneHot(_) | Self::Picture(_) | Self::Mask(_) | Self::Raw(_) => None,
        }
    }

    /// Returns how pixels are resampled when random affine maps move the field.
    pub(crate) const fn sampling(&self) -> Option<Resampling> {
        match self {
            Self::Array(field) => field.sampling,
            Self::Volume(field) => field.sampling,
            Self::Scalar(_) | Self::OneHot(_) | Self::Picture(_) | Self::Mask(_) | Self::Raw(_) => None,
        }
    }

    pub(crate) fn is_patch(&self) -> bool {
        match self {
            Self::Array(field) => field.is_patch(),
            Self::Volume(_) => true,
            Self::Scalar(_) | Self::OneHot(_) | Self::Picture(_) | Self::Mask(_) | Self::Raw(_) => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowSize {
    Dense {
        bytes: usize,
    },
    /// Size computed from columns of the index. Lists the axes in output order.
    Columns(Vec<Axis>),
    /// The size is not in the index. It is at most the size of the record without its head.
    Stored,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldPlan {
    pub(crate) name: String,
    pub(crate) dtype: ElementType,
    pub(crate) kind: FieldType,
    /// Shape of a dense row. For a ragged row, only the number of axes is meaningful.
    pub(crate) shape: Vec<u64>,
    pub(crate) size: RowSize,
    /// Offset of the field's axes among the axes of all ragged fields.
    pub(crate) dims_at: usize,
    /// True if a stage accepts the field.
    pub(crate) staged: bool,
    pub(crate) is_noisy: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fields {
    pub(crate) plans: Vec<FieldPlan>,
    pub(crate) objects: Vec<ObjectPlan>,
    /// Total number of axes in all ragged fields of a row.
    pub(crate) dims: usize,
    pub(crate) layout: PixelLayout,
    pub(crate) scaling: Scaling,
    pub(crate) changes: Arc<[Augmentation]>,
    /// The augmentation that moves arrays, if no pictures are loaded.
    pub(crate) moves: Option<Augmentation>,
    /// Smallest size in bytes of a large record, which several threads decode in parts.
    pub(crate) large_bytes: Option<u64>,
    pub(crate) patches: Option<Arc<PatchPlan>>,
}

impl FieldPlan {
    /// Describes the field to a stage. `changes` are the augmentations of decoded pictures.
    pub(crate) fn spec<'a>(
        &'a self,
        layout: PixelLayout,
        scaling: Scaling,
        changes: &'a [Augmentation],
    ) -> FieldSpec<'a> {
        let source = match &self.kind {
            FieldType::Picture(field) => {
                let (view, clip) = (field.view, field.clip.map(|of| of.clip));
                let (layout, changes) = (field.layout(layout), field.changes(changes));
                let is_shown_before = clip.is_none() && self.is_further_crop();
                FieldSource::Picture { view, layout, scaling, changes, clip, is_shown_before }
            }
            FieldType::Array(ArrayField { stored, cut, .. }) => {
                FieldSource::Array { stored, part: cut.as_ref().map(|cut| ArrayPart::Region(&cut.region)) }
            }
            FieldType::Volume(volume) => {
                FieldSource::Array { stored: &volume.stored, part: Some(ArrayPart::Voxels(&volume.reach)) }
            }
            FieldType::Mask(MaskField { stored, .. }) => FieldSource::Mask { stored },
            FieldType::Scalar(_) | FieldType::OneHot(_) | FieldType::Raw(_) => FieldSource::Other,
        };
        FieldSpec { name: &self.name, dtype: self.dtype, source }
    }

    /// Returns the name of the field in the dataset.
    pub(crate) fn source(&self) -> &str {
        match &self.kind {
            FieldType::Picture(PictureField { crop: Some(crop), .. }) => &crop.picture,
            _ => &self.name,
        }
    }

    /// Returns true if an earlier field is another crop of the same picture.
    pub(crate) fn is_further_crop(&self) -> bool {
        matches!(&self.kind, FieldType::Picture(PictureField { crop: Some(crop), .. }) if crop.number > 0)
    }

    /// Returns the file with the field's values: the shard, or one of its columns files.
    fn file<'s>(&self, shard: &'s Shard) -> &'s Shard {
        let file = self.kind.position().and_then(|position| shard.file_of(position));
        file.map_or(shard, |(file, _)| file)
    }

    /// Returns the size of the record with the field's value, in bytes.
    fn record_bytes(&self, shard: &Shard, record: u64) -> u64 {
        self.file(shard).index().row(record).map_or(0, |row| row.length)
    }

    /// Returns the sizes of this record's row, for a stage. The output has `output_bytes` bytes.
    pub(crate) fn staged_row(&self, shard: &Shard, record: u64, output_bytes: u64) -> FieldRows {
        let length = || self.record_bytes(shard, record);
        match &self.kind {
            FieldType::Picture(PictureField { clip: Some(clip), .. }) => {
                let (rows, record_bytes) = clip.chosen(shard, record);
                FieldRows { rows, record_bytes, output_bytes, pixels: 0 }
            }
            // The further crops of a picture use the samples of the first.
            FieldType::Picture(PictureField { crop: Some(crop), .. }) if crop.number == 0 => {
                FieldRows { rows: 1, record_bytes: length(), output_bytes, pixels: crop.pixels(shard, record) }
            }
            _ => FieldRows { rows: 1, record_bytes: length(), output_bytes, pixels: 0 },
        }
    }

    /// Returns true for arrays of more than `bytes` bytes that a stage accepts and copies to staging memory.
    /// They stay in runs until they are copied.
    pub(crate) fn is_copied_from(&self, bytes: u64) -> bool {
        let stored = match &self.kind {
            FieldType::Array(ArrayField { stored, is_shared: false, .. }) => stored,
            FieldType::Volume(volume) => &volume.stored,
            _ => return false,
        };
        let is_large = |array: &ArrayDescriptor| array.stored_bytes().is_ok_and(|stored| stored > bytes);
        self.staged && stored.iter().any(|(_, array)| is_large(array))
    }

    /// Returns true if several threads together read a large value of the field into staging memory.
    pub(crate) const fn is_shared(&self) -> bool {
        self.staged && matches!(self.kind, FieldType::Array(ArrayField { is_shared: true, .. }))
    }

    pub(crate) const fn is_ragged(&self) -> bool {
        !matches!(self.size, RowSize::Dense { .. })
    }

    /// Returns the field's range among the axes of all ragged fields. The range is empty if the field is dense.
    pub(crate) fn dims_range(&self) -> Range<usize> {
        let axes = if self.is_ragged() { self.shape.len() } else { 0 };
        self.dims_at..self.dims_at + axes
    }

    /// Returns true if the size of a row is drawn.
    pub(crate) fn is_drawn(&self) -> bool {
        matches!(&self.size, RowSize::Columns(axes) if axes.iter().any(|axis| matches!(axis, Axis::Drawn { .. })))
    }

    /// Returns the size in bytes of this field's row for `record`, and writes the field's axis lengths to `dims`. `key`
    /// is the key of the sample. Without it, a random size is the largest that can be drawn.
    ///
    /// # Errors
    /// `Format` if the columns contain impossible lengths; `Limit` if the row exceeds the limits.
    pub(crate) fn row(
        &self,
        shard: &Shard,
        record: u64,
        key: Option<&DrawKey>,
        dims: &mut [u64],
    ) -> Result<usize, FormatError> {
        let axes = match &self.size {
            RowSize::Dense { bytes } => return Ok(*bytes),
            _ if self.kind.position().is_some_and(|position| shard.file_of(position).is_none()) => {
                dims.fill(0);
                return Ok(0);
            }
            RowSize::Columns(axes) => axes,
            RowSize::Stored => return self.stored_row(shard, record, dims),
        };
        let key = match &self.kind {
            FieldType::Picture(picture) => key.map(|key| picture.key(*key)),
            _ => key.copied(),
        };
        for (axis, out) in axes.iter().zip(&mut *dims) {
            *out = axis.length(shard, record, key.as_ref()).ok_or_else(|| {
                FormatError::malformed(format!(
                    "field `{}`: the index does not contain the size of the value",
                    self.name
                ))
            })?;
        }
        let bytes = self.dtype.array_bytes(dims)?;
        let limits = &shard.options().limits;
        let size = || format!("field `{}`: size in the index", self.name);
        if bytes > limits.max_decoded_bytes {
            return Err(FormatError::limit(size(), "max_decoded_bytes", limits.max_decoded_bytes, bytes));
        }
        // A row that is too large for a record of this length must fail before memory is allocated for it.
        let length = self.record_bytes(shard, record);
        let stored = self.stored_bytes_of(match self.is_drawn() {
            true => {
                let sides = axes.iter().map(|axis| axis.stored_length(shard, record).unwrap_or(0));
                self.dtype.array_bytes(&sides.collect::<Vec<_>>())?
            }
            false => bytes,
        });
        let most = length.saturating_mul(limits.max_expansion);
        match &self.kind {
            // An array whose elements are all equal takes only a few stored bytes.
            FieldType::Array(_) | FieldType::Volume(_) | FieldType::Mask(_) => {
                limits.check_runs(stored, length).map_err(|error| raw::name_field(&self.name, error))?;
            }
            FieldType::Picture(_) => {
                limits.check_pixels(stored, length).map_err(|error| raw::name_field(&self.name, error))?;
            }
            _ if stored > 1 << 20 && stored > most => {
                return Err(FormatError::limit(size(), "max_expansion", most, stored));
            }
            _ => {}
        }
        Ok(to_usize(bytes))
    }

    /// Returns the number of stored bytes that decode to a row of `bytes` bytes. Stored elements are smaller than
    /// loaded ones if float16 is loaded as float32, or levels as floats. If the samples store several types, uses the
    /// smallest.
    fn stored_bytes_of(&self, bytes: u64) -> u64 {
        let stored = match &self.kind {
            FieldType::Array(ArrayField { stored, .. }) | FieldType::Mask(MaskField { stored, .. }) => {
                stored.iter().map(|(_, array)| array.stored.size() as u64).min()
            }
            FieldType::Picture(_) => Some(1),
            FieldType::Scalar(_) | FieldType::OneHot(_) | FieldType::Volume(_) | FieldType::Raw(_) => None,
        };
        let comes_as = self.dtype.bytes().max(1);
        bytes / comes_as * stored.map_or(comes_as, |stored| stored.min(comes_as))
    }

    fn stored_row(&self, shard: &Shard, record: u64, dims: &mut [u64]) -> Result<usize, FormatError> {
        let schema = &self.file(shard).index().metadata().schema;
        let (length, key) = (self.record_bytes(shard, record), shard.index().key(record));
        // spec §2.2: the head contains at least the frame, the field table, the scalars and the key, each of
        // them aligned.
        let head = FRAME_BYTES
            .saturating_add(24 * schema.stored_count() as u64)
            .saturating_add(schema.scalar_bytes())
            .saturating_add(key.map_or(0, str::len) as u64)
            .next_multiple_of(64);
        let limits = &shard.options().limits;
        if length > limits.max_record_bytes {
            return Err(FormatError::limit("record", "max_record_bytes", limits.max_record_bytes, length));
        }
        dims.fill(0);
        Ok(to_usize(length.saturating_sub(head)))
    }
}

impl Fields {
    /// Returns the positions of the stored fields that a batch uses.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let followed = self.plans.iter().filter_map(|plan| match &plan.kind {
            FieldType::Mask(MaskField { picture, .. }) => Some(picture.position),
            _ => None,
        });
        let tensors = self.plans.iter().filter_map(|plan| plan.kind.position());
        tensors.chain(followed).chain(self.objects.iter().flat_map(ObjectPlan::positions))
    }

    /// Returns the columns files of a shard that have stored fields of the batch, with their numbers.
    pub(crate) fn columns_files<'s>(&self, shard: &'s Shard) -> impl Iterator<Item = (usize, &'s Shard)> {
        let classes =
            self.patches.as_ref().and_then(|patches| patches.classes.as_ref()).map(|classes| classes.position);
        shard.columns_files().iter().enumerate().filter(move |(number, _)| {
            let has = |position| shard.added_at(position).is_some_and(|(file, _)| file == *number);
            self.positions().chain(classes).any(has)
        })
    }

    /// Turns off the search for large records if the largest record, of `record_bytes` bytes, is not large.
    pub(crate) fn with_records_of(mut self, record_bytes: u64) -> Self {
        self.large_bytes = self.large_bytes.filter(|&large| record_bytes >= large);
        self
    }
}
