//! What a batch is made of: for each field where it comes from, its type, and how many bytes a row
//! of it takes, known from the index alone.

use super::align::{self, Followed};
use super::array_row::part_bytes;
use super::arrays::{self, Cut};
pub(super) use super::axis::{Axis, Col};
use super::clips::FrameMode;
use super::mixing;
use super::objects::{self, ObjectPlan};
use super::options::{CubeMode, ImageMode, LoaderOptions};
use super::patches::PatchPlan;
use super::picture_row;
use super::pictures;
use super::stage::{FieldSource, FieldSpec};
use super::views;
use super::volumes::{self, Volume};
use shardpack_array::Finish;
use shardpack_augment::{Augmentation, BandAugmentation};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, ElementType, Error as FormatError, FRAME_BYTES, Field, FieldKind, Hint, Schema,
    Setting,
};
use shardpack_jpeg::{FloatTable, PixelLayout, Scaling, View};
use shardpack_reader::Dataset;
use shardpack_reader::Shard;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

/// Records of fewer parts are made by one thread: there is little to share.
const LARGE_PARTS: u64 = 4;
/// Arrays of so many parts are small beside a large one: they are kept until all parts are there.
const KEPT_PARTS: u64 = 2;

/// Where a field of a batch comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum From {
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
    /// is put in later, and what becomes of its bands if `is_banded`. `is_shared` if a stage that
    /// takes it wants it in staging memory as it is stored.
    Array {
        position: usize,
        channels_first: bool,
        cut: Option<Cut>,
        indexed: bool,
        finish: Option<Box<Finish>>,
        is_banded: bool,
        stored: Vec<(Codec, ArrayDescriptor)>,
        is_shared: bool,
    },
    /// A box of a volume.
    Volume(Box<Volume>),
    /// An array that goes where the view of a picture goes. `stored` are examples of how it is
    /// stored.
    Mask { position: usize, picture: Followed, stored: Vec<(Codec, ArrayDescriptor)> },
    /// Stored bytes.
    Raw { position: usize },
}

impl From {
    /// Position among the stored fields, of what comes out of a record.
    pub(super) const fn position(&self) -> Option<usize> {
        match self {
            Self::Scalar(_) | Self::OneHot { .. } => None,
            Self::Picture { position, .. }
            | Self::Array { position, .. }
            | Self::Mask { position, .. }
            | Self::Raw { position } => Some(*position),
            Self::Volume(volume) => Some(volume.position),
        }
    }

    /// Whether large values of this field are made in parts by the host.
    pub(super) fn is_in_parts(&self) -> bool {
        match self {
            Self::Raw { .. } => true,
            Self::Array { channels_first, cut, stored, .. } => {
                let how = (*channels_first, cut.as_ref());
                !stored.is_empty() && stored.iter().all(|stored| part_bytes(stored, how, false, 0).is_some())
            }
            Self::Scalar(_) | Self::OneHot { .. } | Self::Picture { .. } | Self::Volume(_) | Self::Mask { .. } => false,
        }
    }
}

/// How long a row is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Size {
    /// All rows alike.
    Dense { bytes: usize },
    /// As columns of the index say, of which these are the axes as they come out.
    Columns(Vec<Axis>),
    /// At most what is left of the record.
    Stored,
}

/// One field of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldPlan {
    pub(super) name: String,
    pub(super) dtype: ElementType,
    pub(super) from: From,
    /// Shape of a dense row; of a ragged one only the number of axes is known.
    pub(super) shape: Vec<u64>,
    pub(super) size: Size,
    /// Where the axes of a ragged row stand among those of all ragged fields.
    pub(super) dims_at: usize,
    /// Whether a stage takes it.
    pub(super) staged: bool,
    /// Whether noise is added to its values.
    pub(super) is_noisy: bool,
}

/// All fields of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields {
    pub(super) plans: Vec<FieldPlan>,
    /// Those that are no tensors.
    pub(super) objects: Vec<ObjectPlan>,
    /// Axes of all ragged fields of a row together.
    pub(super) dims: usize,
    /// Order of the axes of pictures, and how floats are made of their levels.
    pub(super) layout: PixelLayout,
    pub(super) scaling: Scaling,
    /// How decoded pictures are changed.
    pub(super) changes: Arc<[Augmentation]>,
    /// Records of so many bytes and more are made in parts by several threads.
    pub(super) large_bytes: Option<u64>,
    /// Several patches of each sample, if that is asked for.
    pub(super) patches: Option<Arc<PatchPlan>>,
}

