//! What one batch will be, before any of it is read: its samples, where every row goes, and the
//! reads that bring them.

use super::objects::Object;
use super::patch::PatchAt;
use super::read::Loaded;
use super::sample::Key;
use super::scene::SceneRead;
use super::stage::Room;
use shardpack_reader::Error;
use shardpack_reader::Shard;
use std::ops::Range;
use std::sync::Arc;

/// Index of a row that holds no sample.
pub(super) const PADDING: u64 = u64::MAX;
/// Instead of the number of a read, or of a row.
pub(super) const NONE: u32 = u32::MAX;
/// Fields of a batch begin at multiples of this from its start: on a device, where some libraries
/// insist on it, at those that DLPack asks for.
pub(super) const fn alignment(on_device: bool) -> usize {
    if on_device { 256 } else { 64 }
}

/// One batch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) generation: u64,
    pub(super) epoch: u32,
    /// Counts batches from where the loader was last told to begin, over the ends of epochs.
    pub(super) number: u64,
    /// Counts them in the epoch.
    pub(super) in_epoch: u64,
    pub(super) indices: Vec<u64>,
    pub(super) mask: Vec<bool>,
    /// Row by row the axes of all ragged fields.
    pub(super) dims: Vec<u64>,
    /// Field by field the part of each row.
    pub(super) parts: Vec<Range<usize>>,
    pub(super) bytes: usize,
    /// What the fields take that the host decodes: they are the first ones.
    pub(super) host_bytes: usize,
    /// Staging memory for the others.
    pub(super) staged_bytes: usize,
    /// What the stage needs for them between decoding and output.
    pub(super) between_bytes: usize,
    pub(super) rows: Vec<Row>,
    pub(super) reads: Vec<PlannedRead>,
    /// What the system is to fetch, because nobody will read it as a whole: shard, offset and
    /// bytes.
    pub(super) announced: Vec<(Arc<Shard>, u64, u64)>,
    /// Rows and fields that the sample has no value for; noted when they are decoded.
    pub(super) missing: Vec<(u32, u32)>,
    /// Rows with the values that are no tensors, field by field; noted when they are decoded.
    pub(super) objects: Vec<(u32, Vec<Option<Object>>)>,
    /// Rows with the places of their patches; noted when they are decoded.
    pub(super) patches: Vec<(u32, PatchAt)>,
    /// Scenes that later batches need, with the first of these.
    pub(super) coming: Vec<(u64, PlannedRead)>,
    /// Reads that no later batch needs.
    pub(super) closed: Vec<Key>,
    /// Rows that can be known to fail.
    pub(super) faults: Vec<(u32, Error)>,
    /// What is wrong with the batch as a whole.
    pub(super) error: Option<Error>,
}

/// One row of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) record: u64,
    /// Which draw of the sample it is, of several in an epoch.
    pub(super) repetition: u32,
    /// Number of its patch.
    pub(super) patch: u32,
    /// Which of the plan's reads brings it; [`NONE`] for padding and for rows that have failed
    /// already.
    pub(super) read: u32,
    /// The next row of the same read.
    pub(super) next: u32,
}

/// Consecutive records of one shard, and the rows of this batch that are among them.
#[derive(Debug)]
pub(super) struct PlannedRead {
    pub(super) key: Key,
    pub(super) shard: Arc<Shard>,
    pub(super) records: Range<u64>,
    /// First of the rows; the others hang on it.
    pub(super) first_row: u32,
    pub(super) rows: usize,
    /// Stands for the run, if it is read when it is decoded: because the page cache holds it, or it
    /// is a large record.
    pub(super) cached: Option<Arc<Loaded>>,
    /// What is decoded of it at once, if it is a scene.
    pub(super) scene: Option<Arc<SceneRead>>,
}

impl Plan {
    pub(super) fn clear(&mut self, generation: u64, number: u64) {
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
    pub(super) fn spoil(&mut self, error: Error) {
        self.error = Some(error);
        self.take_nothing();
        self.parts.iter_mut().for_each(|part| *part = 0..0);
        self.reads.clear();
        self.rows.iter_mut().for_each(|row| row.read = NONE);
    }

    /// What its slot must hold.
    pub(super) fn room(&self) -> Room {
        Room {
            rows: self.rows.len(),
            output_bytes: self.bytes,
            host_bytes: self.host_bytes,
            staged_bytes: self.staged_bytes,
            between_bytes: self.between_bytes,
        }
    }

    /// The rows that a read brings.
    pub(super) fn rows_of(&self, read: u32) -> impl Iterator<Item = u32> {
        let read = usize::try_from(read).ok().and_then(|read| self.reads.get(read));
        let mut next = read.map_or(NONE, |read| read.first_row);
        std::iter::from_fn(move || {
            let row = next;
            next = usize::try_from(row).ok().and_then(|row| self.rows.get(row))?.next;
            Some(row)
        })
    }
}
