//! Tables that skip several AC coefficients in one lookup, for a walk that does not need their values.
#![deny(clippy::indexing_slicing)]

use super::bits::Bits;
use super::huffman::{Huffman, parts};

/// Number of bits that index a table.
const LOOKUP: u32 = 11;
const ENTRIES: usize = 1 << LOOKUP;
/// Maximum number of bits that a lookup consumes. `TURN` is the number of lookups before the buffer must be
/// refilled.
const MOST_BITS: u32 = 18;
pub(super) const TURN: usize = 3;
const _: () = assert!(TURN * MOST_BITS as usize <= 56);

/// Table entry for the symbols at the start of the next bits. It covers as many symbols as fit, with their
/// values.
///
/// Bits 0 to 4: number of bits to consume. Bits 5 to 15: distance to the last coefficient, 1 to 62 positions. END
/// is added if the block ends after that coefficient. ODD means that the next symbol must be read on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skip(u16);

impl Skip {
    pub(super) const END: u32 = 64;
    pub(super) const ODD: u32 = 128;

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0 as u32 & 31
    }

    #[inline(always)]
    pub(super) const fn step(self) -> u32 {
        self.0 as u32 >> 5
    }
}

/// Symbols whose codes all fit into a table index. The value of the last symbol may extend past the index.
#[derive(Debug, Clone, Copy)]
struct Symbols {
    /// Number of index bits that determine the symbols: all bits except the bits of the last symbol's value.
    known: u32,
    bits: u32,
    step: u32,
}

impl Symbols {
    const ODD: Self = Self { known: 0, bits: 0, step: Skip::ODD };

    fn of(length: u32, symbol: u8) -> Self {
        let step = match (symbol, parts(symbol)) {
            (0, _) => Skip::END,
            (0xF0, _) => 16,
            (_, (run, size)) if size > 0 && length + size <= MOST_BITS => run + 1,
            _ => return Self::ODD,
        };
        Self { known: length, bits: length + parts(symbol).1, step }
    }

    /// Appends `next`. Returns `None` if the codes of all symbols do not fit into an index.
    fn and(self, next: Self) -> Option<Self> {
        let (known, bits) = (self.bits + next.known, self.bits + next.bits);
        let (coefficients, end) = (self.step + (next.step & (Skip::END - 1)), next.step & Skip::END);
        let fits = known <= LOOKUP && bits <= MOST_BITS && coefficients < 63;
        let are_known = self.step < Skip::END && next.step < Skip::ODD;
        (fits && are_known).then_some(Self { known, bits, step: coefficients | end })
    }
}

/// Lookup table for one Huffman code.
pub(super) struct SkipTable {
    lookup: Box<[Skip; ENTRIES]>,
    /// Intermediate tables whose entries cover one symbol, and up to two symbols. `lookup` is built from them.
    one: Vec<Symbols>,
    two: Vec<Symbols>,
    /// Definition of the current code: the number of codes of each length, and the symbols.
    counts: [u8; 16],
    symbols: Vec<u8>,
}

impl SkipTable {
    pub(super) fn new() -> Self {
        let lookup = Box::new([Skip(0); ENTRIES]);
        Self { lookup, one: Vec::new(), two: Vec::new(), counts: [0; 16], symbols: Vec::new() }
    }

    /// Builds the table for an AC code, unless it is already the current code.
    pub(super) fn set(&mut self, code: &Huffman) {
        let (counts, symbols) = code.source();
        if (&self.counts, self.symbols.as_slice()) == (counts, symbols) {
            return;
        }
        self.counts = *counts;
        self.symbols.clear();
        self.symbols.extend_from_slice(symbols);
        let Self { lookup, one, two, .. } = self;
        one.clear();
        let lengths = (1..).zip(counts).flat_map(|(length, &count)| std::iter::repeat_n(length, count.into()));
        for (length, &symbol) in lengths.zip(symbols).take_while(|(length, _)| *length <= LOOKUP) {
            one.resize(one.len() + (1 << (LOOKUP - length)), Symbols::of(length, symbol));
        }
        one.resize(ENTRIES, Symbols::ODD);
        let after = |index: usize, first: Symbols, table: &[Symbols]| {
            table.get(index << first.bits & (ENTRIES - 1)).and_then(|next| first.and(*next))
        };
        two.clear();
        two.extend(one.iter().enumerate().map(|(index, &first)| after(index, first, one).unwrap_or(first)));
        for (index, (to, &first)) in lookup.iter_mut().zip(&*two).enumerate() {
            let all = after(index, first, two).or_else(|| after(index, first, one)).unwrap_or(first);
            *to = Skip(u16::try_from(all.step << 5 | all.bits).unwrap_or(u16::MAX));
        }
    }

