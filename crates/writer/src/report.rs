//! Reports on a run: progress, and the final figures.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::DatasetId;
use std::time::Duration;

/// Progress of a run. Totals cover the whole dataset or part, including shards of an earlier run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples written, reused or skipped so far.
    pub samples: u64,
    /// Planned samples.
    pub samples_total: u64,
    /// Part of `samples` in shards that an earlier run finished. For this run's rate, use `samples - samples_reused`.
    pub samples_reused: u64,
    /// Samples skipped so far.
    pub skipped: u64,
    /// Bytes read from the sources so far.
    pub bytes_in: u64,
    /// Part of `bytes_in` that an earlier run read.
    pub bytes_in_reused: u64,
    /// Bytes of all planned sources.
    pub bytes_in_total: u64,
    /// Bytes written to shards so far.
    pub bytes_out: u64,
    /// Finished shards: on disk, renamed and in the journal.
    pub shards: u32,
    /// Planned shards.
    pub shards_total: u32,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The dataset is complete.
    Complete,
    /// The dataset was already complete, and nothing was written.
    AlreadyComplete,
    /// This part is complete; [`merge`](crate::merge) finishes the dataset once all parts are.
    PartComplete,
}

/// Result of a run. Figures cover the whole dataset or part, including shards of an earlier run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// The dataset's id.
    pub dataset_id: DatasetId,
    /// Samples in the dataset or part.
    pub samples: u64,
    /// Samples in shards that an earlier run finished. In `elapsed`, this run wrote `samples - samples_reused`.
    pub samples_reused: u64,
    /// Bytes read from the sources; `None` if unknown, because the dataset was already complete.
    pub bytes_in: Option<u64>,
    /// Part of `bytes_in` that an earlier run read; `None` if `bytes_in` is.
    pub bytes_in_reused: Option<u64>,
    /// Total size of the shards, in bytes.
    pub bytes_out: u64,
    /// Number of shards.
    pub shards: u32,
    /// Shards that an earlier run had finished.
    pub shards_reused: u32,
    /// Skipped samples in plan order, including skips of earlier runs and other parts; empty if unknown, like
    /// `bytes_in`.
    pub skipped: Vec<SkippedSample>,
    /// Guarantees that the file system could not give, and the consequences, in text for the user.
    pub notes: Vec<String>,
    /// Figures, as in the manifest.
    pub fidelity: Map<String, Value>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

/// A skipped sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedSample {
    /// Key of the sample.
    pub key: String,
    /// Reason, in the words of the source.
    pub reason: String,
}