impl FieldPlan {
    /// What a stage has to know of it. `changes` are those of decoded pictures.
    pub(super) fn spec<'a>(
        &'a self,
        layout: PixelLayout,
        scaling: Scaling,
        changes: &'a [Augmentation],
    ) -> FieldSpec<'a> {
        let source = match &self.from {
            From::Picture { view, clip: None, .. } => FieldSource::Picture { view: *view, layout, scaling, changes },
            From::Array { stored, cut, .. } if !self.is_noisy => FieldSource::Array { stored, is_cut: cut.is_some() },
            From::Picture { .. }
            | From::Array { .. }
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
    fn is_copied_from(&self, bytes: u64) -> bool {
        let From::Array { stored, is_shared: false, .. } = &self.from else { return false };
        let is_large = |array: &ArrayDescriptor| array.stored_bytes().is_ok_and(|stored| stored > bytes);
        self.staged && stored.iter().any(|(_, array)| is_large(array))
    }

    /// Whether large values of it are read into staging memory, by several threads.
    pub(super) const fn is_shared(&self) -> bool {
        self.staged && matches!(self.from, From::Array { is_shared: true, .. })
    }

    pub(super) const fn is_ragged(&self) -> bool {
        !matches!(self.size, Size::Dense { .. })
    }

    /// Bytes of the row of `record`, with its axes in `dims`, which are those of this field.
    ///
    /// # Errors
    /// `Format` if the columns say what cannot be; `Limit` if the row is over the limits.
    pub(super) fn row(&self, shard: &Shard, record: u64, dims: &mut [u64]) -> Result<usize, FormatError> {
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
        let most = shard.index().row(record).map_or(0, |row| row.length).saturating_mul(limits.max_expansion);
        if bytes > 1 << 20 && bytes > most {
            return Err(too_large("max_expansion", most));
        }
        usize::try_from(bytes).map_err(|_| too_large("max_decoded_bytes", usize::MAX as u64))
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
    /// What `options` make of the dataset.
    ///
    /// # Errors
    /// `Usage` if a field is unknown or cannot be batched; else as [`Dataset::get`]: the first
    /// sample says what arrays are made of.
    pub(super) fn plan(dataset: &Dataset, options: &LoaderOptions) -> Result<Self> {
        let schema = dataset.schema();
        arrays::check(options)?;
        check_view(schema, options)?;
        align::check(schema, options)?;
        let scaling = options.scaling.unwrap_or(Scaling::UNIT);
        let objects = objects::plan(schema, options)?;
        let mut fields = Self {
            plans: Vec::new(),
            objects,
            dims: 0,
            layout: options.layout,
            scaling,
            changes: options.augment_pictures.clone().into(),
            large_bytes: None,
            patches: None,
        };
        match &options.fields {
            None => {
                let batched = |kind| matches!(kind, FieldKind::Scalar | FieldKind::Image | FieldKind::Array);
                let is_tensor =
                    |field: &&Field| batched(field.kind) && !fields.objects.iter().any(|o| o.name == field.name);
                let tensors: Vec<&Field> = schema.fields().iter().filter(is_tensor).collect();
                for field in tensors {
                    fields.add(dataset, field, options)?;
                }
            }
            Some(names) => {
                for name in names.iter().filter(|name| !options.is_aligned_object(name)) {
                    let field = schema.fields().iter().find(|field| field.name == *name).ok_or_else(|| {
                        let names: Vec<&str> = schema.fields().iter().map(|field| field.name.as_str()).collect();
                        let expected = format!("a field out of [{}]", names.join(", "));
                        Error::usage("field name", expected, format!("`{}`", name.escape_debug()))
                    })?;
                    fields.add(dataset, field, options)?;
                }
            }
        }
        if !dataset.is_empty() {
            arrays::check_used(&fields.plans, options)?;
            views::check(&fields.plans, options.layout)?;
            pictures::check(&fields.plans, options)?;
            mixing::plan(&mut fields.plans, options)?;
            fields.check_floats(options)?;
            fields.check_frames(options)?;
            fields.patches = PatchPlan::new(dataset, &fields.plans, options)?.map(Arc::new);
        }
        if fields.patches.is_some() {
            // The host decodes a scene once for all of its patches, also for a stage.
            return Ok(fields);
        }
        if let Some(stage) = &options.stage {
            let Self { plans, layout, scaling, changes, .. } = &mut fields;
            for plan in plans {
                plan.staged = stage.takes(&plan.spec(*layout, *scaling, changes));
            }
        }
        let plans = &fields.plans;
        let part_bytes = options.part_bytes as u64;
        let in_parts = match plans.iter().any(|plan| plan.staged) {
            false => plans.iter().any(|plan| plan.from.is_in_parts()),
            true => {
                let is_copied = |plan: &FieldPlan| plan.is_copied_from(part_bytes.saturating_mul(KEPT_PARTS));
                plans.iter().any(FieldPlan::is_shared) && !plans.iter().any(is_copied)
            }
        };
        if in_parts {
            fields.large_bytes = Some(part_bytes.saturating_mul(LARGE_PARTS));
        }
        Ok(fields)
    }

    fn add(&mut self, dataset: &Dataset, field: &Field, options: &LoaderOptions) -> Result<()> {
        let schema = dataset.schema();
        let position = schema.stored_position(&field.name).unwrap_or(0);
        let raw = || (From::Raw { position }, Dtype::U8.into(), vec![0], Size::Stored);
        let (from, dtype, shape, size) = match field.kind {
            FieldKind::Scalar => {
                let column = Col::find(schema, &field.name)
                    .ok_or_else(|| Error::usage("field", "a column of the index", field.name.as_str()))?;
                let bytes = usize::try_from(column.dtype.bytes()).unwrap_or(0);
                (From::Scalar(column), column.dtype.into(), Vec::new(), Size::Dense { bytes })
            }
            FieldKind::Image => match options.image {
                ImageMode::Raw => raw(),
                ImageMode::View(view) => picture_row::plan(schema, (position, &field.name), view, options)?,
            },
            FieldKind::Array if options.aligned(&field.name).is_some() => {
                align::plan_mask(dataset, (position, &field.name), options)?
            }
            FieldKind::Array => match options.cube {
                CubeMode::Raw => raw(),
                CubeMode::Volume { size, place } => {
                    let planned =
                        volumes::plan(dataset, (position, &field.name), (size.map(u64::from), place), options)?;
                    match planned {
                        Some(parts) => parts,
                        None if options.fields.is_none() => return Ok(()),
                        None => return Err(several_shapes(&field.name)),
                    }
                }
                CubeMode::Whole | CubeMode::Patch { .. } => {
                    match arrays::plan(dataset, &field.name, position, options)? {
                        Some(parts) => parts,
                        // Nobody has asked for it.
                        None if options.fields.is_none() => return Ok(()),
                        None => return Err(several_shapes(&field.name)),
                    }
                }
            },
            _ => {
                let found = format!("`{}`, of kind {:?}", field.name, field.kind);
                return Err(Error::usage("field", "a scalar, an image or an array", found)
                    .with_hint("batches hold numbers: read it sample by sample"));
            }
        };
        let is_banded = matches!(from, From::Array { is_banded: true, .. });
        let mut plan = FieldPlan {
            name: field.name.clone(),
            dtype,
            from,
            shape,
            size,
            dims_at: self.dims,
            staged: false,
            is_noisy: is_banded && options.augment_bands.iter().any(BandAugmentation::is_noise),
        };
        if plan.is_ragged() {
            self.dims += plan.shape.len();
        } else {
            plan.dims_at = 0;
        }
        self.plans.push(plan);
        Ok(())
    }

    /// Positions of the stored fields that a batch has something of.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        let followed = self.plans.iter().filter_map(|plan| match &plan.from {
            From::Mask { picture, .. } => Some(picture.position),
            _ => None,
        });
        let tensors = self.plans.iter().filter_map(|plan| plan.from.position());
        tensors.chain(followed).chain(self.objects.iter().flat_map(ObjectPlan::positions))
    }

    /// Where no record is large, nobody looks for them: the largest one has so many bytes.
    pub(super) fn with_records_of(mut self, record_bytes: u64) -> Self {
        self.large_bytes = self.large_bytes.filter(|&large| record_bytes >= large);
        self
    }

    /// Refuses a scaling that changes nothing.
    fn check_floats(&self, options: &LoaderOptions) -> Result<()> {
        let is_float = |plan: &FieldPlan| matches!(plan.from, From::Picture { floats: Some(_), .. });
        if options.scaling.is_none() || self.plans.iter().any(is_float) {
            return Ok(());
        }
        Err(Error::usage("mean and std", "pictures that come as floats", "none that does")
            .with_hint("choose float16, bfloat16 or float32 as the element type of the pictures"))
    }

    /// Refuses a choice of frames where there are none.
    fn check_frames(&self, options: &LoaderOptions) -> Result<()> {
        let is_clip = |plan: &FieldPlan| matches!(plan.from, From::Picture { clip: Some(_), .. });
        if options.frames == FrameMode::All || self.plans.iter().any(is_clip) {
            return Ok(());
        }
        let hint =
            Hint::new("`pack` with ").and([Setting::on("clips")]).then(" makes a clip of each folder of pictures");
        let error = Error::usage("frames of clips", "a field of clips among the fields", "none that is decoded");
        Err(error.with_hint(hint))
    }
}

