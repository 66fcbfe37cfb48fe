//! A device that turns checked bytes into rows of a batch, in place of the host.
//!
//! The host is the default, and needs none of this. With a [`Stage`], each slot of the ring has a
//! part on the device, a [`StageSlot`], and a batch goes through three phases:
//!
//! ```text
//! filling    threads check records; for each field that the stage takes they call `prepare`, which
//!            copies what the device needs into staging memory; the host decodes the other fields;
//!            large arrays that the stage `shares` are read there before they are checked
//! submitted  one thread calls `submit`, without any lock; copies and kernels go on by themselves
//! done       the stage calls `Ticket::done`; the host decodes what the device found odd, and
//!            writes it to its place; the consumer gets the batch
//! ```
//!
//! A row that a stage refuses is decoded by the host and handed over ([`StageSlot::put`]), and so is
//! one that it finds odd later ([`StageSlot::write`]): a batch is the same whoever decodes it.

mod keeper;
mod memo;
mod refusals;
mod row_mix;
mod row_noise;
mod slot;
mod stream;
mod ticket;
mod value;

pub use keeper::Keeper;
pub use memo::{ArrayNote, DeviceArray, Memo};
pub use refusals::Refusal;
pub(crate) use refusals::Refusals;
pub use row_mix::RowMix;
pub use row_noise::RowNoise;
pub use slot::{DeviceId, Prepared, SlotRoom, Spot, StageSlot, StagedPart, StagedParts, StagedRoom};
pub use stream::StreamHandle;
pub(crate) use ticket::{Completed, Ending};
pub use ticket::{RowFault, StageFailure, Ticket};
pub use value::{FieldSource, FieldSpec, RecordValue};

use shardpack_format::{Hint, Setting};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Decodes rows of batches elsewhere than on the host.
///
/// `crates/gpu` has one for CUDA devices. Every method may be called from several threads at a time.
pub trait Stage: Send + Sync + fmt::Debug {
    /// Where the batches are.
    fn device(&self) -> DeviceId;

    /// Whether it decodes rows of this field. Asked once for each field, when a loader opens.
    /// Fields that it does not take are decoded by the host and uploaded.
    fn takes(&self, field: &FieldSpec<'_>) -> bool;

    /// Whether large values like this one, of a field of arrays that it takes, are to be read straight
    /// into staging memory, by several threads ([`StageSlot::room_for`]): because the device needs
    /// their bytes as they are stored, and most of them. Asked about examples, when a loader opens; the
    /// region of one says how large a part of it rows are, not where.
    fn shares(&self, example: &RecordValue<'_>) -> bool {
        let _ = example;
        false
    }

    /// Bytes of staging memory for `rows` rows of a field that it takes: `record_bytes` are those of the
    /// records that hold their values, `row_bytes` those of the rows in the output, all of them together.
    /// If they turn out to be too few, rows are refused.
    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: u64, record_bytes: u64, row_bytes: u64) -> u64;

    /// Bytes of a slot on the device for what lies between decoding and output of `rows` rows of a
    /// field that it takes, besides what [`Stage::device_bytes`] counts for every field. `row_bytes` are
    /// those of all these rows in the output.
    fn between_bytes(&self, field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
        let _ = (field, rows, row_bytes);
        0
    }

    /// Bytes that a slot takes on the device.
    fn device_bytes(&self, room: &SlotRoom) -> u64;

    /// Looks at an array of which several rows will take parts, before they come, and notes in its memo what
    /// helps with them. The region of the value is that of one of them.
    fn look(&self, value: &RecordValue<'_>) {
        let _ = value;
    }

    /// Bytes that it takes on the device, about, for scenes of which several patches come, besides slots:
    /// the records of all scenes that are open at a time take `open_bytes`, and have so many `arrays`.
    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let _ = (open_bytes, arrays);
        0
    }

    /// Bytes that a slot takes on the host: staging memory.
    fn host_bytes(&self, room: &SlotRoom) -> u64;

    /// Makes the part of a slot that is on the device. Called when the loader opens, for each of its
    /// slots, and later by a thread of the loader, if a batch needs a larger one. May wait.
    ///
    /// # Errors
    /// Whatever keeps it from being had; it becomes the error of opening, or of the batch that
    /// needed it.
    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>>;

    /// How often a batch needed more memory on the device than [`Stage::device_bytes`] says, and
    /// its slot got it.
    fn growths(&self) -> u64 {
        0
    }

    /// For a loader whose values stay on the device. `None` if none can.
    fn keeping(&self) -> Option<Keeping> {
        None
    }
}

/// The answer of a [`Stage`] to a loader whose values are to stay on its device.
#[derive(Debug)]
pub struct Keeping {
    /// A stage like the one that was asked, whose slots take values by their numbers too.
    pub stage: Arc<dyn Stage>,
    /// Takes the values for it.
    pub keeper: Arc<dyn Keeper>,
}

/// The option of how many slots there are, by which memory is saved.
pub(crate) fn slots() -> Setting {
    Setting::named("slots").in_python("prefetch")
}

/// The next step where there is no memory for a slot.
#[must_use]
pub fn fewer_slots() -> Hint {
    Hint::new("take fewer slots (").and([slots()]).then("), or smaller batches")
}
