//! A keyed permutation of `0..len` that needs no table: a Feistel network with cycle walking.
//!
//! The network permutes the numbers of as many bits as the domain needs. A result outside the domain is fed back
//! until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002), which takes less than
//! two iterations on average. The two halves may differ by one bit, so the network permutes less than four times as
//! many numbers as the domain has. This is mixing, not cryptography. The tests also check that tiny domains are
//! uniform, because Feistel networks with few rounds are poor there.

use super::keyed::{GOLDEN, mix};

const ROUNDS: u64 = 12;
/// Number of rounds for domains of at most [`TINY_BITS`]. Each round does little in a small domain. With 12 rounds,
/// the orders of 5 elements are not yet equally frequent: over 10⁵ keys, chi-square is 250 (see the tests).
const TINY_ROUNDS: u64 = 32;
const TINY_BITS: u32 = 8;

/// A permutation of `0..len`, chosen by a key.
///
/// ```
/// use shardpack_loader::order::Permutation;
/// let deck = Permutation::new(52, 0x5EED);
/// let mut cards: Vec<u64> = (0..52).map(|i| deck.apply(i)).collect();
/// assert_eq!(deck.invert(cards[7]), 7);
/// cards.sort_unstable();
/// assert_eq!(cards, (0..52).collect::<Vec<_>>());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    key: u64,
    low_bits: u32,
    rounds: u64,
    high_mask: u64,
    low_mask: u64,
}

impl Permutation {
    /// Returns the permutation of `0..len` for `key`. Uses 40 bytes and needs no set-up.
    #[must_use]
    pub const fn new(len: u64, key: u64) -> Self {
        let bits = match u64::BITS - len.saturating_sub(1).leading_zeros() {
            0 | 1 => 2,
            bits => bits,
        };
        let low_bits = bits / 2;
        let low_mask = (1 << low_bits) - 1;
        let rounds = if bits <= TINY_BITS { TINY_ROUNDS } else { ROUNDS };
        Self { len, key, low_bits, rounds, high_mask: (1 << (bits - low_bits)) - 1, low_mask }
    }

    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the image of `index`. An index of `len` or more is its own image.
    #[must_use]
    pub const fn apply(&self, index: u64) -> u64 {
        if index >= self.len || self.len < 2 {
            return index;
        }
        let mut value = self.forward(index);
        while value >= self.len {
            value = self.forward(value);
        }
        value
    }

    /// Returns the index whose image is `value`. This is the inverse of [`Permutation::apply`].
    #[must_use]
    pub const fn invert(&self, value: u64) -> u64 {
        if value >= self.len || self.len < 2 {
            return value;
        }
        let mut index = self.backward(value);
        while index >= self.len {
            index = self.backward(index);
        }
        index
    }

    const fn forward(&self, value: u64) -> u64 {
        let (mut high, mut low) = (value >> self.low_bits, value & self.low_mask);
        let mut round = 0;
        while round < self.rounds {
            high ^= self.noise(low, round) & self.high_mask;
            low ^= self.noise(high, round + 1) & self.low_mask;
            round += 2;
        }
        high << self.low_bits | low
    }

    const fn backward(&self, value: u64) -> u64 {
        let (mut high, mut low) = (value >> self.low_bits, value & self.low_mask);
        let mut round = self.rounds;
        while round > 0 {
            round -= 2;
            low ^= self.noise(high, round + 1) & self.low_mask;
            high ^= self.noise(low, round) & self.high_mask;
        }
        high << self.low_bits | low
    }

    const fn noise(&self, half: u64, round: u64) -> u64 {
        mix(half ^ self.key.wrapping_add(GOLDEN.wrapping_mul(round + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_length_is_a_bijection_with_its_inverse() {
        for len in (0..300).chain([1023, 1024, 1025, 65_537]) {
            let permutation = Permutation::new(len, len.wrapping_mul(GOLDEN));
            let mut seen = vec![false; usize::try_from(len).unwrap()];
            for i in 0..len {
                let value = permutation.apply(i);
                assert!(!std::mem::replace(&mut seen[usize::try_from(value).unwrap()], true), "{len}: {value} twice");
                assert_eq!(permutation.invert(value), i);
            }
        }
    }

    #[test]
    fn the_largest_domains_do_not_overflow() {
        for len in [1 << 40, (1 << 63) + 1, u64::MAX] {
            let permutation = Permutation::new(len, 9);
            for i in [0, 1, len / 2, len - 1] {
                assert_eq!(permutation.invert(permutation.apply(i)), i);
            }
        }
    }

    /// Chi-square may exceed its mean by at most 5 standard deviations.
    #[test]
    fn orders_of_tiny_domains_are_uniform() {
        for (len, orders) in [(2, 2.0), (3, 6.0), (4, 24.0), (5, 120.0), (6, 720.0), (7, 5040.0)] {
            let keys = 100_000;
            let mut counts: HashMap<Vec<u64>, u32> = HashMap::new();
            for key in 0..keys {
                let permutation = Permutation::new(len, mix(key));
                *counts.entry((0..len).map(|i| permutation.apply(i)).collect()).or_default() += 1;
            }
            let expected = keys as f64 / orders;
            let missing = (orders - counts.len() as f64) * expected;
            let chi: f64 =
                counts.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum::<f64>() + missing;
            let bound = orders - 1.0 + 5.0 * (2.0 * (orders - 1.0)).sqrt();
            assert!(chi < bound, "{len} elements: chi-square {chi:.1}, bound {bound:.1}");
        }
    }

    /// The images of neighbouring elements must be independent. For many keys, the images of two neighbours (the first
    /// two elements, and the middle two) are counted in 8 × 8 cells.
    #[test]
    fn neighbours_part() {
        for len in [27, 257, 600, 1025, 3000, 100_000] {
            for first in [0, len / 2] {
                let keys = 30_000;
                let mut cells = [0.0; 64];
                for key in 0..keys {
                    let permutation = Permutation::new(len, mix(key));
                    let octant = |i| usize::try_from(permutation.apply(i) * 8 / len).unwrap();
                    cells[octant(first) * 8 + octant(first + 1)] += 1.0;
                }
                let size = |octant: u64| ((octant + 1) * len).div_ceil(8) - (octant * len).div_ceil(8);
                let expected = |cell: u64| {
                    let (a, b) = (size(cell / 8), size(cell % 8));
                    let pairs = if cell / 8 == cell % 8 { a * (a - 1) } else { a * b };
                    (pairs * keys) as f64 / (len * (len - 1)) as f64
                };
                let chi: f64 =
                    (0..64).map(|c| (cells[usize::try_from(c).unwrap()] - expected(c)).powi(2) / expected(c)).sum();
                assert!(chi < 63.0 + 5.0 * 126_f64.sqrt(), "{len} from {first}: chi-square {chi:.1}");
            }
        }
    }
}
