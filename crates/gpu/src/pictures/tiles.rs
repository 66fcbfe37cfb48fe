//! Tiles: the parts of the output that are each made by one block of threads. The source of a tile must fit
//! in shared memory.

use super::layout::{TILE_BETWEEN, TILE_PIXELS};
use shardpack_jpeg::ResizedAxis;

/// Possible numbers of rows of a tile. More rows would make each block take longer and give a batch fewer blocks.
const ROWS: [u32; 6] = [32, 16, 8, 4, 2, 1];

/// Returns the number of weights kept per pixel of an axis. It is even because weights are read in pairs.
pub(super) fn taps(axis: &ResizedAxis) -> u32 {
    if axis.copies { 2 } else { whole(radius(axis).ceil()) * 2 + 2 }
}

/// Returns the maximum number of source pixels for `count` adjacent pixels on the axis.
fn reach(axis: &ResizedAxis, count: u32) -> u32 {
    if axis.copies {
        return count;
    }
    // The extent from the first centre to the last, the filter's radius on both sides, and a pixel for
    // rounding at each end.
    let extent = f64::from(count - 1) * scale(axis) + 2.0 * radius(axis);
    whole(extent.ceil()).saturating_add(2).min(axis.pixels)
}

fn scale(axis: &ResizedAxis) -> f64 {
    (axis.end - axis.start) / f64::from(axis.resized)
}

fn radius(axis: &ResizedAxis) -> f64 {
    scale(axis).max(1.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the pixels of a side, 65,535, or a little more"
)]
const fn whole(value: f64) -> u32 {
    value as u32
}

/// Returns the number of columns and rows of the tile that causes the least work, or `None` if not even the
/// source of one pixel fits.
pub(super) fn tile(x: &ResizedAxis, y: &ResizedAxis) -> Option<(u32, u32)> {
    let heights = ROWS.map(|rows| (rows.min(y.resized), reach(y, rows.min(y.resized))));
    let mut best = None;
    let halves = std::iter::successors(Some(x.resized), |&columns| (columns > 1).then(|| columns.div_ceil(2)));
    for columns in halves {
        // Threads take four source columns at a time.
        let width = reach(x, columns).saturating_add(3).next_multiple_of(4);
        for (rows, height) in heights {
            let fits = |rows: u32, most: u32| width.checked_mul(rows).is_some_and(|pixels| pixels <= most);
            if !fits(height, TILE_PIXELS) || !fits(rows, TILE_BETWEEN) {
                continue;
            }
            // A source pixel and an output pixel each take twice the work of a pixel between the two passes.
            // Four rows of the output are made together.
            let tiles = u64::from(x.resized.div_ceil(columns)) * u64::from(y.resized.div_ceil(rows));
            let output = columns * rows.next_multiple_of(4);
            let work = tiles * u64::from(2 * width * height + width * rows + 2 * output);
            if best.is_none_or(|(least, _)| work < least) {
                best = Some((work, (columns, rows)));
            }
        }
    }
    best.map(|(_, tile)| tile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(start: f64, extent: f64, pixels: u32, resized: u32) -> ResizedAxis {
        let copies = extent == f64::from(resized) && start == start.round();
        ResizedAxis { start, end: start + extent, pixels, resized, copies }
    }

    #[test]
    fn tiles_fit_and_no_more_than_needed() {
        let crop = axis(0.0, 290.0, 290, 224);
        assert_eq!(tile(&crop, &crop), Some((56, 32)));
        assert!((reach(&crop, 56) + 6) * reach(&crop, 32) <= TILE_PIXELS);
        let wide = axis(0.0, 65_535.0, 65_535, 65_535);
        let (columns, rows) = tile(&wide, &wide).unwrap();
        assert!(columns * rows <= TILE_BETWEEN && columns * rows * 4 > TILE_BETWEEN);
        let single = axis(0.0, 1.0, 1, 1);
        assert_eq!(tile(&single, &single), Some((1, 1)));
        let shrunk = axis(0.0, 4000.0, 4000, 20);
        assert_eq!(tile(&shrunk, &shrunk), None);
    }
}
