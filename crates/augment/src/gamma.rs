//! Gamma: raises a row's values, scaled to the range from the smallest to the largest, to a random power.
//!
//! Powers are computed only from sums, products and quotients of float64, in a fixed order, so a device computes the
//! same bits (crates/gpu/kernels/gamma.cuh). The built-in power functions of processors do not guarantee that.

/// Raises values to a power. If `low` and `high` are the smallest and the largest value of a row, a value becomes
/// `low + (high − low) · ((value − low) / (high − low)) ^ exponent`, computed in float64 and rounded once.
///
/// NaNs become quiet, and infinities do not change. Neither counts as the smallest or the largest value. A row whose
/// values are all equal does not change.
///
/// ```
/// use shardpack_augment::BandAugmentation;
/// use shardpack_base::DrawKey;
/// let recipe: [BandAugmentation; 1] = ["random_gamma(gamma=2..2)".parse()?];
/// let gamma = BandAugmentation::gamma(&recipe, &DrawKey { seed: 1, epoch: 0, sample: 7 }.draws()).unwrap();
/// let mut values = [-1.0, 0.0, 3.0];
/// gamma.change([-1.0, 3.0], None, &mut values);
/// assert_eq!(values, [-1.0, -0.75, 3.0]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    exponent: f64,
}

impl Gamma {
    pub(crate) const fn new(exponent: f64) -> Self {
        Self { exponent }
    }

    /// Returns the exponent.
    #[must_use]
    pub const fn exponent(&self) -> f64 {
        self.exponent
    }

    /// Extends the range `[low, high]` so that it includes all finite values except `keep`. A range with `low` above
    /// `high` is empty.
    #[must_use]
    pub fn range_of([low, high]: [f32; 2], keep: Option<f32>, values: &[f32]) -> [f32; 2] {
        let counts = |value: &&f32| value.is_finite() && Some(**value) != keep;
        values.iter().filter(counts).fold([low, high], |[low, high], value| [low.min(*value), high.max(*value)])
    }

    /// Applies the power to a row whose values range from `low` to `high`. Values equal to `keep` do not change.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
    pub fn change(&self, [low, high]: [f32; 2], keep: Option<f32>, values: &mut [f32]) {
        let (low, range) = (f64::from(low), f64::from(high) - f64::from(low));
        for value in values {
            if value.is_nan() {
                *value = f32::from_bits(value.to_bits() | 0x0040_0000);
            } else if value.is_finite() && Some(*value) != keep && range > 0.0 {
                let share = (f64::from(*value) - low) / range;
                *value = (low + range * power(share, self.exponent)) as f32;
            }
        }
    }
}

/// Returns a number from 0 to 1 raised to an exponent above 0.
fn power(share: f64, exponent: f64) -> f64 {
    if share > 0.0 { exp2(exponent * log2(share)) } else { 0.0 }
}

/// Returns the base-2 logarithm of a normal number above 0.
#[expect(clippy::suboptimal_flops, clippy::cast_possible_wrap, reason = "devices do not fuse the products either")]
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 · (s + s³ / 3 + s⁵ / 5 + …), with s below 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let sum = (0..10).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 + 2.0 * s * sum * std::f64::consts::LOG2_E
}

/// Returns 2 to the power of `x`, which is at most 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 23 to 1023")]
fn exp2(x: f64) -> f64 {
    if x < -1000.0 {
        return 0.0;
    }
    let whole = (x + 0.5).floor();
    let rest = (x - whole) * std::f64::consts::LN_2;
    let sum = (1..15).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    sum * f64::from_bits(((1023.0 + whole) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_standard_library() {
        for exponent in [0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 9.75] {
            for n in 0..=4096 {
                let share = f64::from(n) / 4096.0;
                let (found, expected) = (power(share, exponent), share.powf(exponent));
                assert!((found - expected).abs() <= expected * 1e-13, "{share} ^ {exponent}: {found}, {expected}");
            }
        }
        assert_eq!((power(1.0, 3.3), power(0.0, 0.2), power(1e-300, 9.0)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn only_finite_values_count_and_change() {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 7.0];
        let mut values = [&odd[..], &[2.0, 6.0, 10.0]].concat();
        let none = [f32::INFINITY, f32::NEG_INFINITY];
        let range = Gamma::range_of(none, Some(7.0), &values);
        assert_eq!(range, [2.0, 10.0]);
        Gamma::new(2.0).change(range, Some(7.0), &mut values);
        assert!(values[0].is_nan());
        assert_eq!(values[1..], [f32::INFINITY, f32::NEG_INFINITY, 7.0, 2.0, 4.0, 10.0]);
        let mut equal = [3.0; 4];
        Gamma::new(0.5).change(Gamma::range_of(none, None, &equal), None, &mut equal);
        assert_eq!(equal, [3.0; 4]);
    }
}
