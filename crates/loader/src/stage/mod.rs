//! A device that converts checked bytes to rows of a batch, in place of the host.
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
//! A row that a stage refuses is decoded by the host and passed to the stage ([`StageSlot::put`]), as
//! is a row that the stage finds odd later ([`StageSlot::write`]): host and device produce the same
//! batch.

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

/// Decodes rows of batches outside the host.
///
/// `crates/gpu` has an implementation for CUDA devices. Every method may be called from several threads
/// at a time.
pub trait Stage: Send + Sync + fmt::Debug {
    /// The device of the batches.
    fn device(&self) -> DeviceId;

    /// Returns true if it decodes rows of this field. Called once for each field, when a loader opens.
    /// Fields that it does not accept are decoded by the host and uploaded.
    fn takes(&self, field: &FieldSpec<'_>) -> bool;

    /// Returns true if large values like this one, of an array field that it accepts, should be read
    /// directly into staging memory, by several threads ([`StageSlot::room_for`]), because the device
    /// needs most of their bytes as they are stored. Called with examples, when a loader opens; the
    /// region of an example gives the size of the part in a row, not its place.
    fn shares(&self, example: &RecordValue<'_>) -> bool {
        let _ = example;
        false
    }

    /// Bytes of staging memory for `rows` rows of a field that it accepts: `record_bytes` is the total
    /// of the records that hold their values, `row_bytes` the total of the rows in the output. If the
    /// bytes are not enough, rows are refused.
    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: u64, record_bytes: u64, row_bytes: u64) -> u64;

    /// Bytes of a slot on the device between decoding and output of `rows` rows of a field that it
    /// accepts, besides the bytes that [`Stage::device_bytes`] counts for every field. `row_bytes` is
    /// the total of these rows in the output.
    fn between_bytes(&self, field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
        let _ = (field, rows, row_bytes);
        0
    }

    /// Bytes of a slot on the device.
    fn device_bytes(&self, room: &SlotRoom) -> u64;

    /// Inspects an array from which several rows will take parts, before they are requested, and puts
    /// useful facts into its memo. The region of the value is that of one of the rows.
    fn look(&self, value: &RecordValue<'_>) {
        let _ = value;
    }

    /// Approximate bytes on the device, besides slots, for scenes from which several patches are
    /// loaded: the records of all scenes that are open at a time take `open_bytes`, and contain
    /// `arrays` arrays.
    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let _ = (open_bytes, arrays);
        0
    }

    /// Bytes of a slot on the host: staging memory.
    fn host_bytes(&self, room: &SlotRoom) -> u64;

    /// Makes the part of a slot on the device. Called when the loader opens, for each of its slots, and
    /// later by a thread of the loader, if a batch needs a larger one. May wait.
    ///
    /// # Errors
    /// Any reason why it cannot be made; it becomes the error of opening, or of the batch that needed
    /// it.
    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>>;

    /// Number of times that a batch needed more memory on the device than [`Stage::device_bytes`]
    /// predicted, and its slot grew.
    fn growths(&self) -> u64 {
        0
    }

    /// A variant for a loader whose values stay on the device. `None` if the stage has none.
    fn keeping(&self) -> Option<Keeping> {
        None
    }
}

/// The answer of a [`Stage`] to a loader whose values are to stay on its device.
#[derive(Debug)]
pub struct Keeping {
    /// A stage with the same settings, whose slots also accept values by their numbers.
    pub stage: Arc<dyn Stage>,
    /// Copies the values for it.
    pub keeper: Arc<dyn Keeper>,
}

/// Setting for the number of slots, to save memory.
pub(crate) fn slots() -> Setting {
    Setting::named("slots").in_python("prefetch")
}

/// Hint when there is not enough memory for a slot.
#[must_use]
pub fn fewer_slots() -> Hint {
    Hint::new("take fewer slots (").and([slots()]).then("), or smaller batches")
}
