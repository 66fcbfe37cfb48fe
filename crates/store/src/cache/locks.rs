//! Locks that prevent two threads from fetching the same whole block at the same time.

use super::block::{PAGE, WHOLE};
use crate::schedule::Pin;
use shardpack_format::to_usize;
use tokio::sync::{Mutex, Semaphore};

/// Number of locks. The number of a block selects its lock, so two blocks rarely share one. A thread never waits for
/// a lock while holding another.
const LOCKS: usize = 1024;

/// Prevents two threads from fetching the same whole block at the same time, and limits the memory for whole blocks.
#[derive(Debug)]
pub(crate) struct BlockLocks {
    locks: Vec<Mutex<()>>,
    /// One permit per whole block that may be fetched in parallel.
    pub(crate) memory: Semaphore,
}

impl BlockLocks {
    /// Creates the locks. The memory limit allows for two copies of a block, because a block exists twice while it is
    /// being written: as fetched pieces and as one buffer.
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
