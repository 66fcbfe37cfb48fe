//! The pixels that operations change, and their scratch memory.

use shardpack_format::{Error, Result};

/// A uint8 picture `[height, width, 3]` in red, green and blue, changed in place.
///
/// ```
/// use shardpack_augment::Picture;
/// let mut pixels = [0; 2 * 5 * 3];
/// assert_eq!(Picture::new(&mut pixels, 2, 5)?.width(), 5);
/// assert!(Picture::new(&mut pixels, 3, 5).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug)]
pub struct Picture<'a> {
    pixels: &'a mut [u8],
    height: usize,
    width: usize,
}

/// Scratch memory for operations that need the original pixels. Keep one per thread. It grows to the size of the
/// largest picture, at most 17 bytes per pixel.
#[derive(Debug, Default)]
pub struct ChangeScratch {
    pub(crate) before: Vec<u8>,
    pub(crate) sums: Vec<u16>,
    pub(crate) floats: Vec<f32>,
    pub(crate) row: Vec<f32>,
}

impl<'a> Picture<'a> {
    /// Wraps pixels that are in row order.
    ///
    /// # Errors
    /// `Usage` unless there are `height × width × 3` bytes.
    pub fn new(pixels: &'a mut [u8], height: usize, width: usize) -> Result<Self> {
        let bytes = height.checked_mul(width).and_then(|area| area.checked_mul(3));
        match bytes == Some(pixels.len()) {
            true => Ok(Self { pixels, height, width }),
            false => {
                let expected = format!("{height} × {width} × 3");
                Err(Error::usage(format!("picture size: expected {expected} bytes, found {}", pixels.len())))
            }
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of columns.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns all levels, row by row.
    #[must_use]
    pub const fn levels(&mut self) -> &mut [u8] {
        self.pixels
    }

    pub(crate) fn pixels(&mut self) -> &mut [[u8; 3]] {
        self.pixels.as_chunks_mut().0
    }

    /// Returns the number of bytes in a row, which is at least 1.
    pub(crate) fn stride(&self) -> usize {
        (3 * self.width).max(1)
    }
}

/// Converts a float to a level. Clamps it to 0 to 255 and truncates it, like torch's conversion to uint8.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to a byte")]
pub(crate) fn level(value: f32) -> u8 {
    value.clamp(0.0, 255.0) as u8
}

/// Rounds a float64 to the nearest float32, in the same way as torch converts Python numbers.
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) const fn single(value: f64) -> f32 {
    value as f32
}
