//! Locks of the blocks that are fetched as a whole.

use super::block::{PAGE, WHOLE};
use crate::schedule::Pin;
use shardpack_format::to_usize;
use tokio::sync::{Mutex, Semaphore};

/// Locks that blocks share by their numbers: few wait for another block's. Nobody waits for one
/// while holding another.
const LOCKS: usize = 1024;

/// What keeps two requests from fetching the same block as a whole, and bounds their memory.
#[derive(Debug)]
pub(crate) struct BlockLocks {
    locks: Vec<Mutex<()>>,
    /// A permit for each block that may be fetched as a whole at a time.
    pub(crate) memory: Semaphore,
}

impl BlockLocks {
    /// A block is held twice while it is written: pieces, and all of them together.
    pub(crate) fn new(read_ahead_bytes: u64) -> Self {
        let blocks = to_usize(read_ahead_bytes / (2 * WHOLE * PAGE));
        Self {
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            memory: Semaphore::new(blocks.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    pub(crate) fn of(&self, pin: &Pin, number: u64) -> Option<&Mutex<()>> {
        let place = pin.id.wrapping_mul(31).wrapping_add(number) % self.locks.len() as u64;
        self.locks.get(usize::try_from(place).ok()?)
    }
}
