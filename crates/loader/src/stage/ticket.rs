//! A batch in progress on a device, and its result.

use shardpack_format::Note;
use shardpack_io::Cause;
use shardpack_reader::{Error, Result};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Weak};

/// A value that the device accepted and then found odd. The host decodes it, or reports its error; its
/// bytes in the output do not matter until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The row.
    pub row: u32,
    /// The field, by its number.
    pub field: u32,
    /// The reason found by the device. Reasons are counted, so they name no sample.
    pub reason: Cow<'static, str>,
}

/// Reason why a batch is not on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageFailure {
    /// Not enough memory: an error of this batch. The loader continues.
    Batch(Note),
    /// The device has failed, and can decode nothing more: the end of the loader.
    Device(Note),
}

/// The end of a submitted batch.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The batch is on the device, except for these values.
    Decoded(Vec<RowFault>),
    /// The batch is an error.
    Failed(Error),
    /// Nothing more will be decoded.
    Lost(Error),
}

/// Receiver of the report that a batch is done.
pub(crate) trait Completed: Send + Sync {
    fn completed(&self, generation: u64, batch: u64, ending: Ending);
}

/// A submitted batch. Dropping the ticket without [`Ticket::done`] stops the loader with an error, so
/// that it does not wait for ever.
pub struct Ticket {
    pub(crate) home: Weak<dyn Completed>,
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    /// Index of the batch in its epoch, for errors.
    pub(crate) in_epoch: u64,
    /// Keeps the slot in use, regardless of its type.
    pub(crate) slot: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Reports that the batch is on the device, except for these values, or the reason why it is not.
    pub fn done(mut self, result: Result<Vec<RowFault>, StageFailure>) {
        let error = |note: Note| {
            let Note { text, hint, .. } = note;
            let cause = hint.into_iter().fold(Cause::new(ErrorKind::Other, text), Cause::with_hint);
            Error::io(format!("batch {}", self.in_epoch), DECODE, cause)
        };
        let ending = match result {
            Ok(faults) => Ending::Decoded(faults),
            Err(StageFailure::Batch(note)) => Ending::Failed(error(note)),
            Err(StageFailure::Device(note)) => Ending::Lost(error(note)),
        };
        self.end(ending);
    }

    fn end(&mut self, ending: Ending) {
        // Before threads look for a free slot.
        let Some(slot) = self.slot.take() else { return };
        drop(slot);
        if let Some(home) = self.home.upgrade() {
            home.completed(self.generation, self.batch, ending);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Ending::Lost(Error::internal("batch on the device", "done or failed", "dropped")));
    }
}

const DECODE: &str = "decode it on the device";
