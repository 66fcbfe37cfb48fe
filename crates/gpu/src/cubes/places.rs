//! Blocks of an array that have their places in a slot: of one row, or of several rows of a batch that
//! take parts of the same array, each of whose blocks is then uploaded and decoded once.

use super::blocks::Blocks;
use super::place::Tasks;
use super::wire::{PieceTask, Plane, StreamTask, Wire};
use crate::config::STATUS_BYTES;

/// Where the blocks of an array are, as far as they are placed, and the work that this makes.
#[derive(Default)]
pub(crate) struct BlockPlaces {
    pub(super) tasks: Tasks,
    /// For each block and each byte of an element; of blocks that are not placed, anything.
    pub(super) planes: Vec<Plane>,
    /// By number of the block.
    placed: Vec<bool>,
}

impl BlockPlaces {
    /// Of these blocks.
    pub(super) const fn new(planes: Vec<Plane>, tasks: Tasks) -> Self {
        Self { tasks, planes, placed: Vec::new() }
    }

    /// Which blocks are needed and not placed, of an array of `count`.
    pub(super) fn missing(&mut self, needed: &Blocks, count: usize) -> Blocks {
        self.placed.resize(count, false);
        needed.without(&self.placed)
    }

    /// With `blocks`, which are placed so.
    pub(crate) fn add(&mut self, blocks: &Blocks, more: Self) {
        let Self { tasks, planes, .. } = more;
        if self.planes.is_empty() {
            self.planes = planes;
        } else {
            let each = (planes.len() / self.placed.len().max(1)).max(1);
            let pairs = self.planes.chunks_mut(each).zip(planes.chunks(each)).enumerate();
            pairs.filter(|(number, _)| blocks.has(*number)).for_each(|(_, (to, from))| to.copy_from_slice(from));
        }
        self.tasks.streams.extend(tasks.streams);
        self.tasks.pieces.extend(tasks.pieces);
        self.placed.iter_mut().enumerate().for_each(|(number, placed)| *placed |= blocks.has(number));
    }

    /// Bytes of tables for its tasks.
    pub(crate) fn task_bytes(&self) -> usize {
        self.tasks.streams.len() * StreamTask::BYTES + self.tasks.pieces.len() * PieceTask::BYTES
    }

    /// Bytes of tables for its planes, and of its status word.
    pub(crate) fn plane_bytes(&self) -> usize {
        self.planes.len() * Plane::BYTES + STATUS_BYTES
    }

    /// Whether nothing is placed.
    pub(crate) fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }
}
