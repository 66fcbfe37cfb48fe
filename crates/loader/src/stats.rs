//! Figures of a loader: its work so far, and its waits.

use shardpack_io::Traffic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Figures of a loader since it was opened. Seconds are summed over the threads of its pool.
///
/// ```
/// use shardpack_loader::LoaderStats;
/// let stats = LoaderStats::default();
/// assert_eq!((stats.batches, stats.decode_s), (0, 0.0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Batches that were handed out, those that were errors included.
    pub batches: u64,
    /// Samples that were handed out.
    pub samples: u64,
    /// Bytes read from the files, for batches of the next epoch too, if that is begun already.
    pub read_bytes: u64,
    /// Bytes of the batches that were handed out.
    pub output_bytes: u64,
    /// Seconds spent in reads, waiting for the disk included.
    pub read_s: f64,
    /// Seconds spent comparing CRC32s.
    pub crc_s: f64,
    /// Seconds spent decoding and copying into slots.
    pub decode_s: f64,
    /// Seconds for which threads had nothing to do because every slot was filled: the consumer is
    /// the limit.
    pub idle_for_consumer_s: f64,
    /// Seconds for which threads had nothing to do because what they need was being read: the disk
    /// is the limit.
    pub idle_for_data_s: f64,
    /// Seconds for which the caller waited in `next_batch`: the loader is the limit.
    pub consumer_wait_s: f64,
    /// Batches that were ready, on average, when the caller asked for one.
    pub queue_fill: f64,
    /// Pictures of more than 8 bits a sample, of which 8 are left in the batches.
    pub narrowed_pictures: u64,
    /// Damaged samples that were skipped.
    pub skipped: u64,
    /// Slots made beyond [`LoaderOptions::slots`](crate::LoaderOptions::slots), because the caller
    /// kept all the others.
    pub extra_slots: u64,
    /// Slots made anew because a ragged batch was larger than any before, and slots that got more
    /// memory on a device than was predicted.
    pub grown_slots: u64,
    /// Rows that a device has decoded, of each field on its own. Those that the host decoded in its
    /// place are not among them ([`Loader::refusals`](crate::Loader::refusals)).
    pub device_rows: u64,
    /// Values that stay on a device ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).
    pub resident_values: u64,
    /// Most bytes that the buffers of runs took.
    pub peak_run_bytes: u64,
    /// Whether the window of the epoch at hand is in the page cache, and not in memory of the
    /// loader.
    pub window_in_page_cache: bool,
    /// Peak memory of the process in bytes, as the system counts it; 0 where it does not say.
    pub peak_rss_bytes: u64,
    /// The figure of [`Loader::predicted_bytes`](crate::Loader::predicted_bytes).
    pub predicted_bytes: u64,
    /// What the storage of the dataset has asked of a network since it was opened, for whomever;
    /// zeros on local disks.
    pub traffic: Traffic,
}

/// Nanoseconds, bytes and pictures, counted by many threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read_bytes: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) crc: AtomicU64,
    pub(crate) decode: AtomicU64,
    pub(crate) narrowed: AtomicU64,
    /// Memos that were made, which numbers them.
    pub(crate) memos: AtomicU64,
    pub(crate) idle_for_consumer: AtomicU64,
    pub(crate) idle_for_data: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

pub(crate) fn add_since(counter: &AtomicU64, start: Instant) {
    add(counter, nanoseconds(start.elapsed()));
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    shardpack_format::saturating_u64(duration.as_nanos())
}

pub(crate) fn seconds(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64 / 1e9
}
