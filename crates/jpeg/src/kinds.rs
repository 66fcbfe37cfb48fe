//! Requests to libjpeg-turbo and its answers, as plain values.

use super::JpegHeader;
use super::shared::parse;
use super::walk::scans;
use shardpack_format::{Error, Limits, Result};

/// Most bytes of a decoded pixel.
pub(crate) const PIXEL_BYTES: u64 = 4;

/// Limits of the decoder for one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) max_pixels: u64,
    /// Most scans of a progressive picture: a picture with ten thousand scans is an attack (a usual
    /// one has about ten).
    pub(crate) max_scans: u32,
    /// Most memory that libjpeg may take for itself, in MiB. A progressive picture needs all of its
    /// coefficients, 2 bytes each.
    pub(crate) max_memory_mib: u32,
}

impl Bounds {
    /// Returns the bounds that `limits` allow for one picture.
    pub(crate) fn of(limits: &Limits) -> Self {
        let max_pixels = limits.max_decoded_bytes / PIXEL_BYTES;
        // Coefficients of three components without subsampling: 6 bytes for each pixel, and
        // libjpeg's own buffers.
        let max_memory_mib = shardpack_format::saturating_u32((max_pixels.saturating_mul(6) >> 20) + 64);
        Self { max_pixels, max_scans: 500, max_memory_mib }
    }

    /// Most scans of a picture of this many pixels: bounds the work to seconds for any size. A usual picture
    /// has about ten.
    pub(crate) fn scans_of(&self, pixels: u64) -> u64 {
        const PIXELS: u64 = 1 << 31;
        const FEWEST: u64 = 64;
        (PIXELS / pixels.max(1)).clamp(FEWEST, u64::from(self.max_scans))
    }
}

/// Handling of damage that libjpeg decodes past, with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// A warning is an error.
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
    /// Cyan, magenta, yellow, black, in the stored form (Adobe: inverted).
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
}

/// Scale of a picture decoded by libjpeg-turbo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    /// 1/8 of its width and height: one pixel of each DCT block.
    Eighth,
}

impl Scale {
    /// The n of 1/n.
    pub(crate) const fn denominator(self) -> u32 {
        match self {
            Self::Full => 1,
            Self::Eighth => 8,
        }
    }

    /// Length of an axis after scaling, rounded up as in libjpeg.
    pub(crate) const fn of(self, pixels: u32) -> u32 {
        pixels.div_ceil(self.denominator())
    }
}

/// Facts about a picture that the decoder reads from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Colour space of the stored components.
    pub(crate) color: Color,
    /// True for the lossless process, which cannot be scaled.
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
    pub(crate) const fn components(self) -> usize {
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

/// Reads the header by our own rules, and compares its sizes with the limits.
pub(crate) fn checked_header(jpeg: &[u8], bounds: Bounds) -> Result<JpegHeader> {
    let header = parse(jpeg)?;
    if header.precision > 8 {
        return Err(Error::format("samples of a JPEG", "8 bits at most", header.precision));
    }
    let pixels = u64::from(header.width) * u64::from(header.height);
    if pixels > bounds.max_pixels {
        let bytes = |pixels: u64| pixels.saturating_mul(PIXEL_BYTES);
        return Err(Error::limit("decoded JPEG", "max_decoded_bytes", bytes(bounds.max_pixels), bytes(pixels)));
    }
    // Each scan may touch every coefficient again, so scans are counted before decoding the first.
    if !(header.is_in_one_scan() && matches!(header.sof, 0 | 1 | 3)) {
        let (allowed, found) = (bounds.scans_of(pixels), scans(jpeg, header.scan_offset));
        if found > allowed {
            return Err(Error::limit("scans of a JPEG", "scans for its size", allowed, found));
        }
    }
    Ok(header)
}
