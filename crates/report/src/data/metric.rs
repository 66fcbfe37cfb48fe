//! The user's own metric: a number that a command prints.

use serde::{Deserialize, Serialize};

/// A user's metric, computed on the original and on candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// User's name for the metric.
    pub name: String,
    /// The command.
    pub command: String,
    /// Numbers of the runs on the original. Their spread is the spread between seeds.
    pub baseline: Vec<f64>,
    /// Numbers for the candidates.
    pub values: Vec<MetricValue>,
    /// Failed runs with their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// One candidate's metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The candidate, as a position in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// The number.
    pub value: f64,
    /// True if the number lies within the spread of the baseline; `None` if the baseline has fewer than two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_spread: Option<bool>,
}
