//! Reports on a run: its progress and its final figures.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::DatasetId;
use std::time::Duration;

/// Progress of a run. All totals are for the whole dataset or part, including shards of an earlier run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples written, reused or skipped so far.
    pub samples: u64,
    /// Planned samples.
    pub samples_total: u64,
    /// Number of these samples that are in shards finished by an earlier run. For this run's rate, use
    /// `samples - samples_reused`.
    pub samples_reused: u64,
    /// Samples skipped so far.
    pub skipped: u64,
    /// Bytes read from the sources so far.
    pub bytes_in: u64,
    /// Number of these bytes that an earlier run read.
    pub bytes_in_reused: u64,
    /// Total bytes of all planned sources.
    pub bytes_in_total: u64,
    /// Bytes written to shards so far.
    pub bytes_out: u64,
    /// Number of finished shards. These are on disk, renamed and in the journal.
    pub shards: u32,
    /// Planned shards.
    pub shards_total: u32,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The dataset is now complete.
    Complete,
    /// The dataset was already complete, and nothing was written.
    AlreadyComplete,
    /// This part is complete. Once all parts are, [`merge`](crate::merge) finishes the dataset.
    PartComplete,
}

/// Result of a run. All figures are for the whole dataset or part, including shards of an earlier run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Id of the dataset.
    pub dataset_id: DatasetId,
    /// Samples in the dataset or part.
    pub samples: u64,
    /// Number of these samples that are in shards finished by an earlier run. This run wrote `samples -
    /// samples_reused` samples in `elapsed`.
    pub samples_reused: u64,
    /// Bytes read from the sources. `None` if this is unknown because the dataset was already complete.
    pub bytes_in: Option<u64>,
    /// Number of these bytes that an earlier run read; `None` if `bytes_in` is `None`.
    pub bytes_in_reused: Option<u64>,
    /// Total size of the shards in bytes.
    pub bytes_out: u64,
    /// Number of shards.
    pub shards: u32,
    /// Shards that an earlier run had finished.
    pub shards_reused: u32,
    /// All skipped samples in plan order, including those skipped by earlier runs and in other parts. Empty
    /// if they are unknown because the dataset was already complete.
    pub skipped: Vec<SkippedSample>,
    /// Guarantees that the file system could not give, with the consequences, as text for the user.
    pub notes: Vec<String>,
    /// Figures of the samples, as in the manifest.
    pub fidelity: Map<String, Value>,
    /// Wall-clock time that the run took.
    pub elapsed: Duration,
}

/// A skipped sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedSample {
    /// Key of the sample.
    pub key: String,
    /// The reason, as stated by the source.
    pub reason: String,
}
