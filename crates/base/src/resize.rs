//! Resizes 8-bit RGB by convolution. This function stands below the crates that use it, because `fast_image_resize` is
//! compiled again in each crate that calls it, and once more for the tests of that crate.

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{ResizeOptions, Resizer};
use shardpack_format::{Error, Result};

/// A rectangle of a picture of 8-bit RGB.
#[derive(Debug, Clone, Copy)]
pub struct RgbWindow<'a> {
    /// Pixels of the whole picture, in rows without gaps: `picture[0] * picture[1] * 3` bytes.
    pub bytes: &'a [u8],
    /// Width and height of the whole picture in pixels.
    pub picture: [u32; 2],
    /// Column and row of the rectangle's first pixel.
    pub origin: [u32; 2],
    /// Width and height of the rectangle in pixels. The filter reads no pixel outside it.
    pub size: [u32; 2],
}

/// Resizes a window into `out`, which has `size` (width and height), in rows without gaps.
///
/// # Errors
/// `Usage` if the window is not within the picture, `bytes` or `out` are too short, or the crop of the options is not
/// within the window.
pub fn resize_rgb(
    resizer: &mut Resizer,
    from: &RgbWindow<'_>,
    options: &ResizeOptions,
    size: [u32; 2],
    out: &mut [u8],
) -> Result<()> {
    let unfit = |error: &dyn std::fmt::Display| Error::usage(format!("cannot resize the picture: {error}"));
    let ([width, height], [x, y], [columns, rows]) = (from.picture, from.origin, from.size);
    let image = TypedImageRef::<U8x3>::from_buffer(width, height, from.bytes).map_err(|e| unfit(&e))?;
    let seen = TypedCroppedImage::from_ref(&image, x, y, columns, rows).map_err(|e| unfit(&e))?;
    let mut out = TypedImage::<U8x3>::from_buffer(size[0], size[1], out).map_err(|e| unfit(&e))?;
    resizer.resize_typed(&seen, &mut out, options).map_err(|e| unfit(&e))
}
