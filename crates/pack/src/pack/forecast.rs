//! Forecasts how long packing in parts takes, from the plan and the rate measured on a few samples.

use super::folder::FolderSource;
use super::options::PackOptions;
use super::overlap::refuse_overlap;
use crate::pool::on_pool;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use shardpack_base::peak_rss_bytes;
use shardpack_sources::{SourceKind, listing_file};
use shardpack_writer::{Part, Plan, SampleSource, array_expression};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of samples to pack for measuring the rate. Measuring stops earlier if it takes longer than
/// [`TRIAL`].
const TRIED: usize = 256;
const TRIAL: Duration = Duration::from_secs(3);

/// Forecast for packing a source in parts.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// Type of the samples: pictures or cubes.
    pub kind: SourceKind,
    /// Total number of samples.
    pub samples: u64,
    /// Total size of the source files, in bytes.
    pub source_bytes: u64,
    /// Estimated total size of the records, in bytes.
    pub stored_bytes: u64,
    /// Number of shards.
    pub shards: u32,
    /// All parts, including parts without shards.
    pub parts: Vec<PartForecast>,
    /// Memory limit for samples while a part is packed, in bytes.
    pub memory_bytes: u64,
    /// Peak resident memory of this process, in bytes. It includes the listing and the plan. Every
    /// part needs these too.
    pub plan_rss_bytes: u64,
    /// Seconds spent on listing the source. Each part repeats this unless the listing is saved.
    pub listing_seconds: f64,
    /// The rate measured on a few samples.
    pub measured: Measured,
}

/// Forecast for one part of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartForecast {
    /// Index of the part, and the number of parts.
    pub part: Part,
    /// Numbers of the shards that the part writes.
    pub shards: Range<u32>,
    /// Number of samples in the part.
    pub samples: u64,
    /// Total size of the part's source files, in bytes.
    pub source_bytes: u64,
    /// Estimated total size of the part's records, in bytes.
    pub stored_bytes: u64,
}

/// Samples that were read and encoded to measure the rate, then discarded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Number of samples that were timed.
    pub samples: u64,
    /// Total size of their source files, in bytes.
    pub source_bytes: u64,
    /// Seconds spent on these samples, summed over all threads.
    pub seconds: f64,
    /// Number of threads used for the measurement.
    pub threads: usize,
}

impl Measured {
    /// Returns the seconds to pack sources of `source_bytes` bytes at this rate.
    #[must_use]
    pub fn seconds_for(&self, source_bytes: u64) -> f64 {
        self.seconds * source_bytes as f64 / self.source_bytes.max(1) as f64
    }
}

impl Forecast {
    /// Returns the seconds for the slowest part if all parts run at the same time.
    #[must_use]
    pub fn longest_seconds(&self) -> f64 {
        let longest = self.parts.iter().map(|part| part.source_bytes).max().unwrap_or(0);
        self.measured.seconds_for(longest)
    }

    /// Returns the numbers of the parts without samples as text such as `7-10`.
    #[must_use]
    pub fn empty(&self) -> String {
        let empty = self.parts.iter().filter(|part| part.shards.is_empty());
        array_expression(empty.map(|part| part.part.index().saturating_add(1)))
    }

    /// Returns the JSON object printed by `plan --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let part = |part: &PartForecast| {
            json!({
                "part": part.part.index().saturating_add(1),
                "first_shard": part.shards.start,
                "shards": part.shards.len(),
                "samples": part.samples,
                "source_bytes": part.source_bytes,
                "stored_bytes": part.stored_bytes,
                "seconds": self.measured.seconds_for(part.source_bytes),
            })
        };
        json!({
            "kind": self.kind.to_string(),
            "samples": self.samples,
            "source_bytes": self.source_bytes,
            "stored_bytes": self.stored_bytes,
            "shards": self.shards,
            "memory_bytes": self.memory_bytes,
            "plan_rss_bytes": self.plan_rss_bytes,
            "listing_seconds": self.listing_seconds,
            "seconds": self.measured.seconds_for(self.source_bytes),
            "longest_part_seconds": self.longest_seconds(),
            "empty_parts": self.empty(),
            "measured": self.measured,
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
        })
    }
}

