//! Access to the memory of an output row: either the whole row, or the part that one thread may write.

use shardpack_format::{Error, Result};
use std::ops::Range;

/// Gives a writer access to its bytes of an output row.
pub trait OutputRow {
    /// Returns the bytes in `range` of the row, or `None` if some of them are outside the row or belong to another
    /// writer.
    fn bytes(&mut self, range: Range<usize>) -> Option<&mut [u8]>;
}

impl OutputRow for &mut [u8] {
    fn bytes(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        self.get_mut(range)
    }
}

/// Returns the bytes in `range` of a row for writing.
///
/// # Errors
/// `Usage` if the caller's row does not include these bytes.
pub(crate) fn place(row: &mut dyn OutputRow, range: Range<usize>) -> Result<&mut [u8]> {
    let end = range.end;
    row.bytes(range)
        .ok_or_else(|| Error::usage(format!("not all of the output row's first {end} bytes can be written")))
}

/// Maps each byte of an output row to its pixel in the array. If several threads fill a row, each thread writes the
/// bytes of the pixels that it decodes.
///
/// A row consists of planes, and a plane of lines of pixels. The index of the pixel in the array changes by one
/// constant from line to line and by another from pixel to pixel.
///
/// ```
/// use shardpack_array::Origins;
/// // Two bytes per pixel, lines of three, rotated by 180°.
/// let turned = Origins { plane_bytes: 12, unit_bytes: 2, columns: 3, start: 5, plane: 0, row: -3, column: -1 };
/// assert_eq!((turned.of(0..2), turned.of(6..10)), (Some([5, 5]), Some([2, 1])));
/// assert_eq!(turned.of(4..8), None, "two lines");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origins {
    /// Number of bytes per plane.
    pub plane_bytes: usize,
    /// Number of bytes per pixel within a plane.
    pub unit_bytes: usize,
    /// Number of pixels per line.
    pub columns: usize,
    /// Index of the pixel that the first byte belongs to.
    pub start: i64,
    /// Change of the pixel index from plane to plane.
    pub plane: i64,
    /// Change of the pixel index from line to line.
    pub row: i64,
    /// Change of the pixel index from pixel to pixel.
    pub column: i64,
}

impl Origins {
    /// Returns the origins for a row that keeps every pixel in place. Each pixel has `unit_bytes` bytes.
    #[must_use]
    pub const fn in_order(unit_bytes: usize) -> Self {
        let all = usize::MAX;
        Self { plane_bytes: all, unit_bytes, columns: all, start: 0, plane: 0, row: 0, column: 1 }
    }

    /// Returns the pixels to which the first and the last of `bytes` belong. The bytes in between belong to pixels
    /// between these two. Returns `None` if the range is empty or spans several lines.
    #[must_use]
    pub fn of(&self, bytes: Range<usize>) -> Option<[i64; 2]> {
        let last = bytes.end.checked_sub(1).filter(|last| *last >= bytes.start)?;
        let line = |at: usize| {
            let unit = at.checked_rem(self.plane_bytes)?.checked_div(self.unit_bytes)?;
            Some([at / self.plane_bytes, unit.checked_div(self.columns)?, unit % self.columns])
        };
        let ([plane, row, first], [last_plane, last_row, last]) = (line(bytes.start)?, line(last)?);
        let number = |n: usize, step: i64| i64::try_from(n).ok()?.checked_mul(step);
        let start = self.start.checked_add(number(plane, self.plane)?)?.checked_add(number(row, self.row)?)?;
        let of = |column: usize| start.checked_add(number(column, self.column)?);
        if (plane, row) != (last_plane, last_row) {
            return None;
        }
        Some([of(first)?, of(last)?])
    }
}
