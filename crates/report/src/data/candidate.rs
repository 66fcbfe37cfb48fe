//! A candidate: a way to store the samples, and its effect on them.

use super::Measure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A way to store the samples, and its effect on the drawn samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number on the page and for `pack --recipe`, from 1.
    pub number: u32,
    /// Short name, such as `reencode q80 4:2:0`, generated or from the user's file.
    pub name: String,
    /// `pack` options by their long names: `{"jpeg": "reencode", "quality": "80"}`.
    pub options: BTreeMap<String, String>,
    /// The same options as command arguments.
    pub arguments: Vec<String>,
    /// The candidate's ladder, such as `reencode 4:2:0`. A line joins its points.
    pub group: String,
    /// True if every drawn sample decodes to its source's exact values.
    pub lossless: bool,
    /// Samples that could be stored, in the order of [`Report::samples`](super::Report::samples).
    pub rows: Vec<StoredSample>,
    /// Samples that this candidate cannot store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedSample>,
    /// Distribution of the stored bytes per sample. The worse end is the larger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Distribution>,
    /// Each measure's distribution over the samples.
    pub scores: BTreeMap<Measure, Distribution>,
    /// Encoding and decoding rates.
    pub rates: Rates,
    /// Predictions for the whole set.
    pub predictions: Predictions,
    /// Bjøntegaard delta: extra bytes of this candidate's ladder over the first ladder at equal score, in per
    /// cent (negative: fewer). `None` if the ladders do not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bjontegaard_percent: Option<f64>,
    /// True if no other candidate is both smaller and better.
    pub on_front: bool,
    /// True if the candidate meets the verdict's conditions.
    pub meets: bool,
    /// Notes for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One stored sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredSample {
    /// The sample, as a position in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Stored bytes of the sample: all fields and the frame around them.
    pub bytes: u64,
    /// Measured values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<Measure, f64>,
}

/// A sample that a candidate cannot store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSample {
    /// The sample, as a position in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// The reason.
    pub reason: String,
}

/// A value's distribution over the samples, from its worse end.
///
/// A tenth of the samples are worse than p10: below it for a score, above it for an error or a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples with the value.
    pub count: u64,
    /// Mean value.
    pub mean: f64,
    /// The worst value.
    pub worst: f64,
    /// Sample with the worst value, as a position in [`Report::samples`](super::Report::samples).
    pub worst_sample: usize,
    /// 1st percentile from the worse end.
    pub p1: f64,
    /// 10th percentile from the worse end.
    pub p10: f64,
    /// Median value.
    pub median: f64,
    /// 90th percentile from the worse end.
    pub p90: f64,
    /// The best value.
    pub best: f64,
}

impl Distribution {
    /// Returns the rank of the sample at p10; rank 1 is the worst. With ten samples or fewer, this is the worst sample.
    #[must_use]
    pub const fn rank_of_p10(&self) -> u64 {
        self.count.div_ceil(10)
    }
}

/// Rates of encoding and decoding, from memory to memory.
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
    /// Half of the range of the all-core decode rates, without the highest and the lowest quarter of rounds,
    /// as a share of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_spread: Option<f64>,
    /// Samples decoded per second on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_device_per_s: Option<f64>,
}

/// Predictions for the whole set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// Bytes of all records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Estimate>,
    /// Seconds that `pack` takes on all cores. A slow disk may make this longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_s: Option<f64>,
    /// Samples loaded per second on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_per_s: Option<f64>,
    /// Seconds per epoch at that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_s: Option<f64>,
}

/// A value for the whole set, predicted from the drawn samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end of the interval at [`Provenance::confidence`](super::Provenance::confidence).
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns half of the interval's width as a share of the value; 0 if the value is 0.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.value }
    }
}
