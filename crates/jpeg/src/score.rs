//! Scores the visual difference between a re-encoded picture and its source with SSIMULACRA2.
//!
//! A score of 100 means that the pictures are identical. At 90 they look identical side by side, 70 means high
//! quality, and 50 medium quality. Pixels are assumed to be sRGB. Scoring needs planes of floats. To limit their
//! memory, at most [`SCORE_MAX_PIXELS`] pixels of a picture are scored.

use super::Rect;
use fast_ssim2::{PixelDescriptor, PixelSlice, Ssimulacra2Reference};
use shardpack_format::{Error, Result};

/// Maximum number of pixels that are scored. For a larger picture, only its centre is scored, cropped to the
/// same aspect ratio.
///
/// ```
/// use shardpack_jpeg::{SCORE_BYTES_PER_PIXEL, SCORE_MAX_PIXELS};
/// assert!(SCORE_MAX_PIXELS * SCORE_BYTES_PER_PIXEL < 1_000_000_000);
/// ```
pub const SCORE_MAX_PIXELS: u64 = 8_000_000;

/// Measured memory that scoring takes per pixel, in bytes, without the pictures themselves.
pub const SCORE_BYTES_PER_PIXEL: u64 = 115;

/// Score of a picture that is identical to its source.
pub(super) const IDENTICAL: f64 = 100.0;

/// A reference picture that others are compared with. Everything that depends only on the reference is computed once.
pub struct Reference(Ssimulacra2Reference);

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}

impl Reference {
    /// Prepares `rgb`, C-contiguous `[height, width, 3]` u8. `size` is width and height. For a picture of
    /// more than [`SCORE_MAX_PIXELS`], only the centre is scored.
    ///
    /// # Errors
    /// `Usage` if the bytes do not match the size, or the picture is too small to be scored.
    pub fn new(rgb: &[u8], size: (u32, u32)) -> Result<Self> {
        Ssimulacra2Reference::new(&slice(rgb, size)?).map(Self).map_err(|e| unfit(size, e))
    }

    /// Returns the SSIMULACRA2 score of another picture of the same size. The score is 100 if the pictures are equal.
    ///
    /// # Errors
    /// `Usage` if the picture has a different size.
    pub fn score(&self, rgb: &[u8], size: (u32, u32)) -> Result<f64> {
        self.0.compare(&slice(rgb, size)?).map_err(|e| unfit(size, e))
    }
}

/// Returns the part of a picture that is scored.
fn centre(width: u32, height: u32) -> Rect {
    let pixels = u64::from(width) * u64::from(height);
    if pixels <= SCORE_MAX_PIXELS {
        return Rect::whole(width, height);
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 2³² pixels")]
    let shrink = (SCORE_MAX_PIXELS as f64 / pixels as f64).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the side, which fits")]
    let side = |pixels: u32| ((f64::from(pixels) * shrink) as u32).max(1);
    let (w, h) = (side(width), side(height));
    Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
}

fn slice(rgb: &[u8], size: (u32, u32)) -> Result<PixelSlice<'_>> {
    let Rect { x, y, width, height } = centre(size.0, size.1);
    let row = size.0 as usize * 3;
    let start = y as usize * row + x as usize * 3;
    let rows = rgb.get(start..).ok_or_else(|| unfit(size, format!("{} bytes of pixels", rgb.len())))?;
    PixelSlice::new(rows, width, height, row, PixelDescriptor::RGB8_SRGB).map_err(|e| unfit(size, e))
}

fn unfit(size: (u32, u32), error: impl std::fmt::Display) -> Error {
    let (width, height) = size;
    Error::usage(format!("cannot compute SSIMULACRA2 for a picture of {width} × {height} pixels: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centre_has_the_shape_of_the_picture() {
        assert_eq!(centre(4000, 2000), Rect::whole(4000, 2000));
        assert_eq!(centre(8000, 4000), Rect { x: 2000, y: 1000, width: 4000, height: 2000 });
        for size in [(65_535, 65_535), (65_535, 123), (123, 65_535), (4001, 2000), (2829, 2829)] {
            let Rect { x, y, width, height } = centre(size.0, size.1);
            let pixels = u64::from(width) * u64::from(height);
            assert!(pixels <= SCORE_MAX_PIXELS && pixels > SCORE_MAX_PIXELS * 98 / 100, "{size:?}: {pixels}");
            assert!(size.0 - (x * 2 + width) <= 1 && size.1 - (y * 2 + height) <= 1, "{size:?}: in the middle");
        }
    }

    /// Pixels outside the centre do not affect the score.
    #[test]
    fn large_pictures_are_scored_by_their_centre() {
        let size = (8000, 2000);
        let source: Vec<u8> = (0..8000 * 2000).flat_map(|i| [(i % 8000 / 9) as u8, (i / 8000) as u8, 40]).collect();
        let reference = Reference::new(&source, size).unwrap();
        let Rect { x, y, width, height } = centre(size.0, size.1);
        let mut other = source;
        let paint = |other: &mut [u8], x: u32, y: u32| {
            let at = (y as usize * 8000 + x as usize) * 3;
            other[at..at + 64 * 3].iter_mut().for_each(|v| *v ^= 0x80);
        };
        for (x, y) in [(x - 64, y), (x + width, y + 3), (x, y - 1), (x, y + height)] {
            paint(&mut other, x, y);
        }
        assert!((reference.score(&other, size).unwrap() - IDENTICAL).abs() < 1e-9);
        paint(&mut other, x, y);
        assert!(reference.score(&other, size).unwrap() < IDENTICAL - 0.001);
    }
}
