//! What a thread does next, and what comes back from it.

use crate::fields::Object;
use crate::large::Large;
use crate::openings::Openings;
use crate::patches::PatchAt;
use crate::plan::Plan;
use crate::read::{Loaded, ReadJob};
use crate::rows::{RowMut, Rows};
use crate::sample::{Key, RowOf};
use crate::stage::Room;
use shardpack_reader::{Error, Result, Shard};
use std::borrow::Cow;
use std::sync::Arc;

/// A row to be decoded.
pub(crate) struct Claim {
    pub(crate) of: RowOf,
    pub(crate) handle: RowMut,
    /// `None` for padding.
    pub(crate) run: Option<Arc<Loaded>>,
}

/// A row that is done; its handle and its run are let go of.
pub(crate) struct Outcome {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) row: u32,
    pub(crate) key: Option<Key>,
    pub(crate) made: Result<Made>,
}

impl Outcome {
    pub(crate) const fn of(row: RowOf, made: Result<Made>) -> Self {
        let RowOf { generation, batch, row, key, .. } = row;
        Self { generation, batch, row, key, made }
    }
}

/// What is known of a row besides its bytes.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Fields that the sample has no value for, by number.
    pub(crate) missing: Vec<u32>,
    /// How many fields the stage has taken.
    pub(crate) staged: u64,
    /// Values that are no tensors, field by field.
    pub(crate) objects: Vec<Option<Object>>,
    /// Where its patch lies.
    pub(crate) patch: Option<PatchAt>,
}

/// The odd values of a batch that is on the device.
pub(crate) struct Mend {
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    pub(crate) batch: u64,
    pub(crate) rows: Vec<OddRow>,
}

/// A row with odd values.
pub(crate) struct OddRow {
    pub(crate) row: u32,
    pub(crate) sample: u64,
    pub(crate) record: u64,
    pub(crate) repetition: u32,
    pub(crate) patch: u32,
    pub(crate) shard: Arc<Shard>,
    pub(crate) handle: RowMut,
    /// Axes of its ragged fields.
    pub(crate) dims: Vec<u64>,
    /// Numbers of the fields, and what the device found.
    pub(crate) fields: Vec<(u32, Cow<'static, str>)>,
}

/// A row that was decoded by the host, or why it could not be; its handle is let go of.
pub(crate) struct Mended {
    pub(crate) row: u32,
    pub(crate) dims: Vec<u64>,
    pub(crate) fault: Option<Error>,
}

/// The next useful thing to do.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one loop; a box would be an allocation for each batch"
)]
pub(crate) enum Job {
    /// Rows were put into the thread's list.
    Decode,
    /// Parts of a large record that others have begun.
    Parts(Arc<Large>),
    Read(ReadJob),
    Plan(Plan),
    /// Open a shard of the batch that is planned next.
    Open(Arc<Openings>),
    /// Make a slot, once the one that it replaces is gone.
    Allocate(Room, Option<Arc<Rows>>),
    /// Let go of slots that nobody needs any more: on a device that may take a while.
    Free(Vec<Arc<Rows>>),
    /// Hand a batch of this generation, whose rows are prepared, to the stage: its number, and that in
    /// its epoch.
    Submit(u64, [u64; 2], Arc<Rows>),
    /// Decode what the device could not.
    Mend(Mend),
    /// Nothing, for want of data, or of a slot.
    Wait(Want),
    Exit,
}

/// Why there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Data,
    Slot,
    /// The epoch is over, or others are at it.
    Nothing,
}
