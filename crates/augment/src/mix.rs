//! Draws the random choices of Mixup and CutMix, once per batch, and of mosaics, once per row.

use super::mosaic::Mosaic;
use super::parse::call;
use shardpack_base::Draws;
use shardpack_format::{Error, Result};
use std::str::FromStr;

/// Number of the first pair of draws for mixing.
const FIRST: u32 = (1 << 31) + (1 << 17);
/// Number of bisection steps, enough to find a share to its last significant bit.
const HALVINGS: u32 = 60;

/// A way to mix the pictures and labels of a batch. Mixup and CutMix are defined as in torchvision v2: each row is
/// mixed with the row before it, and the first row with the last. All rows have the same share.
///
/// ```
/// use shardpack_augment::{Mix, Mixed};
/// use shardpack_base::DrawKey;
/// let choices = ["mixup(alpha=0.2)".parse()?, "cutmix".parse::<Mix>()?];
/// let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
/// let mixed = Mix::resolve(&choices, &draws, 224, 224).unwrap();
/// assert!((0.0..=1.0).contains(&mixed.share()));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Mix {
    /// Replaces each pixel by a weighted sum of the two pictures' pixels.
    Mixup {
        /// Parameter of the share's Beta distribution. Default 1.
        alpha: f64,
    },
    /// Copies a rectangle from the other picture.
    CutMix {
        /// Parameter of the share's Beta distribution. Default 1.
        alpha: f64,
    },
    /// Combines four pictures that meet at a random point.
    Mosaic(Mosaic),
}

/// A way to mix one batch, with all random choices made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mixed {
    /// Each pixel is a weighted sum of the same pixel in both rows. The row's own pixel has the weight `share`, and
    /// the other row's pixel has the weight `1 − share`.
    Sum {
        /// Weight of the row's own pixels, 0 to 1.
        share: f64,
    },
    /// A rectangle is copied from the other row.
    Rectangle {
        /// First row and column.
        origin: [usize; 2],
        /// Number of rows and columns.
        size: [usize; 2],
        /// Share of the picture's area outside the rectangle, which keeps the row's own pixels.
        share: f64,
    },
    /// Combines four rows. The choices for each row are drawn by [`Mosaic::resolve`].
    Mosaic(Mosaic),
}

impl Mixed {
    /// Returns the weight of a row's own label.
    #[must_use]
    pub const fn share(&self) -> f64 {
        match *self {
            Self::Sum { share } | Self::Rectangle { share, .. } => share,
            Self::Mosaic(_) => 1.0,
        }
    }
}

impl Mix {
    /// Chooses how to mix a batch of pictures of the given size: picks one of `choices`, all equally likely, and draws
    /// its parameters. Returns `None` if there are no choices.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the sides")]
    pub fn resolve(choices: &[Self], draws: &Draws, height: usize, width: usize) -> Option<Mixed> {
        let ([which, share], [x, y]) = (draws.pair(FIRST), draws.pair(FIRST + 1));
        match *choices.get((which * choices.len() as f64) as usize)? {
            Self::Mixup { alpha } => Some(Mixed::Sum { share: quantile(alpha, share) }),
            Self::CutMix { alpha } => {
                let half = 0.5 * (1.0 - quantile(alpha, share)).sqrt();
                let along = |draw: f64, side: usize| {
                    let (middle, reach) = ((draw * side as f64) as usize, (half * side as f64) as usize);
                    let first = middle.saturating_sub(reach);
                    (first, (middle + reach).min(side) - first)
                };
                let ((left, columns), (top, rows)) = (along(x, width), along(y, height));
                let share = 1.0 - (rows * columns) as f64 / (height * width).max(1) as f64;
                Some(Mixed::Rectangle { origin: [top, left], size: [rows, columns], share })
            }
            Self::Mosaic(mosaic) => Some(Mixed::Mosaic(mosaic)),
        }
    }

    /// Checks that `alpha` is valid for a Beta distribution, and that the ranges of a mosaic are valid.
    ///
    /// # Errors
    /// `Usage` if `alpha` or a range is invalid.
    pub fn check(&self) -> Result<()> {
        let alpha = match *self {
            Self::Mixup { alpha } | Self::CutMix { alpha } => alpha,
            Self::Mosaic(mosaic) => return mosaic.check(),
        };
        match (0.01..=100.0).contains(&alpha) {
            true => Ok(()),
            false => Err(Error::usage(format!("`alpha` in mixup or cutmix must be from 0.01 to 100, but is {alpha}"))),
        }
    }
}

/// Parses `mixup` or `cutmix`, optionally followed by `alpha` in brackets (default 1), or `mosaic`, optionally followed
/// by `degrees`, `translate`, `scale`, `shear`, `shear_y`, `p` and `fill`.
impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const NAMES: &str = "mixup, cutmix or mosaic, with options in brackets, such as mixup(alpha=0.2)";
        let (name, mut given) = call(text, "batch augmentation")?;
        let mix = match name {
            "mixup" => Self::Mixup { alpha: given.or("alpha", 1.0)? },
            "cutmix" => Self::CutMix { alpha: given.or("alpha", 1.0)? },
            "mosaic" => Self::Mosaic(Mosaic::parse(&mut given)?),
            _ => return Err(Error::usage(format!("unknown batch augmentation `{name}`: expected {NAMES}"))),
        };
        given.end()?;
        mix.check()?;
        Ok(mix)
    }
}

/// Returns the quantile at `probability` of the Beta distribution whose parameters are both `alpha`.
fn quantile(alpha: f64, probability: f64) -> f64 {
    if alpha == 1.0 {
        return probability;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        *(if below(alpha, middle) < probability { &mut low } else { &mut high }) = middle;
    }
    f64::midpoint(low, high)
}

