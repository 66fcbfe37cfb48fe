//! Random augmentations. A training recipe lists them, and their parameters are drawn for each sample.

use super::affine::Affine;
use super::draw::{between, one_of};
use super::operation::Operation;
use super::space::{COUNT, Space};
use super::volume_affine::{VolumeAffine, VolumeMap};
use shardpack_base::Draws;
use shardpack_format::{Error, Result};

/// Draws are numbered in pairs. `FIRST` is the number of the first pair for augmentations. Each augmentation of a list
/// has `PAIRS` pairs of its own.
const FIRST: u32 = (1 << 31) + (1 << 16);
const PAIRS: u32 = 64;
const TRIES: u32 = 10;
/// Maximum rotation and maximum shear in degrees, in either direction. A shear by 90° would collapse the picture.
const TURNS: f64 = 360.0;
const UPRIGHT: f64 = 89.0;

/// A random change of a picture, as defined by torchvision v2. The choices and their probabilities are torchvision's,
/// but the draws depend only on the seed, the epoch and the sample.
///
/// ```
/// use shardpack_augment::Augmentation;
/// use shardpack_base::DrawKey;
/// let erasing: Augmentation = "random_erasing(p=0.25)".parse()?;
/// let erased = |epoch| {
///     let draws = DrawKey { seed: 1, epoch, sample: 9 }.draws();
///     erasing.resolve(&draws, 0, 224, 224)
/// };
/// assert_eq!(erased(3), erased(3), "a pure function");
/// assert!((0..40).any(|epoch| erased(epoch).is_empty()) && (0..40).any(|epoch| !erased(epoch).is_empty()));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Augmentation {
    /// One of 14 operations, with a magnitude drawn from `bins` values.
    TrivialAugmentWide {
        /// Number of magnitudes, 2 or more. Default 31.
        bins: u32,
    },
    /// A sequence of `operations` operations out of 14, all with the same magnitude.
    RandAugment {
        /// Length of the sequence, at most 64. Default 2.
        operations: u32,
        /// Index of the magnitude, below `bins`. Default 9.
        magnitude: u32,
        /// Number of magnitudes, 2 or more. Default 31.
        bins: u32,
    },
    /// Brightness, contrast, saturation and hue, in random order.
    ColorJitter(Jitter),
    /// Fills a rectangle with one colour, with probability `p`.
    RandomErasing {
        /// Probability. Default 0.5.
        p: f64,
        /// Range of the rectangle's area as a share of the picture. Default 0.02 to 0.33.
        scale: (f64, f64),
        /// Range of the rectangle's height divided by its width, drawn uniformly on a logarithmic scale.
        /// Default 0.3 to 3.3.
        ratio: (f64, f64),
        /// Red, green, blue. Default 0.
        value: [u8; 3],
    },
    /// Gaussian blur, with probability `p`.
    GaussianBlur {
        /// Number of rows and columns of the kernel, which must be odd.
        size: u32,
        /// Range of the standard deviation in pixels. Default 0.1 to 2.
        sigma: (f64, f64),
        /// Probability. Default 1.
        p: f64,
    },
    /// Rotation, shift, scale and shear about the centre, with probability `p`; see [`Affine`]. Applies to pictures
    /// and arrays. Pixels from outside are black in pictures, and have the value `outside` in arrays.
    RandomAffine {
        /// Range of the rotation in degrees, clockwise.
        degrees: (f64, f64),
        /// Largest shift in either direction, as a share of the width and the height, 0 to 1. Shifts are
        /// whole pixels. Default 0.
        translate: [f64; 2],
        /// Range of the scale. Default 1.
        scale: (f64, f64),
        /// Ranges of the shear in degrees along x and y, each −89 to 89. Default 0.
        shear: [(f64, f64); 2],
        /// Probability. Default 1.
        p: f64,
        /// Values of pixels whose source is outside the array.
        outside: Outside,
    },
    /// Rotation about the centre, with probability `p`. Applies to pictures and arrays, like `RandomAffine`.
    RandomRotation {
        /// Range of the rotation in degrees, counterclockwise.
        degrees: (f64, f64),
        /// Probability. Default 1.
        p: f64,
        /// Values of pixels whose source is outside the array.
        outside: Outside,
    },
    /// Rotation, scale and shift of a volume's box about its centre, for volumes only.
    RandomAffine3d {
        /// Ranges and probabilities.
        ranges: VolumeAffine,
        /// Values of voxels whose source is outside the volume.
        outside: Outside,
    },
    /// One operation, with probability `p`.
    Random {
        /// Operation to apply.
        operation: Operation,
        /// Probability. Default 0.5.
        p: f64,
    },
}

