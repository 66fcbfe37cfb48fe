//! The results of one sample: its record under each candidate, and the scores of these records.

use crate::compare::ArrayDifference;
use shardpack_report::data::Measure;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One sample under all candidates.
pub(super) struct Sampled {
    /// Its position in the listing.
    pub(super) position: usize,
    /// One for each candidate. Empty if the sample cannot be read.
    pub(super) results: Vec<CandidateResult>,
    /// Why the sample itself cannot be read.
    pub(super) unreadable: Option<String>,
    /// Seconds of a core that went into scores.
    pub(super) scoring_s: f64,
}

/// One sample under one candidate.
pub(super) enum CandidateResult {
    /// Its record was made, decoded and scored.
    Stored(Box<MeasuredRecord>),
    /// The candidate cannot store it.
    Failed(String),
}

/// The record of a sample under a candidate.
pub(super) struct MeasuredRecord {
    /// Its bytes, padded.
    pub(super) bytes: u64,
    /// Seconds of a core.
    pub(super) encode_s: f64,
    pub(super) scores: RecordScores,
}

/// The differences between a decoded record and its source.
#[derive(Default)]
pub(super) struct RecordScores {
    pub(super) values: BTreeMap<Measure, f64>,
    /// Decodes to the very values of its source.
    pub(super) exact: bool,
    /// The differences of a cube that is not exact.
    pub(super) cube: Option<ArrayDifference>,
    /// The noise of each band of their source.
    pub(super) noise: Option<Arc<[f64]>>,
    /// Why there are no scores.
    pub(super) unscored: Option<String>,
}

impl Sampled {
    /// A sample whose source cannot be read.
    pub(super) fn unreadable(position: usize, reason: &str) -> Self {
        Self { position, results: Vec::new(), unreadable: Some(first_line(reason)), scoring_s: 0.0 }
    }

    /// The record under a candidate; `None` if there is none.
    pub(super) fn record(&self, candidate: usize) -> Option<&MeasuredRecord> {
        match self.results.get(candidate)? {
            CandidateResult::Stored(record) => Some(record),
            CandidateResult::Failed(_) => None,
        }
    }

    /// The records under all candidates that could store the sample.
    pub(super) fn records(&self) -> impl Iterator<Item = &MeasuredRecord> {
        (0..self.results.len()).filter_map(|candidate| self.record(candidate))
    }
}

/// An error on one line, as a report shows it.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
