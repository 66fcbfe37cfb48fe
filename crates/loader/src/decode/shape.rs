//! The visible part of a picture and the augmentations that move its pixels. All fields that follow the picture share
//! them, and so do the boxes that remain in view.

use shardpack_array::Array;
use shardpack_augment::{Augmentation, Operation, PixelMap};
use shardpack_format::{Dtype, Error, Result, to_usize};
use shardpack_jpeg::{Crop, DrawKey};

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) picture: [u32; 2],
    pub(crate) crop: Crop,
    /// Maps by which augmentations move the pixels of the view, in the order of the augmentations.
    pub(crate) moves: Vec<PictureMove>,
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
    /// Returns the position of a picture's point in the output.
    pub(super) fn moved(&self, point: [f64; 2]) -> [f64; 2] {
        self.moves.iter().fold(self.viewed(point), |point, step| step.map.moved(point))
    }

    /// Returns the position of a picture's point in the view, before augmentation.
    fn viewed(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let Crop { area, inner, flip, .. } = self.crop;
        let x = (x - area.x) * f64::from(inner.width) / area.width;
        let y = (y - area.y) * f64::from(inner.height) / area.height;
        let x = if flip { f64::from(inner.width) - x } else { x };
        [f64::from(inner.x) + x, f64::from(inner.y) + y]
    }

    /// Returns the width and height of one unit of coordinates in pixels, first in the picture and then in the view.
    pub(super) fn units(&self, relative: bool) -> ([f64; 2], [f64; 2]) {
        let [height, width] = self.picture.map(f64::from);
        let view = [f64::from(self.crop.width), f64::from(self.crop.height)];
        if relative { ([width, height], view) } else { ([1.0; 2], [1.0; 2]) }
    }

    /// Returns the position of a picture's point in the output; `None` if the view or a map moves it out of sight.
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
        Some(at)
    }

    /// Returns the visible part of a box, and the share of its area that is visible; `None` if nothing is. The view and
    /// each map clip the box, and a map first replaces it by the upright box around its moved corners. Each of these
    /// steps keeps a share of the box's area. The returned share is their product.
    pub(super) fn shown_box(&self, [left, top, right, bottom]: [f64; 4]) -> Option<([f64; 4], f64)> {
        let [width, height] = [f64::from(self.crop.width), f64::from(self.crop.height)];
        let ([x0, y0], [x1, y1]) = (self.viewed([left, top]), self.viewed([right, bottom]));
        let (x0, x1) = if self.crop.flip { (x1, x0) } else { (x0, x1) };
        let (mut at, mut share) = ([x0, y0, x1, y1], 1.0);
        let area = |[x0, y0, x1, y1]: [f64; 4]| (x1 - x0).max(0.0) * (y1 - y0).max(0.0);
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
            let Some(step) = steps.next() else { return Some((at, share)) };
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
        let expected = format!("{}, one for each box", kept.of);
        return Err(Error::usage(format!("rows: expected {expected}, found a single value")));
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
    Err(Error::usage(format!("rows: expected {}, one for each box, found {found}", kept.of)))
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
pub(super) fn floats(numbers: &[f64], shape: Vec<u64>) -> Result<Array> {
    Array::new(Dtype::F32, shape, numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect())
}
