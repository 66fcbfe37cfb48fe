//! Stateless random numbers. Each draw depends only on seed, epoch, stream and counter.
//!
//! With [Philox4x32-10](shardpack_base), draw number 10⁸ costs as much as draw number 0, and two threads that
//! request the same draw get the same number.

use shardpack_base::{halves, philox4x32_10};

/// A family of random draws. Each draw has a number, the counter.
///
/// ```
/// use shardpack_loader::order::Keyed;
/// let dice = Keyed::new(42, 0, 7);
/// assert_eq!(dice.draw(1_000_000), dice.draw(1_000_000));
/// assert_ne!(dice.draw(0), dice.draw(1));
/// assert!(dice.below(6, 3) < 6);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyed {
    key: [u32; 2],
    epoch: u32,
    stream: u32,
}

impl Keyed {
    /// Returns the draws of `stream` in `epoch` with the seed `seed`. Callers use a separate stream for each
    /// purpose, so that no two purposes share a draw.
    #[must_use]
    pub const fn new(seed: u64, epoch: u32, stream: u32) -> Self {
        Self { key: halves(seed), epoch, stream }
    }

    /// Returns draw number `counter`: 64 uniform bits.
    #[must_use]
    pub const fn draw(&self, counter: u64) -> u64 {
        self.pair(counter).0
    }

    /// Returns draw number `counter` as two independent 64-bit values. The first is [`Keyed::draw`].
    #[must_use]
    pub const fn pair(&self, counter: u64) -> (u64, u64) {
        let [low, high] = halves(counter);
        let [a, b, c, d] = philox4x32_10([low, high, self.epoch, self.stream], self.key);
        (a as u64 | (b as u64) << 32, c as u64 | (d as u64) << 32)
    }

    /// Returns draw number `counter` as a number below `bound` (0 if `bound` is 0), computed by multiplication. The
    /// probability of each value deviates from uniform by a fraction of at most `bound / 2⁶⁴`.
    #[must_use]
    pub const fn below(&self, bound: u64, counter: u64) -> u64 {
        scale(self.draw(counter), bound)
    }
}

/// Returns `bits / 2⁶⁴ × bound`, rounded down.
pub(super) const fn scale(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}

/// The SplitMix64 finaliser (Steele, Lea and Flood, OOPSLA 2014, with Stafford's constants "Mix13"), a
/// bijection on 64 bits. It takes two multiplications, where Philox takes twenty, and spreads a key drawn by
/// Philox over many values.
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// SplitMix64 increment: 2⁶⁴ divided by the golden ratio, rounded to an odd number.
pub(super) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the counters and keys of Random123's `kat_vectors` for ten rounds.
    #[test]
    fn philox_gives_the_published_values() {
        let ones = u32::MAX;
        let pi = [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344];
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(philox4x32_10([ones; 4], [ones; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        assert_eq!(philox4x32_10(pi, [0xA409_3822, 0x299F_31D0]), [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]);
    }

    /// `mix` must produce the first outputs of SplitMix64 with seed 0, as in `java.util.SplittableRandom` and all its
    /// ports.
    #[test]
    fn mix_is_that_of_splitmix64() {
        assert_eq!(mix(GOLDEN), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(GOLDEN.wrapping_mul(2)), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn seed_epoch_stream_and_counter_each_change_the_draw() {
        let draws = [
            Keyed::new(1, 2, 3).draw(4),
            Keyed::new(0, 2, 3).draw(4),
            Keyed::new(1 << 32, 2, 3).draw(4),
            Keyed::new(1, 0, 3).draw(4),
            Keyed::new(1, 2, 0).draw(4),
            Keyed::new(1, 2, 3).draw(0),
            Keyed::new(1, 2, 3).draw(4 << 32),
        ];
        let distinct: std::collections::BTreeSet<u64> = draws.into_iter().collect();
        assert_eq!(distinct.len(), draws.len());
    }
}
