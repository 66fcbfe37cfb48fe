//! Metrics that the user defines. A metric is a number that a command prints.

use serde::{Deserialize, Serialize};

/// A user-defined metric, with its results for the original samples and for the candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name given by the user.
    pub name: String,
    /// Command that computes the metric.
    pub command: String,
    /// Results of several runs on the original samples. The runs differ only in their seeds, so the range of
    /// the results shows the effect of chance.
    pub baseline: Vec<f64>,
    /// One result per candidate. A candidate whose run failed has none.
    pub values: Vec<MetricValue>,
    /// Descriptions of the failed runs, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Result of the metric for one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Number that the command printed.
    pub value: f64,
    /// True if the value lies within the range of the baseline results. `None` if the baseline has fewer than two
    /// results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_spread: Option<bool>,
}
