//! How much a re-encoded picture differs from its source to the eye: SSIMULACRA2.
//!
//! 100 is identical, 90 cannot be told apart side by side, 70 is high and 50 medium quality. Pixels are taken to be sRGB.

use fast_ssim2::{PixelDescriptor, PixelSlice, Ssimulacra2Reference};
use shardpack_format::{Error, Result};

/// Score of a picture that is its source.
pub(super) const IDENTICAL: f64 = 100.0;

/// A picture that others are compared with: its half of the work is done once.
pub(super) struct Reference(Ssimulacra2Reference);

impl Reference {
    /// Prepares `rgb`, rows without gaps.
    pub(super) fn new(rgb: &[u8], size: (u32, u32)) -> Result<Self> {
        Ssimulacra2Reference::new(&slice(rgb, size)?).map(Self).map_err(|e| unfit(size, e))
    }

    /// The score of another picture of the same size.
    pub(super) fn score(&self, rgb: &[u8], size: (u32, u32)) -> Result<f64> {
        self.0.compare(&slice(rgb, size)?).map_err(|e| unfit(size, e))
    }
}

fn slice(rgb: &[u8], size: (u32, u32)) -> Result<PixelSlice<'_>> {
    PixelSlice::new(rgb, size.0, size.1, size.0 as usize * 3, PixelDescriptor::RGB8_SRGB).map_err(|e| unfit(size, e))
}

fn unfit((width, height): (u32, u32), error: impl std::fmt::Display) -> Error {
    Error::usage("picture to score", "at most 16384 × 16384 pixels", format!("{width} × {height} ({error})"))
}
