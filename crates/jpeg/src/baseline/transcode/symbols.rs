//! Lists the symbols of a picture in output order, and counts them.
#![deny(clippy::indexing_slicing)]

use crate::baseline::bands::MOST_BLOCKS;
use crate::baseline::bits::Bits;
use crate::baseline::huffman::{CodeEntry, Huffman, LOOKUP};
use crate::baseline::layout::Layout;
use crate::baseline::segments::Segments;
use crate::baseline::streams::TURN;
use crate::baseline::tables::Tables;

pub(super) const CODE_SYMBOLS: usize = 256;

/// Number of codes: DC and AC codes for luma and for chroma.
pub(super) const CODES: usize = 4;

pub(super) const PLACES: usize = CODES * CODE_SYMBOLS;

/// Maximum number of bits in an AC coefficient that libjpeg can write.
const COEFFICIENT_BITS: u32 = 10;

/// Maximum number of bits in a DC difference that libjpeg can write. AC coefficients have fewer bits.
pub(super) const MOST_VALUE_BITS: u32 = 11;

/// Symbols for the end of a block and for skipping sixteen positions.
const END: u32 = 0;
const SIXTEEN_ZEROS: u32 = 0xF0;

/// A symbol, and the bits of the value that follows it.
///
/// Bits 0 to 15: the value as written. Bits 16 to 25: the symbol, with the number of its code in the two
/// upper bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Symbol(u32);

impl Symbol {
    const fn new(code: u32, symbol: u32, value: u32) -> Self {
        Self(code << 24 | symbol << 16 | value)
    }

    /// Returns the symbol for `value` after `run` zeros. A value of 0 has no bits.
    #[inline(always)]
    const fn of_value(code: u32, run: u32, value: i32) -> Self {
        let size = size_of_value(value);
        // A negative number is written as the number minus 1 (T.81, F.1.2.1).
        let bits = (value + (value >> 31)).cast_unsigned() & ((1 << size) - 1);
        Self::new(code, run << 4 | size, bits)
    }

    /// Returns the index of the symbol among the symbols of all codes.
    #[inline(always)]
    pub(super) const fn place(self) -> usize {
        (self.0 >> 16) as usize & (PLACES - 1)
    }

    #[inline(always)]
    pub(super) const fn value(self) -> u32 {
        self.0 & 0xFFFF
    }

    const fn symbol(self) -> u32 {
        self.0 >> 16 & 0xFF
    }
}

#[inline(always)]
const fn size_of_value(value: i32) -> u32 {
    u32::BITS - value.unsigned_abs().leading_zeros()
}

/// Maximum number of symbols in a block: one for each coefficient.
const BLOCK_SYMBOLS: usize = 64;

type BlockSymbols = [Symbol; BLOCK_SYMBOLS];

pub(super) struct SymbolList {
    symbols: Vec<Symbol>,
    len: usize,
    /// For each restart segment of the output, the number of symbols up to its end.
    ends: Vec<usize>,
    pub(super) counts: Box<[u32; PLACES]>,
}

/// Properties of one block of an MCU: its component and codes.
#[derive(Clone, Copy)]
struct Phase<'a> {
    component: usize,
    dc: &'a Huffman,
    ac: &'a Huffman,
    column: usize,
    row: usize,
}

