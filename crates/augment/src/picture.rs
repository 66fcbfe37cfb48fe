//! The pixels that operations change, and their scratch memory.

use shardpack_base::vectorised;
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
                Err(Error::usage(format!("the picture must have {expected} bytes, but has {}", pixels.len())))
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

    /// Replaces each pixel by the result of `change`, whose arguments and results are levels. The results are converted
    /// by [`level`]. `change` must be inlined and have no branches, so that the compiler computes several pixels at
    /// once.
    #[inline(always)]
    pub(crate) fn change_pixels(&mut self, change: impl Fn([f32; 3]) -> [f32; 3]) {
        in_groups(
            self.pixels(),
            #[inline(always)]
            |group| change_group(group, &change),
        );
    }

    /// Returns the number of bytes in a row, which is at least 1.
    pub(crate) fn stride(&self) -> usize {
        (3 * self.width).max(1)
    }
}

/// Number of pixels or values that are computed at once.
pub(crate) const GROUP: usize = 16;

/// Changes all items in groups, in a version compiled for the processor's vector instructions. The last group is filled
/// up with default items, whose results are dropped. `change` must be inlined.
#[inline(always)]
pub(crate) fn in_groups<T: Copy + Default>(items: &mut [T], change: impl Fn(&mut [T; GROUP])) {
    vectorised(
        #[inline(always)]
        || {
            let (groups, rest) = items.as_chunks_mut();
            for group in groups {
                change(group);
            }
            let mut group = [T::default(); GROUP];
            if let Some(group) = group.get_mut(..rest.len()) {
                group.copy_from_slice(rest);
            }
            change(&mut group);
            rest.iter_mut().zip(group).for_each(|(item, changed)| *item = changed);
        },
    );
}

#[inline(always)]
fn change_group(pixels: &mut [[u8; 3]; GROUP], change: &impl Fn([f32; 3]) -> [f32; 3]) {
    // The compiler vectorises loops over indices, but no closures of `array::map`.
    let (mut red, mut green, mut blue) = ([0.0; GROUP], [0.0; GROUP], [0.0; GROUP]);
    for n in 0..GROUP {
        let [r, g, b] = pixels[n];
        (red[n], green[n], blue[n]) = (f32::from(r), f32::from(g), f32::from(b));
    }
    for n in 0..GROUP {
        [red[n], green[n], blue[n]] = change([red[n], green[n], blue[n]]);
    }
    for n in 0..GROUP {
        pixels[n] = [level(red[n]), level(green[n]), level(blue[n])];
    }
}

/// Converts a float to a level. Clamps it to 0 to 255 and truncates it, like torch's conversion to uint8. NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "the last byte is the level")]
#[expect(clippy::manual_clamp, reason = "`clamp` keeps NaN")]
#[inline(always)]
pub(crate) fn level(value: f32) -> u8 {
    /// 2²³, from which on all floats are integers. The last bits of a sum with it are the other summand, rounded.
    /// Processors convert several floats at once in this way, but not with `as`.
    const INTEGERS: f32 = 8_388_608.0;
    let limited = value.max(0.0).min(255.0);
    let rounded = limited + INTEGERS;
    (rounded.to_bits() - u32::from(rounded - INTEGERS > limited)) as u8
}

/// Rounds a float64 to the nearest float32, in the same way as torch converts Python numbers.
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) const fn single(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_limited_and_truncated() {
        let steps = (0..=255 * 64).map(|n| n as f32 / 64.0);
        let below = (1..=255_u8).map(|n| f32::from(n).next_down());
        let far = [f32::NAN, -0.0, -1e-30, -7.5, 255.0, 255.5, 1e30, f32::INFINITY, f32::NEG_INFINITY];
        for value in steps.chain(below).chain(far) {
            assert_eq!(level(value), value.clamp(0.0, 255.0) as u8, "{value}");
        }
    }

    #[test]
    fn groups_of_pixels_change_like_single_pixels() {
        for count in 0..3 * GROUP {
            let mut pixels: Vec<u8> = (0..3 * count).map(|n| (n * 89) as u8).collect();
            let change = |[r, g, b]: [f32; 3]| [g * 0.7, b + 40.0, r - g];
            let expected: Vec<u8> =
                pixels.as_chunks::<3>().0.iter().flat_map(|pixel| change(pixel.map(f32::from)).map(level)).collect();
            Picture::new(&mut pixels, 1, count).unwrap().change_pixels(change);
            assert_eq!(pixels, expected, "{count} pixels");
        }
    }
}