/// Values of the pixels that come from outside a moved array, or outside the moved mask of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outside {
    /// Value in cubes, in the unit of the output. With a mean and a standard deviation, that is a normalised value.
    /// Default 0.
    pub fill: f32,
    /// Value in masks, including masks of pictures, and in other arrays whose pixels are not interpolated. Default
    /// 255, which segmentation losses usually ignore.
    pub mask_fill: f64,
}

impl Default for Outside {
    fn default() -> Self {
        Self { fill: 0.0, mask_fill: 255.0 }
    }
}

/// Ranges of [`Augmentation::ColorJitter`]. An operation whose range is `None` is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Jitter {
    /// Range of [`Operation::Brightness`].
    pub brightness: Option<(f64, f64)>,
    /// Range of [`Operation::Contrast`].
    pub contrast: Option<(f64, f64)>,
    /// Range of [`Operation::Saturation`].
    pub saturation: Option<(f64, f64)>,
    /// Range of [`Operation::Hue`].
    pub hue: Option<(f64, f64)>,
}

struct Own<'a> {
    draws: &'a Draws,
    first: u32,
}

impl Own<'_> {
    fn pair(&self, n: u32) -> [f64; 2] {
        self.draws.pair(self.first + n)
    }
}

impl Augmentation {
    /// Maximum number of augmentations in a list. Each of them has its own draws.
    pub const MOST: u32 = (1 << 16) / PAIRS;

    /// Returns the operations for a sample's picture of the given height and width. `place` is the index of the
    /// augmentation in its list, below [`Augmentation::MOST`]. Augmentations with different indices have different
    /// draws.
    #[must_use]
    pub fn resolve(&self, draws: &Draws, place: u32, height: usize, width: usize) -> Vec<Operation> {
        let own = Own { draws, first: FIRST + place % Self::MOST * PAIRS };
        let [chance, other] = own.pair(0);
        match *self {
            Self::TrivialAugmentWide { bins } => {
                let bin = one_of(bins, own.pair(1)[0]);
                let which = one_of(COUNT, chance);
                Space::Wide.operation(which, bin, bins, other < 0.5, [height, width]).into_iter().collect()
            }
            Self::RandAugment { operations, magnitude, bins } => (0..operations)
                .filter_map(|at| {
                    let [which, sign] = own.pair(at);
                    let which = one_of(COUNT, which);
                    Space::Rand.operation(which, magnitude, bins, sign < 0.5, [height, width])
                })
                .collect(),
            Self::ColorJitter(jitter) => jitter.resolve(&own),
            Self::RandomErasing { p, .. }
            | Self::GaussianBlur { p, .. }
            | Self::RandomAffine { p, .. }
            | Self::RandomRotation { p, .. }
            | Self::Random { p, .. }
                if chance >= p =>
            {
                Vec::new()
            }
            Self::RandomErasing { scale, ratio, value, .. } => {
                let rectangle = rectangle(&own, scale, ratio, [height, width]);
                rectangle.map(|(origin, size)| Operation::Erase { origin, size, value }).into_iter().collect()
            }
            Self::GaussianBlur { size, sigma, .. } => vec![Operation::Blur { size, sigma: between(sigma, other) }],
            Self::RandomAffine { degrees, translate, scale, shear, .. } => {
                let [[right, down], [larger, along_x], [along_y, _]] = [1, 2, 3].map(|n| own.pair(n));
                // torchvision shifts by whole pixels.
                let moved = |share: f64, side: usize, draw: f64| {
                    let most = share * side as f64;
                    between((-most, most), draw).round_ties_even()
                };
                vec![Operation::Affine(Affine {
                    angle: between(degrees, other),
                    translate: [moved(translate[0], width, right), moved(translate[1], height, down)],
                    scale: between(scale, larger),
                    shear: [between(shear[0], along_x), between(shear[1], along_y)],
                    from_corner: false,
                })]
            }
            Self::RandomRotation { degrees, .. } => {
                vec![Operation::Affine(Affine::rotation(between(degrees, other)))]
            }
            Self::RandomAffine3d { .. } => Vec::new(),
            Self::Random { operation, .. } => vec![operation],
        }
    }

