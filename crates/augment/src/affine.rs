//! Affine maps: rotation, translation, scale and shear. Each output pixel takes the value of the nearest source
//! pixel.

use super::picture::{ChangeScratch, Picture};
use shardpack_base::vectorised;

/// An affine map as defined by torchvision's `affine`. Pixels that come from outside the picture are black.
///
/// ```
/// use shardpack_augment::{Affine, Operation, Picture, ChangeScratch};
/// let mut pixels: Vec<u8> = (0..9).flat_map(|x| [x; 3]).collect();
/// let right = Operation::Affine(Affine { translate: [1.0, 0.0], ..Affine::default() });
/// right.apply(&mut Picture::new(&mut pixels, 3, 3)?, &mut ChangeScratch::default());
/// assert_eq!(pixels.chunks(3).map(|pixel| pixel[0]).collect::<Vec<_>>(), [0, 0, 1, 0, 3, 4, 0, 6, 7]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// Rotation in degrees, clockwise for the viewer.
    pub angle: f64,
    /// Shift in pixels, to the right and down.
    pub translate: [f64; 2],
    /// Scale, which must be above 0. A scale above 1 enlarges the picture.
    pub scale: f64,
    /// Shear in degrees along x and y.
    pub shear: [f64; 2],
    /// True if the upper left corner is the fixed point instead of the centre.
    pub from_corner: bool,
}

impl Default for Affine {
    fn default() -> Self {
        Self { angle: 0.0, translate: [0.0; 2], scale: 1.0, shear: [0.0; 2], from_corner: false }
    }
}

impl Affine {
    /// Returns a counterclockwise rotation about the centre, like torchvision's `rotate`.
    #[must_use]
    pub fn rotation(degrees: f64) -> Self {
        Self { angle: -degrees.rem_euclid(360.0), ..Self::default() }
    }

    /// Returns the coefficients `[a, b, c, d, e, f]` for a picture of the given width and height. The output pixel at
    /// (x, y), relative to the centre, comes from (a x + b y + c, d x + e y + f).
    #[must_use]
    pub fn inverse(&self, width: f64, height: f64) -> [f64; 6] {
        let [cx, cy] = if self.from_corner { [-0.5 * width, -0.5 * height] } else { [0.0; 2] };
        let [tx, ty] = self.translate;
        let [turn, sx, sy] = [self.angle, self.shear[0], self.shear[1]].map(f64::to_radians);
        let a = libm::cos(turn - sy) / libm::cos(sy);
        let b = -(a * libm::tan(sx) + libm::sin(turn));
        let c = libm::sin(turn - sy) / libm::cos(sy);
        let d = libm::cos(turn) - c * libm::tan(sx);
        let [xx, xy, yx, yy] = [d, -b, -c, a].map(|x| x / self.scale);
        [xx, xy, cx - xx * (cx + tx) - xy * (cy + ty), yx, yy, cy - yx * (cx + tx) - yy * (cy + ty)]
    }

    /// Returns the map that moves pixels and points in pictures of the given size.
    #[must_use]
    pub fn of_size(&self, height: u32, width: u32) -> PixelMap {
        let [high, wide] = [height, width].map(f64::from);
        PixelMap { affine: *self, size: [high, wide], inverse: self.inverse(wide, high) }
    }

    pub(crate) fn apply(&self, picture: &mut Picture<'_>, scratch: &mut ChangeScratch) {
        let (height, width, stride) = (picture.height(), picture.width(), picture.stride());
        let (wide, high) = (width as f64, height as f64);
        let [xx, xy, x0, yx, yy, y0] = self.inverse(wide, high);
        scratch.before.clear();
        scratch.before.extend_from_slice(picture.levels());
        let (before, _) = scratch.before.as_chunks::<3>();
        for (y, row) in picture.levels().chunks_exact_mut(stride).enumerate() {
            // A pixel's centre is half a pixel from its edge.
            let y = y as f64 + 0.5 - high * 0.5;
            let (x_from, y_from) = (xy * y + x0 + wide * 0.5, yy * y + y0 + high * 0.5);
            let (pixels, _) = row.as_chunks_mut::<3>();
            vectorised(
                #[inline(always)]
                || {
                    for (x, pixel) in pixels.iter_mut().enumerate() {
                        let x = x as f64 + 0.5 - wide * 0.5;
                        let at = place(xx * x + x_from, wide).zip(place(yx * x + y_from, high));
                        let from = at.and_then(|(x, y)| before.get(y * width + x));
                        *pixel = from.copied().unwrap_or_default();
                    }
                },
            );
        }
    }
}

/// An [`Affine`] for pictures of one size. It moves masks, boxes and points like the pixels of their picture.
///
/// ```
/// use shardpack_augment::Affine;
/// // A picture of two rows and four columns.
/// let right = Affine { translate: [1.0, 0.0], ..Affine::default() }.of_size(2, 4);
/// assert_eq!((right.source([1, 3]), right.source([1, 0])), (Some([1, 2]), None));
/// assert_eq!(right.moved([0.5, 2.0]), [1.5, 2.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelMap {
    affine: Affine,
    /// Height and width.
    size: [f64; 2],
    inverse: [f64; 6],
}

