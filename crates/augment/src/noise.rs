//! Noise for cubes. Each value gets a normal deviate, computed from integers with a single multiplication.

use shardpack_base::{Draws, halves, vectorised};

/// Standard deviation of the integers from which the deviates are computed: 2¹⁶ · √(49 / 6).
const UNIT: f64 = 65_536.0 * 2.857_738_033_247_041_4;
const MEAN: i32 = 17 * 65_536 - 1;

/// Noise that is added to the values of a cube.
///
/// The deviate of the value at index `p` is computed from two words of block ⌊p / 2⌋ of the sample's noise
/// ([`Draws::noise`]): the first two words if `p` is even, otherwise the other two. It is the number of ones in the
/// first word, times 2¹⁶, plus the sum of the two halves of the second word, minus the mean of this total. The result
/// is an integer below 2²¹ in magnitude, which float32 represents exactly. It is multiplied by a scale and added to
/// the value. The product and the sum are each rounded to nearest, ties to even, and are not fused. The distribution
/// is symmetric, reaches ± 5.9 standard deviations, and has an excess kurtosis of −0.06.
///
/// ```
/// use shardpack_augment::BandAugmentation;
/// use shardpack_base::DrawKey;
/// let recipe: [BandAugmentation; 1] = ["gaussian_noise(sigma=0.5)".parse()?];
/// let noise = BandAugmentation::noise(&recipe, &DrawKey { seed: 1, epoch: 0, sample: 7 }.draws()).unwrap();
/// let (mut all, mut end) = ([0.0; 100], [0.0; 40]);
/// noise.add(0, 1, &mut all);
/// noise.add(60, 1, &mut end);
/// assert_eq!(all[60..], end, "a value's noise is a function of its place");
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    draws: Draws,
    scale: f32,
}

impl Noise {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
    pub(crate) fn new(draws: &Draws, sigma: f64) -> Self {
        Self { draws: *draws, scale: (sigma / UNIT) as f32 }
    }

    /// Returns the draws for the deviates, and their scale factor.
    #[must_use]
    pub const fn parts(&self) -> (Draws, f32) {
        (self.draws, self.scale)
    }

    /// Adds the noise to the values with the indices `first`, `first + step`, ….
    pub fn add(&self, first: u64, step: u64, values: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || match (step, first % 2) {
                (1, 0) => self.add_pairs(first / 2, values),
                (1, _) => {
                    if let Some((odd, others)) = values.split_first_mut() {
                        self.add_one(first, odd);
                        self.add_pairs(first / 2 + 1, others);
                    }
                }
                _ => {
                    let places = (0..).map(|i: u64| first.wrapping_add(i.wrapping_mul(step)));
                    values.iter_mut().zip(places).for_each(|(value, place)| self.add_one(place, value));
                }
            },
        );
    }

    /// Adds the noise to values that start at an even index. Each block provides the noise of two values.
    #[inline(always)]
    fn add_pairs(&self, first: u64, values: &mut [f32]) {
        let (pairs, last) = values.as_chunks_mut::<2>();
        let mut block = halves(first)[0];
        for [even, odd] in pairs {
            let [a, b, c, d] = self.draws.noise(block);
            *even += deviate(a, b) * self.scale;
            *odd += deviate(c, d) * self.scale;
            block = block.wrapping_add(1);
        }
        if let [value] = last {
            let [a, b, ..] = self.draws.noise(block);
            *value += deviate(a, b) * self.scale;
        }
    }

    #[inline(always)]
    fn add_one(&self, place: u64, value: &mut f32) {
        let [a, b, c, d] = self.draws.noise(halves(place / 2)[0]);
        *value += if place.is_multiple_of(2) { deviate(a, b) } else { deviate(c, d) } * self.scale;
    }
}

/// Returns an integer as float32, from a distribution of mean 0 and standard deviation `UNIT`.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, clippy::cast_precision_loss, reason = "below 2^22, which both types hold")]
fn deviate(ones: u32, parts: u32) -> f32 {
    let sum = (ones.count_ones() << 16) + (parts & 0xFFFF) + (parts >> 16);
    (sum as i32 - MEAN) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_base::DrawKey;

    fn noise(sample: u64, sigma: f64) -> Noise {
        Noise::new(&DrawKey { seed: 9, epoch: 2, sample }.draws(), sigma)
    }

    #[test]
    fn deviates_are_normal() {
        let mut values = vec![0.0; 400_000];
        noise(1, 1.0).add(0, 1, &mut values);
        let count = values.len() as f64;
        let moment = |power: i32| values.iter().map(|&value| f64::from(value).powi(power)).sum::<f64>() / count;
        // Compare each moment with the normal distribution. Allow five standard errors.
        assert!(moment(1).abs() < 5.0 / count.sqrt(), "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / count).sqrt(), "{}", moment(2));
        assert!(moment(3).abs() < 5.0 * (15.0 / count).sqrt(), "{}", moment(3));
        assert!((moment(4) - 2.94).abs() < 5.0 * (96.0 / count).sqrt(), "{}", moment(4));
        for (edge, share) in [(0.5, 0.3829), (1.0, 0.6827), (2.0, 0.9545), (3.0, 0.9973)] {
            let within = values.iter().filter(|value| f64::from(value.abs()) < edge).count() as f64 / count;
            assert!((within - share).abs() < 0.006, "{edge}: {within}");
        }
        // Neighbouring values must be uncorrelated.
        let product: f64 = values.windows(2).map(|pair| f64::from(pair[0]) * f64::from(pair[1])).sum();
        assert!((product / count).abs() < 5.0 / count.sqrt());
    }

    #[test]
    fn the_integers_have_the_documented_mean_and_deviation() {
        assert_eq!(deviate(0, 0) + deviate(u32::MAX, u32::MAX), 0.0);
        // Recompute `UNIT`: the number of ones in 32 bits has variance 8, and the sum of two uniform integers below
        // 2^16 has variance (2^32 − 1) / 6.
        let variance = 8.0 * 65_536_f64.powi(2) + (65_536_f64.powi(2) - 1.0) / 6.0;
        assert!((variance.sqrt() / UNIT - 1.0).abs() < 1e-9);
    }

    #[test]
    fn places_decide_alone() {
        let mut whole = vec![0.0; 64];
        noise(3, 0.25).add(10, 1, &mut whole);
        for (first, step) in [(10, 1), (11, 1), (17, 1), (10, 3), (13, 7), (12, 2)] {
            let places = (first..74).step_by(usize::try_from(step).unwrap());
            let mut some = vec![1.0; places.clone().count()];
            noise(3, 0.25).add(first as u64, step, &mut some);
            let expected: Vec<f32> = places.map(|place| 1.0 + whole[place - 10]).collect();
            assert_eq!(some, expected, "{first}, {step}");
        }
        let mut other = vec![0.0; 64];
        noise(4, 0.25).add(10, 1, &mut other);
        assert!(other.iter().zip(&whole).all(|(a, b)| a != b));
    }
}
