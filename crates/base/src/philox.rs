//! Philox4x32-10, a counter-based random number generator. Every draw can be computed independently, in any order and
//! on any thread.
//!
//! J. Salmon, M. Moraes, R. Dror, D. Shaw: *Parallel Random Numbers: As Easy as 1, 2, 3* (SC'11). The generator
//! passes BigCrush. NumPy, PyTorch, JAX (as an option) and cuRAND also offer it. Here it provides the parameters of
//! random views and shuffles the order in which the reader returns samples.

/// Returns one block of 128 random bits. For each key, the mapping from counters to blocks is a bijection.
///
/// ```
/// use shardpack_base::philox4x32_10;
/// assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[must_use]
pub const fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < 10 {
        let [low0, high0] = halves(0xD251_1F53_u64 * c0 as u64);
        let [low1, high1] = halves(0xCD9E_8D57_u64 * c2 as u64);
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        // These are the fractional parts of the golden ratio and of √3 − 1.
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
        round += 1;
    }
    [c0, c1, c2, c3]
}

/// Splits a number into its low and high word.
///
/// ```
/// assert_eq!(shardpack_base::halves(1 << 32 | 7), [7, 1]);
/// ```
#[expect(clippy::cast_possible_truncation, reason = "takes the low word")]
#[must_use]
pub const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors for `philox4x32 10` in `kat_vectors` of Random123 (D. E. Shaw Research). Each vector consists of a
    /// counter, a key and the expected block.
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
}
