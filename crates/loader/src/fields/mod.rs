//! What a batch is made of: for each field where it comes from, its type, and how many bytes a row
//! of it takes, known from the index alone.

mod axis;
mod cut;
mod object;
mod picture;
mod unfit;
mod volume;

pub(crate) use axis::{Axis, Col, sides_of};
pub(crate) use cut::{Cut, CutOf, limits_of_a_part};
pub use object::Object;
pub(crate) use object::{Follows, ObjectPlan};
pub(crate) use picture::{Followed, JPEG, orientation_of};
pub(crate) use unfit::{loses, too_large};
pub(crate) use volume::Volume;

use crate::options::FrameMode;
use crate::patches::PatchPlan;
use crate::stage::{FieldSource, FieldSpec};
use shardpack_array::Finish;
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Error as FormatError, FRAME_BYTES};
use shardpack_jpeg::{FloatTable, PixelLayout, Scaling, View};
use shardpack_reader::{Shard, raw};
use std::sync::Arc;

/// Where a field of a batch comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum From {
    /// A column of the index.
    Scalar(Col),
    /// The same, of numbers of classes: as a weight for each class.
    OneHot { column: Col, classes: u32 },
    /// A picture, decoded. Position among the stored fields. `floats` if it comes as such, `clip` if
    /// values are lists of pictures.
    Picture {
        position: usize,
        view: View,
        orientation: Option<Col>,
        floats: Option<Box<FloatTable>>,
        clip: Option<FrameMode>,
    },
    /// An array, decoded. `indexed` if its shape stands in the index; `stored` are examples of how
    /// it is stored. `finish` is what becomes of decoded elements, if anything; the turn of a sample
    /// is put in later, what becomes of its bands if `is_banded`, and its no-data value if `fill` comes
    /// in the place of that. `is_shared` if a stage that takes it wants it in staging memory as it
    /// is stored.
    Array {
        position: usize,
        channels_first: bool,
        cut: Option<Cut>,
        indexed: bool,
        finish: Option<Box<Finish>>,
        is_banded: bool,
        fill: Option<f32>,
        stored: Vec<(Codec, ArrayDescriptor)>,
        is_shared: bool,
    },
    /// A box of a volume.
    Volume(Box<Volume>),
    /// An array that goes where the view of a picture goes. `stored` are examples of how it is
    /// stored.
    Mask { position: usize, picture: Followed, stored: Vec<(Codec, ArrayDescriptor)>, fill: Vec<u8> },
    /// Stored bytes.
    Raw { position: usize },
}

impl From {
    /// Position among the stored fields, of what comes out of a record.
    pub(crate) const fn position(&self) -> Option<usize> {
        match self {
            Self::Scalar(_) | Self::OneHot { .. } => None,
            Self::Picture { position, .. }
            | Self::Array { position, .. }
            | Self::Mask { position, .. }
            | Self::Raw { position } => Some(*position),
            Self::Volume(volume) => Some(volume.position),
        }
    }

    /// Whether its bands are changed at random.
    pub(crate) const fn is_banded(&self) -> bool {
        match self {
            Self::Array { is_banded, .. } => *is_banded,
            Self::Volume(volume) => volume.is_banded,
            Self::Scalar(_) | Self::OneHot { .. } | Self::Picture { .. } | Self::Mask { .. } | Self::Raw { .. } => {
                false
            }
        }
    }
}

/// How long a row is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Size {
    /// All rows alike.
    Dense { bytes: usize },
    /// As columns of the index say, of which these are the axes as they come out.
    Columns(Vec<Axis>),
    /// At most what is left of the record.
    Stored,
}

/// One field of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldPlan {
    pub(crate) name: String,
    pub(crate) dtype: ElementType,
    pub(crate) from: From,
    /// Shape of a dense row; of a ragged one only the number of axes is known.
    pub(crate) shape: Vec<u64>,
    pub(crate) size: Size,
    /// Where the axes of a ragged row stand among those of all ragged fields.
    pub(crate) dims_at: usize,
    /// Whether a stage takes it.
    pub(crate) staged: bool,
    /// Whether noise is added to its values.
    pub(crate) is_noisy: bool,
}

/// All fields of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fields {
    pub(crate) plans: Vec<FieldPlan>,
    /// Those that are no tensors.
    pub(crate) objects: Vec<ObjectPlan>,
    /// Axes of all ragged fields of a row together.
    pub(crate) dims: usize,
    /// Order of the axes of pictures, and how floats are made of their levels.
    pub(crate) layout: PixelLayout,
    pub(crate) scaling: Scaling,
    /// How decoded pictures are changed.
    pub(crate) changes: Arc<[Augmentation]>,
    /// Records of so many bytes and more are made in parts by several threads.
    pub(crate) large_bytes: Option<u64>,
    /// Several patches of each sample, if that is asked for.
    pub(crate) patches: Option<Arc<PatchPlan>>,
}

