//! Progress and results of a run.

use crate::uploads::Uploads;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::DatasetId;
use std::time::Duration;

/// Progress of a run. All numbers refer to the whole dataset or part, including shards from an earlier run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of samples written, reused or skipped so far.
    pub samples: u64,
    /// Number of planned samples.
    pub samples_total: u64,
    /// Number of these samples in shards from an earlier run. Compute rates with `samples - samples_reused`.
    pub samples_reused: u64,
    /// Number of samples skipped so far.
    pub skipped: u64,
    /// Number of bytes read from the sources so far.
    pub bytes_in: u64,
    /// Number of these bytes that an earlier run read.
    pub bytes_in_reused: u64,
    /// Total bytes of all planned sources.
    pub bytes_in_total: u64,
    /// Number of bytes written to shards so far.
    pub bytes_out: u64,
    /// Number of finished shards: on disk, renamed and in the journal.
    pub shards: u32,
    /// Number of planned shards.
    pub shards_total: u32,
    /// Number of bytes of shards that this run has sent to the store so far. A large shard is sent in parts, and a part
    /// counts once the store has received it. 0 for a folder on a disk.
    pub bytes_sent: u64,
    /// Total size in bytes of the shards that this run has sent, is sending or is about to send to the store. It grows
    /// with each complete shard. Shards that the store already has do not count. 0 for a folder on a disk.
    pub bytes_to_send: u64,
}

impl Progress {
    pub(crate) fn with(self, uploads: &Uploads) -> Self {
        Self { bytes_sent: uploads.sent(), bytes_to_send: uploads.to_send(), ..self }
    }
}

/// How a run ended.
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

/// Result of a run. All numbers refer to the whole dataset or part, including shards from an earlier run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How the run ended.
    pub outcome: Outcome,
    /// Id of the dataset.
    pub dataset_id: DatasetId,
    /// Number of samples in the dataset or part.
    pub samples: u64,
    /// Number of these samples in shards that an earlier run finished. This run wrote `samples - samples_reused`
    /// samples in `elapsed`.
    pub samples_reused: u64,
    /// Number of bytes read from the sources. `None` if unknown because the dataset was already complete.
    pub bytes_in: Option<u64>,
    /// Number of these bytes that an earlier run read. `None` if `bytes_in` is `None`.
    pub bytes_in_reused: Option<u64>,
    /// Total size of the shards in bytes.
    pub bytes_out: u64,
    /// Number of shards.
    pub shards: u32,
    /// Number of shards that an earlier run finished.
    pub shards_reused: u32,
    /// All skipped samples in plan order, including those that earlier runs and other parts skipped. Empty if unknown
    /// because the dataset was already complete.
    pub skipped: Vec<SkippedSample>,
    /// Messages for the user about guarantees that the file system cannot provide.
    pub notes: Vec<String>,
    /// Statistics of the samples, as in the manifest's field `fidelity`.
    pub fidelity: Map<String, Value>,
    /// Wall-clock time of the run.
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
