//! Plain Rust types for the arguments and results of libjpeg-turbo.

use super::JpegHeader;
use super::shared::parse;
use super::walk::scans;
use shardpack_format::{Error, Limits, Result};

/// Maximum size of a decoded pixel in bytes.
pub(crate) const PIXEL_BYTES: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) max_pixels: u64,
    /// Maximum number of scans in a progressive picture. A normal picture has about ten scans, and an attack may have
    /// ten thousand.
    pub(crate) max_scans: u32,
    /// Maximum memory that libjpeg may allocate for itself, in MiB. A progressive picture needs 2 bytes for
    /// each of its coefficients.
    pub(crate) max_memory_mib: u32,
}

impl Bounds {
    pub(crate) fn of(limits: &Limits) -> Self {
        let max_pixels = limits.max_decoded_bytes / PIXEL_BYTES;
        // The coefficients of three components without subsampling take 6 bytes per pixel. Allow another 64 MiB for
        // libjpeg's own buffers.
        let max_memory_mib = shardpack_format::saturating_u32((max_pixels.saturating_mul(6) >> 20) + 64);
        Self { max_pixels, max_scans: 500, max_memory_mib }
    }

    /// Returns the maximum number of scans for a picture with `pixels` pixels. This limits the decoding time to
    /// seconds for pictures of any size. A normal picture has about ten scans.
    pub(crate) fn scans_of(&self, pixels: u64) -> u64 {
        const PIXELS: u64 = 1 << 31;
        const FEWEST: u64 = 64;
        (PIXELS / pixels.max(1)).clamp(FEWEST, u64::from(self.max_scans))
    }
}

/// How to handle damage that libjpeg reports only as a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warnings {
    Refuse,
    Accept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PixelFormat {
    Gray,
    Rgb,
    /// Cyan, magenta, yellow and black, as stored (inverted in Adobe's files).
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Full,
    /// An eighth of the width and height: one pixel per DCT block.
    Eighth,
}

impl Scale {
    pub(crate) const fn denominator(self) -> u32 {
        match self {
            Self::Full => 1,
            Self::Eighth => 8,
        }
    }

    /// Scales the length of an axis, rounded up as in libjpeg.
    pub(crate) const fn of(self, pixels: u32) -> u32 {
        pixels.div_ceil(self.denominator())
    }
}

/// Properties of a picture, from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) color: Color,
    /// True for the lossless process, which does not support scaling.
    pub(crate) lossless: bool,
}

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

    /// Returns the pixel format that keeps all channels.
    pub(crate) const fn format(self) -> PixelFormat {
        match self {
            Self::Gray => PixelFormat::Gray,
            Self::YCbCr | Self::Rgb => PixelFormat::Rgb,
            Self::Cmyk | Self::Ycck => PixelFormat::Cmyk,
        }
    }
}

/// Reads the header with our own parser, and checks the picture's size against the limits.
pub(crate) fn checked_header(jpeg: &[u8], bounds: Bounds) -> Result<JpegHeader> {
    let header = parse(jpeg)?;
    if header.precision > 8 {
        return Err(Error::malformed(format!("{}-bit JPEGs are not supported", header.precision)));
    }
    let pixels = u64::from(header.width) * u64::from(header.height);
    if pixels > bounds.max_pixels {
        let bytes = |pixels: u64| pixels.saturating_mul(PIXEL_BYTES);
        return Err(Error::limit("decoded JPEG", "max_decoded_bytes", bytes(bounds.max_pixels), bytes(pixels)));
    }
    // Each scan may update every coefficient, so count the scans before decoding any of them.
    if !(header.is_in_one_scan() && matches!(header.sof, 0 | 1 | 3)) {
        let (allowed, found) = (bounds.scans_of(pixels), scans(jpeg, header.scan_offset));
        if found > allowed {
            let what = format!("number of scans in a JPEG of {} × {} pixels", header.width, header.height);
            return Err(Error::limit(what, "max_scans", allowed, found));
        }
    }
    Ok(header)
}
