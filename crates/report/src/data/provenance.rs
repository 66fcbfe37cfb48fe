//! The origin of a report: the facts needed to repeat it and to know its limits.

use serde::{Deserialize, Serialize};

/// The origin of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command that repeats the report.
    pub command: String,
    /// Version of shardpack.
    pub version: String,
    /// Seed of the draw.
    pub seed: u64,
    /// The strata of the draw.
    pub strata: Strata,
    /// The number of strata.
    pub strata_count: u64,
    /// Number of drawn samples.
    pub drawn: u64,
    /// Number of all samples.
    pub of: u64,
    /// Confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// The machine.
    pub machine: Machine,
    /// The device that was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<TimedDevice>,
    /// Date of the run in UTC, such as `2026-11-22`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Duration of the run in seconds.
    pub wall_s: f64,
    /// Core seconds spent scoring.
    pub scoring_s: f64,
    /// Peak resident memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Progress of the run if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Omitted measurements, one sentence each.
    pub not_measured: Vec<String>,
}

/// The strata of the draw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strata {
    /// A single stratum.
    #[default]
    None,
    /// Strata are the classes.
    Classes,
    /// Strata are the folders.
    Folders,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor; empty if unknown.
    pub processor: String,
    /// Number of threads of the run.
    pub threads: u64,
    /// Operating system and architecture, such as `linux x86_64`.
    pub system: String,
}

/// The device that was timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedDevice {
    /// Name of the device.
    pub name: String,
}

/// Progress of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Number of samples measured under every candidate.
    pub done: u64,
    /// Number of drawn samples.
    pub of: u64,
}
