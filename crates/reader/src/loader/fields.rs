//! What a batch is made of: for each field where it comes from, its type, and how many bytes a row of it takes, known from the index alone.

use super::options::{CubeMode, ImageMode, LoaderOptions};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::scalar::Scalar;
use crate::shard::Shard;
use shardpack_codec::jpeg::{PixelLayout, View};
use shardpack_format::{
    ArrayDescriptor, Dtype, Error as FormatError, FRAME_BYTES, Field, FieldKind, Schema, Transform,
};

/// A column of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Col {
    position: usize,
    dtype: Dtype,
}

impl Col {
    fn find(schema: &Schema, name: &str) -> Option<Self> {
        schema.scalar_position(name).map(|(position, dtype)| Self { position, dtype })
    }

    /// The bytes of the value of a record.
    pub(super) fn bytes<'s>(&self, shard: &'s Shard, record: u64) -> &'s [u8] {
        let width = usize::try_from(self.dtype.bytes()).unwrap_or(0);
        let start = usize::try_from(record).ok().and_then(|r| r.checked_mul(width));
        let range = start.and_then(|start| Some(start..start.checked_add(width)?));
        range.and_then(|range| shard.index().column(self.position)?.get(range)).unwrap_or_default()
    }

    /// The value as a length; `None` for what is none.
    pub(super) fn length(&self, shard: &Shard, record: u64) -> Option<u64> {
        Scalar::from_bytes(self.dtype, self.bytes(shard, record))?.as_i64()?.try_into().ok()
    }
}

/// Where a field of a batch comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum From {
    /// A column of the index.
    Scalar(Col),
    /// A picture, decoded. Position among the stored fields.
    Picture { position: usize, view: View, orientation: Option<Col> },
    /// An array, decoded.
    Array { position: usize, channels_first: bool },
    /// Stored bytes.
    Raw { position: usize },
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

/// One axis of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Column(Col),
    Fixed(u64),
}

/// One field of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldPlan {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) from: From,
    /// Shape of a dense row; of a ragged one only the number of axes is known.
    pub(super) shape: Vec<u64>,
    pub(super) size: Size,
    /// Where the axes of a ragged row stand among those of all ragged fields.
    pub(super) dims_at: usize,
}

/// All fields of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields {
    pub(super) plans: Vec<FieldPlan>,
    /// Axes of all ragged fields of a row together.
    pub(super) dims: usize,
}

impl FieldPlan {
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
            Size::Columns(axes) => axes,
            Size::Stored => return self.stored_row(shard, record, dims),
        };
        for (axis, out) in axes.iter().zip(&mut *dims) {
            *out = match axis {
                Axis::Fixed(length) => *length,
                Axis::Column(column) => column.length(shard, record).ok_or_else(|| {
                    FormatError::format(format!("field `{}`: length of an axis in the index", self.name), "one", "none")
                })?,
            };
        }
        let bytes = self.dtype.array_bytes(dims)?;
        let limits = &shard.options().limits;
        let too_large =
            |name, limit| FormatError::limit(format!("field `{}`: size in the index", self.name), name, limit, bytes);
        if bytes > limits.max_decoded_bytes {
            return Err(too_large("max_decoded_bytes", limits.max_decoded_bytes));
        }
        // An index that promises what no record of this length can hold is refused before memory is taken for it.
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
    /// `Usage` if a field is unknown or cannot be batched; else as [`Dataset::get`]: the first sample says what arrays are made of.
    pub(super) fn plan(dataset: &Dataset, options: &LoaderOptions) -> Result<Self> {
        let schema = dataset.schema();
        let mut fields = Self { plans: Vec::new(), dims: 0 };
        match &options.fields {
            None => {
                let batched = |kind| matches!(kind, FieldKind::Scalar | FieldKind::Image | FieldKind::Array);
                for field in schema.fields().iter().filter(|field| batched(field.kind)) {
                    fields.add(dataset, field, options)?;
                }
            }
            Some(names) => {
                for name in names {
                    let field = schema.fields().iter().find(|field| field.name == *name).ok_or_else(|| {
                        let names: Vec<&str> = schema.fields().iter().map(|field| field.name.as_str()).collect();
                        let expected = format!("a field out of [{}]", names.join(", "));
                        Error::usage("field name", expected, format!("`{}`", name.escape_debug()))
                    })?;
                    fields.add(dataset, field, options)?;
                }
            }
        }
        Ok(fields)
    }

    fn add(&mut self, dataset: &Dataset, field: &Field, options: &LoaderOptions) -> Result<()> {
        let schema = dataset.schema();
        let position = schema.stored_position(&field.name).unwrap_or(0);
        let raw = || (From::Raw { position }, Dtype::U8, vec![0], Size::Stored);
        let (from, dtype, shape, size) = match field.kind {
            FieldKind::Scalar => {
                let column = Col::find(schema, &field.name)
                    .ok_or_else(|| Error::usage("field", "a column of the index", field.name.as_str()))?;
                let bytes = usize::try_from(column.dtype.bytes()).unwrap_or(0);
                (From::Scalar(column), column.dtype, Vec::new(), Size::Dense { bytes })
            }
            FieldKind::Image => match options.image {
                ImageMode::Raw => raw(),
                ImageMode::View(view) => picture(schema, position, view, options.layout)?,
            },
            FieldKind::Array => match options.cube {
                CubeMode::Raw => raw(),
                CubeMode::Whole => array(dataset, &field.name, position, options)?,
            },
            _ => {
                let found = format!("`{}`, of kind {:?}\nhint: read it with `Dataset::get`", field.name, field.kind);
                return Err(Error::usage("field", "a scalar, an image or an array", found));
            }
        };
        let mut plan = FieldPlan { name: field.name.clone(), dtype, from, shape, size, dims_at: self.dims };
        if plan.is_ragged() {
            self.dims += plan.shape.len();
        } else {
            plan.dims_at = 0;
        }
        self.plans.push(plan);
        Ok(())
    }
}

