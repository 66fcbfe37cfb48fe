//! Huffman tables that return the length of a code and the value of its coefficient in one lookup.

use super::bits::Bits;

/// Number of bits that index a table. With 11 bits, four tables still fit into the L1 cache. This was the fastest of
/// 10 to 13 bits.
pub(super) const LOOKUP: u32 = 11;
const ENTRIES: usize = 1 << LOOKUP;

/// Table entry that describes how to decode the next bits of a stream.
///
/// Bits 0 to 7: number of bits to consume. Bits 8 to 15: distance to the coefficient (1 to 16 positions) or one of
/// the marks below. Bits 16 to 31: value of the coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeEntry(u32);

impl CodeEntry {
    pub(super) const END: u32 = 64;
    /// Marks a known code whose value has more bits than the table covers. The entry then contains the symbol
    /// instead of the value.
    const LONG_VALUE: u32 = 128;
    /// Marks a code that is longer than the table's index, or does not exist.
    const LONG_CODE: u32 = 192;
    /// Marks a symbol that never occurs in a valid stream.
    const NONE: u32 = 224;

    const fn new(bits: u32, step: u32, value: i32) -> Self {
        Self(bits | step << 8 | (value.cast_unsigned() & 0xFFFF) << 16)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0 & 0xFF
    }

    #[inline(always)]
    pub(super) const fn step(self) -> u32 {
        self.0 >> 8 & 0xFF
    }

    #[inline(always)]
    pub(super) const fn value(self) -> i16 {
        (self.0.cast_signed() >> 16) as i16
    }

