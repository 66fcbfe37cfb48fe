//! Counts of what a storage has asked of a network.

/// What a storage has asked of a network since it was opened.
///
/// ```
/// use shardpack_io::Traffic;
/// assert_eq!(Traffic::default().requests, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests, those that were tried again counted once more.
    pub requests: u64,
    /// Requests that were tried again after an error, a time-out or an answer that was cut short.
    pub retries: u64,
    /// Requests that were asked a second time because the first was slow.
    pub hedges: u64,
    /// Bytes that arrived.
    pub fetched_bytes: u64,
    /// Most requests that were under way at a time.
    pub peak_in_flight: u64,
    /// Most bytes that were held for readers at a time.
    pub peak_held_bytes: u64,
    /// What a cache on the local disk did; zeros if there is none.
    pub cache: CacheStats,
}

/// What a cache on the local disk did for this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Blocks that were there.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Bytes of the blocks that were there.
    pub hit_bytes: u64,
    /// Blocks that went to make room.
    pub evicted: u64,
    /// Files that were no whole block, or another one: they are read from the store again.
    pub dropped: u64,
    /// Writes that failed, as on a full disk: after the first, a process writes no more.
    pub failed_writes: u64,
}

impl CacheStats {
    /// What several caches did.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits.saturating_add(other.hits),
            misses: self.misses.saturating_add(other.misses),
            hit_bytes: self.hit_bytes.saturating_add(other.hit_bytes),
            evicted: self.evicted.saturating_add(other.evicted),
            dropped: self.dropped.saturating_add(other.dropped),
            failed_writes: self.failed_writes.saturating_add(other.failed_writes),
        }
    }
}

impl Traffic {
    /// The traffic of several storages; peaks are added up, too, as if they came together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            retries: self.retries.saturating_add(other.retries),
            hedges: self.hedges.saturating_add(other.hedges),
            fetched_bytes: self.fetched_bytes.saturating_add(other.fetched_bytes),
            peak_in_flight: self.peak_in_flight.saturating_add(other.peak_in_flight),
            peak_held_bytes: self.peak_held_bytes.saturating_add(other.peak_held_bytes),
            cache: self.cache.plus(other.cache),
        }
    }
}
