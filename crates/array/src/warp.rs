//! Affine maps of an array's pixels. Output values may lie between the pixels of the array.
//!
//! Host and device compute identical results, because every product and every sum is rounded separately.

use shardpack_format::to_usize;
use std::ops::Range;

/// A position within this distance of a pixel's centre, in pixels, counts as the centre. Quarter turns and shifts by
/// whole pixels therefore change no value, although sines are rounded.
pub(crate) const NEAR: f64 = 1.0 / 1_048_576.0;

/// An affine map of an array's pixels, and the way to interpolate between pixels.
///
/// ```
/// use shardpack_array::{Finish, Resampling, Warp};
/// use shardpack_format::{Dtype, Layout};
/// // One row of four pixels, moved to the right by half a pixel.
/// let sampling = Resampling::Bilinear { outside: -1.0 };
/// let warp = Warp { map: [1.0, 0.0, -0.5, 0.0, 1.0, 0.0], sampling };
/// let finish = Finish { warp: Some(warp), ..Finish::NOTHING };
/// let (pixels, mut out) = ([1.0_f32, 2.0, 4.0, 8.0].map(f32::to_le_bytes).concat(), [0; 16]);
/// finish.apply(Dtype::F32, [1, 4, 1], Layout::AsShape, &pixels, &mut out)?;
/// assert_eq!(out, *[0.0_f32, 1.5, 3.0, 6.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warp {
    /// `[a, b, c, d, e, f]`: the output pixel at (x, y) samples the array at (a x + b y + c, d x + e y + f). Both
    /// positions are in pixels to the right and down from the centre of the array.
    pub map: [f64; 6],
    /// How an output pixel is computed.
    pub sampling: Resampling,
}

/// How an output pixel is computed from the array's pixels around its sampling position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Resampling {
    /// The array's pixel at this position. Use it for values that must not be interpolated, such as classes.
    Nearest {
        /// Value of output pixels whose position is outside the array, in the output type.
        outside: f64,
    },
    /// The mean of the four pixels around the position, weighted by their distance along both axes, in float32. The
    /// pixels are normalised first. They are multiplied by their weights and added in reading order, and the sum is
    /// rounded to the output type. A pixel with weight 0 is ignored. A position within 2⁻²⁰ pixels of a pixel's centre
    /// counts as the centre. A mean that includes no-data is no-data. A NaN becomes the quiet NaN without sign and
    /// payload.
    Bilinear {
        /// Value of the pixels outside the array.
        outside: f32,
    },
}

impl Resampling {
    pub(crate) const fn mixes(&self) -> bool {
        matches!(self, Self::Bilinear { .. })
    }
}

/// A pixel that contributes to the value at a sampling position. It is ignored if its weight is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tap {
    pub(crate) weight: f32,
    /// Index of the pixel in its array, or `None` outside the array.
    pub(crate) pixel: Option<usize>,
}

impl Warp {
    /// Calls `each` with the sampling position of every pixel of an output row, in pixels from the upper left corner of
    /// the array.
    pub(crate) fn places(&self, row: usize, [rows, columns]: [usize; 2], mut each: impl FnMut([f64; 2])) {
        let [a, b, c, d, e, f] = self.map;
        let [middle_y, middle_x] = [rows, columns].map(|side| side as f64 * 0.5);
        // The centre of a pixel is half a pixel from its edge.
        let y = row as f64 + 0.5 - middle_y;
        let (x_from, y_from) = (b * y + c + middle_x, e * y + f + middle_y);
        for column in 0..columns {
            let x = column as f64 + 0.5 - middle_x;
            each([a * x + x_from, d * x + y_from]);
        }
    }
}