/// Returns the Beta distribution's probability of a value below `x`. Up to one half, the continued fraction converges
/// fast. Above one half, uses symmetry.
fn below(alpha: f64, x: f64) -> f64 {
    if x > 0.5 {
        return 1.0 - below(alpha, 1.0 - x);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let logarithm = libm::lgamma(2.0 * alpha) - 2.0 * libm::lgamma(alpha) + alpha * (libm::log(x) + libm::log1p(-x));
    libm::exp(logarithm) * fraction(alpha, x) / alpha
}

/// Evaluates the continued fraction by Lentz's method (DLMF 8.17.22).
fn fraction(alpha: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut numerator, mut denominator) = (1.0, 1.0 / away(1.0 - 2.0 * alpha * x / (alpha + 1.0)));
    let mut value = denominator;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (alpha - m) * x / ((alpha + 2.0 * m - 1.0) * (alpha + 2.0 * m));
        let odd = -(alpha + m) * (2.0 * alpha + m) * x / ((alpha + 2.0 * m) * (alpha + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            denominator = 1.0 / away(1.0 + term * denominator);
            numerator = away(1.0 + term / numerator);
            change = numerator * denominator;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_base::DrawKey;

    #[test]
    fn shares_are_of_the_beta_distribution() {
        // For alpha = 0.5, this is the arcsine distribution, with the quantile sin²(π p / 2). By symmetry, the median
        // is one half for any alpha.
        for p in [0.001, 0.1, 0.3, 0.5, 0.77, 0.999] {
            let expected = libm::pow(libm::sin(std::f64::consts::FRAC_PI_2 * p), 2.0);
            assert!((quantile(0.5, p) - expected).abs() < 1e-9, "{p}");
            // For alpha = 2, the quantile x satisfies 3x² − 2x³ = p.
            let x = quantile(2.0, p);
            assert!((3.0 * x * x - 2.0 * x * x * x - p).abs() < 1e-9, "{p}");
            assert!((quantile(0.2, p) + quantile(0.2, 1.0 - p) - 1.0).abs() < 1e-9, "{p}");
        }
        for alpha in [0.01, 0.2, 0.8, 7.0, 100.0] {
            // The variance of the distribution is 1 / (4 (2 alpha + 1)).
            let shares = (0..20_000).map(|i| quantile(alpha, (f64::from(i) + 0.5) / 20_000.0) - 0.5);
            let variance = shares.map(|x| x * x).sum::<f64>() / 20_000.0;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((variance / expected - 1.0).abs() < 0.01, "{alpha}: {variance} {expected}");
        }
    }

    #[test]
    fn choices_are_drawn_equally_often_and_rectangles_lie_within() {
        let choices = [Mix::Mixup { alpha: 0.2 }, Mix::CutMix { alpha: 1.0 }];
        let mut sums = 0;
        for sample in 0..4000 {
            let draws = DrawKey { seed: 2, epoch: 1, sample }.draws();
            match Mix::resolve(&choices, &draws, 30, 50).unwrap() {
                Mixed::Sum { .. } => sums += 1,
                Mixed::Rectangle { origin: [top, left], size: [rows, columns], share } => {
                    assert!(top + rows <= 30 && left + columns <= 50);
                    assert!((share - (1.0 - (rows * columns) as f64 / 1500.0)).abs() < 1e-12);
                }
                Mixed::Mosaic(_) => panic!("it is not among the choices"),
            }
        }
        // Allow five standard deviations of the number of sums.
        assert!((2000_i32 - sums).abs() < 160, "{sums}");
        assert_eq!(Mix::resolve(&[], &DrawKey::default().draws(), 8, 8), None);
    }

    #[test]
    fn invalid_texts_are_refused() {
        assert_eq!("cutmix(alpha=0.5)".parse::<Mix>().unwrap(), Mix::CutMix { alpha: 0.5 });
        assert_eq!("mosaic".parse::<Mix>().unwrap(), Mix::Mosaic(Mosaic::default()));
        let mosaic = Mosaic { degrees: (-5.0, 5.0), translate: [0.2; 2], p: 0.5, fill: [1, 2, 3], ..Mosaic::default() };
        assert_eq!("mosaic(degrees=5,translate=0.2,p=0.5,fill=1:2:3)".parse::<Mix>().unwrap(), Mix::Mosaic(mosaic));
        for (bad, said) in [
            ("mix", "mixup, cutmix or mosaic"),
            ("mixup(beta=1)", "the option `beta` is unknown or repeated"),
            ("mixup(alpha=0)", "`alpha` in mixup or cutmix must be from 0.01 to 100"),
            ("cutmix(alpha=NaN)", "`alpha` in mixup"),
            ("mosaic(alpha=1)", "the option `alpha` is unknown or repeated"),
            ("mosaic(degrees=400)", "`degrees` in mosaic must be a range LOW..HIGH with −360"),
            ("mosaic(translate=2)", "`translate` in mosaic must be from 0 to 1, but is 2"),
            ("mosaic(scale=0..1)", "`scale` in mosaic must be a range LOW..HIGH with 0.01"),
            ("mosaic(shear=90)", "`shear` in mosaic must be a range LOW..HIGH with −89"),
            ("mosaic(p=NaN)", "`p` in mosaic must be from 0 to 1"),
            ("mosaic(fill=256)", "fill=LEVEL"),
        ] {
            let error = bad.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains(said), "{bad}: {error}");
        }
    }
}
