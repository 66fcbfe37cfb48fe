//! Results for one sample: its record for each candidate, and the scores of these records.

use crate::compare::ArrayDifference;
use shardpack_report::data::Measure;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Sampled {
    pub(super) position: usize,
    /// One result per candidate, or no results if the sample cannot be read.
    pub(super) results: Vec<CandidateResult>,
    pub(super) unreadable: Option<String>,
    pub(super) scoring_s: f64,
}

pub(super) enum CandidateResult {
    Stored(Box<MeasuredRecord>),
    /// Why the candidate cannot store the sample.
    Failed(String),
}

pub(super) struct MeasuredRecord {
    /// Size of the record including padding, in bytes.
    pub(super) bytes: u64,
    pub(super) encode_s: f64,
    pub(super) scores: RecordScores,
}

#[derive(Default)]
pub(super) struct RecordScores {
    pub(super) values: BTreeMap<Measure, f64>,
    /// True if the record decodes to exactly the values of its source.
    pub(super) exact: bool,
    /// Differences of a cube, or `None` if the record is exact.
    pub(super) cube: Option<ArrayDifference>,
    pub(super) noise: Option<Arc<[f64]>>,
    /// Why there are no scores, or `None` if there are scores.
    pub(super) unscored: Option<String>,
}

impl Sampled {
    pub(super) fn unreadable(position: usize, reason: &str) -> Self {
        Self { position, results: Vec::new(), unreadable: Some(first_line(reason)), scoring_s: 0.0 }
    }

    pub(super) fn record(&self, candidate: usize) -> Option<&MeasuredRecord> {
        match self.results.get(candidate)? {
            CandidateResult::Stored(record) => Some(record),
            CandidateResult::Failed(_) => None,
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &MeasuredRecord> {
        (0..self.results.len()).filter_map(|candidate| self.record(candidate))
    }
}

/// Returns the first line of an error, because a report shows only one line per error.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
