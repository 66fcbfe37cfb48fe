//! Defines the parameters of libjpeg-turbo with the numeric values that its interface uses.

use crate::kinds::PixelFormat;
use std::ffi::c_int;
use turbojpeg_sys as sys;

pub(super) const fn number_of(format: PixelFormat) -> c_int {
    match format {
        PixelFormat::Gray => sys::TJPF_TJPF_GRAY,
        PixelFormat::Rgb => sys::TJPF_TJPF_RGB,
        PixelFormat::Cmyk => sys::TJPF_TJPF_CMYK,
    }
}

/// A lossless rotation or reflection of DCT coefficients.
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct Transcoding {
    /// Rotation or reflection. Transcoding fails if a partial block makes it impossible.
    pub(crate) operation: Operation,
    /// Number of MCUs between restart markers, or 0 for no markers.
    pub(crate) restart_interval: u16,
    /// Copies metadata segments (APPn, COM). Segments that affect colours are always written.
    pub(crate) keep_metadata: bool,
}

/// Encoder options. The output is always baseline, with one scan and optimised Huffman tables.
#[cfg(any(test, feature = "encode"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    /// libjpeg's quality, 1..=100.
    pub(crate) quality: u8,
    pub(crate) subsampling: Subsampling,
    /// Number of MCUs between restart markers, or 0 for no markers.
    pub(crate) restart_interval: u16,
}

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
