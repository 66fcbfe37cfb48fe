//! Gamma: scales the range of a row's values to 0 to 1, raises the values to a random power, and scales them back.
//!
//! Powers are computed only from sums, products and quotients of float64, in a fixed order, so a device computes the
//! same bits (crates/gpu/kernels/gamma.cuh). The built-in power functions of processors do not guarantee that.

use super::picture::{GROUP, in_groups};

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
    pub fn change(&self, range: [f32; 2], keep: Option<f32>, values: &mut [f32]) {
        in_groups(
            values,
            #[inline(always)]
            |group| self.change_group(range, keep, group),
        );
    }

    /// Changes a group without branches, so that the compiler computes several values at once.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
    #[inline(always)]
    fn change_group(&self, [low, high]: [f32; 2], keep: Option<f32>, values: &mut [f32; GROUP]) {
        let (low, range) = (f64::from(low), f64::from(high) - f64::from(low));
        let mut raised = [0.0; GROUP];
        for n in 0..GROUP {
            let share = (f64::from(values[n]) - low) / range;
            raised[n] = (low + range * power(share, self.exponent)) as f32;
        }
        for (value, raised) in values.iter_mut().zip(raised) {
            if value.is_nan() {
                *value = f32::from_bits(value.to_bits() | 0x0040_0000);
            } else if value.is_finite() && Some(*value) != keep && range > 0.0 {
                *value = raised;
            }
        }
    }
}

/// 1 / n! for n from 0 to 14, the coefficients of the exponential function.
const INVERSE_FACTORIALS: [f64; 15] = {
    let (mut inverse, mut factorial, mut n) = ([1.0; 15], 1.0, 1);
    while n < inverse.len() {
        factorial *= n as f64;
        inverse[n] = 1.0 / factorial;
        n += 1;
    }
    inverse
};

/// 2⁵², from which on all floats are integers.
const INTEGERS: f64 = 4_503_599_627_370_496.0;

/// Returns a number from 0 to 1 raised to an exponent above 0. The result for other numbers means nothing.
#[inline(always)]
fn power(share: f64, exponent: f64) -> f64 {
    let raised = exp2(exponent * log2(share));
    if share > 0.0 { raised } else { 0.0 }
}

/// Returns the base-2 logarithm of a normal number above 0.
#[expect(clippy::suboptimal_flops, reason = "devices do not fuse the products either")]
#[inline(always)]
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    // The bits of the exponent as the last bits of a float from 2⁵² on.
    let exponent = f64::from_bits(bits >> 52 | INTEGERS.to_bits()) - (INTEGERS + 1023.0);
    let is_upper = mantissa > std::f64::consts::SQRT_2;
    let mantissa = if is_upper { mantissa * 0.5 } else { mantissa };
    let exponent = if is_upper { exponent + 1.0 } else { exponent };
    // ln m = 2 · (s + s³ / 3 + s⁵ / 5 + …), with s below 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let sum = (0..10).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent + 2.0 * s * sum * std::f64::consts::LOG2_E
}

/// Returns 2 to the power of `x`, which is at most 0.
#[expect(clippy::suboptimal_flops, reason = "devices do not fuse the products either")]
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let near = x.max(-1000.0) + 0.5;
    // The sum with 1.5 · 2⁵² rounds to the nearest integer. `floor` is a call on processors without the instruction.
    let rounded = near + 1.5 * INTEGERS - 1.5 * INTEGERS;
    let whole = if rounded > near { rounded - 1.0 } else { rounded };
    let rest = (x - whole) * std::f64::consts::LN_2;
    let sum = INVERSE_FACTORIALS.iter().rev().fold(0.0, |sum, coefficient| sum * rest + coefficient);
    // The exponent of the result is from 23 to 1023.
    let raised = sum * f64::from_bits((1023.0 + whole + INTEGERS).to_bits() << 52);
    if x < -1000.0 { 0.0 } else { raised }
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
