//! The output of the kernels, and the limits of their input.

use shardpack_format::ElementType;
use shardpack_jpeg::{JpegHeader, PixelLayout, Scaling};

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

    /// The type for this element type, if the kernels can write it.
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

/// The output of the kernels: elements, axes, floats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Output {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Order of the axes.
    pub layout: PixelLayout,
    /// Conversion of levels to floats.
    pub scaling: Scaling,
}

impl Output {
    /// Converts decoded levels of `pixels` pixels, in this layout, to the bytes that the device would write.
    /// For pictures decoded on the host.
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

/// The output of the kernels, and the limits beyond which the host decodes pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StagingOptions {
    /// The output of the kernels.
    pub output: Output,
    /// Most blocks in a segment. One thread decodes a segment, so the longest segment sets the time of a
    /// batch. Default 2048.
    pub max_segment_blocks: u32,
    /// Most bytes of a whole picture, at 4 per pixel, as counted by the limits of `JpegDecoder`. Larger
    /// pictures are left to the host, which returns the error. Default: no limit.
    pub max_bytes: u64,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self { output: Output::default(), max_segment_blocks: JpegHeader::DEVICE_SEGMENT_BLOCKS, max_bytes: u64::MAX }
    }
}
