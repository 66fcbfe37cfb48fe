//! The tasks of threads, and what comes back from them.

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

/// A row to be decoded.
pub(crate) struct RowTask {
    pub(crate) of: RowId,
    pub(crate) handle: RowMut,
    /// `None` for padding.
    pub(crate) supply: Option<Arc<Supply>>,
}

/// A row that is done; its handle and its supply are let go of.
pub(crate) struct RowDone {
    pub(crate) of: RowId,
    pub(crate) made: Result<RowNotes>,
}

/// Notes about a row besides its bytes.
#[derive(Debug, Default)]
pub(crate) struct RowNotes {
    /// Fields that the sample has no value for, by number.
    pub(crate) missing: Vec<u32>,
    /// How many fields the stage has taken.
    pub(crate) staged: u64,
    /// Values that are no tensors, field by field.
    pub(crate) objects: Vec<Option<Object>>,
    /// Where its patch lies.
    pub(crate) patch: Option<PatchAt>,
}

/// Values of a batch that the device found odd.
pub(crate) struct MendTask {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) rows: Vec<OddRow>,
}

/// A row with values that the device found odd.
pub(crate) struct OddRow {
    pub(crate) row: u32,
    pub(crate) at: SampleAt,
    pub(crate) shard: Arc<Shard>,
    pub(crate) handle: RowMut,
    /// Axes of its ragged fields.
    pub(crate) dims: Vec<u64>,
    /// Numbers of the fields, and what the device found.
    pub(crate) fields: Vec<(u32, Cow<'static, str>)>,
}

/// A row that was decoded by the host, or why it could not be; its handle is let go of.
pub(crate) struct MendedRow {
    pub(crate) row: u32,
    pub(crate) dims: Vec<u64>,
    pub(crate) fault: Option<Error>,
}

/// A run to be read, and the buffer for it.
#[derive(Debug)]
pub(crate) struct ReadTask {
    pub(crate) generation: u64,
    pub(crate) key: RunKey,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    pub(crate) buffer: Vec<u8>,
    /// Bytes that are taken for it.
    pub(crate) bytes: u64,
    /// Of a run that is a scene, its patches.
    pub(crate) scene: Option<Arc<SceneRead>>,
}

/// A batch whose rows are prepared, to be handed to the stage.
pub(crate) struct SubmitTask {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    /// Its number in its epoch, for errors.
    pub(crate) in_epoch: u64,
    pub(crate) slot: Arc<Rows>,
}

/// The next useful thing to do.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one loop; a box would be an allocation for each batch"
)]
pub(crate) enum Task {
    /// Rows were put into the thread's list.
    Decode,
    /// Parts of a large record that others have begun.
    Parts(Arc<LargeRecord>),
    Read(ReadTask),
    Plan(BatchPlan),
    /// Open a shard of the batch that is planned next.
    Open(Arc<Openings>),
    /// Make a slot, once the one that it replaces is gone.
    Allocate(SlotRoom, Option<Arc<Rows>>),
    /// Let go of slots that nobody needs any more: on a device that may take a while.
    Free(Vec<Arc<Rows>>),
    Submit(SubmitTask),
    /// Decode what the device could not.
    Mend(MendTask),
    /// Nothing: sleep until something changes.
    Wait(Idle),
    Exit,
}

/// Why a thread is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    ForData,
    ForSlot,
    /// The epoch is over, or others are at it.
    Done,
}
