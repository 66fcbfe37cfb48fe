//! Maps each source of a sampling to its samples in the dataset. A source is the whole dataset, or
//! one of the parts of a `Dataset::concat`.

use super::Sampling;
use shardpack_reader::Dataset;
use shardpack_reader::{Error, Result};
use std::ops::Range;

/// For each source of a sampling, its range of samples in the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sources(Vec<Range<u64>>);

impl Sources {
    /// Returns the ranges of `sampling`'s sources in `dataset`.
    ///
    /// # Errors
    /// `Usage` if the sampling refers to samples or datasets that do not exist.
    pub(crate) fn fit(dataset: &Dataset, sampling: &dyn Sampling) -> Result<Self> {
        let wanted = sampling.sources();
        let parts = match wanted.len() {
            1 => std::iter::once(0..dataset.len()).collect(),
            _ => dataset.parts().to_vec(),
        };
        if parts.len() != wanted.len() {
            let (mixed, loaded) = (wanted.len(), parts.len());
            return Err(Error::usage(format!("`sampling` draws from {mixed} datasets, but the loader has {loaded}"))
                .with_hint("load a `concat` of the datasets that `sampling` was made for, in the same sequence"));
        }
        for (number, (part, wanted)) in parts.iter().zip(wanted).enumerate() {
            let len = part.end - part.start;
            if wanted > len {
                let dataset = if parts.len() == 1 { "the dataset".to_owned() } else { format!("dataset {number}") };
                return Err(Error::usage(format!(
                    "`sampling` draws from {wanted} samples, but {dataset} has only {len}"
                ))
                .with_hint("make `sampling` for the dataset that is loaded"));
            }
        }
        Ok(Self(parts))
    }

    pub(crate) fn samples(&self, source: u32) -> Option<Range<u64>> {
        self.0.get(usize::try_from(source).ok()?).cloned()
    }
}
