//! The plan of one field: its type, shape and size.

use crate::fields::{Axis, FieldType, RowSize};
use shardpack_format::ElementType;
use shardpack_jpeg::PixelLayout;
use shardpack_reader::Error;

pub(crate) fn several_shapes(field: &str) -> Error {
    Error::usage(format!(
        "cannot batch field `{field}`: its arrays differ in shape, and their shapes are not in the index"
    ))
    .with_hint("leave the field out of the batch, and read it sample by sample")
}

pub(crate) struct Description {
    pub(crate) kind: FieldType,
    pub(crate) dtype: ElementType,
    /// Shape of a dense row. For a ragged row, only the number of axes is meaningful.
    pub(crate) shape: Vec<u64>,
    pub(crate) size: RowSize,
}

impl Description {
    pub(crate) fn dense(kind: FieldType, dtype: ElementType, shape: Vec<u64>, bytes: usize) -> Self {
        Self { kind, dtype, shape, size: RowSize::Dense { bytes } }
    }

    pub(crate) fn ragged(kind: FieldType, dtype: ElementType, axes: Vec<Axis>) -> Self {
        Self { kind, dtype, shape: vec![0; axes.len()], size: RowSize::Columns(axes) }
    }
}

pub(crate) fn axes<T>(layout: PixelLayout, height: T, width: T, channels: T) -> [T; 3] {
    match layout {
        PixelLayout::HeightWidthChannels => [height, width, channels],
        PixelLayout::ChannelsHeightWidth => [channels, height, width],
    }
}
