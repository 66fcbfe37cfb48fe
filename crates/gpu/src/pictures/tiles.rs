//! Divides the output into tiles. A block of threads computes a tile, and the source pixels of the tile must fit in
//! shared memory.

use super::layout::{TILE_BETWEEN, TILE_PIXELS};
use shardpack_jpeg::{AxisFilter, Placement, ResizedAxis};

/// Numbers of rows that a tile may have. With more rows, each block would take longer, and a batch would have fewer
/// blocks.
const ROWS: [u32; 6] = [32, 16, 8, 4, 2, 1];

/// Returns the number of weights stored per pixel of an axis. It is even, because weights are read in pairs.
pub(super) fn taps(axis: &ResizedAxis) -> u32 {
    match axis.filter {
        AxisFilter::Copy | AxisFilter::Nearest { .. } => 2,
        AxisFilter::Triangle | AxisFilter::Cubic => whole(radius(axis).ceil()) * 2 + 2,
    }
}

/// Returns the maximum number of source pixels for `count` adjacent pixels on the axis.
fn reach(axis: &ResizedAxis, count: u32) -> u32 {
    if axis.filter == AxisFilter::Copy {
        return count;
    }
    // The distance from the first centre to the last, the radius of the filter on both sides, and one pixel for
    // rounding at each end.
    let extent = f64::from(count - 1) * scale(axis) + 2.0 * radius(axis);
    whole(extent.ceil()).saturating_add(2).min(axis.pixels)
}

fn scale(axis: &ResizedAxis) -> f64 {
    (axis.end - axis.start) / f64::from(axis.resized)
}

/// Returns the radius of the filter, in source pixels.
fn radius(axis: &ResizedAxis) -> f64 {
    match axis.filter {
        AxisFilter::Copy | AxisFilter::Nearest { .. } => 0.0,
        AxisFilter::Triangle => scale(axis).max(1.0),
        AxisFilter::Cubic => 2.0 * scale(axis).max(1.0),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the pixels of a side, 65,535, or a little more"
)]
const fn whole(value: f64) -> u32 {
    value as u32
}

/// Returns the number of columns and rows of the tile with the least work, or `None` if not even the source of a
/// single pixel fits.
pub(super) fn tile(place: &Placement) -> Option<(u32, u32)> {
    let Placement { x, y, .. } = place;
    let heights = ROWS.map(|rows| (rows.min(y.resized), reach(y, rows.min(y.resized))));
    let mut best = None;
    let halves = std::iter::successors(Some(x.resized), |&columns| (columns > 1).then(|| columns.div_ceil(2)));
    for columns in halves {
        // Threads load four source columns at a time.
        let width = reach(x, columns).saturating_add(3).next_multiple_of(4);
        for (rows, height) in heights {
            let fits = |rows: u32, most: u32| width.checked_mul(rows).is_some_and(|pixels| pixels <= most);
            let between = if x_first(place) { columns.saturating_mul(height) } else { width.saturating_mul(rows) };
            if !fits(height, TILE_PIXELS) || between > TILE_BETWEEN {
                continue;
            }
            // Weights of the estimate: loading a source pixel and computing an output pixel each take twice as long as
            // computing a pixel between the two passes. Four rows of the output are computed together.
            let tiles = u64::from(x.resized.div_ceil(columns)) * u64::from(y.resized.div_ceil(rows));
            let output = columns * rows.next_multiple_of(4);
            let work = tiles * u64::from(2 * width * height + between + 2 * output);
            if best.is_none_or(|(least, _)| work < least) {
                best = Some((work, (columns, rows)));
            }
        }
    }
    best.map(|(_, tile)| tile)
}

/// Returns true if the first of the two passes is along the stored rows.
pub(super) fn x_first(place: &Placement) -> bool {
    place.is_cubic() && !place.transposed
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_jpeg::{Interpolation, Rendering, View};

    /// Returns the tile of a picture of `from` pixels that is resized to a width and a height.
    fn tile_of(from: (u32, u32), to: (u32, u32), interpolation: Interpolation) -> Option<(u32, u32)> {
        let view = View::resize((to.1, to.0)).with_interpolation(interpolation);
        tile(&Placement::new(&Rendering { view, ..Default::default() }, from.0, from.1).unwrap())
    }

    #[test]
    fn tiles_fit_and_no_more_than_needed() {
        let bilinear = Interpolation::Bilinear;
        let crop = ResizedAxis { start: 0.0, end: 290.0, pixels: 290, resized: 224, filter: AxisFilter::Triangle };
        assert_eq!(tile_of((290, 290), (224, 224), bilinear), Some((56, 32)));
        assert!((reach(&crop, 56) + 6) * reach(&crop, 32) <= TILE_PIXELS);
        let (columns, rows) = tile_of((65_535, 65_535), (65_535, 65_535), bilinear).unwrap();
        assert!(columns * rows <= TILE_BETWEEN && columns * rows * 4 > TILE_BETWEEN);
        assert_eq!(tile_of((1, 1), (1, 1), bilinear), Some((1, 1)));
        assert_eq!(tile_of((4000, 4000), (20, 20), bilinear), None);
        // A cubic filter reaches twice as far as a bilinear one. The nearest pixel needs the fewest source pixels.
        assert_eq!(tile_of((700, 700), (20, 20), bilinear), Some((1, 1)));
        assert_eq!(tile_of((700, 700), (20, 20), Interpolation::Bicubic), None);
        assert_eq!(tile_of((4000, 4000), (20, 20), Interpolation::Nearest), Some((1, 1)));
    }
}
