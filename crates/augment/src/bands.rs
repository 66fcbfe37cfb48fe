//! Random changes of the bands of cubes. All of them except gamma and noise are folded into the normalisation factor
//! and offset of each band, so they take no extra time on the host or on a device.

use super::gamma::Gamma;
use super::noise::Noise;
use super::parse::call;
use shardpack_base::Draws;
use shardpack_format::{Error, Result};
use std::str::FromStr;

/// Number of the first pair of draws for band augmentations.
const FIRST: u32 = (1 << 31) + (1 << 18);
/// Number of pairs of draws reserved for each augmentation: one pair per band.
const PAIRS: u32 = 1 << 16;
/// Number of the first pair of draws for choices that apply to a whole sample. Each augmentation has one such pair.
const CHANCES: u32 = FIRST + (1 << 20);
const _: () = assert!(BandAugmentation::MOST * PAIRS as usize <= 1 << 20, "no draw is used twice");

fn names() -> String {
    format!("one of {}, with options in brackets, such as band_dropout(p=0.1)", BandAugmentation::NAMES.join(", "))
}

/// A change of a cube's values by a factor and an offset, drawn for each sample. It is applied after the
/// normalisation by mean and standard deviation, so an offset has the unit of normalised values.
///
/// ```
/// use shardpack_augment::BandAugmentation;
/// use shardpack_base::DrawKey;
/// let recipe: [BandAugmentation; 2] = ["random_gain(gain=0.1)".parse()?, "band_dropout(p=0.5,value=-1)".parse()?];
/// let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
/// // Scale and bias of a normalisation, of four bands.
/// let bands = BandAugmentation::fold(&recipe, &draws, [(2.0, 0.5); 4].into_iter());
/// assert!(bands.iter().all(|&(scale, bias)| (scale, bias) == (0.0, -1.0) || (1.8..2.2).contains(&scale)));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BandAugmentation {
    /// Multiplies all bands by one factor, like a change of illumination.
    RandomGain {
        /// Range of the factor.
        gain: (f64, f64),
        /// Probability. Default 1.
        p: f64,
    },
    /// Multiplies each band by its own factor and adds its own offset.
    BandJitter {
        /// Range of the factors.
        gain: (f64, f64),
        /// Range of the offsets.
        offset: (f64, f64),
        /// Probability that the bands of a sample change. Default 1.
        p: f64,
    },
    /// Replaces each band by one value, with probability `p`. NaN and infinities are replaced too.
    BandDropout {
        /// Probability.
        p: f64,
        /// Replacement value.
        value: f32,
    },
    /// Reduces channels of a volume's box to a low resolution and enlarges them again. For volumes only. It is
    /// applied after all maps and factors but before gamma and noise, regardless of its position in the list.
    RandomLowResolution {
        /// Range of the low resolution as a share of each side, above 0 and at most 1.
        scale: (f64, f64),
        /// Probability that channels of a sample change. Default 1.
        p: f64,
        /// Probability that a channel changes. Each channel draws its own share. Default 1.
        p_per_channel: f64,
    },
    /// With probability `p`, scales the range of all values to 0 to 1, raises the values to a power, and scales them
    /// back; see [`Gamma`]. It is applied after all other changes except noise, regardless of its position in the list.
    RandomGamma {
        /// Range of the exponent.
        gamma: (f64, f64),
        /// Probability. Default 1.
        p: f64,
    },
    /// Adds independent noise to each value. It is applied after all other changes, regardless of its position in the
    /// list.
    GaussianNoise {
        /// Range of the standard deviation.
        sigma: (f64, f64),
        /// Probability. Default 1.
        p: f64,
    },
}

impl BandAugmentation {
    /// Names that the parser accepts.
    pub const NAMES: [&str; 6] =
        ["random_gain", "band_jitter", "band_dropout", "random_low_resolution", "random_gamma", "gaussian_noise"];
    /// Maximum number of band augmentations in a recipe.
    pub const MOST: usize = 16;
    /// Maximum number of bands in a cube.
    pub const MOST_BANDS: usize = PAIRS as usize;

