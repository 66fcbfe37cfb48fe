//! Parses augmentations, written like a call: `rand_augment(num_ops=2,magnitude=9)`.

use super::augmentation::{Augmentation, Jitter, Outside};
use super::operation::Operation;
use super::volume_affine::VolumeAffine;
use shardpack_format::{Error, Result};
use std::str::FromStr;

impl Augmentation {
    /// Names that the parser accepts.
    pub const NAMES: [&str; 15] = [
        "trivial_augment_wide",
        "rand_augment",
        "color_jitter",
        "random_erasing",
        "gaussian_blur",
        "random_affine",
        "random_rotation",
        "random_affine_3d",
        "random_posterize",
        "random_solarize",
        "random_adjust_sharpness",
        "random_autocontrast",
        "random_equalize",
        "random_invert",
        "random_grayscale",
    ];
}

fn names() -> String {
    let example = "with options in brackets, such as random_erasing(p=0.25)";
    format!("one of {}, {example}", Augmentation::NAMES.join(", "))
}

const ANGLES: &str = "NUMBER (0 or more), or LOW..HIGH";

/// Parses a name, followed in brackets by the options that differ from the defaults, separated by commas. A
/// range is written as `LOW..HIGH`.
///
/// - `trivial_augment_wide`: `num_magnitude_bins=31`
/// - `rand_augment`: `num_ops=2`, `magnitude=9`, `num_magnitude_bins=31`
/// - `color_jitter`: `brightness`, `contrast`, `saturation` and `hue`; each is a range, or a distance on
///   either side of a centre (0 for `hue`, 1 for the others, which do not fall below 0)
/// - `random_erasing`: `p=0.5`, `scale=0.02..0.33`, `ratio=0.3..3.3`, `value=0` or `value=R:G:B`
/// - `gaussian_blur`: `kernel_size`, `sigma=0.1..2`, `p=1`
/// - `random_affine`: `degrees`, and `shear` and `shear_y` along x and y, each a range, or a distance on
///   either side of 0; `translate=X:Y`, or one share for both; `scale=LOW..HIGH`; `p=1`
/// - `random_rotation`: `degrees`, as above; `p=1`
/// - both, for arrays only: `fill=0`, `mask_fill=255`
/// - `random_affine_3d`: `degrees=0`, a range or a distance on either side of 0; `scale=1`, a range or a number;
///   `translate=0`; each for all axes, or `A:B:C` for depth, height and width; `isotropic=true`, `p_rotation=1`,
///   `p_scaling=1`, `p=1`, `fill=0`, `mask_fill=255`
/// - `random_posterize`: `bits`; `random_solarize`: `threshold`; `random_adjust_sharpness`: `factor`;
///   `random_autocontrast`, `random_equalize`, `random_invert`, `random_grayscale`; each also has `p`, by
///   default 0.1 for `random_grayscale` and 0.5 for the others
///
/// ```
/// use shardpack_augment::Augmentation;
/// let given: Augmentation = "rand_augment(magnitude=7)".parse()?;
/// assert_eq!(given, Augmentation::RandAugment { operations: 2, magnitude: 7, bins: 31 });
/// # Ok::<(), shardpack_format::Error>(())
/// ```
impl FromStr for Augmentation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mut given) = call(text, "augmentation")?;
        let augmentation = match name {
            "trivial_augment_wide" => Self::TrivialAugmentWide { bins: given.or("num_magnitude_bins", 31)? },
            "rand_augment" => Self::RandAugment {
                operations: given.or("num_ops", 2)?,
                magnitude: given.or("magnitude", 9)?,
                bins: given.or("num_magnitude_bins", 31)?,
            },
            "color_jitter" => Self::ColorJitter(Jitter {
                brightness: given.around("brightness", 1.0, 0.0)?,
                contrast: given.around("contrast", 1.0, 0.0)?,
                saturation: given.around("saturation", 1.0, 0.0)?,
                hue: given.around("hue", 0.0, f64::MIN)?,
            }),
            "random_erasing" => Self::RandomErasing {
                p: given.or("p", 0.5)?,
                scale: given.range("scale", (0.02, 0.33))?,
                ratio: given.range("ratio", (0.3, 3.3))?,
                value: given.colour("value", [0; 3])?,
            },
            "gaussian_blur" => Self::GaussianBlur {
                size: given.must("kernel_size")?,
                sigma: given.range("sigma", (0.1, 2.0))?,
                p: given.or("p", 1.0)?,
            },
            "random_affine" => Self::RandomAffine {
                degrees: given.angles("degrees")?.ok_or_else(|| given.bad("degrees", ANGLES))?,
                translate: given.pair("translate", [0.0; 2])?,
                scale: given.range("scale", (1.0, 1.0))?,
                shear: [given.angles("shear")?, given.angles("shear_y")?].map(|range| range.unwrap_or((0.0, 0.0))),
                p: given.or("p", 1.0)?,
                outside: given.outside()?,
            },
            "random_rotation" => Self::RandomRotation {
                degrees: given.angles("degrees")?.ok_or_else(|| given.bad("degrees", ANGLES))?,
                p: given.or("p", 1.0)?,
                outside: given.outside()?,
            },
            "random_affine_3d" => Self::RandomAffine3d {
                ranges: VolumeAffine {
                    degrees: given.ranges("degrees", (0.0, 0.0), |reach| (-reach, reach))?,
                    scale: given.ranges("scale", (1.0, 1.0), |scale| (scale, scale))?,
                    isotropic: given.flag("isotropic", true)?,
                    translate: given.three("translate")?,
                    p_rotation: given.or("p_rotation", 1.0)?,
                    p_scaling: given.or("p_scaling", 1.0)?,
                    p: given.or("p", 1.0)?,
                },
                outside: given.outside()?,
            },
            _ => {
                let (operation, p) = match name {
                    "random_posterize" => (Operation::Posterize(given.must("bits")?), 0.5),
                    "random_solarize" => (Operation::Solarize(given.must("threshold")?), 0.5),
                    "random_adjust_sharpness" => (Operation::Sharpness(given.must("factor")?), 0.5),
                    "random_autocontrast" => (Operation::AutoContrast, 0.5),
                    "random_equalize" => (Operation::Equalize, 0.5),
                    "random_invert" => (Operation::Invert, 0.5),
                    "random_grayscale" => (Operation::Grayscale, 0.1),
                    _ => return Err(Error::usage(format!("unknown augmentation `{name}`: expected {}", names()))),
                };
                Self::Random { operation, p: given.or("p", p)? }
            }
        };
        given.end()?;
        augmentation.check()?;
        Ok(augmentation)
    }
}

