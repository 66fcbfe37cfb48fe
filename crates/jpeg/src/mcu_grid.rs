//! The MCUs of a picture (T.81, A.2): their number, their size, and their blocks.
#![deny(clippy::indexing_slicing)]

use super::rect::Rect;
use std::ops::Range;

/// Side length of a DCT block, in samples.
pub(super) const BLOCK: u32 = 8;

/// The MCUs of a picture that has all components in one scan.
///
/// ```
/// use shardpack_jpeg::McuGrid;
/// // 500 × 375 pixels in 4:2:0.
/// let grid = McuGrid::new(500, 375, [2, 2, 3]);
/// assert_eq!((grid.columns, grid.rows, grid.blocks), (32, 24, 6));
/// assert_eq!((grid.chroma_width, grid.chroma_height), (250, 188));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McuGrid {
    /// Number of MCUs in a row.
    pub columns: u32,
    /// Number of rows of MCUs.
    pub rows: u32,
    /// Largest horizontal sampling factor: an MCU is 8 · `h` pixels wide.
    pub h: u32,
    /// Largest vertical sampling factor: an MCU is 8 · `v` pixels high.
    pub v: u32,
    /// Number of components.
    pub components: u32,
    /// Number of blocks of all components in an MCU.
    pub blocks: u32,
    /// Width of a component with sampling factors of 1 × 1, in samples.
    pub chroma_width: u32,
    /// Height of a component with sampling factors of 1 × 1, in samples.
    pub chroma_height: u32,
}

impl McuGrid {
    /// Returns the grid of a picture of `width` × `height` pixels. The first component has the sampling factors `h`
    /// and `v`, and all others have 1 × 1.
    #[must_use]
    pub const fn new(width: u32, height: u32, [h, v, components]: [u32; 3]) -> Self {
        Self {
            columns: width.div_ceil(BLOCK * h),
            rows: height.div_ceil(BLOCK * v),
            h,
            v,
            components,
            blocks: h * v + components.saturating_sub(1),
            chroma_width: width.div_ceil(h),
            chroma_height: height.div_ceil(v),
        }
    }

    /// Returns the number of MCUs.
    #[must_use]
    pub const fn mcus(&self) -> u32 {
        self.columns * self.rows
    }

    /// Returns the number of MCUs between restart markers, for the number in the header of the picture. Without
    /// markers (0) it is the number of all MCUs.
    #[must_use]
    pub fn restart_interval(&self, in_header: u16) -> u32 {
        match in_header {
            0 => self.mcus(),
            interval => self.mcus().min(interval.into()),
        }
    }

    /// Returns the columns and rows of MCUs that contain the pixels of `window`, and the neighbours that upsampling
    /// needs.
    #[must_use]
    pub fn shown(&self, window: Rect) -> [Range<u32>; 2] {
        let span = |start: u32, end: u32, factor: u32, most: u32| {
            let margin = u32::from(factor > 1);
            start.saturating_sub(margin) / (BLOCK * factor)..(end + margin).div_ceil(BLOCK * factor).min(most)
        };
        [span(window.x, window.right(), self.h, self.columns), span(window.y, window.bottom(), self.v, self.rows)]
    }

    pub(super) const fn transposed(self) -> Self {
        let Self { columns, rows, h, v, chroma_width, chroma_height, .. } = self;
        Self {
            columns: rows,
            rows: columns,
            h: v,
            v: h,
            chroma_width: chroma_height,
            chroma_height: chroma_width,
            ..self
        }
    }
}
