//! Pictures: tiled JPEGs become a batch of pixels on the device, the host's to the bit.
//!
//! A thread that has a record [stages](Staging) it: the entropy-coded segments that the view needs,
//! as they are, and tables of where they are and what becomes of them. One upload later, five
//! kernels ([`Batch::launches`]) decode all pictures of the batch: a thread decodes a segment, so
//! that a picture is decoded by hundreds of them. What the kernels do not take is refused with a
//! [`Reason`], and decoded on the host.
//!
//! The pixels are those of [`JpegDecoder`](shardpack_jpeg::JpegDecoder): libjpeg-turbo's
//! accurate IDCT, triangle upsampling and colours, and the same fixed-point resizing. Floats are
//! made of these by [`Scaling`]. A row whose segments are damaged is flagged in the batch's status
//! words, and holds anything; the other rows are as ever.

mod assembly;
mod batch;
mod changes;
mod decoder;
mod frame;
mod kept;
mod needs;
mod record;
mod segments;
mod staging;
mod tiles;

pub(crate) use assembly::{Totals, assemble};
pub use batch::{Batch, Regions, Row};
pub(crate) use changes::most_level_bytes;
pub use decoder::{PictureDecoder, Timing};
pub(crate) use kept::keep;
pub(crate) use needs::{Entry, Needs, To};
pub use record::{CONFIG, KERNELS};
pub use staging::{Staging, StagingOptions};

pub use shardpack_jpeg::Scaling;

use shardpack_format::ElementType;
use shardpack_jpeg::PixelLayout;
use std::fmt;

/// The type of the output's elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Levels, 0 to 255.
    #[default]
    Uint8,
    /// IEEE half floats.
    Float16,
    /// The upper half of a float.
    Bfloat16,
    /// IEEE floats.
    Float32,
}

impl Dtype {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
        }
    }

    /// The same type, if the kernels write it.
    #[must_use]
    pub const fn of(element: ElementType) -> Option<Self> {
        use shardpack_format::Dtype::{F16, F32, U8};
        match element {
            ElementType::Dtype(U8) => Some(Self::Uint8),
            ElementType::Dtype(F16) => Some(Self::Float16),
            ElementType::Bf16 => Some(Self::Bfloat16),
            ElementType::Dtype(F32) => Some(Self::Float32),
            ElementType::Dtype(_) => None,
        }
    }
}

/// What the kernels write.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Output {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Order of the axes.
    pub layout: PixelLayout,
    /// How floats are made.
    pub scaling: Scaling,
}

impl Output {
    /// Makes of decoded levels, in this layout and of `pixels` pixels, the bytes that the device
    /// would write: for pictures that were decoded on the host.
    pub fn convert(&self, levels: &[u8], pixels: usize, out: &mut Vec<u8>) {
        for (i, &level) in levels.iter().enumerate() {
            let channel = match self.layout {
                PixelLayout::HeightWidthChannels => i % 3,
                PixelLayout::ChannelsHeightWidth => i.checked_div(pixels).unwrap_or(0),
            };
            let value = self.scaling.apply(channel, level);
            match self.dtype {
                Dtype::Uint8 => out.push(level),
                Dtype::Float16 => out.extend(half::f16::from_f32(value).to_le_bytes()),
                Dtype::Bfloat16 => out.extend(half::bf16::from_f32(value).to_le_bytes()),
                Dtype::Float32 => out.extend(value.to_le_bytes()),
            }
        }
    }
}

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
    /// Tables that are missing, or that no decoder takes.
    Tables,
    /// Markers that are not those that its header announces.
    Markers,
    /// Segments of more blocks than [`StagingOptions::max_segment_blocks`]: a picture without
    /// restart markers is one segment.
    LongSegments,
    /// It shrinks so much that a pixel of the output is made of too many.
    Shrinks,
    /// It has more pixels than [`StagingOptions::max_bytes`] allows.
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

#[cfg(test)]
pub(crate) mod tests;
