//! An array in staging memory, with its tables and the tasks that decode it.

use super::places::BlockPlaces;
use super::wire::{CubeRow, Wire};
use crate::config::STATUS_BYTES;

/// Size in bytes of the keys of an array's smallest and largest value.
pub(super) const EXTREMES_BYTES: usize = 8;

/// The tables and tasks of an array in staging memory. Places are offsets in the slot. The row of the array and the
/// offset of its tables are known only when the batch is complete. Until then, the row is 0, and offsets of tables
/// are relative to the first table.
pub(crate) struct StagedArray {
    /// Places of this array's blocks, or `None` if they are shared with another row.
    pub(super) places: Option<BlockPlaces>,
    pub(super) tables: Vec<u8>,
    pub(super) row: CubeRow,
}

impl StagedArray {
    /// Returns the maximum size in bytes of this array's tables in a batch.
    pub(crate) fn table_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| places.task_bytes() + places.plane_bytes());
        self.tables.len().next_multiple_of(16) + places + CubeRow::BYTES + STATUS_BYTES + EXTREMES_BYTES
    }
}

/// Pads the tables to a multiple of 16 bytes and returns their new length.
pub(super) fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}
