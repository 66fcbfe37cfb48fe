//! Describes a candidate: one way to store the samples, and its effect on the drawn samples.

use super::Measure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One way to store the samples, and its effect on the drawn samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the candidate, counted from 1. It is shown on the page and accepted by `pack --recipe`.
    pub number: u32,
    /// Short name, such as `reencode q80 4:2:0`. It is generated, or comes from the user's file.
    pub name: String,
    /// `pack` options by their long names: `{"jpeg": "reencode", "quality": "80"}`.
    pub options: BTreeMap<String, String>,
    /// The same options, as command-line arguments.
    pub arguments: Vec<String>,
    /// Name of the candidate's ladder, such as `reencode 4:2:0`. In plots, a line joins the points of a ladder.
    pub group: String,
    /// True if every drawn sample decodes to exactly the values of its source.
    pub lossless: bool,
    /// Samples that could be stored, in the same order as [`Report::samples`](super::Report::samples).
    pub rows: Vec<StoredSample>,
    /// Samples that this candidate cannot store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedSample>,
    /// Distribution of the number of stored bytes per sample. Larger is worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Distribution>,
    /// Distribution of each measure over the samples.
    pub scores: BTreeMap<Measure, Distribution>,
    /// Encoding and decoding rates of the candidate.
    pub rates: Rates,
    /// Predicted size and times for the whole set.
    pub predictions: Predictions,
    /// Bjøntegaard delta of the candidate's ladder, in per cent: the additional bytes that it needs for the
    /// same score as the first ladder. Negative if it needs fewer bytes. `None` if the scores of the two
    /// ladders do not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bjontegaard_percent: Option<f64>,
    /// True if no other candidate is both smaller and closer to the source.
    pub on_front: bool,
    /// True if the candidate meets all conditions of the verdict.
    pub meets: bool,
    /// Notes for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Sizes and measured values of one stored sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredSample {
    /// Position of the sample in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Number of stored bytes, including all fields and the record's own overhead.
    pub bytes: u64,
    /// Measured values of the sample, by measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<Measure, f64>,
}

/// A sample that a candidate cannot store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSample {
    /// Position of the sample in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Why the candidate cannot store the sample.
    pub reason: String,
}

/// Distribution of a value over the samples. Percentiles count from the worse end. A tenth of the samples are
/// worse than p10: lower for a score, and higher for an error or a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples with this value.
    pub count: u64,
    /// Mean of the values.
    pub mean: f64,
    /// Worst value.
    pub worst: f64,
    /// Position of the worst sample in [`Report::samples`](super::Report::samples).
    pub worst_sample: usize,
    /// 1st percentile from the worse end.
    pub p1: f64,
    /// 10th percentile from the worse end.
    pub p10: f64,
    /// Median value.
    pub median: f64,
    /// 90th percentile from the worse end.
    pub p90: f64,
    /// Best value.
    pub best: f64,
}

impl Distribution {
    /// Returns the rank of the sample at p10, where rank 1 is the worst sample. With at most ten samples, the rank is
    /// 1.
    #[must_use]
    pub const fn rank_of_p10(&self) -> u64 {
        self.count.div_ceil(10)
    }
}

/// Encoding and decoding rates, measured from memory to memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Samples encoded per second on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encode_one_core_per_s: Option<f64>,
    /// Samples decoded per second on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_one_core_per_s: Option<f64>,
    /// Samples decoded per second on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_all_cores_per_s: Option<f64>,
    /// Relative spread of the decoding rate on all cores. This is half the range of the rates measured in the
    /// rounds, without the fastest and the slowest quarter of the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_spread: Option<f64>,
    /// Samples decoded per second on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_device_per_s: Option<f64>,
}

/// Predictions for the whole set that the samples were drawn from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// Size of all records in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Estimate>,
    /// Predicted time of `pack` on all cores, in seconds. With a slow disk, packing takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_s: Option<f64>,
    /// Samples loaded per second on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_per_s: Option<f64>,
    /// Duration of an epoch at this loading rate, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_s: Option<f64>,
}

/// A value for the whole set, predicted from the drawn samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Predicted value.
    pub value: f64,
    /// Lower end of the interval at the level [`Provenance::confidence`](super::Provenance::confidence).
    pub low: f64,
    /// Upper end of the same interval.
    pub high: f64,
}

impl Estimate {
    /// Returns half the width of the interval, as a fraction of the value. Returns 0 if the value is 0.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.value }
    }
}
