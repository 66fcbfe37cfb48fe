//! Chooses the number of MCUs between two restart markers (docs/adr/0006-restart-interval.md).
//!
//! Short segments fit a crop better, but long segments need fewer markers. The best length depends on the
//! bytes per MCU. On a device, one thread decodes a segment, so the longest segment determines the time.
//! Segments can be cut out as a JPEG only if they are rectangles, which requires that the interval divide the MCU row.
#![deny(clippy::indexing_slicing)]

use super::mcu_grid::McuGrid;

/// Cost of one more segment, in bytes of entropy-coded data. Storing a segment takes 3.5 bytes: the marker, padding
/// bits, and DC values that start from 0 again. The other 4.5 bytes account for the time that a marker costs in cutting
/// and decoding.
const SEGMENT_BYTES: f64 = 8.0;

/// Weight of a stored byte relative to a byte that a crop passes to the decoder. A larger weight leads to
/// wider tiles.
const STORED: f64 = 1.25;

/// Average share of a picture's width that a random resized crop (scale 0.08–1) covers, and average number of
/// additional tiles that must be read at its two edges.
const CROP: (f64, f64) = (0.68, 0.75);

/// Maximum number of blocks in a segment, unless a single MCU has more.
pub(super) const LONGEST: u32 = 24;

/// Maximum cost of an interval that divides the MCU row, relative to the cost of the best interval.
const DIVISOR: f64 = 1.04;

/// Distance between the restart markers of a tiled picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interval {
    /// The interval that [`restart_interval`] chooses.
    #[default]
    Auto,
    /// A marker after each MCU row.
    Row,
    /// A marker after this many MCUs, at least 1. A number that does not divide the MCU row does not slow down decoding
    /// by segments, but then no rectangle can be cut out as a JPEG.
    Mcus(u16),
}

impl Interval {
    pub(super) fn of(self, grid: McuGrid, source_bytes: usize) -> u16 {
        match self {
            Self::Auto => restart_interval(grid.columns, grid.rows, grid.blocks, source_bytes),
            Self::Row => narrow(grid.columns),
            Self::Mcus(mcus) => mcus,
        }
    }
}

/// Returns the restart interval for a picture of `mcus_per_row` × `mcu_rows` MCUs with `blocks` blocks each,
/// whose file has `source_bytes`.
///
/// A model predicts the number of stored bytes, and the number of bytes that random resized crops pass to the
/// decoder. The interval with the lowest cost wins. Segments have at most 24 blocks. A divisor of the MCU row
/// is preferred if it costs at most 4 % more.
///
/// ```
/// use shardpack_jpeg::restart_interval;
/// // 500 × 375 pixels in 4:4:4, 110 kB: nine tiles per row.
/// assert_eq!(restart_interval(63, 47, 3, 110_000), 7);
/// // 47 is prime, so only tiles of one MCU fit, which are worthwhile if MCUs are large.
/// assert_eq!(restart_interval(47, 63, 3, 1_000_000), 1);
/// assert_eq!(restart_interval(47, 63, 3, 110_000), 5);
/// ```
#[must_use]
pub fn restart_interval(mcus_per_row: u32, mcu_rows: u32, blocks: u32, source_bytes: usize) -> u16 {
    let cost = cost(mcus_per_row, mcu_rows, source_bytes);
    let cost = |k: u32| cost(k) * if mcus_per_row.is_multiple_of(k) { 1.0 } else { DIVISOR };
    narrow((1..=most(mcus_per_row, blocks)).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(1))
}

/// Returns the number of MCUs per segment of an index. `restarts` is the number of MCUs between restart markers, or 0
/// if there are no markers. The result divides it. See [`restart_interval`] for the other arguments.
///
/// The length of segments is limited as for tiles, so a device needs the same time for both. But no program cuts a
/// JPEG by an index, so divisors of the MCU row are not preferred.
pub(super) fn index_interval(mcus_per_row: u32, mcu_rows: u32, blocks: u32, source_bytes: usize, restarts: u32) -> u32 {
    let cost = cost(mcus_per_row, mcu_rows, source_bytes);
    let fitting = (1..=most(mcus_per_row, blocks)).filter(|&k| restarts.is_multiple_of(k));
    fitting.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(1)
}

