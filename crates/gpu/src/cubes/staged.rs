//! An array in staging memory, and the array that it decodes to.

use super::places::BlockPlaces;
use super::wire::{CubeRow, Wire};
use crate::config::STATUS_BYTES;
use shardpack_format::ElementType;

/// The output of one cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedArray {
    /// Type of the elements.
    pub element: ElementType,
    /// Axes.
    pub shape: Vec<u64>,
    /// Bytes of all elements.
    pub bytes: u64,
}

/// An array in staging memory: its tables, and the work that it makes. BlockPlaces are those of the slot
/// but for its own tables, which count from the first of them, and its row, which is 0: they are
/// known when the batch is complete.
pub(crate) struct StagedArray {
    /// Where its blocks are, unless it shares them.
    pub(super) places: Option<BlockPlaces>,
    pub(super) tables: Vec<u8>,
    pub(super) row: CubeRow,
    /// Where its part of the output ends.
    pub(super) out_end: u64,
}

impl StagedArray {
    /// Bytes that its tables take among those of a batch, at most.
    pub(crate) fn table_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| places.task_bytes() + places.plane_bytes());
        self.tables.len().next_multiple_of(16) + places + CubeRow::BYTES + STATUS_BYTES
    }
}

/// Fills up to a multiple of 16, and returns the length then.
pub(super) fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}