/// Plans the packing of `src` in `parts` parts like [`pack`](super::pack), then encodes and discards a few
/// samples to measure the rate. Writes nothing except the listing, if `options.source.listing` names a file.
///
/// # Errors
/// Same as [`pack`](super::pack) before it writes.
pub fn forecast(src: &Path, out: &Path, options: &PackOptions, parts: u32) -> crate::Result<Forecast> {
    refuse_overlap(src, out, &options.source.files)?;
    options.arrays.check()?;
    on_pool(options.threads, || {
        let started = Instant::now();
        let anew = shardpack_sources::SourceOptions { listing: None, ..options.source.clone() };
        let listing = shardpack_sources::enumerate(src, &anew)?;
        let listing_seconds = started.elapsed().as_secs_f64();
        if let Some(file) = &options.source.listing {
            listing_file::write(&listing, &anew, file)?;
        }
        let source = FolderSource::open(&listing, options)?;
        let plan = source.plan(source.metadata()?)?;
        let forecast = of_plan(&plan, &source, options, parts)?;
        Ok(Forecast { listing_seconds, ..forecast })
    })?
}

fn of_plan(plan: &Plan, source: &FolderSource<'_>, options: &PackOptions, parts: u32) -> crate::Result<Forecast> {
    let part = |index: u32| -> crate::Result<PartForecast> {
        let part = Part::new(index, parts)?;
        let shards = part.shards(plan.shard_count());
        Ok(PartForecast {
            part,
            samples: shards.clone().map(|shard| plan.samples(shard).len() as u64).sum(),
            source_bytes: shards.clone().map(|shard| plan.source_bytes(shard)).sum(),
            stored_bytes: shards.clone().map(|shard| plan.stored_bytes(shard)).sum(),
            shards,
        })
    };
    Ok(Forecast {
        kind: source.listing().kind,
        samples: plan.sample_count(),
        source_bytes: source.listing().source_bytes(),
        stored_bytes: (0..plan.shard_count()).map(|shard| plan.stored_bytes(shard)).sum(),
        shards: plan.shard_count(),
        parts: (0..parts).map(part).collect::<crate::Result<_>>()?,
        memory_bytes: source.memory_limit(),
        plan_rss_bytes: peak_rss_bytes(),
        listing_seconds: 0.0,
        measured: measure(source, options.threads)?,
    })
}

/// Reads and encodes samples spread over the source, on the caller's rayon pool.
fn measure(source: &FolderSource<'_>, threads: usize) -> crate::Result<Measured> {
    let listing = source.listing();
    let count = listing.samples.len();
    // Order the samples so that even the first few are spread over the source.
    let step = count.div_ceil(TRIED).max(1);
    let tried: Vec<usize> = spread(count.div_ceil(step)).map(|i| i.saturating_mul(step)).collect();
    let started = Instant::now();
    let mut ahead = source.read_ahead_bytes();
    for &at in &tried {
        let Some(left) = ahead.checked_sub(1) else { break };
        ahead = left.saturating_sub(source.announce(at as u64));
    }
    let (samples, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    // Hand out one sample at a time, so that samples finish in roughly this order.
    tried.par_iter().with_max_len(1).try_for_each(|&at| -> crate::Result<()> {
        let Some(entry) = listing.samples.get(at) else { return Ok(()) };
        if started.elapsed() > TRIAL && samples.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        // Ignore the result, because even a sample that packing would skip takes time to encode.
        source.encode(at as u64, 0, Vec::new())?;
        samples.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(entry.source_bytes(), Ordering::Relaxed);
        Ok(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Measured { samples: samples.into_inner(), source_bytes: bytes.into_inner(), seconds, threads })
}

/// Returns the numbers below `count` in bit-reversed order, so that consecutive numbers are far apart.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let bits = usize::BITS - count.next_power_of_two().leading_zeros() - 1;
    (0..count.next_power_of_two())
        .map(move |i| if bits == 0 { i } else { i.reverse_bits() >> (usize::BITS - bits) })
        .filter(move |&i| i < count)
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn the_samples_of_the_trial_are_all_different_and_far_apart() {
        for count in [1, 2, 3, 7, 64, 200, 256] {
            let mut found: Vec<usize> = spread(count).collect();
            assert!(count < 8 || found[1] >= count / 4, "{found:?}");
            found.sort_unstable();
            assert_eq!(found, (0..count).collect::<Vec<_>>());
        }
    }
}
