//! Entropy decoding: turns bits into coefficients, alternating between two segments.
//!
//! The start of a symbol is known only after the lookup of the previous symbol, which takes about eight
//! cycles. A Huffman decoder spends most of this time waiting. The segments of a tiled picture do not wait
//! for each other.

use super::huffman::{CodeEntry, Huffman, LOOKUP};
use super::segments::Segment;

/// Quantised coefficients of a block, in natural order.
pub(super) type Coefficients = [i16; 64];

/// Maximum number of symbols that are decoded from a segment before switching to the other one. The bit buffer is
/// refilled to 56 bits only once per turn, and each symbol may consume up to LOOKUP bits.
pub(super) const TURN: usize = 5;
const _: () = assert!(TURN * LOOKUP as usize <= 56);

pub(super) const NATURAL: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// The component of one block of an MCU, and the component's tables.
#[derive(Clone, Copy)]
pub(super) struct Phase<'a> {
    pub(super) component: usize,
    pub(super) dc: &'a Huffman,
    pub(super) ac: &'a Huffman,
}

/// A segment, and the blocks that are decoded from it.
///
/// All fields should stay in registers. Therefore the code never indexes an array with a variable, and passes
/// references only to inlined functions.
pub(super) struct BlockReader<'a, 'b> {
    segment: Segment<'a>,
    /// Zigzag position of the last coefficient that was read in the current block.
    at: u32,
    block: &'b mut Coefficients,
    ac: &'a [CodeEntry; 1 << LOOKUP],
    phase: usize,
    phases: &'b [Phase<'a>],
    blocks: std::slice::IterMut<'b, Coefficients>,
    lasts: std::slice::IterMut<'b, u8>,
}

enum Turn {
    More,
    Done,
    Odd,
}

impl<'a, 'b> BlockReader<'a, 'b> {
    /// Creates a reader. `blocks` must be zero and belong to whole MCUs. `lasts` receives the position of
    /// each block's last coefficient. Returns `None` if `blocks` is empty or the first symbol is irregular.
    #[inline(always)]
    pub(super) fn new(
        segment: Segment<'a>,
        phases: &'b [Phase<'a>],
        blocks: &'b mut [Coefficients],
        lasts: &'b mut [u8],
    ) -> Option<Self> {
        debug_assert!(blocks.len().is_multiple_of(phases.len()), "whole MCUs");
        if blocks.len() != lasts.len() {
            return None;
        }
        let mut blocks = blocks.iter_mut();
        let block = blocks.next()?;
        let ac = &*phases.first()?.ac.lookup;
        let mut stream = Self { segment, at: 0, block, ac, phase: 0, phases, blocks, lasts: lasts.iter_mut() };
        stream.start().then_some(stream)
    }

    /// Reads the difference of a DC coefficient. Returns `false` if the difference is irregular.
    #[inline(always)]
    fn start(&mut self) -> bool {
        let Some(phase) = self.phases.get(self.phase) else { return false };
        self.ac = &phase.ac.lookup;
        let bits = &mut self.segment.bits;
        bits.refill();
        let mut entry = phase.dc.lookup[bits.peek::<LOOKUP>()];
        if let Some(found) = entry.with_long_value(bits) {
            entry = found;
        } else if entry.step() != 1 {
            match phase.dc.long(entry, *bits) {
                Some(found) => entry = found,
                None => return false,
            }
        }
        bits.skip(entry.bits());
        self.block[0] = entry.value();
        self.at = 0;
        true
    }

    #[inline(always)]
    fn turn(&mut self) -> Turn {
        self.segment.bits.refill();
        for _ in 0..TURN {
            let entry = self.ac[self.segment.bits.peek::<LOOKUP>()];
            let at = self.at + entry.step();
            if at >= 63 {
                return self.rare(entry);
            }
            self.segment.bits.skip(entry.bits());
            self.block[usize::from(NATURAL[at as usize] & 63)] = entry.value();
            self.at = at;
        }
        Turn::More
    }

    /// Handles everything outside the fast path: the end of a block, the last of 64 coefficients, and codes
    /// or values that are not in the table.
    #[inline(always)]
    fn rare(&mut self, mut entry: CodeEntry) -> Turn {
        if entry.step() > CodeEntry::END {
            self.segment.bits.refill();
            if let Some(found) = entry.with_long_value(&self.segment.bits) {
                entry = found;
            } else {
                let Some(phase) = self.phases.get(self.phase) else { return Turn::Odd };
                match phase.ac.long(entry, self.segment.bits) {
                    Some(found) => entry = found,
                    None => return Turn::Odd,
                }
            }
        }
        self.segment.bits.skip(entry.bits());
        if entry.step() != CodeEntry::END {
            let at = self.at + entry.step();
            if at > 63 {
                return Turn::Odd;
            }
            self.block[usize::from(NATURAL[at as usize] & 63)] = entry.value();
            self.at = at;
            if at < 63 {
                return Turn::More;
            }
        }
        // Record the last position for every block. With the position of another block, the inverse
        // DCT would take shortcuts that are wrong for this one.
        let Some(last) = self.lasts.next() else { return Turn::Odd };
        #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
        let at = self.at as u8;
        *last = at;
        let Some(block) = self.blocks.next() else { return Turn::Done };
        self.block = block;
        self.phase += 1;
        if self.phase == self.phases.len() {
            self.phase = 0;
        }
        if self.start() { Turn::More } else { Turn::Odd }
    }
}

