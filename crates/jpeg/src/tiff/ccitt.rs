//! Decompresses bilevel rows: CCITT modified Huffman, T.4 (Group 3) and T.6 (Group 4).
//!
//! A row is represented by the columns where its colour changes. Rows start with white. The code tables come from the
//! crate `fax`.

use fax::maps::{Mode, black, mode, white};
use fax::{BitReader, ByteReader};
use std::convert::Infallible;

/// Number of zero bytes after the end. The decoder needs them to look up the last codes.
const PADDING: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fax {
    /// Rows of coded runs. Each row starts at a byte boundary.
    Huffman,
    /// Rows that start with an end-of-line mark. If `two_dimensional` is true, a bit after each mark tells if
    /// the row refers to the row above.
    Group3 { two_dimensional: bool },
    /// Every row refers to the row above.
    Group4,
}

/// Fills `out` with rows of `width` pixels from `packed`. Each pixel is one bit, 1 for black.
pub(super) fn decode(how: Fax, packed: &[u8], width: usize, out: &mut [u8]) -> Result<(), String> {
    let bytes = packed.iter().copied().chain(std::iter::repeat_n(0, PADDING));
    let Ok(mut bits) = ByteReader::new(bytes.map(Ok::<u8, Infallible>));
    let (mut above, mut row) = (Vec::new(), Vec::new());
    for (number, to) in out.chunks_exact_mut(width.div_ceil(8).max(1)).enumerate() {
        row.clear();
        let refers = match how {
            Fax::Huffman => {
                let left = bits.bits_to_byte_boundary();
                let Ok(()) = bits.consume(left);
                false
            }
            Fax::Group3 { two_dimensional } => {
                skip_end_of_row(&mut bits);
                two_dimensional && take(&mut bits, 1) == Some(0)
            }
            Fax::Group4 => true,
        };
        let read = if refers { changes(&mut bits, &above, width, &mut row) } else { runs(&mut bits, width, &mut row) };
        read.ok_or_else(|| format!("row {number} has an invalid CCITT code"))?;
        to.fill(0);
        paint(&row, width, to);
        std::mem::swap(&mut above, &mut row);
    }
    Ok(())
}

fn take(bits: &mut impl BitReader, count: u8) -> Option<u16> {
    let value = bits.peek(count)?;
    bits.consume(count).ok()?;
    Some(value)
}

/// Skips fill bits and an end-of-line mark, if there is one.
fn skip_end_of_row(bits: &mut impl BitReader) {
    // No run starts with nine zeros.
    if bits.peek(9) == Some(0) {
        while take(bits, 1) == Some(0) {}
    }
}

/// Reads a run of one colour: any number of codes for multiples of 64, then a code for a number below 64.
fn run(bits: &mut impl BitReader, is_black: bool) -> Option<usize> {
    let mut length = 0_usize;
    loop {
        let code = if is_black { black::decode(bits) } else { white::decode(bits) }?;
        length = length.checked_add(code.into())?;
        if code < 64 {
            return Some(length);
        }
    }
}

/// Adds a change of colour. If the run before it is empty, the previous change is removed instead.
fn push(row: &mut Vec<usize>, at: usize) {
    if row.last() == Some(&at) {
        row.pop();
    } else {
        row.push(at);
    }
}

fn runs(bits: &mut impl BitReader, width: usize, row: &mut Vec<usize>) -> Option<()> {
    let (mut at, mut is_black) = (0_usize, false);
    while at < width {
        at = at.checked_add(run(bits, is_black)?).filter(|&at| at <= width)?;
        push(row, at);
        is_black = !is_black;
    }
    Some(())
}

/// Reads a row that is coded as differences from the row above (T.6, 2.2).
fn changes(bits: &mut impl BitReader, above: &[usize], width: usize, row: &mut Vec<usize>) -> Option<()> {
    // `at` is a0 of the standard. `next` is the first change in the row above to the right of a0.
    let (mut at, mut next, mut is_black) = (0, 0, false);
    let mut is_start = true;
    while at < width {
        while above.get(next).is_some_and(|&change| change <= at && !(is_start && change == 0)) {
            next += 1;
        }
        // The change b1 of the standard must be to the colour opposite to the current one.
        let first = next + usize::from(next % 2 != usize::from(is_black));
        let change = |place: usize| above.get(place).copied().unwrap_or(width);
        match mode::decode(bits)? {
            Mode::Pass => at = change(first + 1),
            Mode::Vertical(delta) => {
                let to = change(first).checked_add_signed(delta.into())?;
                if to < at || to > width {
                    return None;
                }
                at = to;
                push(row, at);
                is_black = !is_black;
                // Step back, because the next b1 may lie to the left of a change that was skipped.
                next = next.saturating_sub(2);
            }
            Mode::Horizontal => {
                for black in [is_black, !is_black] {
                    at = at.checked_add(run(bits, black)?).filter(|&at| at <= width)?;
                    push(row, at);
                }
            }
            Mode::Extension | Mode::EOF => return None,
        }
        is_start = false;
    }
    Some(())
}

/// Sets the bits of the black runs to 1.
fn paint(changes: &[usize], width: usize, to: &mut [u8]) {
    for run in changes.chunks(2) {
        let (start, end) = match *run {
            [start, end] => (start, end),
            [start] => (start, width),
            _ => (0, 0),
        };
        for column in start..end {
            if let Some(byte) = to.get_mut(column / 8) {
                *byte |= 0x80 >> (column % 8);
            }
        }
    }
}
