//! The output of the kernels, and the limits of their input.

use shardpack_format::ElementType;
use shardpack_jpeg::{JpegHeader, PixelLayout, Scaling};

/// The type of the output's elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Dtype {
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
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
        }
    }

    /// The type for this element type, if the kernels can write it.
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

/// The output of the kernels: elements, axes, floats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Output {
    /// Type of the elements.
    pub(crate) dtype: Dtype,
    /// Order of the axes.
    pub(crate) layout: PixelLayout,
    /// Conversion of levels to floats.
    pub(crate) scaling: Scaling,
}

/// The output of the kernels, and the limits beyond which the host decodes pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StagingOptions {
    /// The output of the kernels.
    pub(crate) output: Output,
    /// Most blocks in a segment. One thread decodes a segment, so the longest segment sets the time of a
    /// batch. Default 2048.
    pub(crate) max_segment_blocks: u32,
    /// Most bytes of a whole picture, at 4 per pixel, as counted by the limits of `JpegDecoder`. Larger
    /// pictures are left to the host, which returns the error. Default: no limit.
    pub(crate) max_bytes: u64,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self { output: Output::default(), max_segment_blocks: JpegHeader::DEVICE_SEGMENT_BLOCKS, max_bytes: u64::MAX }
    }
}
