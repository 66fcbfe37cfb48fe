//! Lists the reasons why a picture is stored unchanged rather than tiled.
#![deny(clippy::indexing_slicing)]

use super::JpegHeader;
use std::fmt;

/// Maximum number of blocks in an MCU of a scan (T.81, B.2.3). A picture with larger MCUs cannot be written
/// in one scan.
const MAX_MCU_BLOCKS: u32 = 10;

/// Reason why a picture was stored byte for byte.
///
/// ```
/// use shardpack_jpeg::KeepReason;
/// assert_eq!(KeepReason::Larger.to_string(), "larger when tiled");
/// assert_eq!(KeepReason::Larger.name(), "larger");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeepReason {
    /// The tiled picture would exceed the maximum growth.
    Larger,
    /// The picture has four components: CMYK or YCCK.
    Cmyk,
    /// The picture has two components.
    TwoComponents,
    /// Samples do not have 8 bits.
    Precision,
    /// The picture is arithmetic-coded.
    Arithmetic,
    /// The picture uses the lossless process.
    Lossless,
    /// The picture has differential frames of the hierarchical process.
    Hierarchical,
    /// The sampling factors cannot be stored in one scan, or are not multiples of each other.
    Sampling,
    /// The quantisation tables have 16 bits, which the baseline process does not allow.
    Quantisation,
    /// Some coefficients are outside the range that libjpeg-turbo writes, although it can decode them.
    Coefficients,
}

impl KeepReason {
    /// Returns the reason as one word, for tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the reason as one word, and as text for users.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Larger => ("larger", "larger when tiled"),
            Self::Cmyk => ("cmyk", "four components (CMYK)"),
            Self::TwoComponents => ("two-components", "two components"),
            Self::Precision => ("precision", "samples that are not 8-bit"),
            Self::Arithmetic => ("arithmetic", "arithmetic coding"),
            Self::Lossless => ("lossless", "lossless process"),
            Self::Hierarchical => ("hierarchical", "hierarchical process"),
            Self::Sampling => ("sampling", "sampling factors that do not fit one scan"),
            Self::Quantisation => ("quantisation", "16-bit quantisation tables"),
            Self::Coefficients => ("coefficients", "coefficients out of range"),
        }
    }

    /// Returns the reason why a picture with the given header is not tiled, if there is one.
    pub(super) fn of(header: &JpegHeader) -> Option<Self> {
        match (header.sof, header.precision, header.components().len()) {
            (3, ..) => return Some(Self::Lossless),
            (5..=7, ..) => return Some(Self::Hierarchical),
            (9..=15, ..) => return Some(Self::Arithmetic),
            (_, precision, _) if precision != 8 => return Some(Self::Precision),
            (_, _, 2) => return Some(Self::TwoComponents),
            (_, _, 4) => return Some(Self::Cmyk),
            (_, _, 1) => return None,
            _ => {}
        }
        let parts = header.components();
        let blocks: u32 = parts.iter().map(|c| u32::from(c.h) * u32::from(c.v)).sum();
        let most = |factor: fn(&super::Component) -> u8| parts.iter().map(factor).max().unwrap_or(1);
        let (h, v) = (most(|c| c.h), most(|c| c.v));
        let whole = parts.iter().all(|c| h.is_multiple_of(c.h) && v.is_multiple_of(c.v));
        (blocks > MAX_MCU_BLOCKS || !whole).then_some(Self::Sampling)
    }
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().1)
    }
}
