//! Describes the output of the picture kernels, and the limits on their input.

use shardpack_format::ElementType;
use shardpack_jpeg::{JpegHeader, PixelLayout, Scaling};

/// Element type of rendered pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum PixelType {
    /// Levels, 0 to 255.
    #[default]
    Uint8,
    Float16,
    /// The upper half of a float32.
    Bfloat16,
    Float32,
}

impl PixelType {
    #[must_use]
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
        }
    }

    /// Returns the number of the type in the kernels.
    #[must_use]
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Uint8 => 0,
            Self::Float16 => 1,
            Self::Bfloat16 => 2,
            Self::Float32 => 3,
        }
    }

    #[must_use]
    pub(crate) const fn of(element: ElementType) -> Option<Self> {
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

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Output {
    pub(crate) dtype: PixelType,
    pub(crate) layout: PixelLayout,
    pub(crate) scaling: Scaling,
    /// Number of planes from other frames between two channel planes of a picture.
    pub(crate) planes_between: u32,
}

/// Output of the kernels, and the limits beyond which the host decodes pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StagingOptions {
    pub(crate) output: Output,
    /// Maximum number of blocks per segment. One thread decodes a segment, so the longest segment determines the time
    /// for a batch. Default 2048.
    pub(crate) max_segment_blocks: u32,
    /// Maximum size of a whole picture in bytes, counted as 4 per pixel, as in the limits of `JpegDecoder`. Larger
    /// pictures are left to the host, which returns the error. Default: no limit.
    pub(crate) max_bytes: u64,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self { output: Output::default(), max_segment_blocks: JpegHeader::DEVICE_SEGMENT_BLOCKS, max_bytes: u64::MAX }
    }
}
