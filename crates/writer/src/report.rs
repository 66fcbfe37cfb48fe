//! What a run reports, while it runs and at the end.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::DatasetId;
use std::time::Duration;

/// How far a run is. Totals cover the part being written, including shards of an earlier run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Samples written, reused or skipped so far.
    pub samples: u64,
    /// Samples planned.
    pub samples_total: u64,
    /// How many of `samples` are in shards that an earlier run finished. The rate of this run is
    /// that of `samples - samples_reused`.
    pub samples_reused: u64,
    /// Samples left out so far.
    pub skipped: u64,
    /// Bytes read from the sources so far.
    pub bytes_in: u64,
    /// How many of `bytes_in` an earlier run had read.
    pub bytes_in_reused: u64,
    /// Bytes of all planned sources.
    pub bytes_in_total: u64,
    /// Bytes written to shards so far.
    pub bytes_out: u64,
    /// Shards that are finished: on disk, renamed and in the journal.
    pub shards: u32,
    /// Shards planned.
    pub shards_total: u32,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The dataset is complete.
    Complete,
    /// The dataset was complete before; nothing was written.
    AlreadyComplete,
    /// This part is complete; [`merge`](crate::merge) finishes the dataset once all parts are.
    PartComplete,
}

/// What a run did. Figures cover the whole dataset or the part, including shards of an earlier run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The dataset's id.
    pub dataset_id: DatasetId,
    /// Samples in the dataset or part.
    pub samples: u64,
    /// How many of them are in shards that an earlier run finished. In `elapsed` this run wrote
    /// `samples - samples_reused`.
    pub samples_reused: u64,
    /// Bytes read from the sources; `None` if that is no longer known (the dataset was complete
    /// before).
    pub bytes_in: Option<u64>,
    /// How many of them an earlier run had read; `None` together with `bytes_in`.
    pub bytes_in_reused: Option<u64>,
    /// Bytes of the shards.
    pub bytes_out: u64,
    /// Number of shards.
    pub shards: u32,
    /// How many of them an earlier run had finished.
    pub shards_reused: u32,
    /// Samples that were left out, in the order of the plan, including those of earlier runs and
    /// other parts; empty if that is no longer known, as with `bytes_in`.
    pub skipped: Vec<SkippedSample>,
    /// What the file system could not do, and what that means: for the user to know.
    pub notes: Vec<String>,
    /// The figures as in the manifest.
    pub fidelity: Map<String, Value>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

/// A sample that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedSample {
    /// Its key.
    pub key: String,
    /// Why, in the source's words.
    pub reason: String,
}
