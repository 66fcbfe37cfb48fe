//! Finds markers in entropy-coded bytes.

use fearless_simd::{Level, Simd, SimdBase, SimdMask, dispatch, u8x32};

/// Number of 64-bit words in the mask of a block. The mask has one bit per byte of the block.
const WORDS: usize = 64;
const BLOCK: usize = 64 * WORDS;

/// An iterator over the offsets of all FF bytes that are not followed by 00, in ascending order. In the entropy-coded
/// bytes of a JPEG, these are the markers and the fill bytes before them. An FF at the very end of the bytes counts
/// too.
///
/// Every other FF in such data is a stuffed byte. Stuffed bytes are as frequent as markers, so a search for FF alone
/// would stop at each of them and defeat branch prediction.
///
/// ```
/// use shardpack_base::Marks;
/// let found: Vec<_> = Marks::new(b"a\xFF\x00b\xFF\xD0\xFF\xFF\xD9\xFF").collect();
/// assert_eq!(found, [4, 6, 7, 9]);
/// ```
#[derive(Debug, Clone)]
pub struct Marks<'a> {
    rest: &'a [u8],
    words: [u64; WORDS],
    next: usize,
    /// Bits of the current mask word that have not been returned yet. `at` is the offset of the word's first bit.
    left: u64,
    at: usize,
}

impl<'a> Marks<'a> {
    /// Creates an iterator over the marks in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, words: [0; WORDS], next: WORDS, left: 0, at: 0_usize.wrapping_sub(64) }
    }

    #[inline(never)]
    fn look(&mut self) -> bool {
        let level = Level::new();
        let words = &mut self.words;
        if let Some(block) = self.rest.first_chunk::<{ BLOCK + 1 }>() {
            dispatch!(level, simd => marks_in(simd, block, words));
            self.rest = self.rest.get(BLOCK..).unwrap_or_default();
        } else if self.rest.is_empty() {
            return false;
        } else {
            let mut padded = [0; BLOCK + 1];
            padded.iter_mut().zip(self.rest).for_each(|(to, &byte)| *to = byte);
            // A nonzero byte after the last one makes an FF at the end count as a mark.
            padded.get_mut(self.rest.len()).into_iter().for_each(|behind| *behind = 1);
            dispatch!(level, simd => marks_in(simd, &padded, words));
            self.rest = &[];
        }
        self.next = 0;
        true
    }
}

impl Iterator for Marks<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.left == 0 {
            if self.next == WORDS && !self.look() {
                return None;
            }
            self.left = self.words.get(self.next).copied().unwrap_or_default();
            self.next += 1;
            self.at = self.at.wrapping_add(64);
        }
        let at = self.at + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(at)
    }
}

/// Computes one mask word for each 64 bytes of a block. Only inlined code becomes vector instructions, so this
/// function uses no closures.
#[inline(always)]
fn marks_in<S: Simd>(simd: S, block: &[u8; BLOCK + 1], words: &mut [u64; WORDS]) {
    let full = u8x32::splat(simd, 0xFF);
    let zero = u8x32::splat(simd, 0);
    let (chunks, _) = block.as_chunks::<64>();
    let (behind, _) = block.split_at(1).1.as_chunks::<64>();
    for ((bytes, behind), word) in chunks.iter().zip(behind).zip(words) {
        *word = 0;
        let ([a, b], _) = bytes.as_chunks::<32>() else { continue };
        let ([a_behind, b_behind], _) = behind.as_chunks::<32>() else { continue };
        let lower = u8x32::load_array_ref(simd, a).simd_eq(full).to_bitmask()
            & !u8x32::load_array_ref(simd, a_behind).simd_eq(zero).to_bitmask();
        let upper = u8x32::load_array_ref(simd, b).simd_eq(full).to_bitmask()
            & !u8x32::load_array_ref(simd, b_behind).simd_eq(zero).to_bitmask();
        *word = lower | upper << 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plainly(bytes: &[u8]) -> Vec<usize> {
        (0..bytes.len()).filter(|&at| bytes[at] == 0xFF && bytes.get(at + 1) != Some(&0)).collect()
    }

    #[test]
    fn marks_are_found_at_every_offset() {
        for len in (0..70).chain(4090..4105) {
            for at in (0..len).filter(|at| *at < 70 || *at > len - 20) {
                let mut bytes = vec![7; len];
                bytes[at] = 0xFF;
                for next in [0, 1, 0xFF] {
                    if let Some(behind) = bytes.get_mut(at + 1) {
                        *behind = next;
                    }
                    assert_eq!(Marks::new(&bytes).collect::<Vec<_>>(), plainly(&bytes), "{at} of {len}, {next}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn marks_are_the_same_as_byte_by_byte(bytes in prop::collection::vec(prop_oneof![Just(0), Just(0xFF), any::<u8>()], 0..600)) {
            prop_assert_eq!(Marks::new(&bytes).collect::<Vec<_>>(), plainly(&bytes));
        }

        #[test]
        fn rare_marks_are_found(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
            prop_assert_eq!(Marks::new(&bytes).collect::<Vec<_>>(), plainly(&bytes));
        }
    }
}
