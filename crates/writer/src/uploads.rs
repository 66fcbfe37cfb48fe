//! Counts the bytes that a run sends to a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of complete shards that a run sends to a store. For a folder on a disk, both counts stay zero.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    to_send: AtomicU64,
    sent: AtomicU64,
}

impl Uploads {
    /// Discards the counts of shards that an earlier attempt has not sent, because they are planned again.
    pub(crate) fn restart(&self) {
        self.to_send.store(self.sent(), Ordering::Relaxed);
    }

    /// Counts a complete shard.
    pub(crate) fn plan(&self, bytes: u64) {
        self.to_send.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Discards the count of a planned shard that the store already has.
    pub(crate) fn skip(&self, bytes: u64) {
        self.to_send.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that the store has received.
    pub(crate) fn add(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn to_send(&self) -> u64 {
        self.to_send.load(Ordering::Relaxed)
    }
}