type Parts = (From, Dtype, Vec<u64>, Size);

fn picture(schema: &Schema, position: usize, view: View, layout: PixelLayout) -> Result<Parts> {
    view.check()?;
    let from = From::Picture { position, view, orientation: Col::find(schema, "orientation") };
    if let Some((height, width)) = view.size() {
        let shape = axes(layout, u64::from(height), u64::from(width), 3).to_vec();
        let bytes = Dtype::U8.array_bytes(&shape)?;
        let bytes =
            usize::try_from(bytes).map_err(|_| Error::usage("size of a view", "one that fits memory", bytes))?;
        return Ok((from, Dtype::U8, shape, Size::Dense { bytes }));
    }
    let (Some(height), Some(width)) = (Col::find(schema, "height"), Col::find(schema, "width")) else {
        let found = "a dataset without them\nhint: choose a view of fixed size, or raw pictures";
        return Err(Error::usage("whole pictures", "scalar fields `height` and `width`, to make room for them", found));
    };
    let axes = axes(layout, Axis::Column(height), Axis::Column(width), Axis::Fixed(3));
    Ok((from, Dtype::U8, vec![0; 3], Size::Columns(axes.to_vec())))
}

/// Height, width and channels in the order of `layout`.
fn axes<T>(layout: PixelLayout, height: T, width: T, channels: T) -> [T; 3] {
    match layout {
        PixelLayout::HeightWidthChannels => [height, width, channels],
        PixelLayout::ChannelsHeightWidth => [channels, height, width],
    }
}

fn array(dataset: &Dataset, name: &str, position: usize, options: &LoaderOptions) -> Result<Parts> {
    if dataset.is_empty() {
        let from = From::Array { position, channels_first: false };
        return Ok((from, Dtype::U8, vec![0], Size::Dense { bytes: 0 }));
    }
    let descriptor = dataset.get(0)?.descriptor(name)?;
    let dtype = handed_out(&descriptor, options.keep_float16);
    let rank = descriptor.shape.len();
    let channels_first = rank == 3 && options.layout == PixelLayout::ChannelsHeightWidth;
    // The columns of the packer: `height`, `width`, and for cubes `channels`. They are this array's only if they say what its descriptor says.
    let names = ["height", "width", "channels"];
    let columns: Vec<Col> = names.iter().take(rank).filter_map(|name| Col::find(dataset.schema(), name)).collect();
    let of_first = |column: &Col| dataset.shard(dataset.locate(0)?.0).map(|shard| column.length(&shard, 0));
    let values = columns.iter().map(of_first).collect::<Result<Vec<_>>>()?;
    let known = (2..=3).contains(&rank) && values.into_iter().eq(descriptor.shape.iter().map(|axis| Some(*axis)));
    let turn = |mut axes: Vec<Axis>| {
        if channels_first {
            axes.rotate_right(1);
        }
        axes
    };
    let from = From::Array { position, channels_first };
    if known && !alike(dataset, &columns)? {
        let axes = turn(columns.into_iter().map(Axis::Column).collect());
        return Ok((from, dtype, vec![0; rank], Size::Columns(axes)));
    }
    let mut shape = descriptor.shape.clone();
    if channels_first {
        shape.rotate_right(1);
    }
    let bytes = usize::try_from(dtype.array_bytes(&shape)?)
        .map_err(|_| Error::usage(format!("array `{name}`"), "one that fits memory", format!("{shape:?}")))?;
    Ok((from, dtype, shape, Size::Dense { bytes }))
}

/// The type in which the array of `descriptor` is handed out.
pub(super) fn handed_out(descriptor: &ArrayDescriptor, keep_float16: bool) -> Dtype {
    let half = keep_float16 && descriptor.transform == Transform::F16 && descriptor.codes.is_empty();
    if half { Dtype::F16 } else { descriptor.decoded }
}

/// Whether each of these columns has one value for all samples. Opens every shard, touches no record.
fn alike(dataset: &Dataset, columns: &[Col]) -> Result<bool> {
    for (number, info) in dataset.shards().enumerate() {
        if info.samples == 0 {
            continue;
        }
        let shard = dataset.shard(number)?;
        for column in columns {
            let first = dataset.shard(dataset.locate(0)?.0)?;
            let value = column.bytes(&first, 0);
            let all = shard.index().column(column.position).unwrap_or_default();
            if value.is_empty() || all.chunks(value.len()).any(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
