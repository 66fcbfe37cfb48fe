//! The tasks of threads, and their results.

use crate::fields::Object;
use crate::openings::Openings;
use crate::patches::PatchAt;
use crate::plan::BatchPlan;
use crate::rows::{RowMut, Rows};
use crate::sample::{RowId, RunKey, SampleAt};
use crate::stage::SlotRoom;
use crate::supply::{LargeRecord, SceneRead, Supply};
use shardpack_reader::{Error, Result, Shard};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct RowTask {
    pub(crate) of: RowId,
    pub(crate) handle: RowMut,
    pub(crate) supply: Option<Arc<Supply>>,
}

/// A finished row, whose handle and supply have been released.
pub(crate) struct RowDone {
    pub(crate) of: RowId,
    pub(crate) made: Result<RowNotes>,
}

#[derive(Debug, Default)]
pub(crate) struct RowNotes {
    /// Indices of the fields without a value.
    pub(crate) missing: Vec<u32>,
    pub(crate) staged: u64,
    pub(crate) objects: Vec<Option<Object>>,
    pub(crate) patch: Option<PatchAt>,
}

pub(crate) struct MendTask {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) rows: Vec<OddRow>,
}

pub(crate) struct OddRow {
    pub(crate) row: u32,
    pub(crate) at: SampleAt,
    pub(crate) shard: Arc<Shard>,
    pub(crate) handle: RowMut,
    pub(crate) dims: Vec<u64>,
    /// Indices of the fields to decode, with the device's reason for each.
    pub(crate) fields: Vec<(u32, Cow<'static, str>)>,
}

/// A row whose odd values the host has decoded, or the error. The row's handle has been released.
pub(crate) struct MendedRow {
    pub(crate) row: u32,
    pub(crate) dims: Vec<u64>,
    pub(crate) fault: Option<Error>,
}

#[derive(Debug)]
pub(crate) struct ReadTask {
    pub(crate) generation: u64,
    pub(crate) key: RunKey,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) scene: Option<Arc<SceneRead>>,
}

pub(crate) struct SubmitTask {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) in_epoch: u64,
    pub(crate) slot: Arc<Rows>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one loop; a box would be an allocation for each batch"
)]
pub(crate) enum Task {
    Decode,
    Parts(Arc<LargeRecord>),
    Read(ReadTask),
    Plan(BatchPlan),
    /// Open a shard that the next planned batch needs.
    Open(Arc<Openings>),
    /// Allocate a slot. If it replaces another slot, drop that one first.
    Allocate(SlotRoom, Option<Arc<Rows>>),
    /// Drop slots that are no longer needed. On a device, this may take a while.
    Free(Vec<Arc<Rows>>),
    Submit(SubmitTask),
    Mend(MendTask),
    Wait(Idle),
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    ForData,
    ForSlot,
    /// The epoch is over, or other threads do the remaining work.
    Done,
}
