//! Records how the figures in a report were measured, to repeat the report and to judge its limits.

use serde::{Deserialize, Serialize};

/// Describes how, where and when the figures in a report were measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Command that repeats the report.
    pub command: String,
    /// Version of shardpack that made the report.
    pub version: String,
    /// Seed for drawing the samples.
    pub seed: u64,
    /// How samples were divided into strata before drawing.
    pub strata: Strata,
    /// Number of strata.
    pub strata_count: u64,
    /// Number of drawn samples.
    pub drawn: u64,
    /// Number of samples in the whole set.
    pub of: u64,
    /// Confidence level of all intervals, such as 0.95.
    pub confidence: f64,
    /// Machine that the report was made on.
    pub machine: Machine,
    /// Device that decoding was timed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<TimedDevice>,
    /// Date of the run in UTC, such as `2026-11-22`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Duration of the run in seconds.
    pub wall_s: f64,
    /// CPU time spent on scoring, in seconds summed over all cores.
    pub scoring_s: f64,
    /// Peak resident memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Progress of the run, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Measurements that were left out. Each is one sentence.
    pub not_measured: Vec<String>,
}

/// How samples are divided into strata before drawing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strata {
    /// A single stratum with all samples.
    #[default]
    None,
    /// One stratum per class.
    Classes,
    /// One stratum per folder.
    Folders,
}

/// Machine that a report was made on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor. Empty if unknown.
    pub processor: String,
    /// Number of threads in use.
    pub threads: u64,
    /// Operating system and architecture, such as `linux x86_64`.
    pub system: String,
}

/// Device that decoding was timed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedDevice {
    /// Name of the device.
    pub name: String,
}

/// Progress of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Number of samples that were measured for all candidates.
    pub done: u64,
    /// Number of drawn samples.
    pub of: u64,
}
