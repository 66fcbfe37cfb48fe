//! Writes the entropy-coded data.
#![deny(clippy::indexing_slicing)]

use super::code::OptimalCodes;
use super::symbols::{Symbol, SymbolList};
use crate::shared::KEPT_BYTES;
use memchr::memchr_iter;
use shardpack_base::parts::grow;

/// Maximum size of a symbol together with its value, in bytes.
const SYMBOL_BYTES: usize = 4;

const WORD_BYTES: usize = size_of::<u64>();

/// Writes scans. Its buffer grows to fit the largest segment so far.
#[derive(Default)]
pub(super) struct ScanWriter {
    /// The segment without stuffing.
    bytes: Vec<u8>,
}

impl ScanWriter {
    pub(super) fn trim(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Appends all restart segments, with markers between them, and EOI.
    #[inline(always)]
    pub(super) fn write(&mut self, symbols: &SymbolList, codes: &OptimalCodes, out: &mut Vec<u8>) -> Option<()> {
        let mut marker: Option<u8> = None;
        for segment in symbols.segments() {
            if let Some(marker) = marker {
                out.extend([0xFF, 0xD0 | marker]);
            }
            marker = Some(marker.map_or(0, |before| (before + 1) & 7));
            let room = grow(&mut self.bytes, segment.len() * SYMBOL_BYTES + 2 * WORD_BYTES);
            let length = write_segment(segment, codes, room)?;
            stuff(room.get(..length)?, out)?;
        }
        out.extend([0xFF, 0xD9]);
        Some(())
    }
}

/// Collects bits and writes them as whole bytes.
struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// The last `held` bits of the buffer have not been written yet.
    buffer: u64,
    held: u32,
}

impl BitWriter<'_> {
    #[inline(always)]
    fn put(&mut self, symbol: Symbol, codes: &OptimalCodes) -> Option<()> {
        let word = *codes.words.get(symbol.place())?;
        self.buffer = self.buffer << word.bits() | u64::from(word.word() | symbol.value());
        self.held += word.bits();
        Some(())
    }

    /// Writes all whole bytes. To avoid a branch, it always writes eight bytes. The next call overwrites the bytes
    /// that are not complete yet.
    #[inline(always)]
    fn flush(&mut self) -> Option<()> {
        let bytes = (self.buffer << ((64 - self.held) & 63)).to_be_bytes();
        *self.bytes.get_mut(self.at..)?.first_chunk_mut()? = bytes;
        self.at += (self.held / 8) as usize;
        self.held &= 7;
        Some(())
    }
}

/// Writes a segment, and fills its last byte with ones. Returns the number of bytes.
#[inline(always)]
fn write_segment(symbols: &[Symbol], codes: &OptimalCodes, bytes: &mut [u8]) -> Option<usize> {
    let mut bits = BitWriter { bytes, at: 0, buffer: 0, held: 0 };
    let (pairs, rest) = symbols.as_chunks::<2>();
    for &[first, second] in pairs {
        bits.put(first, codes)?;
        bits.put(second, codes)?;
        bits.flush()?;
    }
    for &symbol in rest {
        bits.put(symbol, codes)?;
        bits.flush()?;
    }
    if bits.held > 0 {
        let missing = 8 - bits.held;
        bits.buffer = bits.buffer << missing | ((1 << missing) - 1);
        bits.held = 8;
        bits.flush()?;
    }
    Some(bits.at)
}

#[inline(always)]
fn stuff(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut copied = 0;
    for at in memchr_iter(0xFF, bytes) {
        out.extend_from_slice(bytes.get(copied..=at)?);
        out.push(0);
        copied = at + 1;
    }
    out.extend_from_slice(bytes.get(copied..)?);
    Some(())
}
