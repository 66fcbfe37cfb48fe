//! A batch that is under way on a device, and what becomes of it.

use shardpack_format::{Hinted, Note};
use shardpack_reader::{Error, Result};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};

/// A value that the device took and found odd. The host decodes it, or says what is wrong with it;
/// what its bytes in the output are until then does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The row.
    pub row: u32,
    /// The field, by its number.
    pub field: u32,
    /// The reason that the device found. Reasons are counted, so they name no sample.
    pub reason: Cow<'static, str>,
}

/// Why a batch is not on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageFailure {
    /// It cannot be had, for want of memory: an error of this batch. The loader goes on.
    Batch(Note),
    /// The device has failed, and nothing more can be decoded on it: the end of the loader.
    Device(Note),
}

/// The end of a batch that was submitted.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It is on the device, but for these values.
    Decoded(Vec<RowFault>),
    /// It is an error.
    Failed(Error),
    /// Nothing more will be decoded.
    Lost(Error),
}

/// Who is told that a batch is done.
pub(crate) trait Completed: Send + Sync {
    fn completed(&self, generation: u64, batch: u64, ending: Ending);
}

/// A batch that was submitted. Whoever drops it without [`Ticket::done`] breaks the loader, in
/// words: nobody waits for ever.
pub struct Ticket {
    pub(crate) home: Weak<dyn Completed>,
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    /// As an error names it.
    pub(crate) in_epoch: u64,
    /// Keeps the slot from being used again, whatever it is made of.
    pub(crate) slot: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Ticket {
    /// The batch is on the device, but for these values; or why it is not.
    pub fn done(mut self, result: Result<Vec<RowFault>, StageFailure>) {
        let error = |note: Note| {
            let source = io::Error::other(Hinted::from(note));
            Error::io(format!("batch {}", self.in_epoch), DECODE, source)
        };
        let ending = match result {
            Ok(faults) => Ending::Decoded(faults),
            Err(StageFailure::Batch(note)) => Ending::Failed(error(note)),
            Err(StageFailure::Device(note)) => Ending::Lost(error(note)),
        };
        self.end(ending);
    }

    fn end(&mut self, ending: Ending) {
        // Before threads look for a slot that nobody uses.
        let Some(slot) = self.slot.take() else { return };
        drop(slot);
        if let Some(home) = self.home.upgrade() {
            home.completed(self.generation, self.batch, ending);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let found = "one that was dropped";
        self.end(Ending::Lost(Error::internal("batch on the device", "one that is done or has failed", found)));
    }
}

const DECODE: &str = "decode it on the device";
