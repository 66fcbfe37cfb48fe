//! What is measured on a sample: names, units, and which end is the good one.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A measure of how much a stored sample differs from its source.
///
/// The definitions are in `docs/report.md`.
///
/// ```
/// use shardpack_report::data::{Better, Measure};
/// assert_eq!("ssimulacra2".parse(), Ok(Measure::Ssimulacra2));
/// assert_eq!(Measure::SpectralAngle.better(), Better::Lower);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// SSIMULACRA2 of a picture: 100 for equal pictures, 90 visually lossless, 50 medium.
    Ssimulacra2,
    /// Peak signal-to-noise ratio, dB. Equal samples have none.
    Psnr,
    /// Structural similarity, at most 1.
    Ssim,
    /// Mean spectral angle of a cube's pixels, degrees.
    SpectralAngle,
    /// Largest absolute error of a cube's values, in their unit.
    MaxAbsError,
    /// Largest relative error of a cube's values, a share.
    MaxRelError,
    /// Values that decode to another one than the source's, a share.
    Altered,
}

/// Which end of a measure is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Larger is better.
    Higher,
    /// Smaller is better.
    Lower,
}

/// All measures, in the order of the page.
pub const MEASURES: [Measure; 7] = [
    Measure::Ssimulacra2,
    Measure::Psnr,
    Measure::Ssim,
    Measure::SpectralAngle,
    Measure::MaxAbsError,
    Measure::MaxRelError,
    Measure::Altered,
];

impl Measure {
    /// Its name in JSON and in conditions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ssimulacra2 => "ssimulacra2",
            Self::Psnr => "psnr",
            Self::Ssim => "ssim",
            Self::SpectralAngle => "spectral_angle",
            Self::MaxAbsError => "max_abs_error",
            Self::MaxRelError => "max_rel_error",
            Self::Altered => "altered",
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ssimulacra2 => "SSIMULACRA2",
            Self::Psnr => "PSNR",
            Self::Ssim => "SSIM",
            Self::SpectralAngle => "Mean spectral angle",
            Self::MaxAbsError => "Largest absolute error",
            Self::MaxRelError => "Largest relative error",
            Self::Altered => "Altered values",
        }
    }

    /// Its unit, or nothing. A share is shown as per cent.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Psnr => "dB",
            Self::SpectralAngle => "°",
            Self::MaxRelError | Self::Altered => "%",
            Self::Ssimulacra2 | Self::Ssim | Self::MaxAbsError => "",
        }
    }

    /// Whether the value is a share, from 0 to 1 where it has an end.
    #[must_use]
    pub const fn is_share(self) -> bool {
        matches!(self, Self::MaxRelError | Self::Altered)
    }

    /// Which end is the good one.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::Ssimulacra2 | Self::Psnr | Self::Ssim => Better::Higher,
            Self::SpectralAngle | Self::MaxAbsError | Self::MaxRelError | Self::Altered => Better::Lower,
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
            format!("measure: expected one of {}, found `{}`", names.join(", "), text.escape_debug())
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
        assert!("ssim2".parse::<Measure>().unwrap_err().contains("found `ssim2`"));
    }
}
