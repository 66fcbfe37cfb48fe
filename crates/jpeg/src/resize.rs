//! Resizes 8-bit RGB by antialiased bilinear or bicubic interpolation, or to the nearest pixel. If the
//! picture shrinks, the filter is widened in proportion.
//!
//! The filters are the same as in Pillow's `Image.resize(…, BILINEAR)` or `BICUBIC`, and in torchvision's
//! `Resize(antialias=True)`: a triangle two output pixels wide, and a cubic four output pixels wide (a =
//! −0.5). `fast_image_resize` computes like Pillow-SIMD (with 16-bit weights, and bilinear resizing along y
//! first), so values sometimes differ from Pillow's by one level. `resize_tests.rs` has the exact numbers.

use super::Rect;
use super::area::Area;
use super::interpolation::Interpolation;
use super::shared::{KEPT_BYTES, trim};
use fast_image_resize as fir;
use shardpack_base::parts::grow;
use shardpack_base::{RgbWindow, resize_rgb};
use shardpack_format::{Error, Result};
use std::ops::Range;

/// Tolerance for rounding errors, in pixels. A centre that is this close to the border between two pixels counts as
/// on the border, so the right pixel is used.
const TIE: f64 = 1e-7;

/// Options for resizing a picture, in coordinates of its stored pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resizing {
    pub(crate) interpolation: Interpolation,
    /// True for each axis that is mirrored in the upright picture. If a centre is between two pixels, the
    /// right or lower pixel of the upright picture is used.
    pub(crate) mirrored: [bool; 2],
    /// True if stored rows are columns of the upright picture.
    pub(crate) transposed: bool,
}

/// RGB pixels of a picture, in rows without gaps.
#[derive(Clone, Copy)]
pub(crate) struct RgbPixels<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl<'a> RgbPixels<'a> {
    /// Returns a rectangle of the picture, to be resized.
    pub(crate) fn window(self, rect: Rect) -> RgbWindow<'a> {
        RgbWindow {
            bytes: self.bytes,
            picture: [self.width, self.height],
            origin: [rect.x, rect.y],
            size: [rect.width, rect.height],
        }
    }

    /// Returns the rows of a rectangle, or `None` if the rectangle is not within the picture.
    pub(super) fn rows(self, rect: Rect) -> Option<impl DoubleEndedIterator<Item = &'a [[u8; 3]]> + ExactSizeIterator> {
        let (x, y) = (rect.x as usize, rect.y as usize);
        let (columns, rows) = (x..x + rect.width as usize, y..y + rect.height as usize);
        let width = self.width as usize;
        let pixels = self.bytes.as_chunks::<3>().0.get(rows.start * width..rows.end * width)?;
        let outside = width.checked_sub(columns.end).filter(|_| width > 0)?;
        // Both splits are within the row, because `outside` and the start are less than the row's width.
        let cut = move |row: &'a [[u8; 3]]| row.split_at(width - outside).0.split_at(columns.start).1;
        Some(pixels.chunks_exact(width).map(cut))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Cutout<'a> {
    pub(crate) pixels: RgbPixels<'a>,
    /// Pixels that the filter may read.
    pub(crate) window: Rect,
    pub(crate) area: Area,
}

pub(super) struct Resizer {
    inner: fir::Resizer,
    /// Source column of each output column, for nearest-pixel resizing.
    columns: Vec<usize>,
    rows: Vec<usize>,
    /// Pixels after resizing along one axis.
    between: Vec<u8>,
}

impl Resizer {
    pub(super) fn new() -> Self {
        Self { inner: fir::Resizer::new(), columns: Vec::new(), rows: Vec::new(), between: Vec::new() }
    }

    pub(super) fn trim(&mut self) {
        trim([&mut self.between]);
        if self.inner.size_of_internal_buffers() > KEPT_BYTES {
            self.inner.reset_internal_buffers();
        }
    }

