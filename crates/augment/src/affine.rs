//! Affine maps: rotation, translation, scale and shear. Each output pixel takes the nearest pixel of the picture.

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

    /// Returns the coefficients `[a, b, c, d, e, f]` for a picture of this width and height. The output pixel
    /// at (x, y), relative to the centre, comes from (a x + b y + c, d x + e y + f).
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

#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the side")]
fn place(at: f64, side: f64) -> Option<usize> {
    (at >= 0.0 && at < side).then_some(at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
