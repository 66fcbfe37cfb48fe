//! Requests to libjpeg-turbo, and its answers, as plain values.

use shardpack_format::Limits;
use std::ffi::c_int;
use turbojpeg_sys as sys;

/// The most bytes that a decoded pixel takes.
pub(super) const PIXEL_BYTES: u64 = 4;

/// What one picture may ask of the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Most pixels.
    pub(crate) max_pixels: u64,
    /// Most scans of a progressive picture: a picture with ten thousand scans is an attack (a usual
    /// one has about ten).
    pub(crate) max_scans: u32,
    /// Most memory that libjpeg may take for itself, in MiB. A progressive picture needs all of its
    /// coefficients, 2 bytes each.
    pub(crate) max_memory_mib: u32,
}

impl Bounds {
    /// What `limits` allow for one picture.
    pub(crate) fn of(limits: &Limits) -> Self {
        let max_pixels = limits.max_decoded_bytes / PIXEL_BYTES;
        // Coefficients of three components without subsampling: 6 bytes for each pixel, and
        // libjpeg's own buffers.
        let max_memory_mib = u32::try_from((max_pixels.saturating_mul(6) >> 20) + 64).unwrap_or(u32::MAX);
        Self { max_pixels, max_scans: 500, max_memory_mib }
    }

    /// Most scans of a picture of so many pixels: seconds of work, whatever its size. A usual one
    /// has about ten.
    pub(super) fn scans_of(&self, pixels: u64) -> u64 {
        const PIXELS: u64 = 1 << 31;
        const FEWEST: u64 = 64;
        PIXELS.checked_div(pixels).unwrap_or(u64::MAX).clamp(FEWEST, u64::from(self.max_scans))
    }
}

/// What to do about damage that libjpeg decodes past, with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// It is an error.
    Refuse,
    /// The pixels are used anyway.
    Accept,
}

/// Order of the bytes of one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PixelFormat {
    /// One byte.
    Gray,
    /// Red, green, blue.
    Rgb,
    /// Cyan, magenta, yellow, black, as stored (Adobe: inverted).
    Cmyk,
}

impl PixelFormat {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
            Self::Cmyk => 4,
        }
    }

    pub(super) const fn number(self) -> c_int {
        match self {
            Self::Gray => sys::TJPF_TJPF_GRAY,
            Self::Rgb => sys::TJPF_TJPF_RGB,
            Self::Cmyk => sys::TJPF_TJPF_CMYK,
        }
    }
}

/// DCT scaling: the picture is decoded at 1/n of its width and height.
///
/// ```
/// use shardpack_jpeg::Scale;
/// assert_eq!(Scale::Quarter.denominator(), 4);
/// assert_eq!(Scale::Quarter.of(501), 126);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// Full size.
    Full,
    /// 1/2.
    Half,
    /// 1/4.
    Quarter,
    /// 1/8: one pixel of each DCT block.
    Eighth,
}

impl Scale {
    /// n of 1/n.
    #[must_use]
    pub const fn denominator(self) -> u32 {
        match self {
            Self::Full => 1,
            Self::Half => 2,
            Self::Quarter => 4,
            Self::Eighth => 8,
        }
    }

    /// An axis after scaling, rounded up as libjpeg does.
    #[must_use]
    pub const fn of(self, pixels: u32) -> u32 {
        pixels.div_ceil(self.denominator())
    }
}

/// What libjpeg-turbo reads from a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Colour space of the stored components.
    pub(crate) color: Color,
    /// The lossless process, which cannot be scaled.
    pub(crate) lossless: bool,
}

/// Colour space of the stored components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Gray,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

impl Color {
    pub(super) const fn components(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::YCbCr | Self::Rgb => 3,
            Self::Cmyk | Self::Ycck => 4,
        }
    }

    /// The pixel format that loses no channels.
    pub(crate) const fn format(self) -> PixelFormat {
        match self {
            Self::Gray => PixelFormat::Gray,
            Self::YCbCr | Self::Rgb => PixelFormat::Rgb,
            Self::Cmyk | Self::Ycck => PixelFormat::Cmyk,
        }
    }
}

/// A lossless rotation or reflection of the DCT coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Operation {
    None = sys::TJXOP_TJXOP_NONE.cast_signed(),
    FlipHorizontal = sys::TJXOP_TJXOP_HFLIP.cast_signed(),
    FlipVertical = sys::TJXOP_TJXOP_VFLIP.cast_signed(),
    Transpose = sys::TJXOP_TJXOP_TRANSPOSE.cast_signed(),
    Transverse = sys::TJXOP_TJXOP_TRANSVERSE.cast_signed(),
    Rotate90 = sys::TJXOP_TJXOP_ROT90.cast_signed(),
    Rotate180 = sys::TJXOP_TJXOP_ROT180.cast_signed(),
    Rotate270 = sys::TJXOP_TJXOP_ROT270.cast_signed(),
}

/// Chroma subsampling of an encoder.
#[cfg(any(test, feature = "encode"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Subsampling {
    S444 = sys::TJSAMP_TJSAMP_444,
    S422 = sys::TJSAMP_TJSAMP_422,
    S420 = sys::TJSAMP_TJSAMP_420,
    S440 = sys::TJSAMP_TJSAMP_440,
    S411 = sys::TJSAMP_TJSAMP_411,
    Gray = sys::TJSAMP_TJSAMP_GRAY,
}

/// Options of a transcoder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transcoding {
    /// Rotation or reflection. It must be possible without a partial block, else it is an error.
    pub(crate) operation: Operation,
    /// MCUs between restart markers; 0 = none.
    pub(crate) restart_interval: u16,
    /// Whether to copy metadata segments (APPn, COM). Those that colours depend on are always
    /// written.
    pub(crate) keep_metadata: bool,
}

/// Options of an encoder: always baseline, one scan, optimised Huffman tables.
#[cfg(any(test, feature = "encode"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    /// libjpeg's quality, 1..=100.
    pub(crate) quality: u8,
    pub(crate) subsampling: Subsampling,
    /// MCUs between restart markers; 0 = none.
    pub(crate) restart_interval: u16,
}

/// Processes and colour spaces that only tests write.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process {
    Progressive,
    Arithmetic,
    Lossless,
    Rgb,
    Cmyk,
}

#[cfg(test)]
impl Process {
    pub(super) const fn parameter(self) -> (u32, u32) {
        match self {
            Self::Progressive => (sys::TJPARAM_TJPARAM_PROGRESSIVE, 1),
            Self::Arithmetic => (sys::TJPARAM_TJPARAM_ARITHMETIC, 1),
            Self::Lossless => (sys::TJPARAM_TJPARAM_LOSSLESS, 1),
            Self::Rgb => (sys::TJPARAM_TJPARAM_COLORSPACE, sys::TJCS_TJCS_RGB),
            Self::Cmyk => (sys::TJPARAM_TJPARAM_COLORSPACE, sys::TJCS_TJCS_CMYK),
        }
    }
}
