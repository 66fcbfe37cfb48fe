//! What a block of threads makes of the output: as much as its source fits into shared memory.

use super::record::{TILE_BETWEEN, TILE_PIXELS};
use shardpack_jpeg::ResizedAxis;

/// Most rows of a tile: more make each block longer, and a batch fewer blocks.
const MAX_ROWS: u32 = 16;

/// Weights that are kept for each pixel of an axis.
pub(super) fn taps(axis: &ResizedAxis) -> u32 {
    if axis.copies { 1 } else { whole(radius(axis).ceil()) * 2 + 1 }
}

/// Most pixels of the source that `count` neighbours on the axis are made of.
fn reach(axis: &ResizedAxis, count: u32) -> u32 {
    if axis.copies {
        return count;
    }
    // From the first centre to the last, the filter's radius on both sides, and a pixel for
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

/// Columns and rows of a tile. `None` if not even one pixel's source fits.
pub(super) fn tile(x: &ResizedAxis, y: &ResizedAxis) -> Option<(u32, u32)> {
    let (mut columns, mut rows) = (x.resized, y.resized.min(MAX_ROWS));
    loop {
        let (width, height) = (reach(x, columns), reach(y, rows));
        if width.checked_mul(height)? <= TILE_PIXELS && width.checked_mul(rows)? <= TILE_BETWEEN {
            return Some((columns, rows));
        }
        // Wide tiles waste less at their edges than high ones do: rows go first, down to a few.
        if rows > 4 || (columns <= 32 && rows > 1) {
            rows = rows.div_ceil(2);
        } else if columns > 1 {
            columns = columns.div_ceil(2);
        } else {
            return None;
        }
    }
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
        let (columns, rows) = tile(&crop, &crop).unwrap();
        assert!(columns == 224 && rows >= 8, "{columns} × {rows}");
        assert!(reach(&crop, columns) * reach(&crop, rows) <= TILE_PIXELS);
        let wide = axis(0.0, 65_535.0, 65_535, 65_535);
        let (columns, rows) = tile(&wide, &wide).unwrap();
        assert!(columns * rows <= TILE_BETWEEN && columns * rows * 4 > TILE_BETWEEN);
        let shrunk = axis(0.0, 4000.0, 4000, 20);
        assert_eq!(tile(&shrunk, &shrunk), None);
    }
}
