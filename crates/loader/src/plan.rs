//! The plan of one batch: its samples, the location of every row, and the reads.

use crate::fields::Object;
use crate::patches::PatchAt;
use crate::sample::RunKey;
use crate::stage::SlotRoom;
use crate::supply::{SceneRead, Supply};
use shardpack_format::to_usize;
use shardpack_reader::{Error, Shard};
use std::ops::Range;
use std::sync::Arc;

/// Index that marks a row without a sample.
pub(crate) const PADDING: u64 = u64::MAX;

/// Returns the alignment of fields within a batch, in bytes. On a device it is the alignment of DLPack, which
/// some libraries require.
pub(crate) const fn alignment(on_device: bool) -> u64 {
    if on_device { 256 } else { 64 }
}

pub(crate) const fn aligned(bytes: u64, alignment: u64) -> u64 {
    bytes.div_ceil(alignment).saturating_mul(alignment)
}

#[derive(Debug, Default)]
pub(crate) struct BatchPlan {
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    /// Index of the batch since the loader last restarted. The count continues from one epoch to the next.
    pub(crate) number: u64,
    pub(crate) in_epoch: u64,
    pub(crate) indices: Vec<u64>,
    pub(crate) mask: Vec<bool>,
    /// Axis lengths of all ragged fields, row by row.
    pub(crate) dims: Vec<u64>,
    /// Byte range of each row in each field, field by field.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) bytes: usize,
    /// Size in bytes of the fields that the host decodes. These fields come first.
    pub(crate) host_bytes: usize,
    /// Size in bytes of the staging memory for the fields that a stage decodes.
    pub(crate) staged_bytes: usize,
    /// Number of bytes that the stage needs for its fields between decoding and output.
    pub(crate) between_bytes: usize,
    pub(crate) rows: Vec<PlannedRow>,
    pub(crate) reads: Vec<PlannedRead>,
    /// Byte ranges that the system should fetch in advance, if runs are not read whole.
    pub(crate) announced: Vec<Announcement>,
    /// Pairs of row and field without a value. Set during decoding.
    pub(crate) missing: Vec<(u32, u32)>,
    /// For each row, its values that are not tensors, with one entry per field. Set during decoding.
    pub(crate) objects: Vec<(u32, Vec<Option<Object>>)>,
    /// Weights of a row's values in [`objects`](Self::objects), in the same order. Rows whose weights are all 1 have
    /// no entry. Set when the batch is mixed.
    pub(crate) weights: Vec<(u32, Vec<Vec<f32>>)>,
    /// Positions of the patches, by row. Set during decoding.
    pub(crate) patches: Vec<(u32, PatchAt)>,
    /// Scenes that later batches need, and for each scene the index of the first of these batches.
    pub(crate) coming: Vec<(u64, PlannedRun)>,
    /// Reads whose memory can be freed, because no later batch needs them.
    pub(crate) closed: Vec<RunKey>,
    /// Rows that will certainly fail, with their errors.
    pub(crate) faults: Vec<(u32, Error)>,
    pub(crate) error: Option<Error>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannedRow {
    pub(crate) record: u64,
    /// Distinguishes repeated draws of a sample in an epoch.
    pub(crate) repetition: u32,
    pub(crate) patch: u32,
    /// Index of the sample's read in the plan, or `None` for padding and for rows that have already failed.
    pub(crate) read: Option<u32>,
    /// Next row that uses the same read.
    pub(crate) next: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct PlannedRead {
    pub(crate) source: ReadSource,
    /// First row that uses the read. [`PlannedRow::next`] links to the others.
    pub(crate) first_row: Option<u32>,
    pub(crate) rows: usize,
}

#[derive(Debug)]
pub(crate) enum ReadSource {
    Run(PlannedRun),
    /// Nothing is read in advance. Each row is read when it is decoded, because its bytes are in the page cache or on
    /// a device, or because its record is large.
    Direct(Arc<Supply>),
}

/// Consecutive records of one shard that are read together.
#[derive(Debug)]
pub(crate) struct PlannedRun {
    pub(crate) key: RunKey,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    /// Patches of the scene to decode together, if the run is a scene.
    pub(crate) scene: Option<Arc<SceneRead>>,
}

impl PlannedRun {
    /// Returns the byte range in the shard, or an empty range if the shard lacks these records.
    pub(crate) fn span(&self) -> Range<u64> {
        self.shard.span(&self.records).unwrap_or(0..0)
    }

    pub(crate) fn announcement(&self) -> Announcement {
        Announcement { shard: Arc::clone(&self.shard), span: self.span() }
    }
}

impl PlannedRead {
    pub(crate) const fn run(&self) -> Option<&PlannedRun> {
        match &self.source {
            ReadSource::Run(run) => Some(run),
            ReadSource::Direct(_) => None,
        }
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        match &self.source {
            ReadSource::Run(run) => &run.shard,
            ReadSource::Direct(supply) => supply.shard(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) shard: Arc<Shard>,
    pub(crate) span: Range<u64>,
}

impl Announcement {
    /// Asks the system to fetch the bytes. Ignores errors, which reading the shard reports.
    pub(crate) fn send(&self) {
        if let Ok(handle) = self.shard.file().handle() {
            handle.advise_soon(self.span.start, self.span.end - self.span.start);
        }
    }
}

impl BatchPlan {
    pub(crate) fn clear(&mut self, generation: u64, number: u64) {
        let Self { indices, mask, dims, parts, rows, reads, announced, closed, missing, objects, faults, .. } = self;
        self.patches.clear();
        self.weights.clear();
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

    pub(crate) fn spoil(&mut self, error: Error) {
        self.error = Some(error);
        self.take_nothing();
        self.parts.iter_mut().for_each(|part| *part = 0..0);
        self.reads.clear();
        self.rows.iter_mut().for_each(|row| row.read = None);
    }

    pub(crate) fn room(&self) -> SlotRoom {
        SlotRoom {
            rows: self.rows.len(),
            output_bytes: self.bytes,
            host_bytes: self.host_bytes,
            staged_bytes: self.staged_bytes,
            between_bytes: self.between_bytes,
        }
    }

    /// Returns the axes of a row's ragged fields. Each row has `stride` of them.
    pub(crate) fn dims_of(&self, row: u32, stride: usize) -> &[u64] {
        let start = to_usize(row) * stride;
        self.dims.get(start..start + stride).unwrap_or_default()
    }

    pub(crate) fn dims_of_mut(&mut self, row: u32, stride: usize) -> &mut [u64] {
        let start = to_usize(row) * stride;
        self.dims.get_mut(start..start + stride).unwrap_or_default()
    }

    pub(crate) fn read_of(&self, row: &PlannedRow) -> Option<&PlannedRead> {
        self.reads.get(to_usize(row.read?))
    }

    pub(crate) fn rows_of(&self, read: u32) -> impl Iterator<Item = u32> {
        let mut next = self.reads.get(to_usize(read)).and_then(|read| read.first_row);
        std::iter::from_fn(move || {
            let row = next?;
            next = self.rows.get(to_usize(row))?.next;
            Some(row)
        })
    }
}
