//! The origin of a report: enough to make it again, and to know what it does not say.

use serde::{Deserialize, Serialize};

/// The origin of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command that repeats it.
    pub command: String,
    /// Version of shardpack.
    pub version: String,
    /// Seed of the draw.
    pub seed: u64,
    /// The strata of the draw.
    pub strata: Strata,
    /// Number of strata.
    pub strata_count: u64,
    /// Samples that were drawn.
    pub drawn: u64,
    /// Samples there are.
    pub of: u64,
    /// Confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// The machine.
    pub machine: Machine,
    /// The device that decode rates were measured on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<TimedDevice>,
    /// Date of the run in UTC, `2026-11-22`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Seconds that the run took.
    pub wall_s: f64,
    /// Seconds of one core that scoring took.
    pub scoring_s: f64,
    /// Peak resident memory, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Set if the run was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Things that were not measured, one sentence each.
    pub not_measured: Vec<String>,
}

/// The strata of the draw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strata {
    /// Nothing: one stratum.
    #[default]
    None,
    /// Classes.
    Classes,
    /// Folders.
    Folders,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor; empty if unknown.
    pub processor: String,
    /// Threads that the run used.
    pub threads: u64,
    /// Operating system and architecture: `linux x86_64`.
    pub system: String,
}

/// A device that decoding was timed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedDevice {
    /// Its name.
    pub name: String,
}

/// Progress of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Samples that were measured under every candidate.
    pub done: u64,
    /// Samples that were drawn.
    pub of: u64,
}
