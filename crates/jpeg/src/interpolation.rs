//! Defines the interpolation methods and their names.

use shardpack_format::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Interpolation between pixels, like torchvision's `InterpolationMode` with antialiasing.
///
/// ```
/// use shardpack_jpeg::{Interpolation, View};
/// let view = View::resize(224).with_interpolation("bicubic".parse()?);
/// assert_eq!(view.interpolation, Interpolation::Bicubic);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// Copies the pixel that contains the centre of the new pixel, or the right or lower pixel if the centre is
    /// on a border between pixels. Creates no new levels. Equals torchvision's `NEAREST_EXACT`, and Pillow's
    /// `NEAREST` except on borders. With this method, pictures are never decoded at a smaller scale.
    Nearest,
    /// A triangle filter over the neighbours, widened when the picture shrinks.
    #[default]
    Bilinear,
    /// A cubic filter (a = −0.5) over twice as many pixels, also widened when the picture shrinks. It is
    /// sharper, but may overshoot at edges.
    Bicubic,
}

impl Interpolation {
    /// Returns the reach of the filter, in pixels of the output if the picture shrinks, and
    /// otherwise in pixels of the source.
    pub(crate) const fn support(self) -> f64 {
        match self {
            Self::Nearest | Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }
}

impl fmt::Display for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nearest => "nearest",
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
        })
    }
}

impl FromStr for Interpolation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Nearest, Self::Bilinear, Self::Bicubic];
        all.into_iter().find(|one| one.to_string() == text).ok_or_else(|| {
            Error::usage(format!(
                "interpolation: expected nearest, bilinear or bicubic, found `{}`",
                text.escape_debug()
            ))
        })
    }
}
