//! Mosaics of four pictures, as used to train YOLO. Determines where the pictures meet, and which parts of them are
//! visible.

use super::affine::{Affine, PixelMap};
use super::draw::between;
use super::parse::OptionList;
use shardpack_base::Draws;
use shardpack_format::{Error, Result};

/// Number of the first pair of draws for a row's mosaic. The pairs for Mixup and CutMix come before it.
const FIRST: u32 = (1 << 31) + (1 << 17) + 2;
/// Default colour of the background: the grey with which detectors are usually trained.
const GREY: [u8; 3] = [114; 3];

/// Combines each row of a batch with the three rows before it. The four pictures meet at a random point of a canvas
/// with twice the height and width. A random affine map selects the part of the canvas that is shown.
///
/// ```
/// use shardpack_augment::Mix;
/// use shardpack_base::DrawKey;
/// let mix: Mix = "mosaic(scale=1..1,translate=0)".parse()?;
/// let Mix::Mosaic(mosaic) = mix else { unreachable!() };
/// let drawn = mosaic.resolve(&DrawKey { seed: 1, epoch: 0, sample: 7 }.draws(), 64, 64).unwrap();
/// // Each picture keeps its size and touches the centre with a corner.
/// let [x, y] = drawn.centre().map(i64::from);
/// assert_eq!(drawn.offset(0, [0, 0, 64, 64]), [x - 64, y - 64]);
/// assert_eq!(drawn.offset(3, [0, 0, 64, 64]), [x, y]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mosaic {
    /// Range of the rotation in degrees, clockwise. Default 0.
    pub degrees: (f64, f64),
    /// Largest shift in either direction, as a share of the width and the height, 0 to 1. Default 0.1.
    pub translate: [f64; 2],
    /// Range of the scale. Default 0.5 to 1.5.
    pub scale: (f64, f64),
    /// Ranges of the shear in degrees along x and y, each −89 to 89. Default 0.
    pub shear: [(f64, f64); 2],
    /// Probability that a row becomes a mosaic. Default 1.
    pub p: f64,
    /// Red, green and blue of pixels that no picture covers. Default 114.
    pub fill: [u8; 3],
}

impl Default for Mosaic {
    fn default() -> Self {
        let shear = [(0.0, 0.0); 2];
        Self { degrees: (0.0, 0.0), translate: [0.1; 2], scale: (0.5, 1.5), shear, p: 1.0, fill: GREY }
    }
}

/// The choices made for the mosaic of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MosaicPlan {
    /// Column and row of the canvas where the pictures meet.
    centre: [u32; 2],
    affine: Affine,
    /// Height and width of a row.
    size: [u32; 2],
}

impl Mosaic {
    /// Draws the mosaic of a row of the given size. Returns `None` if the row stays unchanged.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and twice the side")]
    pub fn resolve(&self, draws: &Draws, height: u32, width: u32) -> Option<MosaicPlan> {
        let [chance, turn] = draws.pair(FIRST);
        let [x, y] = draws.pair(FIRST + 1);
        let [scale, shear_x] = draws.pair(FIRST + 2);
        let [shift_x, shift_y] = draws.pair(FIRST + 3);
        let [shear_y, _] = draws.pair(FIRST + 4);
        let middle = |draw: f64, side: u32| between((0.5, 1.5), draw) * f64::from(side);
        let shift = |draw: f64, share: f64, side: u32| between((-share, share), draw) * f64::from(side);
        let affine = Affine {
            angle: between(self.degrees, turn),
            translate: [shift(shift_x, self.translate[0], width), shift(shift_y, self.translate[1], height)],
            scale: between(self.scale, scale),
            shear: [between(self.shear[0], shear_x), between(self.shear[1], shear_y)],
            from_corner: false,
        };
        let centre = [middle(x, width) as u32, middle(y, height) as u32];
        (chance < self.p).then_some(MosaicPlan { centre, affine, size: [height, width] })
    }

    pub(super) fn parse(given: &mut OptionList<'_>) -> Result<Self> {
        let Self { degrees, translate, scale, shear, p, fill } = Self::default();
        Ok(Self {
            degrees: given.angles("degrees")?.unwrap_or(degrees),
            translate: given.pair("translate", translate)?,
            scale: given.range("scale", scale)?,
            shear: [given.angles("shear")?.unwrap_or(shear[0]), given.angles("shear_y")?.unwrap_or(shear[1])],
            p: given.or("p", p)?,
            fill: given.colour("fill", fill)?,
        })
    }

