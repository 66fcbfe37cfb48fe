//! Random parameters as a pure function of (seed, epoch, sample), drawn with Philox4x32-10.
//!
//! Each random choice reads its own numbers of [`Draws::pair`], and no two choices share one:
//!
//! - 0 for the flip of a view, and 2 to 21 for its crop;
//! - from 32 to 2¹³ for a crop that depends on boxes;
//! - from 2³¹ on for patches, flips and rotations of arrays, and for the seed of a caller's transform;
//! - from 2³¹ + 2¹⁶ on for augmentations of pictures;
//! - from 2³¹ + 2¹⁷ on for augmentations of batches;
//! - from 2³¹ + 2¹⁸ to 2³¹ + 2²¹ for augmentations of bands.
//!
//! Noise is drawn from separate blocks ([`Draws::noise`]).

use super::{halves, philox4x32_10};

/// The key of a sample's random draws: seed, epoch and sample.
///
/// ```
/// use shardpack_base::DrawKey;
/// let draws = DrawKey { seed: 7, epoch: 0, sample: 41 }.draws();
/// let [a, b] = draws.pair(3);
/// assert!((0.0..1.0).contains(&a) && (0.0..1.0).contains(&b));
/// assert_eq!(draws.pair(3), [a, b], "a draw is a function of its number, whatever was drawn before");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Index of the sample in the dataset.
    pub sample: u64,
}

impl DrawKey {
    /// Returns the key for crop number `crop`, for a picture that is loaded as several crops. The seed of the crop is
    /// `seed + crop · 0x9E3779B97F4A7C15` modulo 2⁶⁴. Crop 0 therefore has the same draws as a picture that is loaded
    /// once.
    ///
    /// ```
    /// use shardpack_base::DrawKey;
    /// let key = DrawKey { seed: 7, epoch: 0, sample: 41 };
    /// assert_eq!(key.of_crop(0), key);
    /// assert_ne!(key.of_crop(1).draws().pair(3), key.draws().pair(3));
    /// ```
    #[must_use]
    pub const fn of_crop(self, crop: u32) -> Self {
        // This constant is the fractional part of the golden ratio. With it, the seed of a crop is unlikely to equal
        // the seed of another run.
        Self { seed: self.seed.wrapping_add((crop as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)), ..self }
    }

    /// Returns the draws of this sample in this epoch.
    ///
    /// The key of an epoch is the first half of the block `philox(counter = (epoch low, epoch high, 0, 0), key =
    /// (seed low, seed high))`. Draws `2n` and `2n + 1` of a sample are the halves of the block `philox(counter =
    /// (sample low, sample high, n, 1), key = epoch's key)`.
    #[must_use]
    pub fn draws(&self) -> Draws {
        let [epoch_low, epoch_high] = halves(self.epoch);
        let [low, high, ..] = philox4x32_10([epoch_low, epoch_high, 0, 0], halves(self.seed));
        Draws { key: [low, high], sample: halves(self.sample) }
    }
}

/// Generates the random numbers of one sample in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    key: [u32; 2],
    sample: [u32; 2],
}

impl Draws {
    /// Returns draws `2n` and `2n + 1`. They are multiples of 2⁻⁵³, uniformly distributed in [0, 1).
    #[must_use]
    pub fn pair(&self, n: u32) -> [f64; 2] {
        let [low, high] = self.sample;
        let [a, b, c, d] = philox4x32_10([low, high, n, 1], self.key);
        [unit(a, b), unit(c, d)]
    }

    /// Returns the epoch's key and the sample's index, each as two words, low word first.
    #[must_use]
    pub const fn words(&self) -> [[u32; 2]; 2] {
        [self.key, self.sample]
    }

    /// Returns block `n` of the noise. Its 128 random bits are `philox(counter = (sample low, sample high, n,
    /// 2), key = epoch's key)`.
    #[inline(always)]
    #[must_use]
    pub const fn noise(&self, n: u32) -> [u32; 4] {
        let [low, high] = self.sample;
        philox4x32_10([low, high, n, 2], self.key)
    }
}

fn unit(low: u32, high: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_counts() {
        let base = DrawKey { seed: 1, epoch: 2, sample: 3 };
        let changed = [
            DrawKey { seed: 2, ..base },
            DrawKey { seed: 1 << 32 | 1, ..base },
            DrawKey { epoch: 3, ..base },
            DrawKey { epoch: 1 << 32 | 2, ..base },
            DrawKey { sample: 4, ..base },
            DrawKey { sample: 1 << 32 | 3, ..base },
        ];
        for other in changed {
            assert_ne!(base.draws().pair(0), other.draws().pair(0), "{other:?}");
        }
        assert_ne!(base.draws().pair(0), base.draws().pair(1));
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 64")]
    fn draws_are_uniform() {
        // Compute the chi-square statistic of 64,000 draws over 64 bins, for both halves of the pair. The
        // 99.99 % point for 63 degrees of freedom is 113.
        for half in 0..2 {
            let mut bins = [0_u32; 64];
            for sample in 0..64_000 {
                let draw = DrawKey { seed: 5, epoch: 1, sample }.draws().pair(2)[half];
                bins[(draw * 64.0) as usize] += 1;
            }
            let chi: f64 = bins.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
            assert!(chi < 113.0, "{chi}");
        }
    }
}
