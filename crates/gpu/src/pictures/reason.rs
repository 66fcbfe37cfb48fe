//! Reasons for which a picture is left to the host.

use std::fmt;

/// Why a picture is not for the kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No header, or one that breaks the standard.
    Header,
    /// Progressive, arithmetic, lossless, 12 bits, or more than one scan.
    Process,
    /// CMYK, RGB, two components.
    Colours,
    /// Chroma that is neither 4:4:4, 4:2:2, 4:2:0 nor 4:4:0, or so narrow that libjpeg does not
    /// interpolate it.
    Sampling,
    /// CodingTables that are missing, or that no decoder takes.
    Tables,
    /// Markers that are not those that its header announces.
    Markers,
    /// Segments of more blocks than [`StagingOptions::max_segment_blocks`](super::StagingOptions::max_segment_blocks): a picture without
    /// restart markers is one segment.
    LongSegments,
    /// It shrinks so much that a pixel of the output is made of too many.
    Shrinks,
    /// It has more pixels than [`StagingOptions::max_bytes`](super::StagingOptions::max_bytes) allows.
    Limit,
    /// The view cannot be taken of this picture.
    View(String),
    /// The view pads this picture, or resizes it by another rule than the kernels'.
    OnHost,
    /// There is no room left in the staging memory, or the picture is larger than what 32 bits
    /// count.
    Full,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "no JPEG header",
            Self::Process => "not baseline, or not in one scan",
            Self::Colours => "neither gray nor YCbCr",
            Self::Sampling => "unusual subsampling",
            Self::Tables => "tables that are missing or odd",
            Self::Markers => "restart markers that are missing or odd",
            Self::LongSegments => "too few restart markers",
            Self::Shrinks => "shrinks too much",
            Self::Limit => "larger than the limits allow",
            Self::View(why) => return write!(f, "view: {why}"),
            Self::OnHost => "a view that the host makes",
            Self::Full => "no room left in the staging memory",
        })
    }
}