    /// Resizes an area to `width` × `height` into `out`.
    ///
    /// # Errors
    /// `Usage` if the window is not within the picture, or `out` has a different size.
    pub(super) fn resize(
        &mut self,
        from: &Cutout<'_>,
        width: u32,
        height: u32,
        how: Resizing,
        out: &mut [u8],
    ) -> Result<()> {
        let Cutout { pixels: from, window, area } = *from;
        // Because of rounding, the area may extend slightly beyond the window, which would be an error. Clamp it.
        let (x, y) = ((area.x - f64::from(window.x)).max(0.0), (area.y - f64::from(window.y)).max(0.0));
        let (w, h) = (area.width.min(f64::from(window.width) - x), area.height.min(f64::from(window.height) - y));
        let filter = match how.interpolation {
            Interpolation::Nearest => {
                nearest(&mut self.columns, x..x + w, width, window.width, how.mirrored[0]);
                nearest(&mut self.rows, y..y + h, height, window.height, how.mirrored[1]);
                return self.take(from, window, out);
            }
            Interpolation::Bilinear => fir::FilterType::Bilinear,
            Interpolation::Bicubic => fir::FilterType::CatmullRom,
        };
        let options = fir::ResizeOptions::new().resize_alg(fir::ResizeAlg::Convolution(filter));
        let changes = |at: f64, extent: f64, to: u32| at.fract() != 0.0 || extent != f64::from(to);
        let both = changes(x, w, width) && changes(y, h, height);
        if how.interpolation == Interpolation::Bilinear || !both {
            let options = options.crop(x, y, w, h);
            return resize_rgb(&mut self.inner, &from.window(window), &options, [width, height], out);
        }
        // A cubic filter is applied to one axis at a time, for two reasons. First, the crate resizes along y first,
        // but Pillow and torchvision resize upright pictures along x first. The order matters, because overshoots are
        // clamped between the passes. Second, the crate assumes that no output pixel uses an input pixel before the
        // first one that output pixel 0 uses. This is false for a cubic, which is zero at a distance of 1: output
        // pixel 0 may use fewer input pixels than output pixel 1. Version 6.1.0 then reads outside its buffer.
        let (columns, rows) = (window.width, window.height);
        let along_x = |rows: u32| options.crop(x, 0.0, w, f64::from(rows));
        let along_y = |columns: u32| options.crop(0.0, y, f64::from(columns), h);
        let (first, then, size) = if how.transposed {
            (along_y(columns), along_x(height), [columns, height])
        } else {
            (along_x(rows), along_y(width), [width, rows])
        };
        let between = grow(&mut self.between, size[0] as usize * size[1] as usize * 3);
        resize_rgb(&mut self.inner, &from.window(window), &first, size, between)?;
        let between = RgbWindow { bytes: between, picture: size, origin: [0, 0], size };
        resize_rgb(&mut self.inner, &between, &then, [width, height], out)
    }

    fn take(&self, from: RgbPixels<'_>, window: Rect, out: &mut [u8]) -> Result<()> {
        let width = self.columns.len();
        let needed = width * self.rows.len() * 3;
        if out.len() != needed {
            return Err(unfit(format!(
                "{width} × {} RGB pixels need {needed} bytes, but the output buffer has {}",
                self.rows.len(),
                out.len()
            )));
        }
        let outside =
            || unfit(format!("the crop {window} is not within the picture of {} × {} pixels", from.width, from.height));
        let rows: Vec<_> = from.rows(window).ok_or_else(outside)?.collect();
        let lines = out.as_chunks_mut::<3>().0.chunks_exact_mut(width.max(1));
        for (&row, line) in self.rows.iter().zip(lines) {
            let from = rows.get(row).ok_or_else(outside)?;
            for (&column, to) in self.columns.iter().zip(line) {
                *to = *from.get(column).ok_or_else(outside)?;
            }
        }
        Ok(())
    }
}

/// Finds, for each of `count` output pixels along one axis, the source pixel that contains its centre. The output
/// shows the part `shown` of the axis, which has `side` pixels. The GPU kernels compute the same numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and bounded by the side")]
fn nearest(out: &mut Vec<usize>, shown: Range<f64>, count: u32, side: u32, mirrored: bool) {
    let last = side.saturating_sub(1) as usize;
    let start = if mirrored { f64::from(side) - shown.end } else { shown.start };
    let step = (shown.end - shown.start) / f64::from(count.max(1));
    out.clear();
    let pixel = |i| ((start + (f64::from(i) + 0.5) * step + TIE).max(0.0) as usize).min(last);
    out.extend((0..count).map(pixel));
    if mirrored {
        out.iter_mut().for_each(|at| *at = last - *at);
        out.reverse();
    }
}

fn unfit(error: impl std::fmt::Display) -> Error {
    Error::usage(format!("cannot resize the picture: {error}"))
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;