    /// Returns a scale and a bias for each band. They combine the normalisation in `bands` with `changes`, applied in
    /// order. They are computed in float64 and rounded once.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
    pub fn fold(changes: &[Self], draws: &Draws, bands: impl Iterator<Item = (f32, f32)>) -> Vec<(f32, f32)> {
        let places = || (FIRST..).step_by(PAIRS as usize).zip(changes);
        // For each change: the factor that all bands share, and true if the change applies to this sample.
        let gains: Vec<(f64, bool)> = (0..)
            .zip(places())
            .map(|(place, (first, change))| match change {
                Self::RandomGain { gain, p } if happens(draws, place, *p) => {
                    (within(*gain, draws.pair(first)[0]), true)
                }
                Self::BandJitter { p, .. } => (1.0, happens(draws, place, *p)),
                _ => (1.0, true),
            })
            .collect();
        let band = |(number, (scale, bias)): (u32, (f32, f32))| {
            let start = (f64::from(scale), f64::from(bias));
            let (scale, bias) =
                places().zip(&gains).fold(start, |(scale, bias), ((first, change), &(all, is_on))| match *change {
                    Self::RandomGamma { .. } | Self::GaussianNoise { .. } | Self::RandomLowResolution { .. } => {
                        (scale, bias)
                    }
                    _ if !is_on => (scale, bias),
                    Self::RandomGain { .. } => (scale * all, bias * all),
                    Self::BandJitter { gain, offset, .. } => {
                        let [one, other] = draws.pair(first + number % PAIRS);
                        let gain = within(gain, one);
                        (scale * gain, bias.mul_add(gain, within(offset, other)))
                    }
                    Self::BandDropout { p, value } => match draws.pair(first + number % PAIRS)[0] < p {
                        true => (0.0, f64::from(value)),
                        false => (scale, bias),
                    },
                });
            (scale as f32, bias as f32)
        };
        (0..).zip(bands).map(band).collect()
    }

    /// Returns the noise in `changes`. Several noise augmentations are merged into one with a larger standard
    /// deviation.
    #[must_use]
    pub fn noise(changes: &[Self], draws: &Draws) -> Option<Noise> {
        let places = (0..).zip((FIRST..).step_by(PAIRS as usize)).zip(changes);
        let variances = places.filter_map(|((place, first), change)| match change {
            Self::GaussianNoise { sigma, p } if happens(draws, place, *p) => {
                Some(within(*sigma, draws.pair(first)[0]).powi(2))
            }
            _ => None,
        });
        let variance = variances.fold(None, |sum, variance| Some(sum.unwrap_or(0.0) + variance));
        variance.map(|variance| Noise::new(draws, variance.sqrt()))
    }

    /// Returns the gamma in `changes`. Several gamma augmentations are merged into one, whose exponent is the product
    /// of their exponents.
    #[must_use]
    pub fn gamma(changes: &[Self], draws: &Draws) -> Option<Gamma> {
        let places = (FIRST..).step_by(PAIRS as usize).zip(changes);
        let exponents = places.filter_map(|(first, change)| match *change {
            Self::RandomGamma { gamma, p } => {
                let [value, chance] = draws.pair(first);
                (chance < p).then(|| within(gamma, value))
            }
            _ => None,
        });
        exponents.reduce(|one, other| one * other).map(Gamma::new)
    }