/// Returns a function that computes the relative cost of an interval of `k` MCUs.
#[allow(clippy::cast_precision_loss, reason = "a model: the neighbour of the best is nearly as good")]
fn cost(mcus_per_row: u32, mcu_rows: u32, source_bytes: usize) -> impl Fn(u32) -> f64 {
    let mcu_bytes = source_bytes as f64 / (f64::from(mcus_per_row) * f64::from(mcu_rows)).max(1.0);
    move |k| {
        let stored = mcu_bytes + SEGMENT_BYTES / f64::from(k);
        let touched = (CROP.0 + CROP.1 * f64::from(k) / f64::from(mcus_per_row)).min(1.0);
        stored * (STORED + touched)
    }
}

/// Returns the maximum number of MCUs in a segment.
fn most(mcus_per_row: u32, blocks: u32) -> u32 {
    LONGEST.checked_div(blocks).unwrap_or(1).clamp(1, mcus_per_row.max(1))
}

/// Converts an interval to 16 bits. It always fits, because an MCU row has at most 65535 / 8 MCUs.
fn narrow(interval: u32) -> u16 {
    u16::try_from(interval).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_segment_is_long(columns in 1u32..8192, rows in 1u32..8192, blocks in 1u32..7, bytes in 0usize..1 << 30) {
            let grid = McuGrid { columns, rows, blocks, ..McuGrid::new(8, 8, [1, 1, 1]) };
            let interval = u32::from(Interval::Auto.of(grid, bytes));
            prop_assert!((1..=columns).contains(&interval) && interval * blocks <= LONGEST);
            prop_assert_eq!(u32::from(Interval::Row.of(grid, bytes)), columns);
        }

        #[test]
        fn no_segment_of_an_index_is_long(
            (columns, rows) in (1u32..8192, 1u32..8192),
            blocks in 1u32..7,
            bytes in 0usize..1 << 30,
            restarts in 0u32..100,
        ) {
            let interval = index_interval(columns, rows, blocks, bytes, restarts);
            prop_assert!((1..=columns).contains(&interval) && interval * blocks <= LONGEST);
            prop_assert!(restarts.is_multiple_of(interval));
        }
    }

    #[test]
    fn large_mcus_get_narrow_tiles() {
        // A row of 64 MCUs always has a divisor that costs little.
        let intervals = [10, 20, 40, 100, 1000].map(|mcu_bytes| restart_interval(64, 48, 1, 64 * 48 * mcu_bytes));
        assert_eq!(intervals, [16, 8, 8, 4, 1]);
        // Two by two luma blocks and two chroma blocks are 6 blocks per MCU. Four MCUs reach the
        // maximum of 24 blocks.
        assert_eq!(restart_interval(64, 48, 6, 64 * 48 * 10), 4);
    }

    #[test]
    fn segments_of_an_index_are_about_as_long_as_tiles() {
        // 500 × 375 pixels in 4:4:4, upright and turned. The results need not divide 63 or 47, which is prime.
        assert_eq!([110_000, 1_000_000].map(|bytes| index_interval(63, 47, 3, bytes, 0)), [6, 2]);
        assert_eq!([110_000, 1_000_000].map(|bytes| index_interval(47, 63, 3, bytes, 0)), [5, 2]);
        // The result must divide the restart interval.
        assert_eq!([63, 62, 47].map(|restarts| index_interval(63, 47, 3, 110_000, restarts)), [7, 2, 1]);
        assert_eq!(index_interval(48, 1, 1, 18, 0), 24);
    }
}
