//! The user's own metric: a number that a command of theirs prints.

use serde::{Deserialize, Serialize};

/// A metric of the user, run on the original and on candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The user's name for it.
    pub name: String,
    /// The command.
    pub command: String,
    /// Its numbers on the original, run by run: the spread from seed to seed.
    pub baseline: Vec<f64>,
    /// Its numbers on the candidates.
    pub values: Vec<MetricValue>,
    /// Runs that failed, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The number of the command on one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The candidate, as a position in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// The number.
    pub value: f64,
    /// True if it lies within the spread of the baseline; `None` with fewer than two runs of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_spread: Option<bool>,
}