    /// Returns the low resolution of each channel of a box with the given sides, as numbers of planes, rows and
    /// columns, or `None` for channels that keep their resolution. The list is empty if all channels keep theirs. Sides
    /// are rounded to nearest, ties to even. If several changes lower a channel's resolution, their shares are
    /// multiplied.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1 and at most the side")]
    pub fn low_resolution(changes: &[Self], draws: &Draws, channels: usize, sides: [u64; 3]) -> Vec<Option<[u64; 3]>> {
        let mut shares = vec![1.0; channels];
        for (place, change) in (0..).zip(changes) {
            let Self::RandomLowResolution { scale, p, p_per_channel } = *change else { continue };
            if !happens(draws, place, p) {
                continue;
            }
            for (channel, share) in (0..).zip(&mut shares) {
                let [one, chance] = draws.pair(FIRST + place * PAIRS + channel % PAIRS);
                *share *= if chance < p_per_channel { within(scale, one) } else { 1.0 };
            }
        }
        let low = |share: f64| sides.map(|side| ((side as f64 * share).round_ties_even() as u64).clamp(1, side.max(1)));
        let low: Vec<_> = shares.into_iter().map(low).map(|low| (low != sides).then_some(low)).collect();
        if low.iter().any(Option::is_some) { low } else { Vec::new() }
    }

    /// Returns true for gamma and noise, which cannot be expressed by a factor and an offset.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::RandomGamma { .. } | Self::GaussianNoise { .. })
    }

    /// Checks that the parameters are in their ranges.
    ///
    /// # Errors
    /// `Usage` if a parameter is out of range.
    pub fn check(&self) -> Result<()> {
        let range = |what: &'static str, range: (f64, f64), least: f64, most: f64| match range {
            (low, high) if least <= low && low <= high && high <= most => Ok(()),
            (low, high) if low < high => {
                Err(Error::usage(format!("{what} must be from {least} to {most}, but is {low}..{high}")))
            }
            (number, other) if number.total_cmp(&other).is_eq() => {
                Err(Error::usage(format!("{what} must be from {least} to {most}, but is {number}")))
            }
            (low, high) => {
                Err(Error::usage(format!("{what} must be a range LOW..HIGH with LOW ≤ HIGH, but is {low}..{high}")))
            }
        };
        match self {
            Self::RandomGain { gain, p } => {
                range("`p` in random_gain", (*p, *p), 0.0, 1.0)?;
                range("`gain` in random_gain", *gain, 0.0, 1e3)
            }
            Self::BandJitter { gain, offset, p } => {
                range("`p` in band_jitter", (*p, *p), 0.0, 1.0)?;
                range("`gain` in band_jitter", *gain, 0.0, 1e3)?;
                range("`offset` in band_jitter", *offset, -1e9, 1e9)
            }
            Self::RandomGamma { gamma, p } => {
                range("`gamma` in random_gamma", *gamma, 0.01, 100.0)?;
                range("`p` in random_gamma", (*p, *p), 0.0, 1.0)
            }
            Self::RandomLowResolution { scale, p, p_per_channel } => {
                range("`scale` in random_low_resolution", *scale, 0.01, 1.0)?;
                range("`p` in random_low_resolution", (*p, *p), 0.0, 1.0)?;
                range("`p_per_channel` in random_low_resolution", (*p_per_channel, *p_per_channel), 0.0, 1.0)
            }
            Self::GaussianNoise { sigma, p } => {
                range("`p` in gaussian_noise", (*p, *p), 0.0, 1.0)?;
                range("`sigma` in gaussian_noise", *sigma, 0.0, 1e9)
            }
            Self::BandDropout { p, value } => {
                range("`p` in band_dropout", (*p, *p), 0.0, 1.0)?;
                let value = f64::from(*value);
                range("`value` in band_dropout", (value, value), -1e9, 1e9)
            }
        }
    }

    /// Returns true if `text` names a band augmentation.
    #[must_use]
    pub fn is_named(text: &str) -> bool {
        let name = text.split('(').next().unwrap_or_default().trim();
        Self::NAMES.contains(&name)
    }
}

/// Returns true if the change at position `place` of the recipe applies to the sample.
fn happens(draws: &Draws, place: u32, p: f64) -> bool {
    p >= 1.0 || draws.pair(CHANCES + place)[0] < p
}

fn within(range: (f64, f64), draw: f64) -> f64 {
    (range.1 - range.0).mul_add(draw, range.0)
}