impl FieldPlan {
    /// What a stage has to know of it. `changes` are those of decoded pictures.
    pub(crate) fn spec<'a>(
        &'a self,
        layout: PixelLayout,
        scaling: Scaling,
        changes: &'a [Augmentation],
    ) -> FieldSpec<'a> {
        let source = match &self.from {
            From::Picture { view, clip: None, .. } => FieldSource::Picture { view: *view, layout, scaling, changes },
            From::Array { stored, cut, .. } => FieldSource::Array { stored, part: cut.as_ref().map(|cut| &cut.region) },
            From::Picture { .. }
            | From::Scalar(_)
            | From::OneHot { .. }
            | From::Volume(_)
            | From::Mask { .. }
            | From::Raw { .. } => FieldSource::Other,
        };
        FieldSpec { name: &self.name, dtype: self.dtype, source }
    }

    /// Whether it holds arrays of more than `bytes` that a stage takes, but does not share: they are
    /// copied to staging memory, and stay in runs until then.
    pub(crate) fn is_copied_from(&self, bytes: u64) -> bool {
        let From::Array { stored, is_shared: false, .. } = &self.from else { return false };
        let is_large = |array: &ArrayDescriptor| array.stored_bytes().is_ok_and(|stored| stored > bytes);
        self.staged && stored.iter().any(|(_, array)| is_large(array))
    }

    /// Whether large values of it are read into staging memory, by several threads.
    pub(crate) const fn is_shared(&self) -> bool {
        self.staged && matches!(self.from, From::Array { is_shared: true, .. })
    }

    pub(crate) const fn is_ragged(&self) -> bool {
        !matches!(self.size, Size::Dense { .. })
    }

    /// Bytes of the row of `record`, with its axes in `dims`, which are those of this field.
    ///
    /// # Errors
    /// `Format` if the columns say what cannot be; `Limit` if the row is over the limits.
    pub(crate) fn row(&self, shard: &Shard, record: u64, dims: &mut [u64]) -> Result<usize, FormatError> {
        let axes = match &self.size {
            Size::Dense { bytes } => return Ok(*bytes),
            _ if self.from.position().is_some_and(|position| shard.stored_at(position).is_none()) => {
                dims.fill(0);
                return Ok(0);
            }
            Size::Columns(axes) => axes,
            Size::Stored => return self.stored_row(shard, record, dims),
        };
        for (axis, out) in axes.iter().zip(&mut *dims) {
            *out = axis.length(shard, record).ok_or_else(|| {
                FormatError::format(format!("field `{}`: length of an axis in the index", self.name), "one", "none")
            })?;
        }
        let bytes = self.dtype.array_bytes(dims)?;
        let limits = &shard.options().limits;
        let too_large =
            |name, limit| FormatError::limit(format!("field `{}`: size in the index", self.name), name, limit, bytes);
        if bytes > limits.max_decoded_bytes {
            return Err(too_large("max_decoded_bytes", limits.max_decoded_bytes));
        }
        // An index that promises what no record of this length can hold is refused before memory is
        // taken for it.
        let length = shard.index().row(record).map_or(0, |row| row.length);
        let stored = self.stored_bytes_of(bytes);
        let most = length.saturating_mul(limits.max_expansion);
        match &self.from {
            // Runs of one value may be all of an array.
            From::Array { .. } | From::Volume(_) | From::Mask { .. } => {
                limits.check_runs(stored, length).map_err(|error| raw::name_field(&self.name, error))?;
            }
            From::Picture { .. } => {
                limits.check_pixels(stored, length).map_err(|error| raw::name_field(&self.name, error))?;
            }
            _ if stored > 1 << 20 && stored > most => {
                let what = format!("field `{}`: size in the index", self.name);
                return Err(FormatError::limit(what, "max_expansion", most, stored));
            }
            _ => {}
        }
        usize::try_from(bytes).map_err(|_| too_large("max_decoded_bytes", usize::MAX as u64))
    }

    /// Bytes of a row of `bytes` as it is stored: float16 may come as float32, and levels of one byte
    /// as floats. Of several types that are stored the smallest one counts.
    fn stored_bytes_of(&self, bytes: u64) -> u64 {
        let stored = match &self.from {
            From::Array { stored, .. } | From::Mask { stored, .. } => {
                stored.iter().map(|(_, array)| array.stored.size() as u64).min()
            }
            From::Picture { .. } => Some(1),
            _ => None,
        };
        let comes_as = self.dtype.bytes().max(1);
        bytes / comes_as * stored.map_or(comes_as, |stored| stored.min(comes_as))
    }

    fn stored_row(&self, shard: &Shard, record: u64, dims: &mut [u64]) -> Result<usize, FormatError> {
        let schema = &shard.index().metadata().schema;
        let (length, key) = (shard.index().row(record).map_or(0, |row| row.length), shard.index().key(record));
        // spec §2.2: the head is at least frame, field table, scalars and key, in whole alignments.
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
        usize::try_from(length.saturating_sub(head))
            .map_err(|_| FormatError::limit("record", "max_record_bytes", usize::MAX as u64, length))
    }
}

impl Fields {
    /// Positions of the stored fields that a batch has something of.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let followed = self.plans.iter().filter_map(|plan| match &plan.from {
            From::Mask { picture, .. } => Some(picture.position),
            _ => None,
        });
        let tensors = self.plans.iter().filter_map(|plan| plan.from.position());
        tensors.chain(followed).chain(self.objects.iter().flat_map(ObjectPlan::positions))
    }

    /// Where no record is large, nobody looks for them: the largest one has so many bytes.
    pub(crate) fn with_records_of(mut self, record_bytes: u64) -> Self {
        self.large_bytes = self.large_bytes.filter(|&large| record_bytes >= large);
        self
    }
}
