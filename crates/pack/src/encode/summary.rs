//! Figures of fidelity as they stand in a manifest, one entry for each field: what `pack` writes there, and what
//! others read.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The entry of one field under `fidelity` in a manifest.
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
    /// Of pictures.
    Pictures(PictureSummary),
    /// Of arrays that a value rule may alter.
    Array(ArraySummary),
}

impl FieldSummary {
    /// Reads an entry; `None` if another version, or another program, wrote it.
    #[must_use]
    pub fn parse(entry: &Value) -> Option<Self> {
        Self::deserialize(entry).ok()
    }
}

/// Figures of the arrays of one field. Values are elements; an error is one of a value that was stored with
/// loss, against its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArraySummary {
    /// Samples that have a value for the field.
    pub samples: u64,
    /// Samples of which every value is equal to its source, to the bit.
    pub equal_samples: u64,
    /// Values.
    pub values: u64,
    /// Values that are not equal to their source.
    pub changed: u64,
    /// Values that are not a number.
    pub nan: u64,
    /// Values that say that there is none.
    pub no_data: u64,
    /// Infinite values.
    pub infinite: u64,
    /// Values that were moved to the end of what the stored type holds.
    pub clipped: u64,
    /// Values below 2⁻¹⁴, where float16 loses digits.
    pub subnormal: u64,
    /// Largest absolute error.
    #[serde(deserialize_with = "float")]
    pub max_abs_error: f64,
    /// Values that errors were measured of.
    pub measured: u64,
    /// Mean absolute error of these.
    #[serde(deserialize_with = "float")]
    pub mean_abs_error: f64,
    /// Largest relative error.
    #[serde(deserialize_with = "float")]
    pub max_rel_error: f64,
    /// Spectra that angles were measured of.
    pub spectra: u64,
    /// Mean spectral angle, in radians.
    #[serde(deserialize_with = "float")]
    pub mean_angle_rad: f64,
    /// Largest spectral angle, in radians.
    #[serde(deserialize_with = "float")]
    pub max_angle_rad: f64,
    /// Percentiles of the spectral angle over the pixels. `None` without spectra, where a part of the
    /// pixels was not measured in this run, and in manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angle_percentiles_rad: Option<AnglePercentiles>,
    /// Key of the sample with the largest absolute error; `None` without any error.
    pub worst_sample: Option<String>,
}

/// Spectral angles in radians that a share of the pixels does not exceed. Each is at most √2 times too
/// large, never too small: angles are counted in bins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnglePercentiles {
    /// Half of the pixels turn by at most this angle.
    pub p50: f64,
    /// 95 % of the pixels.
    pub p95: f64,
    /// 99 % of the pixels.
    pub p99: f64,
}

/// Figures of the pictures of one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureSummary {
    /// Pictures.
    pub samples: u64,
    /// Bytes of their files, before they were packed.
    pub source_bytes: u64,
    /// Pictures of which a crop needs a part of each row of blocks only.
    pub tiled: u64,
    /// Pictures of which a crop needs whole rows of blocks.
    pub in_rows: u64,
    /// Pictures whose bytes are those of their file.
    pub kept: u64,
    /// Why these were kept, and how many; empty where that is not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_because: BTreeMap<String, u64>,
    /// Pictures that were decoded, and found equal to their source.
    pub pixels_checked: u64,
    /// Pictures whose colour profile was dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub profiles_dropped: u64,
    /// Pictures that reach the score that was asked for at no quality.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub below_target: u64,
    /// Pictures that were encoded anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reencoded: u64,
    /// Their qualities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<SpreadSummary>,
    /// SSIMULACRA2 against the source, of the pictures that were scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssimulacra2: Option<SpreadSummary>,
    /// Key of the picture with the lowest score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_sample: Option<String>,
}

/// How a figure is spread over the samples that have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpreadSummary {
    /// How many have it.
    pub count: u64,
    /// The smallest.
    #[serde(deserialize_with = "float")]
    pub min: f64,
    /// The mean.
    #[serde(deserialize_with = "float")]
    pub mean: f64,
    /// The largest.
    #[serde(deserialize_with = "float")]
    pub max: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// JSON has no number for what is not finite: it is `null` there.
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
