//! The user's own metric: a number that a command of the user prints.

use serde::{Deserialize, Serialize};

/// A metric of the user, computed on the original and on candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The user's name for the metric.
    pub name: String,
    /// The command.
    pub command: String,
    /// Numbers for the original, run by run: their spread is the spread between seeds.
    pub baseline: Vec<f64>,
    /// Numbers for the candidates.
    pub values: Vec<MetricValue>,
    /// Failed runs, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The metric of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The candidate, as a position in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// The number.
    pub value: f64,
    /// True if the number lies within the spread of the baseline; `None` if the baseline has fewer
    /// than two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_spread: Option<bool>,
}
