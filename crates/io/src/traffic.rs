/// Network statistics of one [`Storage`](crate::Storage) since it was opened.
///
/// ```
/// use shardpack_io::Traffic;
/// assert_eq!(Traffic::default().requests, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Number of requests, including retries.
    pub requests: u64,
    /// Number of retries after an error, a timeout or a truncated response.
    pub retries: u64,
    /// Number of duplicate requests, each sent because the first request was slow.
    pub hedges: u64,
    /// Number of bytes received.
    pub fetched_bytes: u64,
    /// Maximum number of concurrent requests.
    pub peak_in_flight: u64,
    /// Maximum number of bytes held for readers at any time.
    pub peak_held_bytes: u64,
    /// Statistics of the local disk cache. All zero if there is no cache.
    pub cache: CacheStats,
}

/// Statistics of a local disk cache. They cover only this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Number of blocks found in the cache.
    pub hits: u64,
    /// Number of blocks not found in the cache.
    pub misses: u64,
    /// Number of bytes of the blocks found in the cache.
    pub hit_bytes: u64,
    /// Number of blocks removed to free space.
    pub evicted: u64,
    /// Number of cache files that did not contain the whole expected block. Such a block is fetched from the store
    /// again.
    pub dropped: u64,
    /// Number of failed writes, for example on a full disk. After the first failure, this process stops writing to
    /// the cache.
    pub failed_writes: u64,
}

impl CacheStats {
    /// Adds another cache's statistics.
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
    /// Adds the traffic of other storage. The peaks are added as well, as if they had coincided.
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
