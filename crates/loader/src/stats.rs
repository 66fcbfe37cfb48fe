//! Statistics of a loader: the work done and the time spent waiting.

use shardpack_io::Traffic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Statistics of a loader since it was opened. Seconds are sums over its threads.
///
/// ```
/// use shardpack_loader::LoaderStats;
/// let stats = LoaderStats::default();
/// assert_eq!((stats.batches, stats.decode_s), (0, 0.0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Number of batches delivered, including failed ones.
    pub batches: u64,
    /// Number of samples delivered.
    pub samples: u64,
    /// Number of bytes read from files, including reads for an epoch that was started early.
    pub read_bytes: u64,
    /// Number of bytes in the delivered batches.
    pub output_bytes: u64,
    /// Seconds spent in reads, including waits for the disk.
    pub read_s: f64,
    /// Seconds spent computing and comparing CRC32s.
    pub crc_s: f64,
    /// Seconds spent decoding and copying into slots.
    pub decode_s: f64,
    /// Seconds that threads were idle because every slot was full. If this is large, the consumer is the bottleneck.
    pub idle_for_consumer_s: f64,
    /// Seconds that threads were idle because they waited for reads. If this is large, the disk is the bottleneck.
    pub idle_for_data_s: f64,
    /// Seconds that the caller waited in `next_batch`. If this is large, the loader is the bottleneck.
    pub consumer_wait_s: f64,
    /// Average number of batches that were ready when the caller requested one.
    pub queue_fill: f64,
    /// Number of pictures with more than 8 bits per sample. Batches reduce them to 8.
    pub narrowed_pictures: u64,
    /// Number of pictures that were decoded without their segment index, because it was wrong.
    pub wrong_indexes: u64,
    /// Number of damaged samples that were skipped.
    pub skipped: u64,
    /// Number of slots added beyond [`LoaderOptions::slots`](crate::LoaderOptions::slots), because the caller
    /// held all other slots.
    pub extra_slots: u64,
    /// Number of slots that were replaced because a ragged batch was the largest so far, plus the number of
    /// slots that needed more device memory than predicted.
    pub grown_slots: u64,
    /// Number of values that a device decoded. A row counts once for each of its fields.
    /// [`Loader::refusals`](crate::Loader::refusals) lists the rows that the host decoded instead.
    pub device_rows: u64,
    /// Number of values that stay on a device
    /// ([`LoaderOptions::resident`](crate::LoaderOptions::resident)).
    pub resident_values: u64,
    /// Peak size of the buffers for runs, in bytes.
    pub peak_run_bytes: u64,
    /// True if the window of the current epoch is in the page cache instead of the loader's memory.
    pub window_in_page_cache: bool,
    /// Peak memory of the process in bytes, or 0 if the system does not report it.
    pub peak_rss_bytes: u64,
    /// Result of [`Loader::predicted_bytes`](crate::Loader::predicted_bytes).
    pub predicted_bytes: u64,
    /// Network requests of the dataset's storage since it was opened, for all of its users. All zero for local disks.
    pub traffic: Traffic,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read_bytes: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) crc: AtomicU64,
    pub(crate) decode: AtomicU64,
    pub(crate) narrowed: AtomicU64,
    pub(crate) wrong_indexes: AtomicU64,
    /// Number of memos so far, which is the ID of the next one.
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
