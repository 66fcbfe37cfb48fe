//! Random parameters as a pure function of (seed, epoch, sample): Philox4x32-10, a counter-based generator.
//!
//! J. Salmon, M. Moraes, R. Dror, D. Shaw: *Parallel Random Numbers: As Easy as 1, 2, 3* (SC'11). A block of four words is a keyed bijection
//! of a counter of four words, so that any draw is computed by itself, in any order, on any thread. Of the generators of that paper this is the one
//! that NumPy, PyTorch, JAX (as an option) and cuRAND offer too.

/// Which sample draws its parameters, and when.
///
/// ```
/// use shardpack_codec::jpeg::DrawKey;
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
    /// Number of the sample in the dataset.
    pub sample: u64,
}

impl DrawKey {
    /// The draws of this sample in this epoch.
    ///
    /// The key of an epoch is the first half of the block `philox(counter = (epoch low, epoch high, 0, 0), key = (seed low, seed high))`; draws `2n`
    /// and `2n + 1` of a sample are the halves of the block `philox(counter = (sample low, sample high, n, 1), key = epoch's key)`.
    #[must_use]
    pub fn draws(&self) -> Draws {
        let [epoch_low, epoch_high] = halves(self.epoch);
        let [low, high, ..] = philox4x32_10([epoch_low, epoch_high, 0, 0], halves(self.seed));
        Draws { key: [low, high], sample: halves(self.sample) }
    }
}

/// The random numbers of one sample in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    key: [u32; 2],
    sample: [u32; 2],
}

impl Draws {
    /// Draws `2n` and `2n + 1`, uniform in [0, 1), multiples of 2⁻⁵³.
    #[must_use]
    pub fn pair(&self, n: u32) -> [f64; 2] {
        let [low, high] = self.sample;
        let [a, b, c, d] = philox4x32_10([low, high, n, 1], self.key);
        [unit(a, b), unit(c, d)]
    }
}

/// Low and high word.
#[expect(clippy::cast_possible_truncation, reason = "the low word is what is wanted")]
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// The upper 53 bits of `high:low` as a fraction.
fn unit(low: u32, high: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// One block of the generator.
const fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < 10 {
        let [low0, high0] = halves(0xD251_1F53_u64 * c0 as u64);
        let [low1, high1] = halves(0xCD9E_8D57_u64 * c2 as u64);
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        // The fractional parts of the golden ratio and of √3 − 1.
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
        round += 1;
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors for `philox4x32 10` of `kat_vectors` in D. E. Shaw Research's Random123: counter, key, block.
    #[test]
    fn known_answers() {
        let vectors = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, block) in vectors {
            assert_eq!(philox4x32_10(counter, key), block);
        }
    }

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
    fn draws_are_uniform() {
        // Chi-square over 64 bins of 64,000 draws, of both halves: the 99.99 % point of 63 degrees of freedom is 113.
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
