//! Bits of an entropy-coded segment, from bytes without stuffing.

/// A position in the bits of one segment.
///
/// `buffer` holds the next bits, the first of them uppermost. At least `count` of them are true; what is below those is zero, or true as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits<'a> {
    /// All that was unstuffed: what lies behind the segment may be looked at, and whoever takes it is found out at the end.
    bytes: &'a [u8],
    at: usize,
    buffer: u64,
    /// Below 64.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Stands before the byte at offset `at`.
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, buffer: 0, count: 0 }
    }

    /// Makes sure of 56 bits, zeros behind the end. Without a branch on how many are missing: eight bytes are read, and those kept that fit.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let next = self.bytes.get(self.at..).and_then(|bytes| bytes.first_chunk());
        let next = next.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        self.buffer |= next >> (self.count & 63);
        self.at += ((63 - (self.count & 63)) >> 3) as usize;
        self.count |= 56;
    }

    /// The next `N` bits, which stay.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "N bits are left")]
    pub(super) const fn peek<const N: u32>(&self) -> usize {
        (self.buffer >> (64 - N)) as usize
    }

    /// The next `n` bits, 0 to 31, which stay.
    #[inline(always)]
    pub(super) const fn peek_some(&self, n: u32) -> u32 {
        ((self.buffer >> 32) >> (32 - (n & 31))) as u32
    }

    /// Leaves `n` bits behind, of those that were made sure of.
    #[inline(always)]
    pub(super) const fn skip(&mut self, n: u32) {
        self.buffer = self.buffer.wrapping_shl(n);
        self.count = self.count.wrapping_sub(n & 63);
    }

    /// The offset behind the last byte of which bits were left behind.
    pub(super) const fn end(&self) -> usize {
        (self.at * 8).wrapping_sub(self.count as usize).div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order_and_zeros_behind_them() {
        let bytes: Vec<u8> = (0..40_u8).map(|n| n.wrapping_mul(37)).collect();
        let bit = |n: usize| bytes.get(n / 8).is_some_and(|byte| byte >> (7 - n % 8) & 1 == 1);
        let mut bits = Bits::new(&bytes, 3);
        let mut at = 24;
        for n in (1..=28).cycle().take(24) {
            bits.refill();
            let expected = (at..at + n).fold(0, |value, n| value << 1 | u32::from(bit(n)));
            // The last bytes are not read: all that is unstuffed has zeros behind it.
            if at + n <= 8 * (bytes.len() - 8) {
                assert_eq!(bits.peek_some(n as u32), expected);
                assert_eq!(bits.peek::<5>() as u32, bits.peek_some(5));
            }
            bits.skip(n as u32);
            at += n;
            assert_eq!(bits.end(), at.div_ceil(8));
        }
    }
}
