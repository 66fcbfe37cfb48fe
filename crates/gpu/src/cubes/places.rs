//! Tracks where an array's blocks are in a slot. Several rows that use parts of the same array may share its blocks.
//! Each shared block is uploaded and decoded only once.

use super::blocks::Blocks;
use super::place::Tasks;
use super::wire::{PieceTask, Plane, StreamTask, Wire};
use crate::config::STATUS_BYTES;

/// Places of an array's blocks, and the tasks that decode them.
#[derive(Default)]
pub(crate) struct BlockPlaces {
    pub(super) tasks: Tasks,
    /// One plane for each block and each byte of an element. The planes of blocks that are not placed have no
    /// meaning.
    pub(super) planes: Vec<Plane>,
    placed: Vec<bool>,
}

impl BlockPlaces {
    pub(super) const fn new(planes: Vec<Plane>, tasks: Tasks) -> Self {
        Self { tasks, planes, placed: Vec::new() }
    }

    /// Returns the needed blocks that are not yet placed. The array has `count` blocks.
    pub(super) fn missing(&mut self, needed: &Blocks, count: usize) -> Blocks {
        self.placed.resize(count, false);
        needed.without(&self.placed)
    }

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

    pub(crate) fn task_bytes(&self) -> usize {
        self.tasks.streams.len() * StreamTask::BYTES + self.tasks.pieces.len() * PieceTask::BYTES
    }

    /// Returns the size in bytes of the table of planes and the status word.
    pub(crate) fn plane_bytes(&self) -> usize {
        self.planes.len() * Plane::BYTES + STATUS_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }
}