/// Parses a name and the options in its brackets. Errors name the kind of value (`what`).
pub(crate) fn call<'a>(text: &'a str, what: &'static str) -> Result<(&'a str, OptionList<'a>)> {
    let text = text.trim();
    let fail = |expected: &str| Error::usage(format!("{what} `{text}`: expected {expected}"));
    let (name, inner) = match text.split_once('(') {
        None => (text, ""),
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(|| fail("a closing bracket at the end"))?),
    };
    let options = options(inner).ok_or_else(|| fail("NAME=VALUE in the brackets"))?;
    Ok((name, OptionList { text, what, options }))
}

/// Splits `text` at commas that are outside brackets. For example,
/// `hflip,rand_augment(num_ops=2,magnitude=9)` has two parts.
///
/// ```
/// let parts: Vec<_> = shardpack_augment::split("hflip,rand_augment(num_ops=2,magnitude=9)").collect();
/// assert_eq!(parts, ["hflip", "rand_augment(num_ops=2,magnitude=9)"]);
/// ```
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i64;
    text.split(move |character| {
        depth += match character {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        character == ',' && depth <= 0
    })
}

fn options(inner: &str) -> Option<Vec<(&str, &str)>> {
    let parts = inner.split(',').filter(|_| !inner.trim().is_empty());
    parts.map(|part| part.split_once('=').map(|(name, value)| (name.trim(), value.trim()))).collect()
}