impl PixelMap {
    /// Returns the coefficients of [`Affine::inverse`].
    #[must_use]
    pub const fn inverse(&self) -> [f64; 6] {
        self.inverse
    }

    /// Returns the row and column of the source pixel for the given output pixel, or `None` if the source is outside
    /// the picture. [`Operation::Affine`](crate::Operation::Affine) uses the same source pixels.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below the sides, which are u32")]
    pub fn source(&self, [row, column]: [u32; 2]) -> Option<[u32; 2]> {
        let ([high, wide], [xx, xy, x0, yx, yy, y0]) = (self.size, self.inverse);
        // Use the same products and sums, in the same order, as for the pixels of the picture.
        let (y, x) = (f64::from(row) + 0.5 - high * 0.5, f64::from(column) + 0.5 - wide * 0.5);
        let (x_from, y_from) = (xy * y + x0 + wide * 0.5, yy * y + y0 + high * 0.5);
        let (x, y) = place(xx * x + x_from, wide).zip(place(yx * x + y_from, high))?;
        Some([y as u32, x as u32])
    }

    /// Returns the position to which the map moves a point. Coordinates are x and y in pixels from the upper left
    /// corner. torchvision's `affine` moves the corners of boxes and keypoints with the same matrix.
    #[must_use]
    pub fn moved(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let Affine { angle, translate: [tx, ty], scale, shear, from_corner } = self.affine;
        let [high, wide] = self.size;
        let [cx, cy] = if from_corner { [0.0; 2] } else { [0.5 * wide, 0.5 * high] };
        let [turn, sx, sy] = [angle, shear[0], shear[1]].map(f64::to_radians);
        let a = libm::cos(turn - sy) / libm::cos(sy);
        let b = -(a * libm::tan(sx) + libm::sin(turn));
        let c = libm::sin(turn - sy) / libm::cos(sy);
        let d = libm::cos(turn) - c * libm::tan(sx);
        let (x, y) = (x - cx, y - cy);
        [scale * (a * x + b * y) + cx + tx, scale * (c * x + d * y) + cy + ty]
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the side")]
fn place(at: f64, side: f64) -> Option<usize> {
    (at >= 0.0 && at < side).then_some(at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use shardpack_base::DrawKey;

    #[test]
    fn a_quarter_turn_of_a_square_takes_every_pixel_once() {
        for side in [1, 4, 7] {
            let before: Vec<u8> = (0..side * side).flat_map(|at| [at as u8; 3]).collect();
            let mut pixels = before.clone();
            let mut picture = Picture::new(&mut pixels, side, side).unwrap();
            Affine::rotation(90.0).apply(&mut picture, &mut ChangeScratch::default());
            for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
                assert_eq!(pixels[3 * (y * side + x)], before[3 * (x * side + side - 1 - y)], "{side}: {y} {x}");
            }
        }
    }

    #[test]
    fn maps_take_the_pixels_that_pictures_take_and_move_points_the_other_way() {
        let augmentation: crate::Augmentation =
            "random_affine(degrees=170,translate=0.2:0.3,scale=0.5..1.6,shear=30,shear_y=20)".parse().unwrap();
        let wide: crate::Augmentation = "trivial_augment_wide".parse().unwrap();
        let (mut inside, mut outside) = (0, 0);
        for sample in 0..60 {
            let (height, width) = (11 + sample % 7, 19 - sample % 5);
            let draws = DrawKey { seed: 3, epoch: 0, sample: u64::from(sample) }.draws();
            let of = if sample % 3 == 0 { wide } else { augmentation };
            for operation in of.resolve(&draws, 0, height as usize, width as usize) {
                let Operation::Affine(affine) = operation else { continue };
                let mut pixels: Vec<u8> = (1..=height * width).flat_map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
                let mut picture = Picture::new(&mut pixels, height as usize, width as usize).unwrap();
                operation.apply(&mut picture, &mut ChangeScratch::default());
                let map = affine.of_size(height, width);
                for (n, pixel) in (0..).zip(pixels.as_chunks::<3>().0) {
                    let at = [n / width, n % width];
                    let expected = map.source(at).map_or(0, |[row, column]| row * width + column + 1);
                    assert_eq!(u32::from(pixel[0]) | u32::from(pixel[1]) << 8, expected, "{affine:?} {at:?}");
                    inside += u32::from(expected > 0);
                    outside += u32::from(expected == 0);
                }
                // Moving a point and applying the inverse must return exactly the original point.
                let (point, [xx, xy, x0, yx, yy, y0]) = ([3.25, 8.5], map.inverse());
                let [x, y] = map.moved(point);
                let (x, y) = (x - f64::from(width) * 0.5, y - f64::from(height) * 0.5);
                let back =
                    [xx * x + xy * y + x0 + f64::from(width) * 0.5, yx * x + yy * y + y0 + f64::from(height) * 0.5];
                assert!((back[0] - point[0]).abs() < 1e-9 && (back[1] - point[1]).abs() < 1e-9, "{affine:?} {back:?}");
            }
        }
        assert!(inside > 3000 && outside > 1000, "{inside} {outside}");
    }
}