    /// Completes an entry whose value has more bits than the table covers, which happens for one symbol in thirty.
    /// The code and its value have at most 26 bits.
    #[inline(always)]
    pub(super) fn with_long_value(self, bits: &Bits<'_>) -> Option<Self> {
        if self.step() != Self::LONG_VALUE {
            return None;
        }
        let symbol = self.0 >> 16;
        let (run, size) = (symbol >> 4 & 15, symbol & 15);
        let mut value = *bits;
        value.skip(self.bits());
        Some(Self::new(self.bits() + size, run + 1, extended(value.peek_some(size), size)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Dc,
    Ac,
}

pub(super) struct Huffman {
    pub(super) lookup: Box<[CodeEntry; ENTRIES]>,
    /// For each code length, the exclusive end of its codes, left-justified to 16 bits.
    ends: [u32; 17],
    /// For each code length, the difference between a code and the position of its symbol in `symbols`.
    offsets: [i32; 17],
    symbols: [u8; 256],
    class: Class,
    /// Definition of the current table: the number of codes of each length, and the symbols. Empty at first.
    counts: [u8; 16],
    used: usize,
}

impl Huffman {
    pub(super) fn new(class: Class) -> Self {
        Self {
            lookup: Box::new([CodeEntry::new(0, CodeEntry::NONE, 0); ENTRIES]),
            ends: [0; 17],
            offsets: [0; 17],
            symbols: [0; 256],
            class,
            counts: [0; 16],
            used: 0,
        }
    }

    /// Builds the table of a DHT segment from the number of codes of each length and their symbols. Does nothing if
    /// this is already the current table. Returns `None` if the code is invalid by libjpeg's rules (`jdhuff.c`).
    pub(super) fn set(&mut self, counts: &[u8; 16], symbols: &[u8]) -> Option<()> {
        if self.used > 0 && self.counts == *counts && self.symbols.get(..self.used) == Some(symbols) {
            return Some(());
        }
        self.used = 0;
        self.symbols.get_mut(..symbols.len())?.copy_from_slice(symbols);
        self.counts = *counts;
        let (mut code, mut place, mut filled) = (0_u32, 0_usize, 0_usize);
        for (length, &count) in (1_u32..).zip(counts) {
            *self.offsets.get_mut(length as usize)? = i32::try_from(place).ok()? - code.cast_signed();
            for &symbol in symbols.get(place..place + usize::from(count))? {
                if self.class == Class::Dc && symbol > 15 {
                    return None;
                }
                if length <= LOOKUP {
                    let start = filled;
                    filled += 1 << (LOOKUP - length);
                    fill(self.lookup.get_mut(start..filled)?, length, symbol, self.class);
                }
            }
            place += usize::from(count);
            code += u32::from(count);
            // No code may consist only of ones.
            if code >= 1 << length {
                return None;
            }
            *self.ends.get_mut(length as usize)? = code << (16 - length);
            code <<= 1;
        }
        self.lookup.get_mut(filled..)?.fill(CodeEntry::new(0, CodeEntry::LONG_CODE, 0));
        self.used = place;
        (place == symbols.len()).then_some(())
    }

    /// Returns the number of codes of each length and their symbols.
    pub(super) fn source(&self) -> (&[u8; 16], &[u8]) {
        (&self.counts, self.symbols.get(..self.used).unwrap_or_default())
    }

    /// Returns the entry for a code that is longer than the table's index, or `None` if the code does not exist. The
    /// code and its value have at most 31 bits.
    #[cold]
    #[inline(never)]
    pub(super) fn long(&self, entry: CodeEntry, mut bits: Bits<'_>) -> Option<CodeEntry> {
        let (length, symbol) = match entry.step() {
            CodeEntry::LONG_VALUE => (entry.bits(), u8::try_from(entry.value()).ok()?),
            CodeEntry::LONG_CODE => {
                let next = bits.peek_some(16);
                let ends = (0_u32..).zip(&self.ends).skip(LOOKUP as usize + 1);
                let (length, _) = ends.into_iter().find(|&(_, &end)| next < end)?;
                let place = (next >> (16 - length)).cast_signed() + self.offsets.get(length as usize)?;
                (length, *self.symbols.get(usize::try_from(place).ok()?)?)
            }
            CodeEntry::NONE => return None,
            _ => return Some(entry),
        };
        let (run, size) = parts(symbol);
        if size == 0 {
            return valueless(length, symbol, self.class);
        }
        bits.skip(length);
        Some(CodeEntry::new(length + size, run + 1, extended(bits.peek_some(size), size)))
    }
}

/// Splits a symbol into the number of zeros before the coefficient and the number of bits of its value.
pub(super) const fn parts(symbol: u8) -> (u32, u32) {
    (symbol as u32 >> 4, symbol as u32 & 15)
}

/// Returns the entry of a symbol without a value: a difference of 0, the end of a block, or sixteen zeros.
/// libjpeg accepts more symbols as the end of a block, but no encoder writes them.
fn valueless(length: u32, symbol: u8, class: Class) -> Option<CodeEntry> {
    match (class, symbol) {
        (Class::Dc, _) => Some(CodeEntry::new(length, 1, 0)),
        (Class::Ac, 0) => Some(CodeEntry::new(length, CodeEntry::END, 0)),
        (Class::Ac, 0xF0) => Some(CodeEntry::new(length, 16, 0)),
        _ => None,
    }
}

/// Fills all entries whose index starts with this code.
fn fill(entries: &mut [CodeEntry], length: u32, symbol: u8, class: Class) {
    let (run, size) = parts(symbol);
    if size == 0 {
        entries.fill(valueless(length, symbol, class).unwrap_or(CodeEntry::new(0, CodeEntry::NONE, 0)));
    } else if length + size <= LOOKUP {
        for (raw, entries) in (0..).zip(entries.chunks_exact_mut(1 << (LOOKUP - length - size))) {
            entries.fill(CodeEntry::new(length + size, run + 1, extended(raw, size)));
        }
    } else {
        entries.fill(CodeEntry::new(length, CodeEntry::LONG_VALUE, symbol.into()));
    }
}

/// Returns the value that `size` bits encode (T.81, F.2.2.1). A leading 0 bit marks a negative number.
const fn extended(raw: u32, size: u32) -> i32 {
    let raw = raw.cast_signed();
    if raw < 1 << (size - 1) { raw - (1 << size) + 1 } else { raw }
}

#[cfg(test)]
#[path = "huffman_tests.rs"]
pub(super) mod tests;