impl SymbolList {
    pub(super) fn new() -> Self {
        Self { symbols: Vec::new(), len: 0, ends: Vec::new(), counts: Box::new([0; PLACES]) }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.symbols.capacity() * size_of::<Symbol>() + self.ends.capacity() * size_of::<usize>()
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &[Symbol]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let segment = self.symbols.get(start..end).unwrap_or_default();
            start = end;
            segment
        })
    }

    /// Reads the symbols of a picture and divides them into restart segments of `interval` MCUs. Returns
    /// `None` if the picture is irregular, or has a coefficient that libjpeg does not write.
    #[inline(always)]
    pub(super) fn read(&mut self, layout: &Layout, tables: &Tables, segments: &Segments, interval: u16) -> Option<()> {
        let phases = phases(layout, tables)?;
        let phases = phases.get(..layout.blocks)?;
        self.len = 0;
        self.ends.clear();
        self.counts.fill(0);
        let mcus = layout.columns * layout.rows;
        let most = mcus * phases.len() * BLOCK_SYMBOLS;
        let (mut place, mut left, mut written) = ((0, 0), interval, [0; 3]);
        for index in 0..mcus.div_ceil(layout.interval) {
            let mut segment = segments.get(index)?;
            let mut predictions = [0; 3];
            for _ in layout.mcus(index) {
                if left == 0 {
                    self.ends.push(self.len);
                    (left, written) = (interval, [0; 3]);
                }
                left -= 1;
                self.grow(phases.len() * BLOCK_SYMBOLS, most);
                for phase in phases {
                    let (prediction, written) =
                        (predictions.get_mut(phase.component)?, written.get_mut(phase.component)?);
                    self.read_block(&mut segment.bits, phase, phase.is_shown(layout, place), prediction, written)?;
                }
                place = if place.0 + 1 == layout.columns { (0, place.1 + 1) } else { (place.0 + 1, place.1) };
            }
            segment.is_read().then_some(())?;
        }
        self.ends.push(self.len);
        // If the total fits into 32 bits, no count has overflowed.
        u32::try_from(self.len).is_ok().then_some(())
    }

    /// Makes room for the symbols of one MCU. The picture has at most `most` symbols in total.
    #[inline(always)]
    fn grow(&mut self, mcu: usize, most: usize) {
        let needed = self.len + mcu;
        if needed > self.symbols.len() {
            let size = (needed + needed / 2).min(most);
            self.symbols.reserve_exact(size - self.symbols.len());
            self.symbols.resize(size, Symbol::default());
        }
    }

    /// Reads a block. `prediction` is the DC coefficient of the component's previous block. `written` is the
    /// last DC coefficient written for the component.
    #[inline(always)]
    fn read_block(
        &mut self,
        bits: &mut Bits<'_>,
        phase: &Phase<'_>,
        is_shown: bool,
        prediction: &mut i32,
        written: &mut i32,
    ) -> Option<()> {
        let block: &mut BlockSymbols = self.symbols.get_mut(self.len..)?.first_chunk_mut()?;
        let counts = &mut *self.counts;
        let code = if phase.component == 0 { 0 } else { 2 };
        *prediction += read_difference(bits, phase.dc)?;
        i16::try_from(*prediction).ok()?;
        let mut count = read_coefficients(bits, phase.ac, code + 1, block, counts)?;
        if is_shown {
            block[0] = difference_symbol(*prediction - *written, code, counts)?;
            *written = *prediction;
        } else {
            // For a padding block, libjpeg writes no AC coefficients, and repeats the DC coefficient of the previous
            // block.
            forget(block.get(1..count)?, counts);
            block[0] = difference_symbol(0, code, counts)?;
            block[1] = counted(Symbol::new(code + 1, END, 0), counts);
            count = 2;
        }
        self.len += count;
        Some(())
    }
}

impl Phase<'_> {
    /// Returns true if the block at `place` (column and row within the MCU) is part of the picture. At the
    /// right and lower edges, some luma blocks are padding.
    #[inline(always)]
    const fn is_shown(&self, layout: &Layout, place: (usize, usize)) -> bool {
        self.component > 0
            || (place.0 * layout.h + self.column) * 8 < layout.window.width as usize
                && (place.1 * layout.v + self.row) * 8 < layout.window.height as usize
    }
}

/// Returns the blocks of an MCU, in an array that is large enough for any MCU.
fn phases<'a>(layout: &Layout, tables: &'a Tables) -> Option<[Phase<'a>; MOST_BLOCKS]> {
    let phase = |component, column, row| {
        let (dc, ac) = tables.huffman(component)?;
        Some(Phase { component, dc, ac, column, row })
    };
    let mut phases = [phase(0, 0, 0)?; MOST_BLOCKS];
    let luma = (0..layout.v).flat_map(|row| (0..layout.h).map(move |column| (0, column, row)));
    let chroma = (1..layout.components).map(|component| (component, 0, 0));
    for ((component, column, row), place) in luma.chain(chroma).zip(&mut phases) {
        *place = phase(component, column, row)?;
    }
    Some(phases)
}

