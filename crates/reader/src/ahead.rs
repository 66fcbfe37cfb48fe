//! Announces upcoming reads to networked storage, which cannot predict them.

use crate::dataset::Dataset;
use shardpack_io::ReadAt;
use std::ops::Range;
use std::sync::Arc;

/// Number of bytes per announcement. It is large enough to hide the latency of a request, and small enough to keep
/// many requests in flight.
pub(crate) const STEP_BYTES: u64 = 8 << 20;

/// A byte range of a file that is read front to back, and announced ahead of the reader.
#[derive(Debug)]
pub(crate) struct Ahead {
    file: Arc<dyn ReadAt>,
    rest: Range<u64>,
    window: u64,
}

impl Ahead {
    /// Creates a range to be announced up to `window` bytes ahead of the reader.
    pub(crate) fn new(file: Arc<dyn ReadAt>, range: Range<u64>, window: u64) -> Self {
        Self { file, rest: range, window }
    }

    /// Announces the bytes in the window after `position`.
    pub(crate) fn reach(&mut self, position: u64) {
        let end = position.saturating_add(self.window).min(self.rest.end);
        while self.window > 0 && self.rest.start < end {
            let bytes = STEP_BYTES.min(self.rest.end - self.rest.start);
            self.file.advise_soon(self.rest.start, bytes);
            self.rest.start += bytes;
        }
    }
}

/// Announces the records of a dataset ahead of a reader in stored order. Opens the next shards early, to continue
/// across shard boundaries.
#[derive(Debug)]
pub(crate) struct Onward {
    dataset: Dataset,
    slot: usize,
    current: Option<(Arc<dyn ReadAt>, Range<u64>)>,
    window: u64,
    announced: u64,
}

impl Onward {
    /// Number of shards to announce to the storage before they are opened.
    const SHARDS: usize = 8;

    /// Creates the announcer, or returns `None` if the storage needs no announcements.
    pub(crate) fn new(dataset: &Dataset) -> Option<Self> {
        let window = dataset.read_ahead_bytes();
        (window > 0).then(|| Self { dataset: dataset.clone(), slot: 0, current: None, window, announced: 0 })
    }

    /// Announces the records in the window after the first `read` bytes of records.
    pub(crate) fn reach(&mut self, read: u64) {
        let end = read.saturating_add(self.window);
        while self.announced < end {
            if let Some((file, rest)) = self.current.as_mut().filter(|(_, rest)| !rest.is_empty()) {
                let bytes = STEP_BYTES.min(rest.end - rest.start).min(end - self.announced);
                file.advise_soon(rest.start, bytes);
                rest.start += bytes;
                self.announced += bytes;
                continue;
            }
            if self.slot >= self.dataset.shards().len() {
                return;
            }
            let next = self.slot.saturating_add(1);
            self.dataset.advise_shards(self.slot..next.saturating_add(Self::SHARDS).min(self.dataset.shards().len()));
            // Skip a shard that cannot be opened. The stream reports the error when it reaches that shard.
            self.current = self.dataset.shard(self.slot).ok().and_then(|shard| {
                let records = shard.span(&(0..shard.len())).ok()?;
                Some((shard.file().handle().ok()?, records))
            });
            self.slot = next;
        }
    }
}
