//! Defines the measures of a sample: their names, their units, and whether larger or smaller values are better.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A measure of the difference between a stored sample and its source.
///
/// `docs/report.md` defines the measures.
///
/// ```
/// use shardpack_report::data::{Better, Measure};
/// assert_eq!("ssimulacra2".parse(), Ok(Measure::Ssimulacra2));
/// assert_eq!(Measure::SpectralAngleP99.better(), Better::Lower);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// SSIMULACRA2 of a picture: 100 means identical, 90 means visually lossless, and 50 means medium quality.
    Ssimulacra2,
    /// Peak signal-to-noise ratio in dB. Undefined for equal samples.
    Psnr,
    /// Structural similarity, at most 1.
    Ssim,
    /// Largest ratio of a band's absolute error to the band's noise, over all bands of a cube. At most
    /// [`NO_NOISE`]. That value means that a band without noise has an error.
    NoiseRatio,
    /// Median spectral angle of a cube's pixels, in degrees.
    SpectralAngleP50,
    /// 95th percentile of the spectral angles, in degrees.
    SpectralAngleP95,
    /// 99th percentile of the spectral angles, in degrees.
    SpectralAngleP99,
    /// Largest spectral angle of a cube's pixels, in degrees.
    SpectralAngleMax,
    /// Largest absolute error of a cube's values, in the unit of the values.
    MaxAbsError,
    /// Largest relative error of a cube's values, as a fraction.
    MaxRelError,
    /// Fraction of values that differ from the source after decoding.
    Altered,
}

/// Tells whether larger or smaller values of a measure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
}

/// Value of [`Measure::NoiseRatio`] if a band without noise has an error. It replaces infinity, because JSON
/// cannot represent it.
pub const NO_NOISE: f64 = 1e6;

/// The measures of spectral angles, from the median to the worst pixel.
pub const SPECTRAL_ANGLES: [Measure; 4] =
    [Measure::SpectralAngleP50, Measure::SpectralAngleP95, Measure::SpectralAngleP99, Measure::SpectralAngleMax];

/// All measures, in the order in which the page shows them.
pub const MEASURES: [Measure; 11] = [
    Measure::Ssimulacra2,
    Measure::NoiseRatio,
    Measure::SpectralAngleP50,
    Measure::SpectralAngleP95,
    Measure::SpectralAngleP99,
    Measure::SpectralAngleMax,
    Measure::MaxAbsError,
    Measure::MaxRelError,
    Measure::Altered,
    Measure::Psnr,
    Measure::Ssim,
];

/// The names of a measure, its unit, and whether larger values are better.
struct Facts {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
}

impl Measure {
    const fn facts(self) -> Facts {
        use Better::{Higher, Lower};
        let (name, title, unit, better) = match self {
            Self::Ssimulacra2 => ("ssimulacra2", "SSIMULACRA2", "", Higher),
            Self::Psnr => ("psnr", "PSNR", "dB", Higher),
            Self::Ssim => ("ssim", "SSIM", "", Higher),
            Self::NoiseRatio => ("noise_ratio", "Largest error relative to a band’s noise", "×", Lower),
            Self::SpectralAngleP50 => ("spectral_angle_p50", "Median spectral angle", "°", Lower),
            Self::SpectralAngleP95 => ("spectral_angle_p95", "95th percentile of the spectral angle", "°", Lower),
            Self::SpectralAngleP99 => ("spectral_angle_p99", "99th percentile of the spectral angle", "°", Lower),
            Self::SpectralAngleMax => ("spectral_angle_max", "Largest spectral angle", "°", Lower),
            Self::MaxAbsError => ("max_abs_error", "Largest absolute error", "", Lower),
            Self::MaxRelError => ("max_rel_error", "Largest relative error", "%", Lower),
            Self::Altered => ("altered", "Altered values", "%", Lower),
        };
        Facts { name, title, unit, better }
    }

    /// Returns the name of the measure in JSON and in conditions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the name for display.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// Returns the unit, or an empty string if there is none. Fractions are displayed in per cent.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        self.facts().unit
    }

    /// Returns true if the measure is a fraction. Fractions are at least 0, and [`Altered`](Self::Altered) is
    /// at most 1.
    #[must_use]
    pub const fn is_share(self) -> bool {
        matches!(self, Self::MaxRelError | Self::Altered)
    }

    /// Returns [`Better::Higher`] if larger values are better, otherwise [`Better::Lower`].
    #[must_use]
    pub const fn better(self) -> Better {
        self.facts().better
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        MEASURES.into_iter().find(|measure| measure.name() == text).ok_or_else(|| {
            let names: Vec<_> = MEASURES.iter().map(|measure| measure.name()).collect();
            format!("there is no measure `{}`: choose one of {}", text.escape_debug(), names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_in_json_and_in_conditions() {
        for measure in MEASURES {
            assert_eq!(serde_json::to_value(measure).unwrap(), measure.name());
            assert_eq!(measure.name().parse(), Ok(measure));
        }
        assert!("ssim2".parse::<Measure>().unwrap_err().contains("there is no measure `ssim2`"));
    }
}
