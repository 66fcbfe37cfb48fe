//! Defines the manifest's entries for fidelity figures, one per field.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A field's entry under `fidelity` in a manifest.
///
/// ```
/// use shardpack_pack::pack::FieldSummary;
/// let entry = serde_json::json!({
///     "samples": 2, "source_bytes": 90, "tiled": 2, "in_rows": 0, "kept": 0, "pixels_checked": 2,
/// });
/// let Some(FieldSummary::Pictures(pictures)) = FieldSummary::parse(&entry) else { panic!() };
/// assert_eq!((pictures.tiled, pictures.reencoded), (2, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum FieldSummary {
    /// Counts, sizes and scores of a picture field.
    Pictures(PictureSummary),
    /// Figures of an array field whose values may be altered by a value rule.
    Array(ArraySummary),
}

impl FieldSummary {
    /// Parses an entry. Returns `None` if another version or another program wrote it in a different form.
    #[must_use]
    pub fn parse(entry: &Value) -> Option<Self> {
        Self::deserialize(entry).ok()
    }
}

/// Figures of the arrays in one field. A value is one array element, and an error is the difference between a
/// value and its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArraySummary {
    /// Number of samples that have a value in this field.
    pub samples: u64,
    /// Number of samples that equal their source bit for bit.
    pub equal_samples: u64,
    /// Number of values.
    pub values: u64,
    /// Number of values that differ from their source.
    pub changed: u64,
    /// Number of NaNs.
    pub nan: u64,
    /// Number of no-data values.
    pub no_data: u64,
    /// Number of infinite values.
    pub infinite: u64,
    /// Number of values that were clipped to the range of the stored type.
    pub clipped: u64,
    /// Number of nonzero values whose magnitude is below 2⁻¹⁴. float16 stores these with fewer digits.
    pub subnormal: u64,
    /// Largest absolute error.
    #[serde(deserialize_with = "float")]
    pub max_abs_error: f64,
    /// Number of values whose error was measured.
    pub measured: u64,
    /// Mean absolute error of the measured values.
    #[serde(deserialize_with = "float")]
    pub mean_abs_error: f64,
    /// Largest relative error.
    #[serde(deserialize_with = "float")]
    pub max_rel_error: f64,
    /// Number of spectra whose angle was measured.
    pub spectra: u64,
    /// Mean spectral angle, in radians.
    #[serde(deserialize_with = "float")]
    pub mean_angle_rad: f64,
    /// Largest spectral angle, in radians.
    #[serde(deserialize_with = "float")]
    pub max_angle_rad: f64,
    /// Percentiles of the spectral angle over the pixels. `None` in a manifest, and if there are no spectra or
    /// some were not measured in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angle_percentiles_rad: Option<AnglePercentiles>,
    /// Key of the sample with the largest absolute error, or `None` if there are no errors.
    pub worst_sample: Option<String>,
}

/// Percentiles of spectral angles, in radians. Angles are counted in bins, so a percentile may be up to √2
/// times too large, but never too small.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnglePercentiles {
    /// Median angle.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Counts, sizes and scores of the pictures in one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureSummary {
    /// Number of pictures.
    pub samples: u64,
    /// Total size of the picture files before packing, in bytes.
    pub source_bytes: u64,
    /// Number of pictures whose crops can be decoded without decoding full rows of blocks.
    pub tiled: u64,
    /// Number of pictures whose crops can only be decoded in full rows of blocks.
    pub in_rows: u64,
    /// Number of pictures stored unchanged.
    pub kept: u64,
    /// Number of pictures stored unchanged, for each reason. Empty if the reasons are unknown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_because: BTreeMap<String, u64>,
    /// Number of pictures that were decoded and found equal to their source.
    pub pixels_checked: u64,
    /// Number of pictures whose colour profile was dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub profiles_dropped: u64,
    /// Number of pictures that miss the requested score at every quality.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub below_target: u64,
    /// Number of pictures that were re-encoded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reencoded: u64,
    /// JPEG qualities of the re-encoded pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<SpreadSummary>,
    /// SSIMULACRA2 scores of the scored pictures against their sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssimulacra2: Option<SpreadSummary>,
    /// Key of the picture with the lowest score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_sample: Option<String>,
}

/// Distribution of a figure over the samples that have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpreadSummary {
    /// Number of samples with the figure.
    pub count: u64,
    /// The smallest value.
    #[serde(deserialize_with = "float")]
    pub min: f64,
    /// The mean.
    #[serde(deserialize_with = "float")]
    pub mean: f64,
    /// The largest value.
    #[serde(deserialize_with = "float")]
    pub max: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Deserialises a float. `null`, which stands for NaN or infinity, becomes NaN.
fn float<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_of_others_are_none_of_ours() {
        for other in [json!(null), json!(3), json!({}), json!({ "samples": 3 }), json!({ "tiled": "all" })] {
            assert_eq!(FieldSummary::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_finite_comes_back_as_not_a_number() {
        let written =
            serde_json::to_value(ArraySummary { max_abs_error: f64::INFINITY, ..Default::default() }).unwrap();
        assert_eq!(written["max_abs_error"], Value::Null);
        let Some(FieldSummary::Array(read)) = FieldSummary::parse(&written) else { panic!("{written}") };
        assert!(read.max_abs_error.is_nan());
    }
}
