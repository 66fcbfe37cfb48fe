//! Reads the bits of an entropy-coded segment from bytes without stuffing.

/// A position in the bits of one segment.
///
/// `buffer` contains the next bits, starting at its highest bit. At least `count` of them are valid. The bits after
/// these are either valid or zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits<'a> {
    /// All bytes, without stuffing. A reader may look past the end of its segment. Once the segment is decoded, a
    /// check detects whether bits past the end were consumed.
    bytes: &'a [u8],
    at: usize,
    buffer: u64,
    /// Number of valid bits, at most 63.
    count: u32,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, buffer: 0, count: 0 }
    }

    /// Starts reading at the given bit position.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the remainder of a division by 8")]
    pub(super) fn at_bit(bytes: &'a [u8], position: usize) -> Self {
        let mut bits = Self::new(bytes, position / 8);
        let within = (position % 8) as u32;
        if within > 0 {
            bits.refill();
            bits.skip(within);
        }
        bits
    }

    /// Refills the buffer to at least 56 bits, with zeros after the end of the data. To avoid a branch on the number
    /// of missing bits, it always reads eight bytes and uses as many as fit.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let next = self.bytes.get(self.at..).and_then(|bytes| bytes.first_chunk());
        let next = next.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        self.buffer |= next >> (self.count & 63);
        self.at += ((63 - (self.count & 63)) >> 3) as usize;
        self.count |= 56;
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "N bits are left")]
    pub(super) const fn peek<const N: u32>(&self) -> usize {
        (self.buffer >> (64 - N)) as usize
    }

    /// Returns the next `n` bits, 0 to 31, without consuming them.
    #[inline(always)]
    pub(super) const fn peek_some(&self, n: u32) -> u32 {
        ((self.buffer >> 32) >> (32 - (n & 31))) as u32
    }

    #[inline(always)]
    pub(super) const fn skip(&mut self, n: u32) {
        self.buffer = self.buffer.wrapping_shl(n);
        self.count = self.count.wrapping_sub(n & 63);
    }

    /// Returns the position of the next bit, counted from the start of `bytes`.
    #[inline(always)]
    pub(super) const fn position(&self) -> usize {
        (self.at * 8).wrapping_sub(self.count as usize)
    }

    /// Returns the offset of the byte after the last consumed bit.
    pub(super) const fn end(&self) -> usize {
        self.position().div_ceil(8)
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
            // Skip positions near the end, because zeros instead of data follow the last byte.
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
