//! Reads data about a row from the index before the record is read: column values and axis lengths.

use shardpack_format::{Dtype, FieldKind, Schema, saturating_u32};
use shardpack_jpeg::{DrawKey, ShortestSide};
use shardpack_reader::{Scalar, Shard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Col {
    position: usize,
    pub(crate) dtype: Dtype,
}

impl Col {
    pub(crate) fn find(schema: &Schema, name: &str) -> Option<Self> {
        schema.scalar_position(name).map(|(position, dtype)| Self { position, dtype })
    }

    pub(crate) fn bytes<'s>(&self, shard: &'s Shard, record: u64) -> &'s [u8] {
        let width = usize::try_from(self.dtype.bytes()).unwrap_or(0);
        let start = usize::try_from(record).ok().and_then(|r| r.checked_mul(width));
        let range = start.and_then(|start| Some(start..start.checked_add(width)?));
        range.and_then(|range| self.all(shard).get(range)).unwrap_or_default()
    }

    pub(crate) fn all<'s>(&self, shard: &'s Shard) -> &'s [u8] {
        shard.column_bytes(self.position).unwrap_or_default()
    }

    /// Returns true if the shard has the column. Some datasets of a combined dataset may lack it.
    pub(crate) fn is_in(&self, shard: &Shard) -> bool {
        shard.has_scalar(self.position)
    }

    pub(crate) fn length(&self, shard: &Shard, record: u64) -> Option<u64> {
        self.integer(shard, record)?.try_into().ok()
    }

    pub(crate) fn integer(&self, shard: &Shard, record: u64) -> Option<i64> {
        Scalar::from_bytes(self.dtype, self.bytes(shard, record)).filter(|_| self.is_in(shard))?.as_i64()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Column(Col),
    /// Side of the upright picture. If the picture is stored rotated by 90°, the column `other` contains its length.
    Upright {
        side: Col,
        other: Col,
        orientation: Col,
    },
    Fixed(u64),
    /// Side of a picture after resizing to a random size. The size also depends on the `other` side.
    Drawn {
        side: Col,
        other: Col,
        short: ShortestSide,
    },
}

impl Axis {
    /// Returns the length of the axis, or `None` if the index does not contain it. Without a key, a random length is
    /// the largest that can be drawn.
    pub(crate) fn length(&self, shard: &Shard, record: u64, key: Option<&DrawKey>) -> Option<u64> {
        match self {
            Self::Drawn { side, other, short } => {
                let [side, other] = [side, other].map(|column| column.length(shard, record).map(saturating_u32));
                let [drawn, _] = short.resized([side?, other?], key);
                Some(drawn.into())
            }
            Self::Fixed(length) => Some(*length),
            Self::Column(column) => column.length(shard, record),
            Self::Upright { side, other, orientation } => {
                let is_on_its_side = matches!(orientation.length(shard, record), Some(5..=8));
                if is_on_its_side { other } else { side }.length(shard, record)
            }
        }
    }

    /// Returns the length of the axis before resizing to a random size.
    pub(crate) fn stored_length(&self, shard: &Shard, record: u64) -> Option<u64> {
        match self {
            Self::Drawn { side, .. } => side.length(shard, record),
            other => other.length(shard, record, None),
        }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &Col> {
        match self {
            Self::Fixed(_) => [None, None, None],
            Self::Column(column) => [Some(column), None, None],
            Self::Drawn { side, other, .. } => [Some(side), Some(other), None],
            Self::Upright { side, other, orientation } => [Some(side), Some(other), Some(orientation)],
        }
        .into_iter()
        .flatten()
    }
}

/// Returns height and width from the packer's columns. In a dataset with pictures these columns describe the
/// stored picture, but arrays follow the upright one.
pub(crate) fn sides_of(schema: &Schema) -> Vec<Axis> {
    let [height, width] = ["height", "width"].map(|name| Col::find(schema, name));
    let has_pictures = schema.fields().iter().any(|field| field.kind == FieldKind::Image);
    match (height, width, Col::find(schema, "orientation").filter(|_| has_pictures)) {
        (Some(height), Some(width), Some(orientation)) => {
            let upright = |side, other| Axis::Upright { side, other, orientation };
            vec![upright(height, width), upright(width, height)]
        }
        (height, width, _) => height.into_iter().chain(width).map(Axis::Column).collect(),
    }
}
