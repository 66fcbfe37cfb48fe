//! The visible part of a picture and the augmentations that move its pixels. All fields that follow the picture share
//! them, together with the list of boxes that remain in view.

use shardpack_array::Array;
use shardpack_augment::{Augmentation, Operation, PixelMap};
use shardpack_format::{Dtype, Error, Result, to_usize};
use shardpack_jpeg::{Area, Crop, DrawKey};

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) picture: [u32; 2],
    pub(crate) crop: Crop,
    /// Maps that move the pixels of the view, in the order of the augmentations.
    pub(crate) moves: Vec<PictureMove>,
    pub(crate) visible: VisiblePart,
    /// True if a box must have its centre in the crop, because the crop was drawn for such boxes.
    pub(crate) has_centres: bool,
    /// True if the values are unchanged since they were stored. Only then are they checked against their declaration.
    pub(crate) is_stored: bool,
}

/// The part of the output in which a picture is visible, after all moves. Rectangles are stored as left, top, right,
/// bottom.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum VisiblePart {
    #[default]
    All,
    Inside([f64; 4]),
    Outside([f64; 4]),
}

impl VisiblePart {
    /// Returns true if the picture is visible at point `[x, y]`. In both variants, the border of the rectangle counts
    /// as visible.
    pub(super) fn shows(self, [x, y]: [f64; 2]) -> bool {
        match self {
            Self::All => true,
            Self::Inside([left, top, right, bottom]) => x >= left && x <= right && y >= top && y <= bottom,
            Self::Outside([left, top, right, bottom]) => !(x > left && x < right && y > top && y < bottom),
        }
    }

    /// Returns the smallest box around the visible part of a box, and the visible share of the box's area. Returns
    /// `None` if nothing is visible.
    fn of_box(self, at: [f64; 4]) -> Option<([f64; 4], f64)> {
        let (is_inside, rectangle) = match self {
            Self::All => return Some((at, 1.0)),
            Self::Inside(rectangle) => (true, rectangle),
            Self::Outside(rectangle) => (false, rectangle),
        };
        let ([x0, y0, x1, y1], [left, top, right, bottom]) = (at, rectangle);
        let common = [x0.max(left), y0.max(top), x1.min(right), y1.min(bottom)];
        let share = area(common) / area(at);
        if is_inside {
            return (share > 0.0).then_some((common, share));
        }
        let [cx0, cy0, cx1, cy1] = common;
        if share <= 0.0 {
            return Some((at, 1.0));
        }
        let (is_wide, is_high) = (cx0 <= x0 && cx1 >= x1, cy0 <= y0 && cy1 >= y1);
        // The visible part is narrower only if the rectangle covers a whole side of the box.
        let cut = |low: f64, high: f64, from: f64, to: f64| {
            if from <= low {
                (to, high)
            } else if to >= high {
                (low, from)
            } else {
                (low, high)
            }
        };
        match (is_wide, is_high) {
            (true, true) => None,
            (true, false) => {
                let (y0, y1) = cut(y0, y1, cy0, cy1);
                Some(([x0, y0, x1, y1], 1.0 - share))
            }
            (false, true) => {
                let (x0, x1) = cut(x0, x1, cx0, cx1);
                Some(([x0, y0, x1, y1], 1.0 - share))
            }
            (false, false) => Some((at, 1.0 - share)),
        }
    }
}

