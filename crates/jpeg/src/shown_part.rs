//! The parts of a picture that centre crops and random crops show, and the size of a letterboxed picture.

use super::{Draws, Rect, jittered};

/// Maximum number of attempts to draw a random crop. After that, the largest centre crop is used.
const TRIES: u32 = 10;

/// Returns the largest width and height with the proportions of `picture` that fit into `room`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to the room")]
pub(crate) fn fitted(picture: [u32; 2], room: [u32; 2]) -> [u32; 2] {
    let ([width, height], [columns, rows]) = (picture, room);
    let scaled = |side: u32, to: u32, by: u32, most: u32| {
        let exact = f64::from(side) * f64::from(to) / f64::from(by);
        exact.round_ties_even().clamp(1.0, f64::from(most)) as u32
    };
    if u64::from(columns) * u64::from(height) <= u64::from(rows) * u64::from(width) {
        [columns, scaled(height, columns, width, rows)]
    } else {
        [scaled(width, rows, height, columns), rows]
    }
}

/// A centre crop along one axis, in pixels before resizing.
pub(crate) struct Centre {
    pub(crate) start: f64,
    pub(crate) extent: f64,
    /// Range of the pixels that the filter reads, with an exclusive end.
    pub(crate) seen: (u32, u32),
}

impl Centre {
    /// Computes the crop along one axis. `side` is the length of the axis in pixels before resizing, `short` is the
    /// picture's shorter side, `crop` is the size of the crop, and `support` is the reach of the filter.
    pub(crate) fn of(side: u32, short: u32, short_side: u32, crop: u32, support: f64) -> Self {
        // Like torchvision, round the longer side down, and the start of the crop to the nearest pixel
        // (halves to even).
        let resized = (u64::from(short_side) * u64::from(side) / u64::from(short)) as f64;
        let start = ((resized - f64::from(crop)) / 2.0).round_ties_even();
        let scale = f64::from(side) / resized;
        let (start, extent) = (start * scale, f64::from(crop) * scale);
        Self { start, extent, seen: jittered::seen([start, start + extent], scale, side, support) }
    }
}

/// Draws a random crop, like torchvision's `RandomResizedCrop.get_params`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "compared with the sides, or rounded into them"
)]
pub(crate) fn random_part(width: u32, height: u32, scale: (f64, f64), ratio: (f64, f64), draws: &Draws) -> Rect {
    let between = |range: (f64, f64), draw: f64| range.0 + (range.1 - range.0) * draw;
    let (wide, high) = (f64::from(width), f64::from(height));
    // Use libm, so that the drawn numbers are the same on all platforms.
    let logarithms = (libm::log(ratio.0), libm::log(ratio.1));
    for attempt in 0..TRIES {
        let [area, shape] = draws.pair(2 * attempt + 2);
        let area = wide * high * between(scale, area);
        let shape = libm::exp(between(logarithms, shape));
        let (w, h) = ((area * shape).sqrt().round_ties_even(), (area / shape).sqrt().round_ties_even());
        if w >= 1.0 && w <= wide && h >= 1.0 && h <= high {
            let [y, x] = draws.pair(2 * attempt + 3);
            let at = |draw: f64, room: f64| (draw * (room + 1.0)) as u32;
            return Rect { x: at(x, wide - w), y: at(y, high - h), width: w as u32, height: h as u32 };
        }
    }
    let shape = wide / high;
    let limited = |side: f64, most: u32| (side.round_ties_even() as u32).clamp(1, most);
    let (w, h) = if shape < ratio.0 {
        (width, limited(wide / ratio.0, height))
    } else if shape > ratio.1 {
        (limited(high * ratio.1, width), height)
    } else {
        (width, height)
    };
    Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
}
