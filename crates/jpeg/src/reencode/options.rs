//! Defines the options for re-encoding.

use crate::TileOptions;
use crate::score::IDENTICAL;
use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result};

/// Quality of the encoded picture.
///
/// ```
/// use shardpack_jpeg::Quality;
/// assert_eq!(Quality::default(), Quality::Fixed(90));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Quality {
    /// The lowest quality that reaches this SSIMULACRA2 score, at most 100. Each picture is encoded seven times in a
    /// binary search. At a score of 90, a picture and its source look identical side by side. A score of 70 means
    /// high quality. The score does not rise with every step of quality, so a quality that is one or two steps lower
    /// may reach it as well. If no quality reaches the score, quality 100 is used and the reported score is lower.
    #[serde(rename = "ssimulacra2")]
    Ssimulacra2(f64),
    /// libjpeg's quality, 1..=100, for all pictures. Default 90.
    #[serde(untagged)]
    Fixed(u8),
}

impl Default for Quality {
    fn default() -> Self {
        Self::Fixed(90)
    }
}

/// Chroma subsampling of the encoded picture. Gray pictures stay gray.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChromaSampling {
    /// The source's subsampling, turned with the picture. 4:1:0 is encoded as 4:2:0. RGB, CMYK, and other
    /// subsamplings that the encoder does not support are encoded as 4:4:4.
    #[default]
    #[serde(rename = "keep")]
    Keep,
    /// 4:2:0.
    #[serde(rename = "4:2:0")]
    S420,
    /// 4:4:4.
    #[serde(rename = "4:4:4")]
    S444,
}

/// Maximum size of the encoded picture, measured after turning it upright. The aspect ratio is kept, and the
/// other side is rounded to the nearest pixel. Pictures are never enlarged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// The size of the source.
    #[default]
    No,
    /// At most this many pixels on the short side.
    ShortSide(u32),
    /// At most this many pixels on the long side.
    LongSide(u32),
}

impl Resize {
    /// Returns the new width and height of a picture of `width` × `height` pixels.
    #[must_use]
    pub fn of(self, width: u32, height: u32) -> (u32, u32) {
        let (side, most) = match self {
            Self::No => return (width, height),
            Self::ShortSide(most) => (width.min(height), most),
            Self::LongSide(most) => (width.max(height), most),
        };
        if side <= most {
            return (width, height);
        }
        // These numbers cannot overflow, because a side has at most 65,535 pixels.
        let scaled = |n: u32| {
            let exact = (u64::from(n) * u64::from(most) + u64::from(side) / 2) / u64::from(side);
            u32::try_from(exact).unwrap_or(n).max(1)
        };
        (scaled(width), scaled(height))
    }
}

/// Options for re-encoding. A recipe contains all of them except `tile`.
///
/// ```
/// use shardpack_jpeg::{Quality, ReencodeOptions, Resize};
/// let small = ReencodeOptions { quality: Quality::Fixed(85), resize: Resize::ShortSide(256), ..Default::default() };
/// assert_eq!(small.tile.max_growth, 0.15);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReencodeOptions {
    /// Quality. Default [`Quality::Fixed`]`(90)`.
    pub quality: Quality,
    /// Chroma subsampling. Default: same as the source.
    pub subsampling: ChromaSampling,
    /// Size. Default: same as the source. Shrinking uses an antialiased Lanczos3 filter on sRGB values. In
    /// linear light the mean of a checkerboard would be more accurate. But networks are trained and tested on
    /// the output of Pillow and torchvision, which use sRGB values.
    #[serde(flatten, with = "side")]
    pub resize: Resize,
    /// Options for tiling, and limits. All of them apply if the source itself is stored. With `keep_metadata`, a
    /// re-encoded picture keeps the source's ICC profile.
    #[serde(skip)]
    pub tile: TileOptions,
}

impl ReencodeOptions {
    pub(super) fn check(&self) -> Result<()> {
        match self.quality {
            Quality::Fixed(quality) if !(1..=100).contains(&quality) => {
                return Err(Error::usage(format!("the JPEG quality must be from 1 to 100, not {quality}")));
            }
            // There is no lower bound, because ruined pictures have negative scores.
            Quality::Ssimulacra2(target) if !(target.is_finite() && target <= IDENTICAL) => {
                return Err(Error::usage(format!("the SSIMULACRA2 score must be at most 100, not {target}")));
            }
            _ => {}
        }
        match self.resize {
            Resize::ShortSide(0) | Resize::LongSide(0) => {
                Err(Error::usage("cannot shrink pictures to a side of 0 pixels: the least is 1"))
            }
            _ => Ok(()),
        }
    }
}

/// Serialises the side that limits the size, or nothing for [`Resize::No`].
mod side {
    use super::Resize;
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(resize: &Resize, serializer: S) -> Result<S::Ok, S::Error> {
        match resize {
            Resize::No => serializer.serialize_map(Some(0))?.end(),
            side => side.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resize, D::Error> {
        Option::<Resize>::deserialize(deserializer).map(Option::unwrap_or_default)
    }
}