    /// Returns the values of pixels whose source is outside an array, or `None` if this augmentation does not move
    /// arrays.
    #[must_use]
    pub const fn outside(&self) -> Option<Outside> {
        match *self {
            Self::RandomAffine { outside, .. }
            | Self::RandomRotation { outside, .. }
            | Self::RandomAffine3d { outside, .. } => Some(outside),
            _ => None,
        }
    }

    /// Returns the map for a sample's arrays of the given height and width, from the same draws as
    /// [`resolve`](Self::resolve). See [`Affine::inverse`] for the coefficients. Returns `None` if the arrays do not
    /// move.
    ///
    /// ```
    /// use shardpack_augment::Augmentation;
    /// use shardpack_base::DrawKey;
    /// let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
    /// let shift: Augmentation = "random_affine(degrees=0,translate=1:0)".parse()?;
    /// let [a, b, right, c, d, down] = shift.map(&draws, 0, 32, 32).unwrap();
    /// assert_eq!(([a, b, c, d], down), ([1.0, 0.0, 0.0, 1.0], 0.0));
    /// assert_eq!(right, right.round());
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    #[must_use]
    pub fn map(&self, draws: &Draws, place: u32, height: usize, width: usize) -> Option<[f64; 6]> {
        self.outside()?;
        match self.resolve(draws, place, height, width).first()? {
            Operation::Affine(affine) => Some(affine.inverse(width as f64, height as f64)),
            _ => None,
        }
    }

    /// Draws the map of a volume's box with the given depth, height and width. Returns `None` if the box is not moved
    /// across planes.
    #[must_use]
    pub fn volume_map(&self, draws: &Draws, place: u32, sides: [u64; 3]) -> Option<VolumeMap> {
        let Self::RandomAffine3d { ranges, .. } = self else { return None };
        let own = Own { draws, first: FIRST + place % Self::MOST * PAIRS };
        ranges.drawn(sides, [0, 1, 2, 3, 4, 5].map(|n| own.pair(n)))
    }

    /// Returns the ranges of the map if this augmentation moves volumes across planes, and `None` otherwise.
    #[must_use]
    pub const fn of_volumes(&self) -> Option<&VolumeAffine> {
        match self {
            Self::RandomAffine3d { ranges, .. } => Some(ranges),
            _ => None,
        }
    }

    /// Checks that the parameters are valid for any picture.
    ///
    /// # Errors
    /// `Usage` if a probability, range or number violates its description.
    pub fn check(&self) -> Result<()> {
        let probability = |p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(Error::usage(format!("the probability of an augmentation must be from 0 to 1, but is {p}"))),
        };
        let range = |what: &str, range: (f64, f64), most: f64| match range {
            (low, high) if low > 0.0 && low <= high && high <= most => Ok(()),
            (low, high) => Err(Error::usage(format!(
                "{what} must be a range LOW..HIGH with 0 < LOW ≤ HIGH ≤ {most}, but is {low}..{high}"
            ))),
        };
        let angles = |what: &str, range: (f64, f64), most: f64| match range {
            (low, high) if -most <= low && low <= high && high <= most => Ok(()),
            (low, high) => Err(Error::usage(format!(
                "{what} must be a range LOW..HIGH with −{most} ≤ LOW ≤ HIGH ≤ {most}, but is {low}..{high}"
            ))),
        };
        let at_least = |what: &str, least: u32, most: u32, found: u32| match (least..=most).contains(&found) {
            true => Ok(()),
            false => Err(Error::usage(format!("{what} must be from {least} to {most}, but is {found}"))),
        };
        const BINS: &str = "the number of augmentation magnitudes (`num_magnitude_bins`)";
        match *self {
            Self::TrivialAugmentWide { bins } => at_least(BINS, 2, 1 << 16, bins),
            Self::RandAugment { operations, magnitude, bins } => {
                at_least(BINS, 2, 1 << 16, bins)?;
                at_least("the number of RandAugment operations (`num_ops`)", 0, PAIRS, operations)?;
                at_least("the RandAugment magnitude", 0, bins - 1, magnitude)
            }
            Self::ColorJitter(jitter) => jitter.check(),
            Self::RandomErasing { p, scale, ratio, .. } => {
                probability(p)?;
                range("`scale` in random_erasing", scale, 1.0)?;
                range("`ratio` in random_erasing", ratio, 1e3)
            }
            Self::GaussianBlur { size, sigma, p } => {
                probability(p)?;
                Operation::Blur { size, sigma: sigma.0 }.check()?;
                range("`sigma` in gaussian_blur", sigma, 1e3)
            }
            Self::RandomAffine { degrees, translate, scale, shear, p, .. } => {
                probability(p)?;
                angles("`degrees` in random_affine", degrees, TURNS)?;
                if let Some(share) = translate.iter().find(|share| !(0.0..=1.0).contains(*share)) {
                    return Err(Error::usage(format!(
                        "`translate` in random_affine must be from 0 to 1, but is {share}"
                    )));
                }
                range("`scale` in random_affine", scale, 1e3)?;
                shear.into_iter().try_for_each(|shear| angles("`shear` in random_affine", shear, UPRIGHT))
            }
            Self::RandomRotation { degrees, p, .. } => {
                probability(p)?;
                angles("`degrees` in random_rotation", degrees, TURNS)
            }
            Self::RandomAffine3d { ranges, .. } => ranges.check(),
            Self::Random { operation, p } => probability(p).and_then(|()| operation.check()),
        }
    }

    /// Returns true if pixels may move, so that masks, boxes and points must move with the picture.
    #[must_use]
    pub const fn moves(&self) -> bool {
        match self {
            Self::TrivialAugmentWide { .. }
            | Self::RandAugment { .. }
            | Self::RandomAffine { .. }
            | Self::RandomRotation { .. } => true,
            Self::ColorJitter(_)
            | Self::RandomErasing { .. }
            | Self::GaussianBlur { .. }
            | Self::RandomAffine3d { .. } => false,
            Self::Random { operation, .. } => operation.moves(),
        }
    }
}

