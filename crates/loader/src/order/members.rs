//! A subset of a dataset: an order visits only these samples.

use super::runs::Runs;
use super::state::{Digest, Fingerprint};
use std::ops::Range;
use std::sync::Arc;

/// The samples of a subset, sorted and without duplicates. They use 8 bytes each, and clones share them.
///
/// ```
/// use shardpack_loader::order::{Members, Runs};
/// let members = Members::new(&Runs::new(1000, 38), vec![40, 7, 7, 999, 1000]);
/// assert_eq!(members.len(), 3, "7 counts once, and there is no sample 1000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    samples: Arc<[u64]>,
    runs: Runs,
    fingerprint: Fingerprint,
}

impl Members {
    /// Creates a subset of the samples of `runs`. Sorts the members, and drops duplicates and numbers past the end.
    #[must_use]
    pub fn new(runs: &Runs, mut samples: Vec<u64>) -> Self {
        samples.retain(|&sample| sample < runs.samples());
        samples.sort_unstable();
        samples.dedup();
        let mut touched = 0;
        let mut last = None;
        for &sample in &samples {
            let run = Some(runs.run_of(sample));
            touched += u64::from(run != last);
            last = run;
        }
        // Mean number of members per run, over the runs that contain any. Reads of the subset then have the usual size
        // in bytes.
        let count = samples.len() as u64;
        let run_samples = count.div_ceil(touched.max(1));
        let mut digest = Digest::new("members");
        digest.numbers(&samples);
        Self { samples: samples.into(), runs: Runs::new(count, run_samples), fingerprint: digest.finish() }
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.samples.len() as u64
    }

    /// Returns true if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the members in ascending order.
    #[must_use]
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    pub(super) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) const fn runs(&self) -> Runs {
        self.runs
    }

    /// Returns a member by its index. Callers never pass an index past the end, which would return 0.
    pub(super) fn sample(&self, index: u64) -> u64 {
        let sample = usize::try_from(index).ok().and_then(|index| self.samples.get(index));
        debug_assert!(sample.is_some(), "member {index} of {}", self.samples.len());
        sample.copied().unwrap_or_default()
    }

    /// Returns the samples from the first to the last of the members `span`, or `None` if fewer than half of these
    /// samples are members, because it is then faster to read the members alone.
    pub(super) fn span(&self, span: &Range<u64>) -> Option<Range<u64>> {
        let samples = self.sample(span.start)..self.sample(span.end.saturating_sub(1)) + 1;
        (samples.end - samples.start <= 2 * (span.end - span.start)).then_some(samples)
    }
}