/// Returns the index of the pixel that contains the given position, or `None` outside the array.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the sides")]
pub(crate) fn nearest([x, y]: [f64; 2], [rows, columns]: [usize; 2]) -> Option<usize> {
    // A quarter turn may map to a point exactly on an edge between pixels. There, rounding errors of the sines would
    // choose a side at random.
    let (x, y) = (x + NEAR, y + NEAR);
    let is_inside = x >= 0.0 && x < columns as f64 && y >= 0.0 && y < rows as f64;
    is_inside.then(|| y as usize * columns + x as usize)
}

/// Returns the four pixels around the given position, in reading order, with their weights.
pub(crate) fn around([x, y]: [f64; 2], [rows, columns]: [usize; 2]) -> [Tap; 4] {
    const OUTSIDE: [Tap; 4] = {
        let nothing = Tap { weight: 0.0, pixel: None };
        [Tap { weight: 1.0, pixel: None }, nothing, nothing, nothing]
    };
    let (x, y) = (x - 0.5, y - 0.5);
    // This is also false for NaN.
    let is_near = x > -1.0 && x < columns as f64 && y > -1.0 && y < rows as f64;
    if !is_near {
        return OUTSIDE;
    }
    let ([left, right], [top, bottom]) = (along(x, 0..columns as u64), along(y, 0..rows as u64));
    let tap = |(row, high): (Option<u64>, f32), (column, wide): (Option<u64>, f32)| {
        let pixel = row.zip(column).map(|(row, column)| to_usize(row) * columns + to_usize(column));
        Tap { weight: wide * high, pixel }
    };
    let taps = [tap(top, left), tap(top, right), tap(bottom, left), tap(bottom, right)];
    // Outside the array, the weights of the four pixels may not add up to 1.
    let is_inside = |tap: &Tap| tap.weight != 0.0 && tap.pixel.is_some();
    if taps.iter().any(is_inside) { taps } else { OUTSIDE }
}

/// Returns the two pixels around a position along an axis, with their weights. The position must be at most one pixel
/// before the start of `side`, and before its end.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the ends of the side")]
pub(crate) fn along(at: f64, side: Range<u64>) -> [(Option<u64>, f32); 2] {
    let first = (at + NEAR).floor();
    let beyond = at - first;
    let second_weight = if beyond < NEAR { 0.0 } else { beyond as f32 };
    let pixel = |number: f64| (number >= side.start as f64 && number < side.end as f64).then_some(number as u64);
    [(pixel(first), 1.0 - second_weight), (pixel(first + 1.0), second_weight)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_distances_to_the_pixels_on_the_other_side() {
        let taps = |place, size| around(place, size).map(|tap| (tap.weight, tap.pixel));
        assert_eq!(
            taps([1.75, 2.0], [4, 5]),
            [(0.375, Some(6)), (0.125, Some(7)), (0.375, Some(11)), (0.125, Some(12))]
        );
        // If the position is the centre of a pixel, other pixels have no weight.
        assert_eq!(taps([2.5, 0.5], [4, 5]), [(1.0, Some(2)), (0.0, Some(3)), (0.0, Some(7)), (0.0, Some(8))]);
        assert_eq!(around([2.5 - 1e-9, 0.5 + 1e-9], [4, 5]), around([2.5, 0.5], [4, 5]));
        // A position half outside the array, then positions entirely outside, and two that are not finite.
        assert_eq!(taps([0.0, 0.5], [1, 1]), [(0.5, None), (0.5, Some(0)), (0.0, None), (0.0, None)]);
        for place in [[-0.5, 0.5], [1.5, 0.5], [0.5, -0.5], [0.5, 1.5], [f64::NAN, 0.5], [0.5, f64::INFINITY]] {
            assert_eq!(taps(place, [1, 1])[0], (1.0, None), "{place:?}");
        }
        assert_eq!([[-0.1, 0.0], [0.0, 2.0], [f64::NAN, 1.0]].map(|place| nearest(place, [2, 3])), [None; 3]);
        assert_eq!(nearest([2.9, 1.0], [2, 3]), Some(5));
    }
}
