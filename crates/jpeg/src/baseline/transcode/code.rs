//! Builds the Huffman codes that make the scan of a picture as small as possible.
#![deny(clippy::indexing_slicing)]

use super::symbols::{CODE_SYMBOLS, CODES, MOST_VALUE_BITS, PLACES};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum length of a code in a JPEG, in bits. The next constant is the maximum length before codes are shortened
/// (`MAX_CLEN` in `jchuff.c`).
const LONGEST: usize = 16;
const LONGEST_MADE: usize = 32;

/// Upper limit for the counts. libjpeg uses larger numbers as special values.
const MOST_SYMBOLS: u64 = 1_000_000_000;

/// Maximum length of a code and its value together, in bits.
const WRITTEN_BITS: u32 = 27;
const _: () = assert!(LONGEST + MOST_VALUE_BITS as usize == WRITTEN_BITS as usize);

/// A code, shifted so that its value can follow in the lower bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CodeWord(u32);

impl CodeWord {
    fn new(code: u32, code_bits: u32, value_bits: u32) -> Self {
        Self(code << value_bits | (code_bits + value_bits) << WRITTEN_BITS)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0 >> WRITTEN_BITS
    }

    /// Returns the code with zeros in place of the value.
    #[inline(always)]
    pub(super) const fn word(self) -> u32 {
        self.0 & ((1 << WRITTEN_BITS) - 1)
    }
}

pub(super) struct OptimalCodes {
    pub(super) codes: [OptimalCode; CODES],
    /// The code words of all symbols, grouped by code.
    pub(super) words: Box<[CodeWord; PLACES]>,
}

impl OptimalCodes {
    pub(super) fn new() -> Self {
        Self { codes: [OptimalCode::NONE; CODES], words: Box::new([CodeWord::default(); PLACES]) }
    }

    /// Builds the codes for the given symbol counts. Returns `None` if libjpeg would fail.
    pub(super) fn set(&mut self, counts: &[u32; PLACES]) -> Option<()> {
        let counts = counts.as_chunks::<CODE_SYMBOLS>().0;
        let words = self.words.as_chunks_mut::<CODE_SYMBOLS>().0;
        for ((code, words), counts) in self.codes.iter_mut().zip(words).zip(counts) {
            *code = OptimalCode::of(counts)?;
            code.fill(words)?;
        }
        Some(())
    }
}

/// A Huffman code, as a JPEG stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptimalCode {
    pub(super) lengths: [u8; LONGEST],
    symbols: [u8; CODE_SYMBOLS],
    used: usize,
}

/// A symbol or an inner node of the tree, sorted in the order of joining: the rarest first, and the highest position
/// first among equally rare nodes. An inner node has the position of one of its children.
type Joined = Reverse<(u64, Reverse<usize>, usize)>;

impl OptimalCode {
    const NONE: Self = Self { lengths: [0; LONGEST], symbols: [0; CODE_SYMBOLS], used: 0 };

    /// Returns the symbols in the order of their codes.
    pub(super) fn symbols(&self) -> &[u8] {
        self.symbols.get(..self.used).unwrap_or_default()
    }

    /// Builds the code of T.81, K.2. Symbols with equal counts are ordered as in libjpeg
    /// (`jpeg_gen_optimal_table`).
    pub(super) fn of(counts: &[u32; CODE_SYMBOLS]) -> Option<Self> {
        let (depths, used) = depths(counts)?;
        let mut lengths = [0_usize; LONGEST_MADE + 1];
        for (_, depth) in &depths {
            *lengths.get_mut(*depth)? += 1;
        }
        shorten(&mut lengths)?;
        // One code of the greatest length is reserved, because it would consist only of ones.
        *lengths.iter_mut().rfind(|count| **count > 0)? -= 1;
        let mut code = Self { used, ..Self::NONE };
        for (to, count) in code.lengths.iter_mut().zip(lengths.iter().skip(1)) {
            *to = u8::try_from(*count).ok()?;
        }
        // Order the symbols by the lengths that their codes had before shortening. The reserved code is last.
        let mut depths = depths;
        depths.pop();
        depths.sort_by_key(|&(_, depth)| depth);
        for (to, (symbol, _)) in code.symbols.iter_mut().zip(depths) {
            *to = u8::try_from(symbol).ok()?;
        }
        Some(code)
    }

    fn fill(&self, words: &mut [CodeWord; CODE_SYMBOLS]) -> Option<()> {
        let (mut next, mut symbols) = (0, self.symbols().iter());
        for (bits, &count) in (1..).zip(&self.lengths) {
            for &symbol in symbols.by_ref().take(count.into()) {
                *words.get_mut(usize::from(symbol))? = CodeWord::new(next, bits, u32::from(symbol & 15));
                next += 1;
            }
            next <<= 1;
        }
        Some(())
    }
}

/// Returns the used symbols with the lengths of their codes in Huffman's tree, and the number of
/// used symbols. The last entry is an extra symbol with count 1, whose code is reserved.
fn depths(counts: &[u32; CODE_SYMBOLS]) -> Option<(Vec<(usize, usize)>, usize)> {
    let used: Vec<(usize, u64)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, &count)| (symbol, count.into()))
        .collect();
    let leaves = used.iter().copied().chain([(CODE_SYMBOLS, 1)]);
    (leaves.clone().map(|(_, count)| count).sum::<u64>() <= MOST_SYMBOLS).then_some(())?;
    let leaf = |(node, (symbol, count)): (usize, (usize, u64))| Reverse((count, Reverse(symbol), node));
    let mut waiting: BinaryHeap<Joined> = leaves.clone().enumerate().map(leaf).collect();
    let mut parents = vec![0; used.len() + 1];
    while let (Some(Reverse((first, place, one))), Some(Reverse((second, _, other)))) = (waiting.pop(), waiting.pop()) {
        let node = parents.len();
        *parents.get_mut(one)? = node;
        *parents.get_mut(other)? = node;
        parents.push(0);
        waiting.push(Reverse((first + second, place, node)));
    }
    let mut depths = vec![0; parents.len()];
    for (node, &parent) in parents.iter().enumerate().rev().skip(1) {
        *depths.get_mut(node)? = depths.get(parent)? + 1;
    }
    Some((leaves.map(|(symbol, _)| symbol).zip(depths).collect(), used.len()))
}

/// Shortens the longest codes (T.81, figure K.3). Each step takes two codes of the greatest length. One becomes a bit
/// shorter. The other becomes the sibling of a shorter code, and both become one bit longer than that code was.
fn shorten(lengths: &mut [usize; LONGEST_MADE + 1]) -> Option<()> {
    for length in (LONGEST + 1..=LONGEST_MADE).rev() {
        while *lengths.get(length)? > 0 {
            let lengthened = lengths.get(..length - 1)?.iter().rposition(|&count| count > 0)?;
            *lengths.get_mut(length)? = lengths.get(length)?.checked_sub(2)?;
            *lengths.get_mut(length - 1)? += 1;
            *lengths.get_mut(lengthened + 1)? += 2;
            *lengths.get_mut(lengthened)? -= 1;
        }
    }
    Some(())
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
