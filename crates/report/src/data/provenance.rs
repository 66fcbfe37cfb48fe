//! Where the figures of a report come from. This is everything needed to repeat the report and to know its limits.

use serde::{Deserialize, Serialize};

/// Where the figures of a report come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command that repeats the report.
    pub command: String,
    /// Version of shardpack.
    pub version: String,
    /// Seed of the draw.
    pub seed: u64,
    /// How the samples were divided into strata before the draw.
    pub strata: Strata,
    /// Number of strata.
    pub strata_count: u64,
    /// Number of drawn samples.
    pub drawn: u64,
    /// Number of all samples.
    pub of: u64,
    /// Confidence level of every interval, such as 0.95.
    pub confidence: f64,
    /// The machine on which the report was made.
    pub machine: Machine,
    /// The device on which decoding was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<TimedDevice>,
    /// Date of the run in UTC, such as `2026-11-22`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Duration of the run in seconds.
    pub wall_s: f64,
    /// Time spent on scoring, in core seconds.
    pub scoring_s: f64,
    /// Peak resident memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Progress of the run, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Measurements that were omitted, in one sentence each.
    pub not_measured: Vec<String>,
}

/// How the samples are divided into strata before the draw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strata {
    /// All samples are in a single stratum.
    #[default]
    None,
    /// Each class is a stratum.
    Classes,
    /// Each folder is a stratum.
    Folders,
}

/// The machine on which a report was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor; empty if unknown.
    pub processor: String,
    /// Number of threads used.
    pub threads: u64,
    /// Operating system and architecture, such as `linux x86_64`.
    pub system: String,
}

/// The device on which decoding was timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedDevice {
    /// Name of the device.
    pub name: String,
}

/// Progress of a run that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Number of samples that were measured for every candidate.
    pub done: u64,
    /// Number of drawn samples.
    pub of: u64,
}
