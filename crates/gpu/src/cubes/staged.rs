//! An array in staging memory.

use super::places::BlockPlaces;
use super::wire::{CubeRow, Wire};
use crate::config::STATUS_BYTES;

/// An array in staging memory: its tables, and its work. Places are offsets in the slot. But offsets of its
/// own tables count from the first of them, and its row is 0, because both are known only when the batch is
/// complete.
pub(crate) struct StagedArray {
    /// Places of its blocks, unless it shares them.
    pub(super) places: Option<BlockPlaces>,
    pub(super) tables: Vec<u8>,
    pub(super) row: CubeRow,
}

impl StagedArray {
    /// Most bytes of its tables among a batch's.
    pub(crate) fn table_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| places.task_bytes() + places.plane_bytes());
        self.tables.len().next_multiple_of(16) + places + CubeRow::BYTES + STATUS_BYTES
    }
}

/// Pads up to a multiple of 16, and returns the new length.
pub(super) fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}
