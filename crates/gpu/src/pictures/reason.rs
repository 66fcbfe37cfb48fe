//! Reasons for leaving a picture to the host.

use std::fmt;

/// Reason why the kernels do not take a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Reason {
    /// The header is missing, or breaks the standard.
    Header,
    /// Progressive, arithmetic, lossless, 12 bits, or more than one scan.
    Process,
    /// CMYK, RGB, two components.
    Colours,
    /// Chroma that is neither 4:4:4, 4:2:2, 4:2:0 nor 4:4:0, or so narrow that libjpeg does not
    /// interpolate it.
    Sampling,
    /// Coding tables that are missing or invalid.
    Tables,
    /// Markers that differ from those announced by the header.
    Markers,
    /// Segments of more blocks than [`StagingOptions::max_segment_blocks`](super::StagingOptions::max_segment_blocks): a picture without
    /// restart markers is one segment.
    LongSegments,
    /// An output pixel has too many source pixels.
    Shrinks,
    /// The picture has more pixels than [`StagingOptions::max_bytes`](super::StagingOptions::max_bytes)
    /// allows.
    Limit,
    /// The view does not fit this picture.
    View(String),
    /// The view pads this picture, or resizes it by a rule that the kernels lack.
    OnHost,
    /// The staging memory is full, or a number of the picture exceeds 32 bits.
    Full,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "no JPEG header",
            Self::Process => "not baseline, or not in one scan",
            Self::Colours => "neither gray nor YCbCr",
            Self::Sampling => "unusual subsampling",
            Self::Tables => "coding tables missing or invalid",
            Self::Markers => "restart markers missing or invalid",
            Self::LongSegments => "too few restart markers",
            Self::Shrinks => "shrinks too much",
            Self::Limit => "larger than the limits allow",
            Self::View(why) => return write!(f, "invalid view: {why}"),
            Self::OnHost => "a view that only the host renders",
            Self::Full => "no room left in the staging memory",
        })
    }
}
