//! Runs and measures an epoch, from the counters of the loader and the system before and after it.

use super::system;
use crate::cli::progress::Bar;
use shardpack_loader::{Loader, LoaderStats};
use std::time::Instant;

/// Bytes moved in one epoch, and the time that each stage took, summed over all threads of the
/// loader.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Epoch {
    pub(super) seconds: f64,
    pub(super) cpu_s: f64,
    /// Seconds that threads waited for a free core, or `None` if the system does not report it.
    pub(super) queued_s: Option<f64>,
    pub(super) batches: u64,
    pub(super) samples: u64,
    pub(super) output_bytes: u64,
    pub(super) read_bytes: u64,
    /// Bytes read from a disk, or `None` if the system does not report it.
    pub(super) disk_bytes: Option<u64>,
    /// Bytes fetched from a store, excluding its cache on the local disk.
    pub(super) fetched_bytes: u64,
    pub(super) read_s: f64,
    pub(super) crc_s: f64,
    pub(super) decode_s: f64,
    pub(super) waited_for_data_s: f64,
    pub(super) waited_for_slot_s: f64,
    /// Seconds that the consumer waited for batches.
    pub(super) consumer_wait_s: f64,
    /// Mean number of ready batches when the consumer requested one.
    pub(super) queue_fill: f64,
    pub(super) skipped: u64,
}

impl Epoch {
    pub(super) fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn cpu_s_per_sample(&self) -> f64 {
        self.cpu_s / self.samples.max(1) as f64
    }

    /// Returns the remaining thread time in seconds, which the threads spent on planning or idle.
    pub(super) fn other_s(&self, threads: usize) -> f64 {
        let known = self.read_s + self.crc_s + self.decode_s + self.waited_for_data_s + self.waited_for_slot_s;
        (self.seconds * threads as f64 - known).max(0.0)
    }
}

struct Reading {
    stats: LoaderStats,
    cpu_s: f64,
    queued_s: Option<f64>,
    disk_bytes: Option<u64>,
    time: Instant,
}

impl Reading {
    fn take(loader: &Loader) -> Self {
        Self {
            stats: loader.stats(),
            cpu_s: system::cpu_s(),
            queued_s: system::queued_s(),
            disk_bytes: system::disk_bytes(),
            time: Instant::now(),
        }
    }
}

/// Runs epoch `number` of `loader`, counted from 0. All earlier epochs must have been run.
pub(super) fn run(loader: &mut Loader, number: u32, bar: &Bar) -> crate::Result<Epoch> {
    let bytes: u64 = loader.dataset().shards().map(|shard| shard.bytes).sum();
    let per_sample = bytes as f64 / loader.dataset().len().max(1) as f64;
    let before = Reading::take(loader);
    loader.set_epoch(number)?;
    let mut samples = before.stats.samples + before.stats.skipped;
    while let Some(batch) = loader.next_batch() {
        samples += batch?.len() as u64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "for a progress bar: whole bytes are enough"
        )]
        bar.read(samples, (per_sample * samples as f64) as u64);
    }
    let after = Reading::take(loader);
    Ok(difference(number, &before, &after))
}

fn difference(number: u32, before: &Reading, after: &Reading) -> Epoch {
    let (a, b) = (&before.stats, &after.stats);
    let batches = b.batches - a.batches;
    // This mean covers all requests so far. Each epoch has one more request than batches: the last
    // request finds the end of the epoch.
    let ready = |stats: &LoaderStats, epochs: u32| stats.queue_fill * (stats.batches + u64::from(epochs)) as f64;
    Epoch {
        seconds: after.time.duration_since(before.time).as_secs_f64().max(1e-9),
        cpu_s: after.cpu_s - before.cpu_s,
        queued_s: after.queued_s.zip(before.queued_s).map(|(b, a)| (b - a).max(0.0)),
        batches,
        samples: b.samples - a.samples,
        output_bytes: b.output_bytes - a.output_bytes,
        read_bytes: b.read_bytes - a.read_bytes,
        disk_bytes: after.disk_bytes.zip(before.disk_bytes).map(|(b, a)| b.saturating_sub(a)),
        fetched_bytes: b.traffic.fetched_bytes - a.traffic.fetched_bytes,
        read_s: b.read_s - a.read_s,
        crc_s: b.crc_s - a.crc_s,
        decode_s: b.decode_s - a.decode_s,
        waited_for_data_s: b.idle_for_data_s - a.idle_for_data_s,
        waited_for_slot_s: b.idle_for_consumer_s - a.idle_for_consumer_s,
        consumer_wait_s: b.consumer_wait_s - a.consumer_wait_s,
        queue_fill: (ready(b, number + 1) - ready(a, number)) / batches.max(1) as f64,
        skipped: b.skipped - a.skipped,
    }
}

/// Returns the epoch with the median time, or the slower one of the middle two if the number of
/// epochs is even.
pub(super) fn median(epochs: &[Epoch]) -> Epoch {
    let mut sorted = epochs.to_vec();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(seconds: f64) -> Epoch {
        Epoch { seconds, samples: 10, cpu_s: 5.0, read_s: 1.0, decode_s: 4.0, ..Epoch::default() }
    }

    #[test]
    fn the_median_is_an_epoch_that_was() {
        assert_eq!(median(&[3.0, 1.0, 2.0].map(epoch)), epoch(2.0));
        assert_eq!(median(&[1.0, 2.0].map(epoch)), epoch(2.0));
        assert_eq!(median(&[]), Epoch::default());
    }

    #[test]
    fn rates_and_what_is_left() {
        let epoch = epoch(2.0);
        assert_eq!((epoch.per_s(10), epoch.cpu_s_per_sample()), (5.0, 0.5));
        assert_eq!((epoch.other_s(4), epoch.other_s(1)), (3.0, 0.0));
    }
}
