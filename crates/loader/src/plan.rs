//! What one batch will be, before any of it is read: its samples, where every row goes, and the
//! reads that bring them.

use crate::fields::Object;
use crate::patches::PatchAt;
use crate::read::{Loaded, SceneRead};
use crate::sample::Key;
use crate::stage::Room;
use shardpack_reader::Error;
use shardpack_reader::Shard;
use std::ops::Range;
use std::sync::Arc;

/// Index of a row that holds no sample.
pub(crate) const PADDING: u64 = u64::MAX;
/// Instead of the number of a read, or of a row.
pub(crate) const NONE: u32 = u32::MAX;
/// Fields of a batch begin at multiples of this from its start: on a device, where some libraries
/// insist on it, at those that DLPack asks for.
pub(crate) const fn alignment(on_device: bool) -> usize {
    if on_device { 256 } else { 64 }
}

/// One batch.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    /// Counts batches from where the loader was last told to begin, over the ends of epochs.
    pub(crate) number: u64,
    /// Counts them in the epoch.
    pub(crate) in_epoch: u64,
    pub(crate) indices: Vec<u64>,
    pub(crate) mask: Vec<bool>,
    /// Row by row the axes of all ragged fields.
    pub(crate) dims: Vec<u64>,
    /// Field by field the part of each row.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) bytes: usize,
    /// What the fields take that the host decodes: they are the first ones.
    pub(crate) host_bytes: usize,
    /// Staging memory for the others.
    pub(crate) staged_bytes: usize,
    /// What the stage needs for them between decoding and output.
    pub(crate) between_bytes: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) reads: Vec<PlannedRead>,
    /// What the system is to fetch, because nobody will read it as a whole: shard, offset and
    /// bytes.
    pub(crate) announced: Vec<(Arc<Shard>, u64, u64)>,
    /// Rows and fields that the sample has no value for; noted when they are decoded.
    pub(crate) missing: Vec<(u32, u32)>,
    /// Rows with the values that are no tensors, field by field; noted when they are decoded.
    pub(crate) objects: Vec<(u32, Vec<Option<Object>>)>,
    /// Rows with the places of their patches; noted when they are decoded.
    pub(crate) patches: Vec<(u32, PatchAt)>,
    /// Scenes that later batches need, with the first of these.
    pub(crate) coming: Vec<(u64, PlannedRead)>,
    /// Reads that no later batch needs.
    pub(crate) closed: Vec<Key>,
    /// Rows that can be known to fail.
    pub(crate) faults: Vec<(u32, Error)>,
    /// What is wrong with the batch as a whole.
    pub(crate) error: Option<Error>,
}

/// One row of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) record: u64,
    /// Which draw of the sample it is, of several in an epoch.
    pub(crate) repetition: u32,
    /// Number of its patch.
    pub(crate) patch: u32,
    /// Which of the plan's reads brings it; [`NONE`] for padding and for rows that have failed
    /// already.
    pub(crate) read: u32,
    /// The next row of the same read.
    pub(crate) next: u32,
}

/// Consecutive records of one shard, and the rows of this batch that are among them.
#[derive(Debug)]
pub(crate) struct PlannedRead {
    pub(crate) key: Key,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    /// First of the rows; the others hang on it.
    pub(crate) first_row: u32,
    pub(crate) rows: usize,
    /// Stands for the run, if it is read when it is decoded: because the page cache holds it, or it
    /// is a large record.
    pub(crate) cached: Option<Arc<Loaded>>,
    /// What is decoded of it at once, if it is a scene.
    pub(crate) scene: Option<Arc<SceneRead>>,
}

impl Plan {
    pub(crate) fn clear(&mut self, generation: u64, number: u64) {
        let Self { indices, mask, dims, parts, rows, reads, announced, closed, missing, objects, faults, .. } = self;
        self.patches.clear();
        self.coming.clear();
        indices.clear();
        mask.clear();
        dims.clear();
        parts.clear();
        rows.clear();
        reads.clear();
        announced.clear();
        closed.clear();
        missing.clear();
        objects.clear();
        faults.clear();
        self.error = None;
        (self.generation, self.number) = (generation, number);
        self.take_nothing();
    }

    const fn take_nothing(&mut self) {
        (self.bytes, self.host_bytes, self.staged_bytes, self.between_bytes) = (0, 0, 0, 0);
    }

    /// Makes the batch one that only says what is wrong.
    pub(crate) fn spoil(&mut self, error: Error) {
        self.error = Some(error);
        self.take_nothing();
        self.parts.iter_mut().for_each(|part| *part = 0..0);
        self.reads.clear();
        self.rows.iter_mut().for_each(|row| row.read = NONE);
    }

    /// What its slot must hold.
    pub(crate) fn room(&self) -> Room {
        Room {
            rows: self.rows.len(),
            output_bytes: self.bytes,
            host_bytes: self.host_bytes,
            staged_bytes: self.staged_bytes,
            between_bytes: self.between_bytes,
        }
    }

    /// The rows that a read brings.
    pub(crate) fn rows_of(&self, read: u32) -> impl Iterator<Item = u32> {
        let read = usize::try_from(read).ok().and_then(|read| self.reads.get(read));
        let mut next = read.map_or(NONE, |read| read.first_row);
        std::iter::from_fn(move || {
            let row = next;
            next = usize::try_from(row).ok().and_then(|row| self.rows.get(row))?.next;
            Some(row)
        })
    }
}
