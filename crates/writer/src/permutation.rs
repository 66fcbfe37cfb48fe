//! The seeded permutation of the samples. Because datasets must be reproducible, this algorithm never changes:
//!
//! Fisher–Yates from the end: for `i` from `n − 1` down to 1, swap elements `i` and `j = ⌊r · (i + 1) / 2⁶⁴⌋`, where
//! `r` is the next value of SplitMix64 seeded with `seed`. With up to 2³² samples, the probability of any `j` deviates
//! from `1 / (i + 1)` by a factor of at most `1 ± 2⁻³²`.

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) fn shuffle(order: &mut [u32], seed: u64) {
    let mut random = SplitMix64(seed);
    for i in (1..order.len()).rev() {
        let product = u128::from(random.next()) * (i as u128 + 1);
        // `j` is at most `i`, because `random.next()` is below 2^64.
        let j = usize::try_from(product >> 64).unwrap_or(i);
        debug_assert!(product >> 64 <= i as u128, "element {} of {i}", product >> 64);
        order.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_values() {
        let mut random = SplitMix64(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn every_seed_gives_a_permutation_and_the_order_is_fixed_for_ever() {
        let mut order: Vec<u32> = (0..10).collect();
        shuffle(&mut order, 0);
        assert_eq!(order, [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        for seed in 0..50 {
            let mut order: Vec<u32> = (0..97).collect();
            shuffle(&mut order, seed);
            assert!(!order.is_sorted());
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..97));
        }
    }

    #[test]
    fn each_position_is_about_equally_likely() {
        let mut counts = [[0_u32; 5]; 5];
        for seed in 0..20_000 {
            let mut order: Vec<u32> = (0..5).collect();
            shuffle(&mut order, seed);
            order.iter().enumerate().for_each(|(place, &sample)| counts[place][sample as usize] += 1);
        }
        assert!(counts.iter().flatten().all(|&c| (3_750..4_250).contains(&c)), "{counts:?}");
    }
}
