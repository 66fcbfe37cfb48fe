//! A metric defined by the user: a number that a command prints.

use serde::{Deserialize, Serialize};

/// A user-defined metric, computed on the original and on candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name given by the user.
    pub name: String,
    /// Command that computes the metric.
    pub command: String,
    /// Results of the runs on the original. Their spread shows the effect of the seed alone.
    pub baseline: Vec<f64>,
    /// Results of the candidates.
    pub values: Vec<MetricValue>,
    /// Failed runs, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The result of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Number that the command printed.
    pub value: f64,
    /// True if the number is within the spread of the baseline. `None` if the baseline has fewer than two
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_spread: Option<bool>,
}