#[inline(always)]
fn counted(symbol: Symbol, counts: &mut [u32; PLACES]) -> Symbol {
    if let Some(count) = counts.get_mut(symbol.place()) {
        *count = count.wrapping_add(1);
    }
    symbol
}

/// Subtracts symbols that will not be written from `counts`.
fn forget(symbols: &[Symbol], counts: &mut [u32; PLACES]) {
    for symbol in symbols {
        if let Some(count) = counts.get_mut(symbol.place()) {
            *count = count.wrapping_sub(1);
        }
    }
}

/// Returns the symbol of a DC difference, or `None` if libjpeg does not write it.
#[inline(always)]
fn difference_symbol(difference: i32, code: u32, counts: &mut [u32; PLACES]) -> Option<Symbol> {
    (size_of_value(difference) <= MOST_VALUE_BITS).then(|| counted(Symbol::of_value(code, 0, difference), counts))
}

#[inline(always)]
fn read_difference(bits: &mut Bits<'_>, dc: &Huffman) -> Option<i32> {
    bits.refill();
    let mut entry = *dc.lookup.get(bits.peek::<LOOKUP>())?;
    if entry.step() != 1 {
        entry = match entry.with_long_value(bits) {
            Some(found) => found,
            None => dc.long(entry, *bits)?,
        };
    }
    bits.skip(entry.bits());
    Some(entry.value().into())
}

/// Reads the AC symbols of a block into `block`, from position 1 on. Returns the position after the last one,
/// or `None` if the block is irregular or has a coefficient that libjpeg does not write.
#[inline(always)]
fn read_coefficients(
    bits: &mut Bits<'_>,
    ac: &Huffman,
    code: u32,
    block: &mut BlockSymbols,
    counts: &mut [u32; PLACES],
) -> Option<usize> {
    let (mut at, mut count) = (0, 1);
    loop {
        bits.refill();
        for _ in 0..TURN {
            let mut entry = *ac.lookup.get(bits.peek::<LOOKUP>())?;
            let next = at + entry.step();
            if next < 63 {
                bits.skip(entry.bits());
                at = next;
                let symbol = Symbol::of_value(code, entry.step() - 1, entry.value().into());
                *block.get_mut(count)? = counted(symbol, counts);
                count += 1;
                continue;
            }
            if entry.step() > CodeEntry::END {
                bits.refill();
                entry = match entry.with_long_value(bits) {
                    Some(found) => found,
                    None => ac.long(entry, *bits)?,
                };
            }
            bits.skip(entry.bits());
            let is_end = entry.step() == CodeEntry::END;
            if !is_end {
                at += entry.step();
                let value = i32::from(entry.value());
                if at > 63 || size_of_value(value) > COEFFICIENT_BITS {
                    return None;
                }
                *block.get_mut(count)? = counted(Symbol::of_value(code, entry.step() - 1, value), counts);
                count += 1;
            }
            if is_end || at == 63 {
                return finished(block, count, code, is_end, counts);
            }
            break;
        }
    }
}

/// Ends a block of `count` symbols like libjpeg: removes symbols for sixteen zeros at the end, and adds the end mark
/// if needed. Returns the number of symbols.
#[inline(always)]
fn finished(
    block: &mut BlockSymbols,
    mut count: usize,
    code: u32,
    mut is_end: bool,
    counts: &mut [u32; PLACES],
) -> Option<usize> {
    while count > 1 && block.get(count - 1)?.symbol() == SIXTEEN_ZEROS {
        count -= 1;
        forget(block.get(count..=count)?, counts);
        is_end = true;
    }
    if is_end {
        *block.get_mut(count)? = counted(Symbol::new(code, END, 0), counts);
        count += 1;
    }
    Some(count)
}