#[inline(always)]
pub(super) fn decode_one<'a>(mut stream: BlockReader<'a, '_>) -> Option<Segment<'a>> {
    loop {
        match stream.turn() {
            Turn::More => {}
            Turn::Done => return Some(stream.segment),
            Turn::Odd => return None,
        }
    }
}

/// Decodes two streams alternately until one of them ends. Returns the segment of the finished stream and the
/// unfinished stream, or `None` if a stream is irregular.
#[inline(always)]
fn decode_two<'a, 'b>(
    mut a: BlockReader<'a, 'b>,
    mut b: BlockReader<'a, 'b>,
) -> Option<(Segment<'a>, BlockReader<'a, 'b>)> {
    loop {
        match a.turn() {
            Turn::More => {}
            Turn::Done => return Some((a.segment, b)),
            Turn::Odd => return None,
        }
        match b.turn() {
            Turn::More => {}
            Turn::Done => return Some((b.segment, a)),
            Turn::Odd => return None,
        }
    }
}

/// Fills the blocks of all streams. Each stream is a whole segment. Returns `None` if a stream is
/// irregular, too short or too long.
#[inline(always)]
pub(super) fn decode_all<'a: 'b, 'b>(mut streams: impl Iterator<Item = Option<BlockReader<'a, 'b>>>) -> Option<()> {
    let mut waiting = None;
    loop {
        let first = match waiting.take() {
            Some(stream) => stream,
            None => match streams.next() {
                Some(stream) => stream?,
                None => return Some(()),
            },
        };
        let done = match streams.next() {
            None => decode_one(first)?,
            Some(second) => {
                let (done, other) = decode_two(first, second?)?;
                waiting = Some(other);
                done
            }
        };
        done.is_read().then_some(())?;
    }
}

/// Adds up the differences of DC coefficients, with one prediction per component. Returns `None` if a
/// coefficient is out of range.
#[inline(always)]
pub(super) fn integrate(blocks: &mut [Coefficients], phases: &[Phase<'_>], predictions: &mut [i32; 3]) -> Option<()> {
    for mcu in blocks.chunks_exact_mut(phases.len()) {
        for (block, phase) in mcu.iter_mut().zip(phases) {
            let prediction = predictions.get_mut(phase.component)?;
            *prediction += i32::from(block[0]);
            block[0] = i16::try_from(*prediction).ok()?;
        }
    }
    Some(())
}