/// Refuses a view of a size where the dataset has no pictures, such as those of 16 bits that are
/// arrays: they would come whole.
fn check_view(schema: &Schema, options: &LoaderOptions) -> Result<()> {
    let has_size = matches!(options.image, ImageMode::View(view) if view.size().is_some());
    if !has_size || schema.fields().iter().any(|field| field.kind == FieldKind::Image) {
        return Ok(());
    }
    let hint = "`patch224x224` cuts arrays";
    Err(Error::usage("view of pictures", "a dataset with pictures", "one without").with_hint(hint))
}

/// Arrays of a field have several shapes, and the index does not say which.
pub(super) fn several_shapes(field: &str) -> Error {
    let expected = "one, or such as the index tells by `height`, `width` and `channels`";
    Error::usage(format!("shape of the arrays `{field}`"), expected, "several")
        .with_hint("leave it out of the fields of the batch, and read it sample by sample")
}

/// Where a field comes from, its type, the shape of a row, and how long that is.
pub(super) type Parts = (From, ElementType, Vec<u64>, Size);

/// Height, width and channels in the order of `layout`.
pub(super) fn axes<T>(layout: PixelLayout, height: T, width: T, channels: T) -> [T; 3] {
    match layout {
        PixelLayout::HeightWidthChannels => [height, width, channels],
        PixelLayout::ChannelsHeightWidth => [channels, height, width],
    }
}
