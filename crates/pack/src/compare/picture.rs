//! Compares two 8-bit RGB pictures.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::decibels::psnr;
use super::ssim::mean_ssim;
use shardpack_format::{Error, Result};
use shardpack_jpeg::Reference;
use shardpack_jpeg::{JpegReencoder, Resize};

/// Measures of the difference between two pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureDifference {
    /// True if all pixels are equal.
    pub identical: bool,
    /// SSIMULACRA2 score. If a picture has more than [`SCORE_MAX_PIXELS`](shardpack_jpeg::SCORE_MAX_PIXELS)
    /// pixels, only its centre is scored.
    pub ssimulacra2: f64,
    /// PSNR in dB over red, green and blue together, with a peak of 255. `None` if all pixels are equal.
    pub psnr: Option<f64>,
    /// SSIM of the luma (BT.601). `None` if a side is shorter than seven pixels.
    pub ssim: Option<f64>,
}

/// A picture prepared for comparison with several others.
///
/// ```
/// use shardpack_pack::compare::PictureReference;
/// let grey = vec![128; 16 * 16 * 3];
/// let reference = PictureReference::new(grey.clone(), (16, 16))?;
/// let same = reference.compare(&grey)?;
/// assert!(same.identical && same.ssimulacra2 == 100.0 && same.psnr.is_none());
/// let darker = reference.compare(&vec![120; 16 * 16 * 3])?;
/// assert!(darker.ssimulacra2 < 100.0 && darker.psnr.is_some());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
pub struct PictureReference {
    rgb: Vec<u8>,
    luma: Vec<f32>,
    size: (u32, u32),
    perceptual: Reference,
}

impl std::fmt::Debug for PictureReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PictureReference").field("size", &self.size).finish_non_exhaustive()
    }
}

impl PictureReference {
    /// Prepares the pixels `rgb`, C-contiguous `[height, width, 3]` of u8. `size` is the width and
    /// height. Needs [`SCORE_BYTES_PER_PIXEL`](shardpack_jpeg::SCORE_BYTES_PER_PIXEL) bytes of
    /// memory per scored pixel.
    ///
    /// # Errors
    /// `Usage` if the number of bytes does not match the size, or there are no pixels.
    pub fn new(rgb: Vec<u8>, size: (u32, u32)) -> Result<Self> {
        check(&rgb, size)?;
        Ok(Self { luma: luma(&rgb), perceptual: Reference::new(&rgb, size)?, rgb, size })
    }

    /// Returns the width and height.
    #[must_use]
    pub const fn size(&self) -> (u32, u32) {
        self.size
    }

    /// Returns the pixels.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.rgb
    }

    /// Compares another picture of the same size with this one.
    ///
    /// # Errors
    /// `Usage` if the size differs.
    pub fn compare(&self, rgb: &[u8]) -> Result<PictureDifference> {
        check(rgb, self.size)?;
        if rgb == self.rgb {
            return Ok(PictureDifference { identical: true, ssimulacra2: 100.0, psnr: None, ssim: Some(1.0) });
        }
        let sum: u64 = self.rgb.iter().zip(rgb).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
        #[allow(clippy::cast_precision_loss, reason = "a mean")]
        let mean_square = sum as f64 / rgb.len() as f64;
        Ok(PictureDifference {
            identical: false,
            ssimulacra2: self.perceptual.score(rgb, self.size)?,
            psnr: psnr(255.0, mean_square),
            ssim: mean_ssim(&self.luma, &luma(rgb), self.size.0 as usize, 255.0),
        })
    }
}

/// Computes the reference pixels for a re-encoded JPEG. Turns the source upright and shrinks it, as `pack` does.
#[derive(Debug, Default)]
pub struct ReferencePixels(JpegReencoder);

impl ReferencePixels {
    /// Shrinks upright RGB pixels of size `from` = (width, height), and returns them with their new size.
    ///
    /// # Errors
    /// `Usage` if the number of bytes does not match the size.
    pub fn shrink(&mut self, rgb: Vec<u8>, from: (u32, u32), resize: Resize) -> Result<(Vec<u8>, (u32, u32))> {
        check(&rgb, from)?;
        let to = resize.of(from.0, from.1);
        Ok((self.0.shrunk(rgb, from, to)?, to))
    }
}

fn luma(rgb: &[u8]) -> Vec<f32> {
    let of = |&[r, g, b]: &[u8; 3]| 0.299 * f32::from(r) + 0.587 * f32::from(g) + 0.114 * f32::from(b);
    rgb.as_chunks::<3>().0.iter().map(of).collect()
}

fn check(rgb: &[u8], size: (u32, u32)) -> Result<()> {
    let (width, height) = size;
    let expected = u64::from(width) * u64::from(height) * 3;
    if rgb.is_empty() || rgb.len() as u64 != expected {
        let text = format!("a picture of {width} × {height} pixels must have {expected} bytes, but has {}", rgb.len());
        return Err(Error::usage(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_one_pixel_has_a_score_and_no_similarity() {
        let reference = PictureReference::new(vec![10, 20, 30], (1, 1)).unwrap();
        let found = reference.compare(&[10, 20, 31]).unwrap();
        assert!(!found.identical && found.ssimulacra2 < 100.0 && found.ssim.is_none());
        // The pixels differ by one level in one of three channels, so the mean square error is 1/3.
        // With an error of 1, the PSNR would be 48.13 dB.
        assert!((found.psnr.unwrap() - (48.130_803_6 + 10.0 * 3_f64.log10())).abs() < 1e-6);
        assert!(reference.compare(&[0; 6]).is_err());
        assert!(PictureReference::new(Vec::new(), (0, 0)).is_err());
    }

    /// Scores of the reference program (cloudinary/ssimulacra2), as published by `fast-ssim2` 0.9.1 in
    /// `src/reference_data.rs`. Grey 128 is compared with lighter greys, for several side lengths.
    const SHIFTED: [(u32, [(u8, f64); 5]); 4] = [
        (32, [(1, 97.749_214), (5, 98.808_274), (10, 96.531_141), (20, 93.798_232), (50, 85.014_096)]),
        (64, [(1, 97.986_721), (5, 91.523_577), (10, 80.242_894), (20, 56.058_556), (50, -8.759_423)]),
        (128, [(1, 96.789_207), (5, 88.540_709), (10, 77.842_963), (20, 54.278_839), (50, -9.823_833)]),
        (256, [(1, 96.150_271), (5, 89.732_094), (10, 80.291_491), (20, 59.778_929), (50, -0.390_858)]),
    ];

    #[test]
    fn scores_are_those_of_the_reference_program() {
        let mut pairs = 0;
        let mut check = |source: Vec<u8>, other: &[u8], side: u32, expected: f64| {
            let found = PictureReference::new(source, (side, side)).unwrap().compare(other).unwrap().ssimulacra2;
            assert!((found - expected).abs() < 0.05, "{side}: {found}, expected {expected}");
            pairs += 1;
        };
        for (side, shifts) in SHIFTED {
            let count = (side * side * 3) as usize;
            for (shift, expected) in shifts {
                check(vec![128; count], &vec![128 + shift; count], side, expected);
            }
        }
        let gradient = (0..64 * 64).flat_map(|i| [(i % 64 * 255 / 63) as u8; 3]).collect();
        check(gradient, &[128; 64 * 64 * 3], 64, -64.568_721);
        let mut state = 42_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let noise = (0..64 * 64 * 3).map(|_| next()).collect();
        check(noise, &[128; 64 * 64 * 3], 64, -47.335_726);
        assert_eq!(pairs, 22);
    }
}
