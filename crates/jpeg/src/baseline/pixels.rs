//! Turns rows of samples into rows of RGB pixels, interpolating the chroma.
#![deny(clippy::indexing_slicing)]

use super::layout::Layout;
use super::planes::{Plane, Planes};
use super::{color, upsample};
use std::ops::Range;

/// Makes rows of pixels in order. Remembers the next row, and buffers the chroma of a row.
#[derive(Default)]
pub(super) struct RowMaker {
    next: usize,
    /// Blue and red chroma, at luma resolution.
    chroma: [Vec<u8>; 2],
    sums: Vec<u16>,
}

impl RowMaker {
    pub(super) fn prepare(&mut self, layout: &Layout) {
        self.next = layout.window.y as usize;
        let width = layout.shown_columns.len() * layout.h * 8;
        if self.sums.len() < width {
            // Reserve one more sample on each side. Chroma is at most as wide as luma.
            self.sums.resize(width + 2, 0);
            self.chroma.iter_mut().for_each(|row| row.resize(width, 0));
        }
    }

    /// Writes all rows of the window that can be completed once the samples of all MCU rows above `end` are known.
    #[inline(always)]
    pub(super) fn write(&mut self, layout: &Layout, planes: &Planes, end: usize, out: &mut [u8]) -> Option<()> {
        let window = layout.window;
        let (top, bottom, width) = (window.y as usize, window.bottom() as usize, window.width as usize);
        // Hold back the last row of pixels above `end`. It is interpolated with the row below it, whose samples may
        // not be known yet.
        let limit =
            if end < layout.shown_rows.end { (end * layout.v * 8 - (layout.v - 1)).min(bottom) } else { bottom };
        let left = window.x as usize - layout.shown_columns.start * layout.h * 8;
        let columns = left..left + width;
        for y in self.next..limit {
            let start = (y - top) * width * 3;
            self.row(layout, planes, y, columns.clone(), out.get_mut(start..start + width * 3)?)?;
        }
        self.next = self.next.max(limit);
        Some(())
    }

    #[inline(always)]
    fn row(&mut self, layout: &Layout, planes: &Planes, y: usize, columns: Range<usize>, rgb: &mut [u8]) -> Option<()> {
        let [luma, blue, red] = planes.get();
        let luma = luma.row(y)?.get(columns.clone())?;
        if layout.components == 1 {
            color::gray(luma, rgb)
        } else if (layout.h, layout.v) == (1, 1) {
            color::ycc(luma, blue.row(y)?.get(columns.clone())?, red.row(y)?.get(columns)?, rgb)
        } else {
            for (plane, row) in [blue, red].into_iter().zip(&mut self.chroma) {
                upsampled(layout, plane, y, &mut self.sums, row)?;
            }
            let [blue, red] = &self.chroma;
            color::ycc(luma, blue.get(columns.clone())?, red.get(columns)?, rgb)
        }
    }
}

#[inline(always)]
fn upsampled(layout: &Layout, plane: &Plane, y: usize, sums: &mut [u16], out: &mut [u8]) -> Option<()> {
    // Samples to the right of the picture's last column are padding and must not be interpolated.
    let width = layout.chroma_width.min(layout.shown_columns.end * 8) - layout.shown_columns.start * 8;
    if layout.v == 1 {
        return upsample::widened(plane.row(y)?.get(..width)?, sums, out);
    }
    let near = y / 2;
    let above = y.is_multiple_of(2);
    let far = if above { near.saturating_sub(1) } else { (near + 1).min(layout.chroma_height - 1) };
    let (near, far) = (plane.row(near)?.get(..width)?, plane.row(far)?.get(..width)?);
    match (layout.h, above) {
        (1, true) => upsample::between::<1>(near, far, out),
        (1, false) => upsample::between::<2>(near, far, out),
        _ => upsample::widened_between(near, far, sums, out),
    }
}
