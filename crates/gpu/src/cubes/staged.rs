//! An array in staging memory.

use super::places::BlockPlaces;
use super::wire::{CubeRow, Wire};
use crate::config::STATUS_BYTES;

/// An array's tables and work in staging memory. Places are offsets in the slot. Only when the batch is
/// complete are its row and its tables' place known: until then the row is 0, and offsets of its tables are
/// relative to the first of them.
pub(crate) struct StagedArray {
    /// Places of its blocks, unless it shares them.
    pub(super) places: Option<BlockPlaces>,
    pub(super) tables: Vec<u8>,
    pub(super) row: CubeRow,
}

impl StagedArray {
    /// Returns the maximum size of its tables in a batch, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| places.task_bytes() + places.plane_bytes());
        self.tables.len().next_multiple_of(16) + places + CubeRow::BYTES + STATUS_BYTES
    }
}

/// Pads to a multiple of 16 and returns the new length.
pub(super) fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}