fn area([x0, y0, x1, y1]: [f64; 4]) -> f64 {
    (x1 - x0).max(0.0) * (y1 - y0).max(0.0)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PictureMove {
    pub(crate) map: PixelMap,
    /// Index of the augmentation in its list.
    pub(crate) augmentation: usize,
}

/// Draws a sample's maps with the same key as for its pictures.
pub(super) fn moves(augmentations: &[Augmentation], key: &DrawKey, crop: &Crop) -> Vec<PictureMove> {
    if !augmentations.iter().any(Augmentation::moves) {
        return Vec::new();
    }
    let (draws, Crop { height, width, .. }) = (key.draws(), *crop);
    let mut moves = Vec::new();
    for (place, augmentation) in (0..).zip(augmentations).filter(|(_, augmentation)| augmentation.moves()) {
        for operation in augmentation.resolve(&draws, place, height as usize, width as usize) {
            if let Operation::Affine(affine) = operation {
                moves.push(PictureMove { map: affine.of_size(height, width), augmentation: place as usize });
            }
        }
    }
    moves
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemainingRows {
    pub(crate) of: usize,
    pub(crate) rows: Vec<usize>,
}

impl Shape {
    /// Maps a point of the picture to the output.
    pub(super) fn moved(&self, point: [f64; 2]) -> [f64; 2] {
        self.moves.iter().fold(self.viewed(point), |point, step| step.map.moved(point))
    }

    /// Maps a point of the picture to the view, before augmentation.
    fn viewed(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let Crop { area, inner, flip, .. } = self.crop;
        let x = (x - area.x) * f64::from(inner.width) / area.width;
        let y = (y - area.y) * f64::from(inner.height) / area.height;
        let x = if flip { f64::from(inner.width) - x } else { x };
        [f64::from(inner.x) + x, f64::from(inner.y) + y]
    }

    /// Returns the size of one coordinate unit in pixels (width and height), in the picture and in the view.
    pub(super) fn units(&self, relative: bool) -> ([f64; 2], [f64; 2]) {
        let [height, width] = self.picture.map(f64::from);
        let view = [f64::from(self.crop.width), f64::from(self.crop.height)];
        if relative { ([width, height], view) } else { ([1.0; 2], [1.0; 2]) }
    }

    /// Maps a point of the picture to the output. Returns `None` if the point is not visible there.
    pub(super) fn shown(&self, point: [f64; 2]) -> Option<[f64; 2]> {
        let Crop { inner, height, width, .. } = self.crop;
        let mut at = self.viewed(point);
        let is_in_view = (f64::from(inner.x)..=f64::from(inner.right())).contains(&at[0])
            && (f64::from(inner.y)..=f64::from(inner.bottom())).contains(&at[1]);
        if !is_in_view {
            return None;
        }
        for step in &self.moves {
            at = step.map.moved(at);
            if !(0.0..=f64::from(width)).contains(&at[0]) || !(0.0..=f64::from(height)).contains(&at[1]) {
                return None;
            }
        }
        self.visible.shows(at).then_some(at)
    }

    /// Returns true if the centre of a box is inside the crop, or need not be.
    pub(super) fn has_centre(&self, [left, top, right, bottom]: [f64; 4]) -> bool {
        let Area { x, y, width, height } = self.crop.area;
        let centre = [f64::midpoint(left, right) - x, f64::midpoint(top, bottom) - y];
        let is_inside = centre[0] > 0.0 && centre[0] < width && centre[1] > 0.0 && centre[1] < height;
        is_inside || !self.has_centres
    }

    /// Returns the visible part of a box, and the share of its area that is visible, or `None` if nothing is. The
    /// view and each map clip the box. A map first replaces the box by the upright box around its moved corners. Each
    /// of these steps leaves a share of the box's area, and the method returns the product of these shares.
    pub(super) fn shown_box(&self, [left, top, right, bottom]: [f64; 4]) -> Option<([f64; 4], f64)> {
        let [width, height] = [f64::from(self.crop.width), f64::from(self.crop.height)];
        let ([x0, y0], [x1, y1]) = (self.viewed([left, top]), self.viewed([right, bottom]));
        let (x0, x1) = if self.crop.flip { (x1, x0) } else { (x0, x1) };
        let (mut at, mut share) = ([x0, y0, x1, y1], 1.0);
        let mut steps = self.moves.iter();
        loop {
            let [x0, y0, x1, y1] = at;
            let clipped = [x0.max(0.0), y0.max(0.0), x1.min(width), y1.min(height)];
            let shown = area(clipped);
            if shown <= 0.0 {
                return None;
            }
            share *= shown / area(at);
            at = clipped;
            let Some(step) = steps.next() else {
                return self.visible.of_box(at).map(|(at, visible)| (at, share * visible));
            };
            let [x0, y0, x1, y1] = at;
            let corners = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]].map(|corner| step.map.moved(corner));
            let low = |axis: usize| corners.iter().filter_map(|c| c.get(axis)).copied().fold(f64::INFINITY, f64::min);
            let high =
                |axis: usize| corners.iter().filter_map(|c| c.get(axis)).copied().fold(f64::NEG_INFINITY, f64::max);
            at = [low(0), low(1), high(0), high(1)];
        }
    }
}

