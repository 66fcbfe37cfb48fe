//! The plan of one field: its type, shape and size.

use crate::fields::{Axis, Col, FieldType, RowSize};
use shardpack_format::{ElementType, Schema};
use shardpack_jpeg::{Framing, PixelLayout, View};
use shardpack_reader::Error;

pub(crate) fn several_shapes(field: &str) -> Error {
    Error::usage(format!(
        "cannot batch field `{field}`: its arrays differ in shape, and their shapes are not in the index"
    ))
    .with_hint("leave the field out of the batch, and read it sample by sample")
}

/// Returns the height and width of a view's rows, or `None` if they depend on the picture and the dataset has no
/// columns with the sizes of its pictures.
pub(crate) fn sides(schema: &Schema, view: View) -> Option<[Axis; 2]> {
    if let Some((height, width)) = view.size() {
        return Some([height, width].map(|side| Axis::Fixed(side.into())));
    }
    let [height, width] = [Col::find(schema, "height")?, Col::find(schema, "width")?];
    Some(match view.framing {
        Framing::Shortest(short) => {
            let drawn = |side, other| Axis::Drawn { side, other, short };
            [drawn(height, width), drawn(width, height)]
        }
        _ => [height, width].map(Axis::Column),
    })
}

pub(crate) fn no_sides() -> Error {
    Error::usage("whole pictures need the scalar fields `height` and `width`, which the dataset does not have")
        .with_hint("choose a view with a fixed size, or load the stored bytes (`raw`)")
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