/// Options that no parser has taken yet.
pub(crate) struct OptionList<'a> {
    text: &'a str,
    what: &'static str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> OptionList<'a> {
    fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.options.iter().position(|(option, _)| *option == name)?;
        Some(self.options.remove(at).1)
    }

    pub(crate) fn bad(&self, name: &str, expected: &str) -> Error {
        Error::usage(format!("{} `{}`: expected {name}={expected}", self.what, self.text))
    }

    /// Fails if there is an option that no parser has taken.
    pub(crate) fn end(&self) -> Result<()> {
        match self.options.first() {
            None => Ok(()),
            Some((unknown, _)) => Err(Error::usage(format!(
                "{} `{}`: the option `{unknown}` is unknown or repeated",
                self.what, self.text
            ))),
        }
    }

    pub(crate) fn must<T: FromStr>(&mut self, name: &str) -> Result<T> {
        let value = self.take(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| self.bad(name, "NUMBER"))
    }

    pub(crate) fn or<T: FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        let Some(value) = self.take(name) else { return Ok(default) };
        value.parse().map_err(|_| self.bad(name, "NUMBER"))
    }

    fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.take(name) else { return Ok(default) };
        value.parse().map_err(|_| self.bad(name, "true or false"))
    }

    pub(crate) fn range(&mut self, name: &str, default: (f64, f64)) -> Result<(f64, f64)> {
        let Some(value) = self.take(name) else { return Ok(default) };
        range(value).ok_or_else(|| self.bad(name, "LOW..HIGH"))
    }

    /// Takes a range, or a distance on either side of `center`. A range from a distance does not extend below `least`.
    /// Returns `None` if the range changes nothing.
    pub(crate) fn around(&mut self, name: &str, center: f64, least: f64) -> Result<Option<(f64, f64)>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let reach = value.parse().ok().filter(|&reach: &f64| reach >= 0.0);
        let given = range(value).or_else(|| reach.map(|reach| ((center - reach).max(least), center + reach)));
        let given = given.ok_or_else(|| self.bad(name, "NUMBER (0 or more), or LOW..HIGH"))?;
        Ok(Some(given).filter(|&given| given != (center, center)))
    }

    pub(crate) fn angles(&mut self, name: &str) -> Result<Option<(f64, f64)>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let reach = value.parse().ok().filter(|&reach: &f64| reach >= 0.0).map(|reach| (-reach, reach));
        range(value).or(reach).map(Some).ok_or_else(|| self.bad(name, ANGLES))
    }

    /// Takes ranges for depth, height and width, written as `A:B:C`, or one for all. `of` converts a single number to
    /// a range.
    fn ranges(&mut self, name: &str, default: (f64, f64), of: impl Fn(f64) -> (f64, f64)) -> Result<[(f64, f64); 3]> {
        let Some(value) = self.take(name) else { return Ok([default; 3]) };
        let one = |text: &str| {
            let number = || text.parse().ok().filter(|&number: &f64| number >= 0.0).map(&of);
            range(text).or_else(number)
        };
        let ranges: Option<Vec<(f64, f64)>> = value.split(':').map(one).collect();
        match ranges.as_deref() {
            Some(&[all]) => Ok([all; 3]),
            Some(&[depth, height, width]) => Ok([depth, height, width]),
            _ => Err(self.bad(name, &format!("NUMBER (0 or more), or LOW..HIGH, or {name}=A:B:C"))),
        }
    }

    /// Takes numbers for depth, height and width, written as `A:B:C`, or one for all. The default is 0.
    fn three(&mut self, name: &str) -> Result<[f64; 3]> {
        let Some(value) = self.take(name) else { return Ok([0.0; 3]) };
        let numbers: Option<Vec<f64>> = value.split(':').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[all]) => Ok([all; 3]),
            Some(&[depth, height, width]) => Ok([depth, height, width]),
            _ => Err(self.bad(name, &format!("NUMBER or {name}=A:B:C"))),
        }
    }

    /// Takes two numbers written as `X:Y`, or one number for both.
    pub(crate) fn pair(&mut self, name: &str, default: [f64; 2]) -> Result<[f64; 2]> {
        let Some(value) = self.take(name) else { return Ok(default) };
        let (x, y) = value.split_once(':').unwrap_or((value, value));
        let pair = x.parse().ok().zip(y.parse().ok()).map(|(x, y)| [x, y]);
        pair.ok_or_else(|| self.bad(name, &format!("NUMBER or {name}=X:Y")))
    }

    /// Takes a range, or one number for both ends.
    pub(crate) fn number_or_range(&mut self, name: &str) -> Result<(f64, f64)> {
        let given = self
            .take(name)
            .and_then(|value| range(value).or_else(|| value.parse().ok().map(|number: f64| (number, number))));
        given.ok_or_else(|| self.bad(name, "NUMBER (0 or more), or LOW..HIGH"))
    }

    fn outside(&mut self) -> Result<Outside> {
        let Outside { fill, mask_fill } = Outside::default();
        Ok(Outside { fill: self.or("fill", fill)?, mask_fill: self.or("mask_fill", mask_fill)? })
    }

    pub(crate) fn colour(&mut self, name: &str, default: [u8; 3]) -> Result<[u8; 3]> {
        let Some(value) = self.take(name) else { return Ok(default) };
        let levels: Option<Vec<u8>> = value.split(':').map(|level| level.parse().ok()).collect();
        match levels.as_deref() {
            Some(&[level]) => Ok([level; 3]),
            Some(&[red, green, blue]) => Ok([red, green, blue]),
            _ => Err(self.bad(name, &format!("LEVEL or {name}=R:G:B, with levels from 0 to 255"))),
        }
    }
}

fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once("..")?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Augmentation {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn names_alone_have_the_defaults_of_torchvision() {
        assert_eq!(parsed("trivial_augment_wide"), Augmentation::TrivialAugmentWide { bins: 31 });
        assert_eq!(parsed("rand_augment()"), Augmentation::RandAugment { operations: 2, magnitude: 9, bins: 31 });
        let (scale, ratio) = ((0.02, 0.33), (0.3, 3.3));
        assert_eq!(parsed("random_erasing"), Augmentation::RandomErasing { p: 0.5, scale, ratio, value: [0; 3] });
        assert_eq!(parsed("random_grayscale"), Augmentation::Random { operation: Operation::Grayscale, p: 0.1 });
        assert_eq!(parsed("color_jitter"), Augmentation::ColorJitter(Jitter::default()));
    }

    #[test]
    fn options_are_in_brackets() {
        let jitter = Jitter { brightness: Some((0.0, 2.5)), hue: Some((-0.1, 0.1)), ..Jitter::default() };
        assert_eq!(parsed("color_jitter(brightness=1.5, hue=0.1,contrast=0)"), Augmentation::ColorJitter(jitter));
        let jitter = Jitter { saturation: Some((0.5, 0.75)), ..Jitter::default() };
        assert_eq!(parsed("color_jitter(saturation=0.5..0.75)"), Augmentation::ColorJitter(jitter));
        let erasing = parsed("random_erasing(p=1,scale=0.1..0.2,ratio=1..1,value=1:2:3)");
        let expected = Augmentation::RandomErasing { p: 1.0, scale: (0.1, 0.2), ratio: (1.0, 1.0), value: [1, 2, 3] };
        assert_eq!(erasing, expected);
        let (degrees, shear) = ((-10.0, 10.0), [(-5.0, 5.0), (0.0, 2.0)]);
        let affine = parsed("random_affine(degrees=10,translate=0.1:0.25,scale=0.5..2,shear=5,shear_y=0..2,p=0.5)");
        let outside = Outside::default();
        let all =
            Augmentation::RandomAffine { degrees, translate: [0.1, 0.25], scale: (0.5, 2.0), shear, p: 0.5, outside };
        assert_eq!(affine, all);
        let moved = Augmentation::RandomAffine {
            degrees: (0.0, 0.0),
            translate: [0.5; 2],
            scale: (1.0, 1.0),
            shear: [(0.0, 0.0); 2],
            p: 1.0,
            outside: Outside { fill: -1.5, mask_fill: 7.0 },
        };
        assert_eq!(parsed("random_affine(degrees=0,translate=0.5,fill=-1.5,mask_fill=7)"), moved);
        let rotation = Augmentation::RandomRotation { degrees: (-30.0, 90.0), p: 1.0, outside };
        assert_eq!(parsed("random_rotation(degrees=-30..90)"), rotation);
        let blur = Augmentation::GaussianBlur { size: 5, sigma: (0.1, 2.0), p: 0.2 };
        assert_eq!(parsed("gaussian_blur(kernel_size=5,p=0.2)"), blur);
    }

    #[test]
    fn invalid_texts_are_refused() {
        for (bad, said) in [
            ("", "trivial_augment_wide"),
            ("mixup", "trivial_augment_wide"),
            ("rand_augment(num_ops=2", "expected a closing bracket at the end"),
            ("rand_augment(2)", "NAME=VALUE"),
            ("rand_augment(ops=2)", "option `ops`"),
            ("rand_augment(num_ops=2,num_ops=3)", "the option `num_ops` is unknown or repeated"),
            ("rand_augment(magnitude=31)", "RandAugment magnitude must be from 0 to 30"),
            ("rand_augment(num_ops=65)", "`num_ops`"),
            ("rand_augment(num_ops=-1)", "num_ops=NUMBER"),
            ("trivial_augment_wide(num_magnitude_bins=1)", "`num_magnitude_bins`"),
            ("random_erasing(p=1.5)", "the probability of an augmentation"),
            ("random_erasing(p=NaN)", "the probability of an augmentation"),
            (
                "random_erasing(scale=0.5..0.2)",
                "`scale` in random_erasing must be a range LOW..HIGH with 0 < LOW ≤ HIGH ≤ 1, but is 0.5..0.2",
            ),
            ("random_erasing(ratio=0..1)", "`ratio` in random_erasing"),
            ("random_erasing(value=256)", "value=LEVEL"),
            ("random_erasing(value=1:2)", "value=LEVEL"),
            ("color_jitter(brightness=-1)", "brightness=NUMBER (0 or more)"),
            ("color_jitter(brightness=-1..1)", "brightness factor"),
            (
                "color_jitter(contrast=2..1)",
                "`contrast` in color_jitter must be a range LOW..HIGH with LOW ≤ HIGH, but is 2..1",
            ),
            ("color_jitter(hue=0.6)", "hue shift"),
            ("gaussian_blur", "kernel_size=NUMBER"),
            ("gaussian_blur(kernel_size=4)", "the kernel size of a blur"),
            ("gaussian_blur(kernel_size=5,sigma=0..1)", "standard deviation"),
            ("random_affine", "degrees=NUMBER (0 or more)"),
            ("random_affine(degrees=-5)", "degrees=NUMBER (0 or more)"),
            ("random_affine(degrees=5..-5)", "`degrees` in random_affine must be a range LOW..HIGH with −360 ≤ LOW"),
            ("random_affine(degrees=5,translate=1:2:3)", "translate=NUMBER or translate=X:Y"),
            ("random_affine(degrees=5,translate=1.5)", "`translate` in random_affine must be from 0 to 1, but is 1.5"),
            ("random_affine(degrees=5,scale=0..1)", "`scale` in random_affine must"),
            ("random_affine(degrees=5,shear=90)", "`shear` in random_affine must be a range LOW..HIGH with −89"),
            ("random_affine(degrees=5,fill=black)", "fill=NUMBER"),
            ("random_rotation", "degrees=NUMBER (0 or more)"),
            ("random_rotation(degrees=nan..5)", "`degrees` in random_rotation"),
            ("random_rotation(degrees=5,p=2)", "the probability of an augmentation"),
            ("random_affine_3d(degrees=1:2)", "degrees=NUMBER (0 or more), or LOW..HIGH, or degrees=A:B:C"),
            (
                "random_affine_3d(degrees=0:0:400)",
                "`degrees` in random_affine_3d must be a range LOW..HIGH with −360 ≤ LOW",
            ),
            ("random_affine_3d(scale=0)", "`scale` in random_affine_3d"),
            ("random_affine_3d(translate=2)", "`translate` in random_affine_3d must be from 0 to 1, but is 2"),
            ("random_affine_3d(p_scaling=2)", "the probability of an augmentation"),
            ("random_affine_3d(isotropic=1)", "isotropic=true or false"),
            ("random_posterize", "bits=NUMBER"),
            ("random_posterize(bits=9)", "`bits` in posterize"),
            ("random_solarize(threshold=256)", "`threshold` in solarize"),
        ] {
            let error = bad.parse::<Augmentation>().unwrap_err().to_string();
            assert!(error.contains(said), "{bad}: {error}");
        }
    }
}
