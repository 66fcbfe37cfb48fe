//! The plan of one batch, made before any of it is read: its samples, the place of every row, and the
//! reads.

use crate::fields::Object;
use crate::patches::PatchAt;
use crate::sample::RunKey;
use crate::stage::SlotRoom;
use crate::supply::{SceneRead, Supply};
use shardpack_format::to_usize;
use shardpack_reader::{Error, Shard};
use std::ops::Range;
use std::sync::Arc;

/// Index of a row without a sample.
pub(crate) const PADDING: u64 = u64::MAX;

/// Alignment of the fields of a batch, from its start: on a device, where some libraries require it,
/// the alignment of DLPack.
pub(crate) const fn alignment(on_device: bool) -> u64 {
    if on_device { 256 } else { 64 }
}

/// The next multiple of an alignment.
pub(crate) const fn aligned(bytes: u64, alignment: u64) -> u64 {
    bytes.div_ceil(alignment).saturating_mul(alignment)
}

#[derive(Debug, Default)]
pub(crate) struct BatchPlan {
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    /// Index of the batch since the last restart of the loader, not reset between epochs.
    pub(crate) number: u64,
    pub(crate) in_epoch: u64,
    pub(crate) indices: Vec<u64>,
    pub(crate) mask: Vec<bool>,
    /// For each row the axes of all ragged fields.
    pub(crate) dims: Vec<u64>,
    /// For each field, the range of each row.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) bytes: usize,
    /// Bytes of the fields that the host decodes, which come first.
    pub(crate) host_bytes: usize,
    /// Bytes of staging memory for the other fields.
    pub(crate) staged_bytes: usize,
    /// Bytes that the stage needs for them between decoding and output.
    pub(crate) between_bytes: usize,
    pub(crate) rows: Vec<PlannedRow>,
    pub(crate) reads: Vec<PlannedRead>,
    /// Bytes for the system to fetch, because they are not read as whole runs.
    pub(crate) announced: Vec<Announcement>,
    /// Rows and fields for which the sample has no value; set when they are decoded.
    pub(crate) missing: Vec<(u32, u32)>,
    /// Rows with their values that are not tensors, one for each field; set when they are decoded.
    pub(crate) objects: Vec<(u32, Vec<Option<Object>>)>,
    /// Rows with the places of their patches; set when they are decoded.
    pub(crate) patches: Vec<(u32, PatchAt)>,
    /// Scenes that later batches need, each with the first such batch.
    pub(crate) coming: Vec<(u64, PlannedRun)>,
    /// Reads that later batches do not need.
    pub(crate) closed: Vec<RunKey>,
    /// Rows that will certainly fail.
    pub(crate) faults: Vec<(u32, Error)>,
    pub(crate) error: Option<Error>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannedRow {
    pub(crate) record: u64,
    /// Number of the draw, if an epoch draws the sample several times.
    pub(crate) repetition: u32,
    pub(crate) patch: u32,
    /// The read of the plan that contains it; `None` for padding and for rows that have failed already.
    pub(crate) read: Option<u32>,
    /// The next row of the same read.
    pub(crate) next: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct PlannedRead {
    pub(crate) source: ReadSource,
    /// First of the rows; [`PlannedRow::next`] links the others.
    pub(crate) first_row: Option<u32>,
    pub(crate) rows: usize,
}

#[derive(Debug)]
pub(crate) enum ReadSource {
    Run(PlannedRun),
    /// No read in advance: each row is read when it is decoded, because the page cache or a device
    /// holds it, or it is a large record.
    Direct(Arc<Supply>),
}

/// Consecutive records of one shard that are read together.
#[derive(Debug)]
pub(crate) struct PlannedRun {
    pub(crate) key: RunKey,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    /// The patches that are decoded together, if the run is a scene.
    pub(crate) scene: Option<Arc<SceneRead>>,
}

impl PlannedRun {
    /// Its byte range in the shard; empty if the shard does not have these records.
    pub(crate) fn span(&self) -> Range<u64> {
        self.shard.span(&self.records).unwrap_or(0..0)
    }

    pub(crate) fn announcement(&self) -> Announcement {
        Announcement { shard: Arc::clone(&self.shard), span: self.span() }
    }
}

impl PlannedRead {
    /// The run, unless rows are read when they are decoded.
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

/// Bytes of a shard that will be read soon.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) shard: Arc<Shard>,
    pub(crate) span: Range<u64>,
}

impl Announcement {
    /// Asks the system to fetch the bytes. A shard that cannot be opened is reported when it is read.
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

    /// Axes of the ragged fields of a row; each row has `stride` axes.
    pub(crate) fn dims_of(&self, row: u32, stride: usize) -> &[u64] {
        let start = to_usize(row) * stride;
        self.dims.get(start..start + stride).unwrap_or_default()
    }

    /// Mutable axes of the ragged fields of a row, to correct them.
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
