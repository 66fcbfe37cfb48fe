//! Crops that are chosen by their overlap with the boxes of a picture, as detectors such as SSD are trained with.

use super::{Area, Draws};
use shardpack_format::{Error, Result};

/// Least overlaps of a crop with a box, as intersection over union. One of them is drawn for each picture. With 1, the
/// whole picture is shown.
const OVERLAPS: [f64; 7] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
/// Number of crops that are tried for a drawn overlap.
const TRIES: u32 = 40;
/// Number of overlaps that are drawn before the whole picture is shown. torchvision draws until a crop fits or the
/// whole picture is drawn, which would take more draws in one of 20,000 pictures that no crop fits.
const ROUNDS: u32 = 64;
/// Number of the first pair of draws. Each round takes one pair for the overlap and two pairs for each crop.
const FIRST_PAIR: u32 = 32;
/// Probability that the picture is placed on a larger canvas, if the crop does this at all.
const ZOOM_OUT: f64 = 0.5;
/// Maximum side of the canvas, as a multiple of the picture's side.
const ZOOM_MAX: f64 = 16.0;

/// Crop that is chosen by its overlap with the boxes of the picture (torchvision's `RandomIoUCrop`, and before it
/// `RandomZoomOut`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IouCrop {
    /// Range of the crop's width and height, as fractions of the picture's. Drawn uniformly. Default 0.3 to 1.
    pub scale: (f64, f64),
    /// Range of the crop's width divided by its height. Default 0.5 to 2.
    pub ratio: (f64, f64),
    /// Range of the sides of a canvas on which half of the pictures are placed at random before they are cropped, as
    /// a multiple of the picture's sides. Default none.
    pub zoom_out: Option<(f64, f64)>,
}

impl Default for IouCrop {
    fn default() -> Self {
        Self { scale: (0.3, 1.0), ratio: (0.5, 2.0), zoom_out: None }
    }
}

/// Rectangle in whole pixels of the canvas: left, top, width and height.
type Part = [f64; 4];

impl IouCrop {
    pub(crate) fn check(&self) -> Result<()> {
        let good = |(low, high): (f64, f64), most: f64| low > 0.0 && low <= high && high <= most;
        let Self { scale, ratio, zoom_out } = *self;
        let (what, within, range) = if !good(scale, 1.0) {
            ("scale", "0 < LOW <= HIGH <= 1", scale)
        } else if !good(ratio, f64::MAX) {
            ("ratio", "0 < LOW <= HIGH", ratio)
        } else if let Some(zoom_out) = zoom_out.filter(|range| range.0 < 1.0 || !good(*range, ZOOM_MAX)) {
            ("zoom", "1 <= LOW <= HIGH <= 16", zoom_out)
        } else {
            return Ok(());
        };
        let (low, high) = range;
        Err(Error::usage(format!(
            "the {what} of an IoU crop must be a range LOW..HIGH with {within}, but is {low}..{high}"
        )))
    }

    /// Draws the area that a picture with these boxes shows, in pixels of the picture. The area extends beyond the
    /// picture if the picture was placed on a canvas.
    pub(crate) fn area(&self, picture: [u32; 2], boxes: &[[f64; 4]], draws: &Draws) -> Area {
        let picture = picture.map(f64::from);
        let (canvas, at) = self.canvas(picture, draws);
        let boxes: Vec<[f64; 4]> =
            boxes.iter().map(|&[x0, y0, x1, y1]| [x0 + at[0], y0 + at[1], x1 + at[0], y1 + at[1]]).collect();
        let [left, top, width, height] = self.part(canvas, &boxes, draws).unwrap_or([0.0, 0.0, canvas[0], canvas[1]]);
        Area { x: left - at[0], y: top - at[1], width, height }
    }

    /// Draws the width and height of the canvas, and the place of the picture on it.
    fn canvas(&self, [width, height]: [f64; 2], draws: &Draws) -> ([f64; 2], [f64; 2]) {
        let [chance, side] = draws.pair(2);
        let Some((low, high)) = self.zoom_out.filter(|_| chance < ZOOM_OUT) else { return ([width, height], [0.0; 2]) };
        let scale = low + (high - low) * side;
        let [x, y] = draws.pair(3);
        let canvas = [(width * scale).floor(), (height * scale).floor()];
        (canvas, [((canvas[0] - width) * x).floor(), ((canvas[1] - height) * y).floor()])
    }

    /// Draws a part of the canvas, or returns `None` for the whole canvas.
    fn part(&self, canvas: [f64; 2], boxes: &[[f64; 4]], draws: &Draws) -> Option<Part> {
        // No crop fits a picture without boxes, so the only possible result is the whole picture.
        if boxes.is_empty() {
            return None;
        }
        for round in 0..ROUNDS {
            let first = FIRST_PAIR + round * (1 + 2 * TRIES);
            let [draw, _] = draws.pair(first);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 6")]
            let least = OVERLAPS.get((draw * OVERLAPS.len() as f64) as usize).copied().unwrap_or(1.0);
            if least >= 1.0 {
                return None;
            }
            for attempt in 0..TRIES {
                let at = first + 1 + 2 * attempt;
                let part = self.tried(canvas, draws.pair(at), || draws.pair(at + 1));
                if let Some(part) = part.filter(|part| overlap(*part, boxes).is_some_and(|share| share >= least)) {
                    return Some(part);
                }
            }
        }
        None
    }

    fn tried(&self, canvas: [f64; 2], sides: [f64; 2], place: impl FnOnce() -> [f64; 2]) -> Option<Part> {
        let (low, high) = self.scale;
        let side = |n: usize| (canvas[n] * (low + (high - low) * sides[n])).floor();
        let (width, height) = (side(0), side(1));
        let ratio = width / height;
        if width < 1.0 || height < 1.0 || ratio < self.ratio.0 || ratio > self.ratio.1 {
            return None;
        }
        let place = place();
        Some([((canvas[0] - width) * place[0]).floor(), ((canvas[1] - height) * place[1]).floor(), width, height])
    }
}

/// Returns the largest overlap with a box whose centre is inside the part, as intersection over union, or `None` if
/// there is no such box.
fn overlap([left, top, width, height]: Part, boxes: &[[f64; 4]]) -> Option<f64> {
    let (right, bottom) = (left + width, top + height);
    let inside = boxes.iter().filter(|&&[x0, y0, x1, y1]| {
        let (x, y) = (f64::midpoint(x0, x1), f64::midpoint(y0, y1));
        x > left && x < right && y > top && y < bottom
    });
    let share = |&[x0, y0, x1, y1]: &[f64; 4]| {
        let common = (x1.min(right) - x0.max(left)).max(0.0) * (y1.min(bottom) - y0.max(top)).max(0.0);
        common / ((x1 - x0) * (y1 - y0) + width * height - common)
    };
    inside.map(share).reduce(f64::max)
}

#[cfg(test)]
#[path = "iou_crop_tests.rs"]
mod tests;
