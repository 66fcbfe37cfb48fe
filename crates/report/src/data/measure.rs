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

impl Measure {
    /// Returns the name of the measure in JSON and in conditions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ssimulacra2 => "ssimulacra2",
            Self::Psnr => "psnr",
            Self::Ssim => "ssim",
            Self::NoiseRatio => "noise_ratio",
            Self::SpectralAngleP50 => "spectral_angle_p50",
            Self::SpectralAngleP95 => "spectral_angle_p95",
            Self::SpectralAngleP99 => "spectral_angle_p99",
            Self::SpectralAngleMax => "spectral_angle_max",
            Self::MaxAbsError => "max_abs_error",
            Self::MaxRelError => "max_rel_error",
            Self::Altered => "altered",
        }
    }

    /// Returns the name for display.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ssimulacra2 => "SSIMULACRA2",
            Self::Psnr => "PSNR",
            Self::Ssim => "SSIM",
            Self::NoiseRatio => "Largest error relative to a band’s noise",
            Self::SpectralAngleP50 => "Median spectral angle",
            Self::SpectralAngleP95 => "95th percentile of the spectral angle",
            Self::SpectralAngleP99 => "99th percentile of the spectral angle",
            Self::SpectralAngleMax => "Largest spectral angle",
            Self::MaxAbsError => "Largest absolute error",
            Self::MaxRelError => "Largest relative error",
            Self::Altered => "Altered values",
        }
    }

    /// Returns the unit, or an empty string if there is none. Fractions are displayed in per cent.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Psnr => "dB",
            Self::SpectralAngleP50 | Self::SpectralAngleP95 | Self::SpectralAngleP99 | Self::SpectralAngleMax => "°",
            Self::MaxRelError | Self::Altered => "%",
            Self::NoiseRatio => "×",
            Self::Ssimulacra2 | Self::Ssim | Self::MaxAbsError => "",
        }
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
        match self {
            Self::Ssimulacra2 | Self::Psnr | Self::Ssim => Better::Higher,
            Self::NoiseRatio
            | Self::SpectralAngleP50
            | Self::SpectralAngleP95
            | Self::SpectralAngleP99
            | Self::SpectralAngleMax
            | Self::MaxAbsError
            | Self::MaxRelError
            | Self::Altered => Better::Lower,
        }
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
