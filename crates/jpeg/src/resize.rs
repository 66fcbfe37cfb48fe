//! Antialiased resizing of 8-bit RGB: bilinear. If the picture shrinks, the filter is widened by
//! the ratio.
//!
//! This is the filter of Pillow's `Image.resize(…, BILINEAR)` and of torchvision's
//! `Resize(antialias=True)`: a triangle as wide as two output pixels. The arithmetic is that of
//! `fast_image_resize`, which is Pillow-SIMD's (weights of 16 bits, rows before columns). So single
//! values sometimes differ from Pillow's by one level; `resize_tests.rs` has the figures.

use super::Rect;
use super::shared::KEPT_BYTES;
use super::view::Area;
use fast_image_resize as fir;
use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use shardpack_format::{Error, Result};

/// RGB pixels, rows without gaps.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl<'a> Pixels<'a> {
    /// The rows of a rectangle, if it is inside.
    pub(super) fn rows(self, rect: Rect) -> Option<impl DoubleEndedIterator<Item = &'a [[u8; 3]]> + ExactSizeIterator> {
        let (x, y) = (rect.x as usize, rect.y as usize);
        let (columns, rows) = (x..x + rect.width as usize, y..y + rect.height as usize);
        let width = self.width as usize;
        let pixels = self.bytes.as_chunks::<3>().0.get(rows.start * width..rows.end * width)?;
        let outside = width.checked_sub(columns.end).filter(|_| width > 0)?;
        // Both cuts are within the row: `outside` and the start are less than its pixels.
        let cut = move |row: &'a [[u8; 3]]| row.split_at(width - outside).0.split_at(columns.start).1;
        Some(pixels.chunks_exact(width).map(cut))
    }
}

/// A resizer for one thread.
pub(super) struct Resizer {
    inner: fir::Resizer,
}

impl Resizer {
    pub(super) fn new() -> Self {
        Self { inner: fir::Resizer::new() }
    }

    /// Frees the buffers that an unusually large picture has left.
    pub(super) fn trim(&mut self) {
        if self.inner.size_of_internal_buffers() > KEPT_BYTES {
            self.inner.reset_internal_buffers();
        }
    }

    /// Resizes `area` to `width` × `height` into `out`. The filter uses nothing outside `window`.
    pub(super) fn resize(
        &mut self,
        from: Pixels<'_>,
        window: Rect,
        area: Area,
        (width, height): (u32, u32),
        out: &mut [u8],
    ) -> Result<()> {
        // Values that rounding puts outside the window would be refused.
        let (x, y) = ((area.x - f64::from(window.x)).max(0.0), (area.y - f64::from(window.y)).max(0.0));
        let (w, h) = (area.width.min(f64::from(window.width) - x), area.height.min(f64::from(window.height) - y));
        let options = fir::ResizeOptions::new()
            .resize_alg(fir::ResizeAlg::Convolution(fir::FilterType::Bilinear))
            .crop(x, y, w, h);
        let image = TypedImageRef::<U8x3>::from_buffer(from.width, from.height, from.bytes).map_err(unfit)?;
        let seen =
            TypedCroppedImage::from_ref(&image, window.x, window.y, window.width, window.height).map_err(unfit)?;
        let mut out = TypedImage::<U8x3>::from_buffer(width, height, out).map_err(unfit)?;
        self.inner.resize_typed(&seen, &mut out, &options).map_err(unfit)
    }
}

fn unfit(error: impl std::fmt::Display) -> Error {
    Error::usage("resizing", "a crop within the picture, and room for the output", error)
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;
