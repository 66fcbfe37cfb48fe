//! Reasons why a picture is left to the host.

use std::fmt;

/// Reason why the kernels do not accept a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Reason {
    /// The header is missing or violates the standard.
    Header,
    /// The picture is progressive, arithmetic, lossless or 12-bit, or has more than one scan.
    Process,
    /// The picture is CMYK or RGB, or has two components.
    Colours,
    /// The chroma subsampling is not 4:4:4, 4:2:2, 4:2:0 or 4:4:0, or the chroma is too narrow for libjpeg to
    /// interpolate.
    Sampling,
    Tables,
    /// The markers do not match the header.
    Markers,
    /// A segment has more blocks than
    /// [`StagingOptions::max_segment_blocks`](super::StagingOptions::max_segment_blocks). Without restart
    /// markers or a segment index, a picture is one segment.
    LongSegments,
    /// The segment index is malformed, or contradicts the picture. The host decodes the picture without it.
    Index,
    /// An output pixel has too many source pixels.
    Shrinks,
    /// The picture exceeds [`StagingOptions::max_bytes`](super::StagingOptions::max_bytes).
    Limit,
    /// The view does not fit this picture.
    View(String),
    /// The staging memory is full, or a number of the picture exceeds 32 bits.
    Full,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "no JPEG header",
            Self::Process => "not a baseline JPEG with a single scan",
            Self::Colours => "neither gray nor YCbCr",
            Self::Sampling => "unusual subsampling",
            Self::Tables => "coding tables missing or invalid",
            Self::Markers => "restart markers missing or invalid",
            Self::LongSegments => "too few restart markers, and no segment index",
            Self::Index => "invalid segment index",
            Self::Shrinks => "shrinks too much",
            Self::Limit => "larger than the limits allow",
            Self::View(why) => return write!(f, "invalid view: {why}"),
            Self::Full => "no room left in the staging memory",
        })
    }
}