impl Jitter {
    fn resolve(&self, own: &Own<'_>) -> Vec<Operation> {
        let ([order, brightness], [contrast, saturation], [hue, _]) = (own.pair(0), own.pair(1), own.pair(2));
        let mut left = vec![
            self.brightness.map(|range| Operation::Brightness(between(range, brightness))),
            self.contrast.map(|range| Operation::Contrast(between(range, contrast))),
            self.saturation.map(|range| Operation::Saturation(between(range, saturation))),
            self.hue.map(|range| Operation::Hue(between(range, hue))),
        ];
        // Draws one of 24 orders: picks the first operation, and then each following operation from the rest.
        let mut order = one_of(24, order) as usize;
        let mut operations = Vec::with_capacity(left.len());
        while !left.is_empty() {
            operations.extend(left.remove(order % left.len()));
            order /= left.len() + 1;
        }
        operations
    }

    fn check(&self) -> Result<()> {
        let ends = |range: Option<(f64, f64)>, what: &str, operation: fn(f64) -> Operation| {
            let Some((low, high)) = range else { return Ok(()) };
            operation(low).check()?;
            operation(high).check()?;
            match low <= high {
                true => Ok(()),
                false => Err(Error::usage(format!(
                    "`{what}` in color_jitter must be a range LOW..HIGH with LOW ≤ HIGH, but is {low}..{high}"
                ))),
            }
        };
        ends(self.brightness, "brightness", Operation::Brightness)?;
        ends(self.contrast, "contrast", Operation::Contrast)?;
        ends(self.saturation, "saturation", Operation::Saturation)?;
        ends(self.hue, "hue", Operation::Hue)
    }
}

/// Returns the first row and column of a rectangle to erase, followed by its number of rows and columns, as in
/// torchvision's `RandomErasing`. Returns `None` if no attempt yields a rectangle smaller than the picture.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the sides")]
fn rectangle(
    own: &Own<'_>,
    scale: (f64, f64),
    ratio: (f64, f64),
    [height, width]: [usize; 2],
) -> Option<([usize; 2], [usize; 2])> {
    let (high, wide) = (height as f64, width as f64);
    // Use libm, so that the same numbers are drawn on every platform.
    let logarithms = (libm::log(ratio.0), libm::log(ratio.1));
    (0..TRIES).find_map(|attempt| {
        let [area, shape] = own.pair(2 * attempt + 1);
        let area = high * wide * between(scale, area);
        let shape = libm::exp(between(logarithms, shape));
        let (h, w) = ((area * shape).sqrt().round_ties_even(), (area / shape).sqrt().round_ties_even());
        (h < high && w < wide).then(|| {
            let [top, left] = own.pair(2 * attempt + 2);
            let at = |draw: f64, room: f64| (draw * (room + 1.0)) as usize;
            ([at(top, high - h), at(left, wide - w)], [h as usize, w as usize])
        })
    })
}

#[cfg(test)]
#[path = "augmentation_tests.rs"]
mod tests;
