//! A device that converts checked bytes to rows of a batch, in place of the host.
//!
//! The host is the default, and needs none of this. With a [`Stage`], each slot of the ring has a part on the
//! device, a [`StageSlot`], and a batch goes through three phases:
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
//! Host and device produce the same batch: the host decodes rows that a stage refuses and passes them to the
//! stage ([`StageSlot::put`]), as it does with rows that the stage finds odd later ([`StageSlot::write`]).

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
pub use slot::{DeviceId, PictureElements, Prepared, SlotRoom, Spot, StageSlot, StagedPart, StagedParts, StagedRoom};
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
/// `crates/gpu` implements it for CUDA devices. Several threads may call any method at the same time.
pub trait Stage: Send + Sync + fmt::Debug {
    /// Returns the device of the batches.
    fn device(&self) -> DeviceId;

    /// Returns false if the host decodes every row, and the stage only brings rows to the device. Such a stage is
    /// never asked to prepare a value.
    fn decodes(&self) -> bool {
        true
    }

    /// Returns true if the stage decodes rows of this field. Called once per field, when a loader opens. The
    /// host decodes and uploads all other fields.
    fn takes(&self, field: &FieldSpec<'_>) -> bool;

    /// Returns true if large values like this one, of an array field that the stage takes, should be read
    /// directly into staging memory by several threads ([`StageSlot::room_for`]), because the device needs
    /// most of their stored bytes. Called with examples when a loader opens; an example's region gives the
    /// size of a row's part, not its place.
    fn shares(&self, example: &RecordValue<'_>) -> bool {
        let _ = example;
        false
    }

    /// Returns the bytes of staging memory for `rows` rows of a field that the stage takes. The records of
    /// these rows total `record_bytes`, and their output `row_bytes`. If the bytes are not enough, rows are
    /// refused.
    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: u64, record_bytes: u64, row_bytes: u64) -> u64;

    /// Returns the bytes of a slot on the device between decoding and output of `rows` rows of a field that
    /// the stage takes, besides [`Stage::device_bytes`]. The output of these rows totals `row_bytes`.
    fn between_bytes(&self, field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
        let _ = (field, rows, row_bytes);
        0
    }

    /// Returns the bytes of a slot on the device.
    fn device_bytes(&self, room: &SlotRoom) -> u64;

    /// Inspects an array before several rows request parts of it, and puts useful facts into its memo. The
    /// value's region is the part for one of these rows.
    fn look(&self, value: &RecordValue<'_>) {
        let _ = value;
    }

    /// Returns the approximate device bytes, besides slots, for scenes from which several patches are loaded.
    /// The records of all open scenes take `open_bytes` and contain `arrays` arrays.
    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let _ = (open_bytes, arrays);
        0
    }

    /// Returns the bytes of a slot on the host: staging memory.
    fn host_bytes(&self, room: &SlotRoom) -> u64;

    /// Creates the device part of a slot. Called for each slot when the loader opens, and later by a thread
    /// of the loader, if a batch needs a larger one. May wait.
    ///
    /// # Errors
    /// An error if the part cannot be created; it becomes the error of opening, or of the batch that needed it.
    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>>;

    /// Returns how often a slot grew because a batch needed more device memory than [`Stage::device_bytes`].
    fn growths(&self) -> u64 {
        0
    }

    /// Returns a variant for a loader whose values stay on the device; `None` if the stage has none.
    fn keeping(&self) -> Option<Keeping> {
        None
    }
}

/// The variant of a [`Stage`] for a loader whose values stay on the device.
#[derive(Debug)]
pub struct Keeping {
    /// Stage with the same settings, whose slots also accept values by number.
    pub stage: Arc<dyn Stage>,
    /// Copier of the values for the stage.
    pub keeper: Arc<dyn Keeper>,
}

pub(crate) fn slots() -> Setting {
    Setting::named("slots").in_python("prefetch")
}

/// Returns the hint for running out of memory for a slot.
#[must_use]
pub fn fewer_slots() -> Hint {
    Hint::new("use fewer slots (").and([slots()]).then("), or smaller batches")
}
