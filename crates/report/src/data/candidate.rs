//! A candidate: one way to store the samples, and the effect on them.

use super::Measure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One way to store the samples, and its effect on the drawn samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Number of the candidate on the page and for `pack --recipe`, from 1.
    pub number: u32,
    /// A short name, such as `reencode q80 4:2:0`, generated or from the user's file.
    pub name: String,
    /// The options of `pack`, by their long names: `{"jpeg": "reencode", "quality": "80"}`.
    pub options: BTreeMap<String, String>,
    /// The same options as arguments of the command.
    pub arguments: Vec<String>,
    /// The ladder of this candidate, such as `reencode 4:2:0`. A line joins its points.
    pub group: String,
    /// True if every drawn sample decodes to exactly the values of its source.
    pub lossless: bool,
    /// One row for each sample that could be stored, in the order of [`Report::samples`](super::Report::samples).
    pub rows: Vec<StoredSample>,
    /// Samples that this candidate cannot store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedSample>,
    /// Bytes of a stored sample. The worse end is the larger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Distribution>,
    /// Distribution of each measure over the samples.
    pub scores: BTreeMap<Measure, Distribution>,
    /// Rates of encoding and decoding.
    pub rates: Rates,
    /// Predictions for the whole set.
    pub predictions: Predictions,
    /// Bjøntegaard delta: extra bytes of this candidate's ladder over the first ladder at equal score, in per cent
    /// (negative: fewer). `None` where the ladders do not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bjontegaard_percent: Option<f64>,
    /// True if no other candidate is both smaller and better.
    pub on_front: bool,
    /// True if the candidate meets the conditions of the verdict.
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
    /// Values of the measures that were taken.
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

/// The distribution of a value over the samples, from its worse end.
///
/// A tenth of the samples are worse than p10: below it for a score, above it for an error or a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples that have the value.
    pub count: u64,
    /// Mean of the values.
    pub mean: f64,
    /// The worst value.
    pub worst: f64,
    /// The sample with the worst value, as a position in [`Report::samples`](super::Report::samples).
    pub worst_sample: usize,
    /// One sample in a hundred has this value or a worse one.
    pub p1: f64,
    /// One sample in ten has this value or a worse one.
    pub p10: f64,
    /// Half of the samples have this value or a worse one.
    pub median: f64,
    /// Nine samples in ten have this value or a worse one.
    pub p90: f64,
    /// The best value.
    pub best: f64,
}

impl Distribution {
    /// Returns the rank of the sample at p10; rank 1 is the worst. With ten samples or fewer, this is the
    /// worst sample.
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
    /// Half of the range of the decode rates on all cores, without the highest and the lowest quarter of rounds, as a
    /// share of the rate.
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
    /// Seconds that `pack` takes on all cores; a slow disk may make it longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_s: Option<f64>,
    /// Samples loaded per second on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_per_s: Option<f64>,
    /// Seconds per epoch at that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_s: Option<f64>,
}

/// A value for the whole set, predicted from the sample.
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
    /// Returns half of the interval's width, as a share of the value; 0 for a value of 0.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.value }
    }
}
