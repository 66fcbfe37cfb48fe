//! A candidate: one way to store the samples, and what it did to them.

use super::Measure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One way to store the samples, and what it did to those that were drawn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its number for people and for `pack --recipe`, from 1.
    pub number: u32,
    /// A short name: `reencode q80 4:2:0`. Made by us or by the user's file.
    pub name: String,
    /// The options of `pack`, by their long names: `{"jpeg": "reencode", "quality": "80"}`.
    pub options: BTreeMap<String, String>,
    /// The same as arguments of the command.
    pub arguments: Vec<String>,
    /// Which ladder it is a rung of, such as `reencode 4:2:0`: points of a group are joined by a
    /// line. Alone in its group if it is on none.
    pub group: String,
    /// Every sample that was drawn decodes to the very values of its source.
    pub lossless: bool,
    /// The stored samples, one row for each that could be stored; in the order of
    /// [`Report::samples`](super::Report::samples).
    pub rows: Vec<StoredSample>,
    /// Samples that this candidate cannot store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedSample>,
    /// Bytes of a stored sample. The worse end is the large one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Distribution>,
    /// Each measure over the samples.
    pub scores: BTreeMap<Measure, Distribution>,
    /// Its rates.
    pub rates: Rates,
    /// Predictions for the whole set.
    pub predictions: Predictions,
    /// Bjøntegaard delta: by how many per cent its ladder needs more bytes (negative: fewer) than
    /// the first ladder, at equal score. `None` where the ladders do not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bjontegaard_percent: Option<f64>,
    /// No other candidate is at once smaller and better.
    pub on_front: bool,
    /// True if it meets the conditions of the verdict.
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
    /// Its stored bytes, all fields and the frame around them.
    pub bytes: u64,
    /// The measures that were taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<Measure, f64>,
}

/// A sample that a candidate cannot store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSample {
    /// The sample, as a position in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Why.
    pub reason: String,
}

/// The distribution of a value over the samples, from its worse end.
///
/// For a score, p10 is the value that a tenth of the samples do not reach; for an error or a number
/// of bytes, the value that a tenth exceed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples that have the value.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The worst.
    pub worst: f64,
    /// The sample that has it, as a position in [`Report::samples`](super::Report::samples).
    pub worst_sample: usize,
    /// One sample in a hundred is as bad or worse.
    pub p1: f64,
    /// One in ten.
    pub p10: f64,
    /// Every other.
    pub median: f64,
    /// Nine in ten.
    pub p90: f64,
    /// The best.
    pub best: f64,
}

impl Distribution {
    /// Which sample from the worse end, counted from 1, has the value at p10. Of ten samples and fewer
    /// it is the worst.
    #[must_use]
    pub const fn rank_of_p10(&self) -> u64 {
        self.count.div_ceil(10)
    }
}

/// Rates of encoding and decoding, each from memory into memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Samples encoded a second on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encode_one_core_per_s: Option<f64>,
    /// Samples decoded a second on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_one_core_per_s: Option<f64>,
    /// Samples decoded a second on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_all_cores_per_s: Option<f64>,
    /// How far the decode rates on all cores lie apart, round by round, once the highest and the lowest
    /// quarter are left out: half of that range, as a share of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_spread: Option<f64>,
    /// Samples decoded a second on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_device_per_s: Option<f64>,
}

/// Predictions for the whole set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// Bytes of all records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Estimate>,
    /// Seconds that `pack` takes on all cores; the disk may make it longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_s: Option<f64>,
    /// Samples a second when loading on all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_per_s: Option<f64>,
    /// Seconds of an epoch at that rate.
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
    /// Half of the interval's width, as a share of the value; 0 for a value of 0.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.value }
    }
}
