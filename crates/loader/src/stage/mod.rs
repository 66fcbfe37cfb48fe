//! Decodes rows of batches on a device instead of the host.
//!
//! By default the host decodes them, and this module is not used. With a [`Stage`], each slot of the ring has a part
//! on the device, a [`StageSlot`], and a batch goes through three phases:
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
//! Host and device produce the same batch. The host decodes rows that a stage refuses, and passes them to the stage
//! ([`StageSlot::put`]). It also decodes *odd* values, which the stage accepted but then could not decode
//! ([`StageSlot::write`]).

mod keeper;
mod mask_view;
mod memo;
mod refusals;
mod row_mix;
mod row_mosaic;
mod row_noise;
mod slot;
mod stream;
mod ticket;
mod value;

pub use crate::options::Clip;
pub use keeper::Keeper;
pub use mask_view::{MaskMove, MaskView, ViewElement};
pub use memo::{ArrayNote, DeviceArray, Memo};
pub use refusals::Refusal;
pub(crate) use refusals::Refusals;
pub use row_mix::RowMix;
pub use row_mosaic::{MosaicRow, MosaicTile, RowMosaic};
pub use row_noise::RowNoise;
pub use slot::{DeviceId, PictureElements, Prepared, SlotRoom, Spot, StageSlot, StagedPart, StagedParts, StagedRoom};
pub use stream::StreamHandle;
pub(crate) use ticket::{Completed, Ending};
pub use ticket::{RowFault, StageFailure, Ticket};
pub use value::{ArrayPart, ArrayValue, CropsOfRow, FieldRows, FieldSource, FieldSpec, RecordValue};

use shardpack_format::{Hint, Setting};
use std::fmt;
use std::io;
use std::sync::Arc;

/// A device that decodes rows of batches instead of the host.
///
/// `crates/gpu` implements this trait for CUDA devices. Any method may be called by several threads at the same time.
pub trait Stage: Send + Sync + fmt::Debug {
    /// Returns the device that holds the batches.
    fn device(&self) -> DeviceId;

    /// Returns false if the host decodes every row and the stage only copies rows to the device. Such a stage
    /// never has to prepare a value.
    fn decodes(&self) -> bool {
        true
    }

    /// Returns true if the stage decodes rows of this field. The loader calls this once for each field when
    /// it opens. All other fields are decoded and uploaded by the host.
    fn takes(&self, field: &FieldSpec<'_>) -> bool;

    /// Returns true if several threads should read large values like this one directly into staging memory
    /// ([`StageSlot::room_for`]), because the device needs most of their stored bytes. The loader calls this with
    /// examples when it opens, for array fields that the stage takes. The region of an example has the size of a
    /// row's part, but not its position.
    fn shares(&self, example: &RecordValue<'_>) -> bool {
        let _ = example;
        false
    }

    /// Returns the number of bytes of staging memory for these rows of a field that the stage takes. If staging
    /// memory runs out, rows are refused.
    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64;

    /// Returns the number of bytes that a slot needs on the device between decoding and output, for these rows
    /// of a field that the stage takes. [`Stage::device_bytes`] does not include these bytes.
    fn between_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        let _ = (field, rows);
        0
    }

    /// Returns the number of bytes that a slot uses on the device.
    fn device_bytes(&self, room: &SlotRoom) -> u64;

    /// Inspects an array before several rows request parts of it, and notes useful facts in the array's memo.
    /// The region of `value` is the part for one of these rows.
    fn look(&self, value: &RecordValue<'_>) {
        let _ = value;
    }

    /// Returns the approximate number of device bytes, besides the slots, for keeping scenes from which several patches
    /// are loaded. The records of all open scenes together have `open_bytes` bytes and contain `arrays` arrays.
    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let _ = (open_bytes, arrays);
        0
    }

    /// Returns the number of bytes of staging memory that a slot uses on the host.
    fn host_bytes(&self, room: &SlotRoom) -> u64;

    /// Creates the device part of a slot. The loader calls this for each slot when it opens. Later, a thread
    /// of the loader calls it if a batch needs a larger slot. May block.
    ///
    /// # Errors
    /// An error if the part cannot be created. Opening the loader, or the batch that needed the part, then
    /// fails with this error.
    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>>;

    /// Returns the number of times that a slot grew because a batch needed more device memory than
    /// [`Stage::device_bytes`].
    fn growths(&self) -> u64 {
        0
    }

    /// Returns a variant of this stage for a loader whose values stay on the device, or `None` if there is none.
    fn keeping(&self) -> Option<Keeping> {
        None
    }
}

/// The variant of a [`Stage`] for a loader whose values stay on the device.
#[derive(Debug)]
pub struct Keeping {
    /// A stage with the same settings. Its slots also accept values that are already on the device, by number.
    pub stage: Arc<dyn Stage>,
    /// Keeper that copies values to the device for the stage.
    pub keeper: Arc<dyn Keeper>,
}

pub(crate) fn slots() -> Setting {
    Setting::named("slots").in_python("prefetch")
}

/// Returns the hint for errors about too little memory for a slot.
#[must_use]
pub fn fewer_slots() -> Hint {
    Hint::new("use fewer slots (").and([slots()]).then("), or smaller batches")
}