pub(crate) fn rows_of(array: &Array, kept: &RemainingRows) -> Result<Array> {
    let Some((&found, rest)) = array.shape().split_first() else {
        return Err(Error::usage(format!("expected one row for each of {} boxes, found a single value", kept.of)));
    };
    check_rows(to_usize(found), kept)?;
    let row = array.bytes().len().checked_div(kept.of).unwrap_or(0);
    let rows = kept.rows.iter().filter_map(|&number| array.bytes().get(number * row..(number + 1) * row));
    let shape = std::iter::once(kept.rows.len() as u64).chain(rest.iter().copied()).collect();
    Array::new(array.dtype(), shape, rows.flatten().copied().collect())
}

/// Fails unless the array has one row for each box.
pub(super) fn check_rows(found: usize, kept: &RemainingRows) -> Result<()> {
    if found == kept.of {
        return Ok(());
    }
    Err(Error::usage(format!("expected one row for each of {} boxes, found {found} rows", kept.of)))
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
pub(super) fn floats(numbers: &[f64], shape: Vec<u64>) -> Result<Array> {
    Array::new(Dtype::F32, shape, numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the computed box with the pixels of a small picture.
    #[test]
    fn the_visible_part_of_a_box_is_the_box_around_its_visible_pixels() {
        let sides: Vec<[f64; 2]> = (0..5).flat_map(|a| (a + 1..6).map(move |b| [f64::from(a), f64::from(b)])).collect();
        let boxes = || sides.iter().flat_map(|&[x0, x1]| sides.iter().map(move |&[y0, y1]| [x0, y0, x1, y1]));
        let mut cut = 0;
        for (of, rectangle) in boxes().flat_map(|of| boxes().step_by(3).map(move |rectangle| (of, rectangle))) {
            let is_in = |[x0, y0, x1, y1]: [f64; 4], [x, y]: [f64; 2]| x >= x0 && x < x1 && y >= y0 && y < y1;
            let pixels = (0..36).map(|n| [f64::from(n % 6), f64::from(n / 6)]).filter(|at| is_in(of, *at));
            for visible_part in [VisiblePart::Inside(rectangle), VisiblePart::Outside(rectangle)] {
                let is_inside = matches!(visible_part, VisiblePart::Inside(_));
                let visible: Vec<[f64; 2]> = pixels.clone().filter(|at| is_in(rectangle, *at) == is_inside).collect();
                let low = |n: usize| visible.iter().map(|at| at[n]).fold(f64::INFINITY, f64::min);
                let high = |n: usize| visible.iter().map(|at| at[n] + 1.0).fold(0.0, f64::max);
                let Some((found, share)) = visible_part.of_box(of) else {
                    assert!(visible.is_empty(), "{of:?} {visible_part:?}");
                    continue;
                };
                assert_eq!(found, [low(0), low(1), high(0), high(1)], "{of:?} {visible_part:?}");
                assert!((share - visible.len() as f64 / area(of)).abs() < 1e-12, "{of:?} {visible_part:?}");
                cut += u32::from(share < 1.0);
            }
        }
        assert!(cut > 5000, "{cut}");
    }
}
