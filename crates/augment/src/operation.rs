//! Operations on a picture, with all random choices already made.

use super::affine::Affine;
use super::picture::{ChangeScratch, Picture};
use super::{blur, color, erase, hue, sharpness};
use shardpack_format::{Error, Result};

/// One change of a picture, as torchvision v2 defines it for uint8 tensors. Results differ from torchvision's by at
/// most one level. [`Operation::Affine`] may choose a different pixel where the source position is so close to the
/// border between two pixels that float32 rounds it to the other side.
///
/// ```
/// use shardpack_augment::{Operation, Picture, ChangeScratch};
/// let mut pixels = [10, 100, 200];
/// Operation::Brightness(1.5).apply(&mut Picture::new(&mut pixels, 1, 1)?, &mut ChangeScratch::default());
/// assert_eq!(pixels, [15, 150, 255]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    /// Multiplies levels by this factor, 0 or more.
    Brightness(f64),
    /// Multiplies each level's distance from the mean brightness of the picture by this factor, which is 0 or
    /// more. A factor below 1 reduces the contrast.
    Contrast(f64),
    /// Multiplies each level's distance from gray by this factor, which is 0 or more. A factor below 1
    /// reduces the saturation.
    Saturation(f64),
    /// Turns the hue by this fraction of the colour circle, −0.5 to 0.5.
    Hue(f64),
    /// Multiplies each level's distance from the blurred picture by this factor, which is 0 or more. A factor
    /// below 1 blurs the picture.
    Sharpness(f64),
    /// Keeps this many upper bits of each level, at most 8.
    Posterize(u8),
    /// Inverts levels at or above this threshold, 0 to 255.
    Solarize(f64),
    /// Stretches each channel to the full range of levels.
    AutoContrast,
    /// Spreads the levels of each channel evenly.
    Equalize,
    /// Subtracts each level from 255.
    Invert,
    /// Converts the picture to gray, in three channels.
    Grayscale,
    /// Rotates, shifts, scales and shears. Pixels that come from outside the picture are black.
    Affine(Affine),
    /// Blurs with a Gaussian kernel.
    Blur {
        /// Number of rows and columns of the kernel, which must be odd.
        size: u32,
        /// Standard deviation in pixels, above 0.
        sigma: f64,
    },
    /// Fills a rectangle with one colour.
    Erase {
        /// First row and column.
        origin: [usize; 2],
        /// Number of rows and columns.
        size: [usize; 2],
        /// Red, green, blue.
        value: [u8; 3],
    },
}

impl Operation {
    /// Applies the change to the picture.
    pub fn apply(&self, picture: &mut Picture<'_>, scratch: &mut ChangeScratch) {
        match *self {
            Self::Brightness(factor) => color::brightness(picture, factor),
            Self::Contrast(factor) => color::contrast(picture, factor),
            Self::Saturation(factor) => color::saturation(picture, factor),
            Self::Hue(by) => hue::hue(picture, by),
            Self::Sharpness(factor) => sharpness::sharpness(picture, factor, scratch),
            Self::Posterize(bits) => color::posterize(picture, bits),
            Self::Solarize(threshold) => color::solarize(picture, threshold),
            Self::AutoContrast => color::autocontrast(picture),
            Self::Equalize => color::equalize(picture),
            Self::Invert => color::invert(picture),
            Self::Grayscale => color::grayscale(picture),
            Self::Affine(affine) => affine.apply(picture, scratch),
            Self::Blur { size, sigma } => blur::blur(picture, size, sigma, scratch),
            Self::Erase { origin, size, value } => erase::erase(picture, origin, size, value),
        }
    }

    /// Checks that the parameters are in their documented ranges.
    ///
    /// # Errors
    /// `Usage`, with the parameter that is out of range.
    pub fn check(&self) -> Result<()> {
        let within = |what: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false if low == f64::MIN_POSITIVE => Err(Error::usage(format!("{what} must be above 0, but is {value}"))),
            false if high == f64::MAX => Err(Error::usage(format!("{what} must be at least {low}, but is {value}"))),
            false => Err(Error::usage(format!("{what} must be from {low} to {high}, but is {value}"))),
        };
        match *self {
            Self::Brightness(factor) => within("the brightness factor", factor, 0.0, f64::MAX),
            Self::Contrast(factor) => within("the contrast factor", factor, 0.0, f64::MAX),
            Self::Saturation(factor) => within("the saturation factor", factor, 0.0, f64::MAX),
            Self::Sharpness(factor) => within("the sharpness factor", factor, 0.0, f64::MAX),
            Self::Hue(by) => within("the hue shift", by, -0.5, 0.5),
            Self::Posterize(bits) => within("`bits` in posterize", bits.into(), 0.0, 8.0),
            Self::Solarize(threshold) => within("`threshold` in solarize", threshold, 0.0, 255.0),
            Self::Affine(affine) => within("the scale of an affine map", affine.scale, f64::MIN_POSITIVE, f64::MAX),
            Self::Blur { size, .. } if size.is_multiple_of(2) || size > 255 => Err(Error::usage(format!(
                "the kernel size of a blur must be an odd number of pixels up to 255, but is {size}"
            ))),
            Self::Blur { sigma, .. } => within("the standard deviation of a blur", sigma, 1e-3, 1e3),
            Self::AutoContrast | Self::Equalize | Self::Invert | Self::Grayscale | Self::Erase { .. } => Ok(()),
        }
    }

    /// Returns true if pixels may move, so that masks, boxes and points must move with the picture.
    #[must_use]
    pub const fn moves(&self) -> bool {
        matches!(self, Self::Affine(_))
    }
}