/// Parses a name, optionally followed by options in brackets, separated by commas. A range is written as `LOW..HIGH`.
///
/// - `random_gain`: `gain`, which is a range, or a distance on either side of 1; not below 0; `p=1`
/// - `band_jitter`: `gain` as above; `offset`, which is a range, or a distance on either side of 0; `p=1`
/// - `band_dropout`: `p`, `value=0`
/// - `random_low_resolution`: `scale`, which is a number or a range; `p=1`, `p_per_channel=1`
/// - `random_gamma`: `gamma`, which is a number or a range; `p=1`
/// - `gaussian_noise`: `sigma`, which is a number or a range; `p=1`
impl FromStr for BandAugmentation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mut given) = call(text, "band augmentation")?;
        let change = match name {
            "random_gain" => {
                if !text.contains("gain=") {
                    return Err(given.bad("gain", "NUMBER (0 or more), or LOW..HIGH"));
                }
                Self::RandomGain { gain: given.around("gain", 1.0, 0.0)?.unwrap_or((1.0, 1.0)), p: given.or("p", 1.0)? }
            }
            "band_jitter" => {
                if !text.contains("gain=") && !text.contains("offset=") {
                    return Err(given.bad("gain", "NUMBER (0 or more), offset=NUMBER, or both"));
                }
                let (gain, offset) = (given.around("gain", 1.0, 0.0)?, given.around("offset", 0.0, f64::MIN)?);
                Self::BandJitter {
                    gain: gain.unwrap_or((1.0, 1.0)),
                    offset: offset.unwrap_or((0.0, 0.0)),
                    p: given.or("p", 1.0)?,
                }
            }
            "band_dropout" => Self::BandDropout { p: given.must("p")?, value: given.or("value", 0.0)? },
            "random_gamma" => Self::RandomGamma { gamma: given.number_or_range("gamma")?, p: given.or("p", 1.0)? },
            "random_low_resolution" => Self::RandomLowResolution {
                scale: given.number_or_range("scale")?,
                p: given.or("p", 1.0)?,
                p_per_channel: given.or("p_per_channel", 1.0)?,
            },
            "gaussian_noise" => Self::GaussianNoise { sigma: given.number_or_range("sigma")?, p: given.or("p", 1.0)? },
            _ => return Err(Error::usage(format!("unknown band augmentation `{name}`: expected {}", names()))),
        };
        given.end()?;
        change.check()?;
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_base::DrawKey;

    fn parsed(text: &str) -> BandAugmentation {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn folded(texts: &[&str], sample: u64, bands: usize) -> Vec<(f32, f32)> {
        let recipe: Vec<_> = texts.iter().map(|text| parsed(text)).collect();
        let draws = DrawKey { seed: 5, epoch: 1, sample }.draws();
        BandAugmentation::fold(&recipe, &draws, std::iter::repeat_n((0.5, -2.0), bands))
    }

    #[test]
    fn names_and_ranges() {
        assert_eq!(parsed("random_gain(gain=0.25)"), BandAugmentation::RandomGain { gain: (0.75, 1.25), p: 1.0 });
        assert_eq!(parsed("random_gain(gain=2)"), BandAugmentation::RandomGain { gain: (0.0, 3.0), p: 1.0 });
        let jitter = BandAugmentation::BandJitter { gain: (1.0, 1.0), offset: (-0.5, 0.5), p: 1.0 };
        assert_eq!(parsed("band_jitter(offset=0.5)"), jitter);
        assert_eq!(parsed(" band_dropout( p=0.25 )"), BandAugmentation::BandDropout { p: 0.25, value: 0.0 });
        for (text, told) in [
            ("random_gain", "gain=NUMBER (0 or more)"),
            ("random_gain(gain=2..1)", "`gain` in random_gain must be a range LOW..HIGH with LOW ≤ HIGH, but is 2..1"),
            ("random_gain(gain=-1..1)", "`gain` in random_gain must be from 0 to 1000, but is -1..1"),
            ("band_jitter", "gain=NUMBER (0 or more), offset=NUMBER, or both"),
            ("band_jitter(offset=nan..1)", "LOW..HIGH"),
            ("band_dropout(p=1.5)", "`p` in band_dropout must be from 0 to 1, but is 1.5"),
            ("band_dropout(p=0.5,q=1)", "the option `q` is unknown or repeated"),
            (
                "band_noise",
                "expected one of random_gain, band_jitter, band_dropout, random_low_resolution, random_gamma, \
                 gaussian_noise, with options in brackets",
            ),
            ("random_gamma", "gamma=NUMBER (0 or more), or LOW..HIGH"),
            ("random_gamma(gamma=0..1)", "`gamma` in random_gamma must be from 0.01 to 100"),
            ("random_gamma(gamma=1,p=2)", "`p` in random_gamma"),
            ("gaussian_noise(sigma=1,p=2)", "`p` in gaussian_noise"),
            ("random_gain(gain=1,p=-1)", "`p` in random_gain"),
            ("band_jitter(gain=1,p=-1)", "`p` in band_jitter"),
            ("random_low_resolution", "scale=NUMBER (0 or more), or LOW..HIGH"),
            (
                "random_low_resolution(scale=0.5..2)",
                "`scale` in random_low_resolution must be from 0.01 to 1, but is 0.5..2",
            ),
            ("random_low_resolution(scale=1,p=2)", "`p` in random_low_resolution"),
            ("random_low_resolution(scale=1,p_per_channel=2)", "`p_per_channel` in random_low_resolution"),
            ("gaussian_noise", "NUMBER (0 or more), or LOW..HIGH"),
            ("gaussian_noise(sigma=-1)", "`sigma` in gaussian_noise must be from 0 to"),
        ] {
            let error = text.parse::<BandAugmentation>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn augmentations_apply_in_the_given_order() {
        let none = folded(&["random_gain(gain=1..1)", "band_jitter(offset=0..0)", "band_dropout(p=0)"], 3, 4);
        assert_eq!(none, [(0.5, -2.0); 4]);
        assert_eq!(folded(&["random_gain(gain=2..2)", "band_jitter(offset=1..1)"], 3, 1), [(1.0, -3.0)]);
        assert_eq!(folded(&["band_jitter(offset=1..1)", "random_gain(gain=2..2)"], 3, 1), [(1.0, -2.0)]);
        assert_eq!(folded(&["band_dropout(p=1,value=7)", "random_gain(gain=2..2)"], 3, 1), [(0.0, 14.0)]);
        assert_eq!(folded(&["random_gain(gain=2..2)", "band_dropout(p=1,value=7)"], 3, 1), [(0.0, 7.0)]);
    }

    #[test]
    fn powers_are_drawn_by_sample_with_their_probability() {
        let gammas = |texts: &[&str]| -> Vec<f64> {
            let recipe: Vec<_> = texts.iter().map(|text| parsed(text)).collect();
            let draws = |sample| DrawKey { seed: 5, epoch: 1, sample }.draws();
            (0..1000).filter_map(|n| Some(BandAugmentation::gamma(&recipe, &draws(n))?.exponent())).collect()
        };
        let some = gammas(&["random_gain(gain=0.1)", "random_gamma(gamma=0.7..1.5,p=0.3)"]);
        // Allow five standard deviations of the number of samples with a gamma.
        assert!(
            (228..372).contains(&some.len()) && some.iter().all(|gamma| (0.7..1.5).contains(gamma)),
            "{}",
            some.len()
        );
        assert_eq!(gammas(&["random_gamma(gamma=2)", "random_gamma(gamma=3)"]), [6.0; 1000]);
        assert!(gammas(&["gaussian_noise(sigma=1)"]).is_empty());
    }

    #[test]
    fn changes_happen_with_their_probability() {
        let draws = |sample| DrawKey { seed: 5, epoch: 1, sample }.draws();
        let share = |text: &str, is_changed: &dyn Fn(&[BandAugmentation], u64) -> bool| {
            let recipe = [parsed("random_gain(gain=1..1)"), parsed(text)];
            (0..2000).filter(|sample| is_changed(&recipe, *sample)).count()
        };
        let folds = |recipe: &[BandAugmentation], sample| {
            BandAugmentation::fold(recipe, &draws(sample), std::iter::repeat_n((0.5, -2.0), 2)) != [(0.5, -2.0); 2]
        };
        // The tolerance is five standard deviations.
        for text in ["random_gain(gain=0.2,p=0.15)", "band_jitter(gain=0.2,p=0.15)"] {
            assert!((221..379).contains(&share(text, &folds)), "{text}");
        }
        let is_noisy = |recipe: &[BandAugmentation], sample| BandAugmentation::noise(recipe, &draws(sample)).is_some();
        assert!((221..379).contains(&share("gaussian_noise(sigma=1,p=0.15)", &is_noisy)));
    }

    #[test]
    fn channels_draw_their_own_low_resolution() {
        let recipe = [parsed("random_low_resolution(scale=0.5..1,p=0.25,p_per_channel=0.5)")];
        let (mut samples, mut channels) = (0, 0);
        for sample in 0..4000 {
            let draws = DrawKey { seed: 5, epoch: 1, sample }.draws();
            let low = BandAugmentation::low_resolution(&recipe, &draws, 2, [64, 128, 500]);
            samples += usize::from(!low.is_empty());
            channels += low.iter().flatten().count();
            for [depth, height, width] in low.into_iter().flatten() {
                assert!((32..=64).contains(&depth) && (64..=128).contains(&height) && (250..=500).contains(&width));
                assert!(depth.abs_diff(height / 2) <= 1 && height.abs_diff(width * 128 / 500) <= 1);
            }
        }
        // The change applies to a quarter of the samples, and three quarters of these have a channel that changes.
        // Allow five standard deviations.
        assert!((626..874).contains(&samples) && (820..1180).contains(&channels), "{samples} {channels}");
        let low = |texts: &[&str]| {
            let recipe: Vec<_> = texts.iter().map(|text| parsed(text)).collect();
            BandAugmentation::low_resolution(&recipe, &DrawKey { seed: 5, epoch: 1, sample: 0 }.draws(), 1, [5, 7, 1])
        };
        assert_eq!(low(&["random_low_resolution(scale=0.5)"]), [Some([2, 4, 1])]);
        assert_eq!(low(&["random_low_resolution(scale=0.5)", "random_low_resolution(scale=0.5)"]), [Some([1, 2, 1])]);
        assert!(low(&["random_low_resolution(scale=1)"]).is_empty() && low(&["random_gain(gain=1)"]).is_empty());
    }

    #[test]
    fn samples_and_bands_differ_in_the_requested_shares() {
        let gain = |sample| folded(&["random_gain(gain=0.5)"], sample, 3);
        assert!(gain(1).iter().all(|band| *band == gain(1)[0]) && gain(1) != gain(2));
        let jitter = folded(&["band_jitter(gain=0.5)"], 1, 3);
        assert!(jitter[0] != jitter[1] && jitter[1] != jitter[2] && jitter == folded(&["band_jitter(gain=0.5)"], 1, 3));
        let mut dropped = 0;
        let mut sum = 0.0;
        for sample in 0..2_000 {
            dropped += folded(&["band_dropout(p=0.25)"], sample, 8).iter().filter(|band| **band == (0.0, 0.0)).count();
            let (scale, bias) = gain(sample)[0];
            assert!((0.25..0.75).contains(&scale) && bias == -4.0 * scale);
            sum += f64::from(scale);
        }
        // Allow five standard deviations of the share of dropped bands (16,000 draws) and of the mean gain (2,000
        // uniform draws).
        assert!((f64::from(u32::try_from(dropped).unwrap()) / 16_000.0 - 0.25).abs() < 0.0172, "{dropped}");
        assert!((sum / 2_000.0 - 0.5).abs() < 0.0162, "{sum}");
        // Two augmentations of the same kind must draw independently.
        let twice = folded(&["band_dropout(p=0.5)", "band_dropout(p=0.5,value=1)"], 9, 64);
        assert!(twice.contains(&(0.0, 0.0)) && twice.contains(&(0.0, 1.0)) && twice.contains(&(0.5, -2.0)));
    }
}
