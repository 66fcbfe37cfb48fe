//! A histogram of spectral angles. Histograms of several arrays can be merged before percentiles are computed.

use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Number of bins. Bin `i` counts the angles up to `π · 2^(−i/2)` that are too large for bin
/// `i + 1`. The last bin also counts all smaller angles.
const BINS: usize = 32;

const ENDS: [f64; BINS] = {
    let mut ends = [PI; BINS];
    let mut i = 1;
    while i < BINS {
        // Halving is exact, so all machines compute the same bin limits.
        ends[i] = if i == 1 { PI * FRAC_1_SQRT_2 } else { ends[i - 2] / 2.0 };
        i += 1;
    }
    ends
};

/// Histogram of spectral angles. A percentile is reported as the upper limit of its bin. It is therefore never too
/// small, and at most √2 times too large.
///
/// ```
/// let angles = shardpack_array::Angles::default();
/// assert_eq!(angles.percentile(99), None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Angles([u64; BINS]);

impl Angles {
    /// Adds one angle, in radians, to the histogram.
    pub(crate) fn add(&mut self, angle: f64) {
        let bin = ENDS.partition_point(|end| angle <= *end).saturating_sub(1);
        if let Some(count) = self.0.get_mut(bin) {
            *count += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine += more);
    }

    /// Returns the number of angles counted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().sum()
    }

    /// True if no angles were counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the angle, in radians, that at least `percent` per cent of the angles do not exceed, or `None` if there
    /// are no angles.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let all = u128::from(self.len());
        // Number of angles that may be larger than the result. Rounding down ensures that at least `percent` per cent
        // do not exceed it. The number is always less than the total.
        let above = (all * u128::from(100 - percent.min(100)) / 100).min(all.checked_sub(1)?);
        let mut larger = 0_u128;
        for (count, end) in self.0.iter().zip(ENDS) {
            larger += u128::from(*count);
            if larger > above {
                return Some(end);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_angles(
            mut angles in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e-4, 1e-4..PI, Just(PI)], 1..200),
            percent in 0..=100_u64,
        ) {
            let (mut counts, mut halves) = (Angles::default(), [Angles::default(); 2]);
            for (i, angle) in angles.iter().enumerate() {
                counts.add(*angle);
                halves[i % 2].add(*angle);
            }
            let [mut merged, odd] = halves;
            merged.merge(&odd);
            prop_assert_eq!(counts, merged);
            angles.sort_unstable_by(f64::total_cmp);
            let rank = (angles.len() * percent as usize).div_ceil(100).max(1);
            let (exact, found) = (angles[rank - 1], counts.percentile(percent).unwrap());
            let smallest = ENDS[BINS - 1];
            prop_assert!(exact <= found && (found <= exact * 1.4143 || found == smallest), "{} {}", exact, found);
        }
    }
}