    /// Checks that all ranges are valid.
    ///
    /// # Errors
    /// `Usage` if a range is invalid.
    pub(super) fn check(&self) -> Result<()> {
        let within = |(low, high): (f64, f64), most: f64| -most <= low && low <= high && high <= most;
        let refuse = |option: &str, expected: &str, found: String| {
            Err(Error::usage(format!("`{option}` in mosaic must be {expected}, but is {found}")))
        };
        let range = |(low, high): (f64, f64)| format!("{low}..{high}");
        if !within(self.degrees, 360.0) {
            return refuse("degrees", "a range LOW..HIGH with −360 ≤ LOW ≤ HIGH ≤ 360", range(self.degrees));
        }
        if let Some(share) = self.translate.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return refuse("translate", "from 0 to 1", share.to_string());
        }
        if !(self.scale.0 >= 0.01 && self.scale.0 <= self.scale.1 && self.scale.1 <= 100.0) {
            return refuse("scale", "a range LOW..HIGH with 0.01 ≤ LOW ≤ HIGH ≤ 100", range(self.scale));
        }
        if let Some(shear) = self.shear.iter().find(|shear| !within(**shear, 89.0)) {
            return refuse("shear", "a range LOW..HIGH with −89 ≤ LOW ≤ HIGH ≤ 89", range(*shear));
        }
        if !(0.0..=1.0).contains(&self.p) {
            return refuse("p", "from 0 to 1", self.p.to_string());
        }
        Ok(())
    }
}

impl MosaicPlan {
    /// Returns the column and row of the canvas where the four pictures meet.
    #[must_use]
    pub const fn centre(&self) -> [u32; 2] {
        self.centre
    }

    /// Returns the column and row of the canvas at which the row of picture `number` begins. `content` (left, top,
    /// right, bottom) is the rectangle of that row that is shown. Pictures are numbered in reading order, from 0
    /// (upper left) to 3 (lower right).
    #[must_use]
    pub fn offset(&self, number: usize, content: [u32; 4]) -> [i64; 2] {
        let [left, top, right, bottom] = content.map(i64::from);
        let [x, y] = self.centre.map(i64::from);
        [x - if number.is_multiple_of(2) { right } else { left }, y - if number < 2 { bottom } else { top }]
    }

    /// Returns the coefficients `[a, b, c, d, e, f]` of the map back to the canvas. The pixel at (x, y) of the row,
    /// relative to its centre, shows the point (a x + b y + c, d x + e y + f) of the canvas, relative to the centre of
    /// the canvas.
    #[must_use]
    pub fn inverse(&self) -> [f64; 6] {
        let [height, width] = self.size.map(f64::from);
        self.affine.inverse(width, height)
    }

    /// Returns the map from a row, which begins at `offset` in the canvas, to its position in the mosaic.
    #[must_use]
    pub fn map(&self, offset: [i64; 2]) -> PixelMap {
        let [height, width] = self.size;
        let [tx, ty] = self.affine.translate;
        let turn = Affine { translate: [0.0; 2], from_corner: true, ..self.affine };
        let [x, y] = [offset[0] as f64 - f64::from(width), offset[1] as f64 - f64::from(height)];
        let [x, y] = turn.of_size(height, width).moved([x, y]);
        let translate = [x + 0.5 * f64::from(width) + tx, y + 0.5 * f64::from(height) + ty];
        Affine { translate, ..turn }.of_size(height, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_base::DrawKey;

    fn plan(sample: u64, mosaic: &Mosaic) -> Option<MosaicPlan> {
        mosaic.resolve(&DrawKey { seed: 3, epoch: 1, sample }.draws(), 30, 50)
    }

    #[test]
    fn pictures_meet_at_the_centre_and_maps_are_inverse() {
        let mosaic = Mosaic { degrees: (-40.0, 40.0), shear: [(-9.0, 9.0), (0.0, 5.0)], ..Mosaic::default() };
        for sample in 0..200 {
            let plan = plan(sample, &mosaic).unwrap();
            let [x, y] = plan.centre();
            assert!((25..75).contains(&x) && (15..45).contains(&y), "{x} {y}");
            let content = [0, 4, 50, 27];
            let corners = [[50.0, 27.0], [0.0, 27.0], [50.0, 4.0], [0.0, 4.0]];
            let places: Vec<_> = (0..4).map(|n| plan.map(plan.offset(n, content)).moved(corners[n])).collect();
            for place in &places {
                assert!((0..2).all(|axis| (place[axis] - places[0][axis]).abs() < 1e-9), "{places:?}");
            }
            // The inverse map must lead from this position to the point where the pictures meet.
            let [a, b, c, d, e, f] = plan.inverse();
            let [u, v] = [places[0][0] - 25.0, places[0][1] - 15.0];
            let back = [a * u + b * v + c + 50.0, d * u + e * v + f + 30.0];
            assert!((back[0] - f64::from(x)).abs() < 1e-9 && (back[1] - f64::from(y)).abs() < 1e-9, "{back:?}");
        }
    }

    #[test]
    fn rows_are_drawn_with_their_probability() {
        let mosaic = Mosaic { p: 0.25, ..Mosaic::default() };
        let drawn = (0..4000).filter(|&sample| plan(sample, &mosaic).is_some()).count();
        assert!((860..1140).contains(&drawn), "{drawn}");
        let still = Mosaic { scale: (1.0, 1.0), translate: [0.0; 2], ..Mosaic::default() };
        assert_eq!(plan(5, &still).unwrap().inverse(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
