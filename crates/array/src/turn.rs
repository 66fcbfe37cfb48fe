//! Describes flips and quarter turns of an array's pixels.

/// Flips and quarter turns of the pixels. The output pixel `[row, column]` is the array's pixel `[a, b]`, or `[b, a]`
/// if rows and columns are exchanged. `a` is `row` and `b` is `column`, each counted from the end if flipped.
///
/// ```
/// use shardpack_array::Turn;
/// // Counterclockwise, like `numpy.rot90`: the last column becomes the first row.
/// let quarter = Turn::new(false, false, 1);
/// assert_eq!(quarter.source([0, 0], [5, 5]), [0, 4]);
/// assert_eq!(quarter.source([4, 0], [5, 5]), [0, 0]);
/// assert!(Turn::new(true, true, 2).is_none(), "two flips are half a turn");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// True if the planes of a volume's box are output in reverse order. The other flips apply to all planes alike.
    /// Arrays without planes ignore this flag.
    pub flip_planes: bool,
    /// True if the first output row is the array's last row (or its last column, if rows and columns are exchanged).
    pub flip_rows: bool,
    /// True if the first output column is the array's last column (or its last row, if rows and columns are exchanged).
    pub flip_columns: bool,
    /// True if rows become columns. Only possible for squares.
    pub transpose: bool,
}

impl Turn {
    /// A turn that leaves every pixel in place.
    pub const NONE: Self = Self { flip_planes: false, flip_rows: false, flip_columns: false, transpose: false };

    /// Creates a turn that consists of `quarters` quarter turns counterclockwise, followed by the flips.
    #[must_use]
    pub const fn new(flip_rows: bool, flip_columns: bool, quarters: u8) -> Self {
        let (rows, columns, transpose) = match quarters % 4 {
            0 => (false, false, false),
            1 => (true, false, true),
            2 => (true, true, false),
            _ => (false, true, true),
        };
        Self { flip_planes: false, flip_rows: rows != flip_rows, flip_columns: columns != flip_columns, transpose }
    }

    /// True if every pixel stays in place.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.flip_planes && !self.flip_rows && !self.flip_columns && !self.transpose
    }

    /// Returns the pixel of the array that is output at `[row, column]`. The output has `rows` rows and `columns`
    /// columns, and the pixel must be within it.
    #[must_use]
    pub const fn source(&self, [row, column]: [usize; 2], [rows, columns]: [usize; 2]) -> [usize; 2] {
        let a = if self.flip_rows { rows - 1 - row } else { row };
        let b = if self.flip_columns { columns - 1 - column } else { column };
        if self.transpose { [b, a] } else { [a, b] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarter(pixels: &[[u8; 3]; 3]) -> [[u8; 3]; 3] {
        std::array::from_fn(|row| std::array::from_fn(|column| pixels[column][2 - row]))
    }

    #[test]
    fn turns_come_before_flips() {
        let pixels = [[1, 2, 3], [4, 5, 6], [7, 8, 9]];
        for quarters in 0..8 {
            for flips in 0..4 {
                let (flip_rows, flip_columns) = (flips & 1 == 1, flips & 2 == 2);
                let mut expected = (0..quarters).fold(pixels, |pixels, _| quarter(&pixels));
                if flip_rows {
                    expected.reverse();
                }
                if flip_columns {
                    expected.iter_mut().for_each(|row| row.reverse());
                }
                let turn = Turn::new(flip_rows, flip_columns, quarters);
                let found: [[u8; 3]; 3] = std::array::from_fn(|row| {
                    std::array::from_fn(|column| {
                        let [y, x] = turn.source([row, column], [3, 3]);
                        pixels[y][x]
                    })
                });
                assert_eq!(found, expected, "{quarters} {flips}");
                assert_eq!(turn.is_none(), found == pixels);
            }
        }
    }
}