    /// Returns the entry for the next bits.
    #[inline(always)]
    pub(super) fn next(&self, bits: &Bits<'_>) -> Option<Skip> {
        self.lookup.get(bits.peek::<LOOKUP>()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::huffman::{self, Class, CodeEntry, tests::counts};
    use proptest::prelude::*;

    fn tables(counts: &[u8; 16], symbols: &[u8]) -> (Huffman, SkipTable) {
        let (mut code, mut skips) = (Huffman::new(Class::Ac), SkipTable::new());
        code.set(counts, symbols).unwrap();
        skips.set(&code);
        (code, skips)
    }

    /// Decodes only the next symbol.
    fn one(code: &Huffman, bits: &Bits<'_>) -> Option<CodeEntry> {
        let mut bits = *bits;
        bits.refill();
        let entry = *code.lookup.get(bits.peek::<{ huffman::LOOKUP }>())?;
        if entry.step() <= CodeEntry::END { Some(entry) } else { code.long(entry, bits) }
    }

    proptest! {
        #[test]
        fn a_lookup_skips_the_symbols_that_are_there(
            counts in counts(),
            drawn in prop::collection::vec((0..16_u8, 0..7_u8, 0..4_u8), 256),
            bytes in prop::collection::vec(any::<u8>(), 200),
        ) {
            // Prefer symbols that are common in photos: short runs, small values, and ends of blocks.
            let symbol = |&(run, size, how): &(u8, u8, u8)| match how {
                0 => (run << 4) | (size * 2),
                mask => ((run & mask) << 4) | size,
            };
            let total = counts.iter().map(|&n| usize::from(n)).sum::<usize>();
            let symbols: Vec<u8> = drawn[..total].iter().map(symbol).collect();
            let (code, skips) = tables(&counts, &symbols);
            for at in 0..8 * (bytes.len() - 16) {
                let mut bits = Bits::at_bit(&bytes, at);
                bits.refill();
                let skip = skips.next(&bits).unwrap();
                let (mut used, mut coefficients, mut ends) = (0, 0, false);
                if skip.step() == Skip::ODD {
                    // The walk reads a symbol on its own only if it is irregular or longer than a lookup.
                    prop_assert!(one(&code, &bits).is_none_or(|entry| entry.bits() > LOOKUP));
                    continue;
                }
                while used < skip.bits() {
                    prop_assert!(!ends);
                    let entry = one(&code, &Bits::at_bit(&bytes, at + used as usize)).unwrap();
                    ends = entry.step() == CodeEntry::END;
                    coefficients += if ends { 0 } else { entry.step() };
                    used += entry.bits();
                }
                prop_assert_eq!(used, skip.bits());
                prop_assert_eq!(coefficients + if ends { Skip::END } else { 0 }, skip.step());
                prop_assert!(coefficients < 63 && used <= MOST_BITS);
            }
        }
    }

    #[test]
    fn short_symbols_are_skipped_together() {
        // The codes 0, 10 and 110 represent a value of one bit, the end of a block, and 16 zeros.
        let mut counts = [0; 16];
        counts[..3].copy_from_slice(&[1, 1, 1]);
        let (_, skips) = tables(&counts, &[0x01, 0x00, 0xF0]);
        let skip = |bits: u32| {
            let bytes = [bits.to_be_bytes(), [0; 4], [0; 4]].concat();
            let mut bits = Bits::new(&bytes, 0);
            bits.refill();
            let skip = skips.next(&bits).unwrap();
            (skip.bits(), skip.step())
        };
        assert_eq!(skip(0b0101_0101 << 24), (8, 4), "four values");
        assert_eq!(skip(0b0110_1010 << 24), (4, Skip::END + 1), "nothing follows the end of a block");
        assert_eq!(skip(0b1_1011_0110 << 23), (11, 49), "three times 16 zeros, and a value");
        assert_eq!(skip(0b1110 << 28), (0, Skip::ODD), "there is no such code");
        // Setting a different code must replace the table.
        let (code, _) = tables(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(|n: u8| n / 2), &[0x02]);
        let mut other = skips;
        other.set(&code);
        let bytes = [0; 12];
        let mut bits = Bits::new(&bytes, 0);
        bits.refill();
        assert_eq!(other.next(&bits).map(Skip::step), Some(4));
    }
}
