//! The part of a picture that its view shows, and the remaining boxes. All fields that follow a picture share both.

use shardpack_array::Array;
use shardpack_format::{Dtype, Error, Result, to_usize};
use shardpack_jpeg::Crop;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) picture: [u32; 2],
    pub(crate) crop: Crop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemainingRows {
    pub(crate) of: usize,
    pub(crate) rows: Vec<usize>,
}

impl Shape {
    pub(super) fn moved(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let Crop { area, inner, flip, .. } = self.crop;
        let x = (x - area.x) * f64::from(inner.width) / area.width;
        let y = (y - area.y) * f64::from(inner.height) / area.height;
        let x = if flip { f64::from(inner.width) - x } else { x };
        [f64::from(inner.x) + x, f64::from(inner.y) + y]
    }

    /// Width and height of one unit of the coordinates, first in the picture and then in the view.
    pub(super) fn units(&self, relative: bool) -> ([f64; 2], [f64; 2]) {
        let [height, width] = self.picture.map(f64::from);
        let view = [f64::from(self.crop.width), f64::from(self.crop.height)];
        if relative { ([width, height], view) } else { ([1.0; 2], [1.0; 2]) }
    }

    pub(super) fn shows(&self, [x, y]: [f64; 2]) -> bool {
        let Crop { inner, .. } = self.crop;
        (f64::from(inner.x)..=f64::from(inner.right())).contains(&x)
            && (f64::from(inner.y)..=f64::from(inner.bottom())).contains(&y)
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
