//! A batch that a device is working on, and the result that it reports.

use shardpack_format::Note;
use shardpack_io::Cause;
use shardpack_reader::{Error, Result};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Weak};

/// A value that the device accepted but then could not decode. The host decodes it or reports its error. Until then,
/// its bytes in the output are meaningless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// Index of the row.
    pub row: u32,
    /// Index of the field.
    pub field: u32,
    /// Reason given by the device. Rows are counted by reason, so a reason must not name a sample.
    pub reason: Cow<'static, str>,
}

/// Reason why a batch is not on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageFailure {
    /// There is not enough memory. This batch is an error, and the loader continues.
    Batch(Note),
    /// The device has failed and cannot decode anything more. The loader stops.
    Device(Note),
}

#[derive(Debug)]
pub(crate) enum Ending {
    /// The batch is on the device, except for the listed values.
    Decoded(Vec<RowFault>),
    Failed(Error),
    Lost(Error),
}

pub(crate) trait Completed: Send + Sync {
    fn completed(&self, generation: u64, batch: u64, ending: Ending);
}

/// A submitted batch. If the ticket is dropped without a call to [`Ticket::done`], the loader stops with an
/// error, because it would otherwise wait forever.
pub struct Ticket {
    pub(crate) home: Weak<dyn Completed>,
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) in_epoch: u64,
    /// The slot, which stays in use as long as the ticket lives.
    pub(crate) slot: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Reports that the batch is on the device, except for the listed values, or why it is not.
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
        // Drop the slot before threads look for a free one.
        let Some(slot) = self.slot.take() else { return };
        drop(slot);
        if let Some(home) = self.home.upgrade() {
            home.completed(self.generation, self.batch, ending);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Ending::Lost(Error::internal("the device dropped a batch without finishing it", "", "")));
    }
}

const DECODE: &str = "decode on the device";
