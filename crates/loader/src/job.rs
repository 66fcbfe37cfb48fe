//! What a thread does next, and what comes back from it.

use super::large::Large;
use super::objects::Object;
use super::patch::PatchAt;
use super::plan::Plan;
use super::read::{Loaded, ReadJob};
use super::rows::{RowMut, Rows};
use super::sample::{Key, RowOf};
use super::stage::Room;
use shardpack_reader::{Error, Result, Shard};
use std::borrow::Cow;
use std::sync::Arc;

/// A row to be decoded.
pub(super) struct Claim {
    pub(super) of: RowOf,
    pub(super) handle: RowMut,
    /// `None` for padding.
    pub(super) run: Option<Arc<Loaded>>,
}

/// A row that is done; its handle and its run are let go of.
pub(super) struct Outcome {
    pub(super) generation: u64,
    pub(super) batch: u64,
    pub(super) row: u32,
    pub(super) key: Option<Key>,
    pub(super) made: Result<Made>,
}

impl Outcome {
    pub(super) const fn of(row: RowOf, made: Result<Made>) -> Self {
        let RowOf { generation, batch, row, key, .. } = row;
        Self { generation, batch, row, key, made }
    }
}

/// What is known of a row besides its bytes.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Fields that the sample has no value for, by number.
    pub(super) missing: Vec<u32>,
    /// How many fields the stage has taken.
    pub(super) staged: u64,
    /// Values that are no tensors, field by field.
    pub(super) objects: Vec<Option<Object>>,
    /// Where its patch lies.
    pub(super) patch: Option<PatchAt>,
}

/// The odd values of a batch that is on the device.
pub(super) struct Mend {
    pub(super) generation: u64,
    pub(super) epoch: u32,
    pub(super) batch: u64,
    pub(super) rows: Vec<OddRow>,
}

/// A row with odd values.
pub(super) struct OddRow {
    pub(super) row: u32,
    pub(super) sample: u64,
    pub(super) record: u64,
    pub(super) repetition: u32,
    pub(super) shard: Arc<Shard>,
    pub(super) handle: RowMut,
    /// Axes of its ragged fields.
    pub(super) dims: Vec<u64>,
    /// Numbers of the fields, and what the device found.
    pub(super) fields: Vec<(u32, Cow<'static, str>)>,
}

/// A row that was decoded by the host, or why it could not be; its handle is let go of.
pub(super) struct Mended {
    pub(super) row: u32,
    pub(super) dims: Vec<u64>,
    pub(super) fault: Option<Error>,
}

/// The next useful thing to do.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one loop; a box would be an allocation for each batch"
)]
pub(super) enum Job {
    /// Rows were put into the thread's list.
    Decode,
    /// Parts of a large record that others have begun.
    Parts(Arc<Large>),
    Read(ReadJob),
    Plan(Plan),
    /// Make a slot, once the one that it replaces is gone.
    Allocate(Room, Option<Arc<Rows>>),
    /// Let go of slots that nobody needs any more: on a device that may take a while.
    Free(Vec<Arc<Rows>>),
    /// Hand a batch of this generation and number, whose rows are prepared, to the stage.
    Submit(u64, u64, Arc<Rows>),
    /// Decode what the device could not.
    Mend(Mend),
    /// Nothing, for want of data, or of a slot.
    Wait(Want),
    Exit,
}

/// Why there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Data,
    Slot,
    /// The epoch is over, or others are at it.
    Nothing,
}
