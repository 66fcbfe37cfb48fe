//! Divides a dataset into runs, and lists the samples with certain labels.
//!
//! A run is a fixed *number* of consecutive samples, about 4 MiB on average: run `r` starts at sample
//! `r × run_samples`. Runs differ in bytes, so a reader that must limit the size of a read splits the run. A
//! run that crosses the border between two shards takes two reads. With shards of 1 GiB, this is one run in
//! 256.

use shardpack_reader::{Dataset, Result};
use std::ops::Range;

/// The runs of a dataset. The last run may be shorter than the others.
///
/// ```
/// use shardpack_loader::order::Runs;
/// let runs = Runs::new(100_000_000, 38);
/// assert_eq!(runs.count(), 2_631_579);
/// assert_eq!(runs.samples_of(2_631_578), 99_999_964..100_000_000);
/// assert_eq!(Runs::of_bytes(1000, 110_000_000, 4 << 20), Runs::new(1000, 38));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    samples: u64,
    run_samples: u64,
}

impl Runs {
    /// Default size of a run: 4 MiB, enough to saturate a disk or object store with several reads in flight.
    pub const BYTES: u64 = 4 << 20;

    /// Maximum number of samples, more than any disk holds. Keeps the sum of two positions from overflowing.
    const MOST: u64 = 1 << 62;

    /// Creates runs of `run_samples` samples, clamped to between 1 and `samples`. Samples past 2⁶² are ignored.
    #[must_use]
    pub const fn new(samples: u64, run_samples: u64) -> Self {
        let samples = if samples > Self::MOST { Self::MOST } else { samples };
        let run_samples = if run_samples > samples { samples } else { run_samples };
        Self { samples, run_samples: if run_samples == 0 { 1 } else { run_samples } }
    }

    /// Creates runs of `run_bytes` bytes on average, for a dataset of `bytes` bytes. If samples are larger than that,
    /// each sample is a run.
    #[must_use]
    pub const fn of_bytes(samples: u64, bytes: u64, run_bytes: u64) -> Self {
        let mean = match bytes.checked_div(samples) {
            None | Some(0) => 1,
            Some(mean) => mean,
        };
        Self::new(samples, run_bytes.saturating_add(mean / 2) / mean)
    }

    /// Returns the runs of `dataset`, with `run_bytes` bytes on average (default [`Runs::BYTES`]). Reads only
    /// the manifest, which contains sizes and counts.
    #[must_use]
    pub fn of(dataset: &Dataset, run_bytes: u64) -> Self {
        let bytes = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
        Self::of_bytes(dataset.len(), bytes, run_bytes)
    }

    /// Returns the number of samples.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the number of samples per run.
    #[must_use]
    pub const fn run_samples(&self) -> u64 {
        self.run_samples
    }

    /// Returns the number of runs.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.samples.div_ceil(self.run_samples)
    }

    /// Returns the run that contains `sample`.
    #[must_use]
    pub const fn run_of(&self, sample: u64) -> u64 {
        sample / self.run_samples
    }

    /// Returns the samples of `run`. The range is empty if `run` is past the end.
    #[must_use]
    pub fn samples_of(&self, run: u64) -> Range<u64> {
        let start = run.saturating_mul(self.run_samples).min(self.samples);
        start..start.saturating_add(self.run_samples).min(self.samples)
    }
}

/// Returns the samples whose label `wanted` accepts, in stored order. Opens every shard but reads no record.
/// Uses 8 bytes per sample during the call, and 8 bytes per returned sample.
///
/// # Errors
/// Same as [`Dataset::labels`].
pub fn samples_by_label(dataset: &Dataset, wanted: impl Fn(i64) -> bool) -> Result<Vec<u64>> {
    let labels = dataset.labels()?;
    Ok((0..).zip(labels).filter(|(_, label)| wanted(*label)).map(|(sample, _)| sample).collect())
}
