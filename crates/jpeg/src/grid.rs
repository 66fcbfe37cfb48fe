//! Derives the tiles of a picture from its restart interval and frame.

use super::header::JpegHeader;
use super::mcu_grid::BLOCK;
use super::rect::Rect;
use super::upsample::Needs;

/// Tiles of equal size, starting at the upper left corner. The tiles at the right and bottom may extend past
/// the picture's edge. Each tile is one restart interval, and the intervals are stored row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    width: u32,
    height: u32,
    tile_width: u32,
    tile_height: u32,
    pub(super) columns: u32,
    pub(super) rows: u32,
}

/// A rectangle of tiles, given by its columns and rows. The ends are exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) top: u32,
    pub(super) bottom: u32,
}

impl Tiles {
    pub(super) const fn count(&self) -> u32 {
        (self.right - self.left) * (self.bottom - self.top)
    }
}

impl Grid {
    /// Returns the grid of a picture, or `None` if it has none. A grid requires 8-bit sequential Huffman coding, all
    /// components in one scan, and a restart interval that divides an MCU row evenly or consists of whole MCU rows.
    pub(super) fn of(header: &JpegHeader) -> Option<Self> {
        if !header.is_plain() || header.restart_interval == 0 {
            return None;
        }
        let grid = header.mcu_grid();
        let interval = u32::from(header.restart_interval);
        let (across, down) = if grid.columns.is_multiple_of(interval) {
            (interval, 1)
        } else if interval.is_multiple_of(grid.columns) {
            (grid.columns, interval / grid.columns)
        } else {
            return None;
        };
        Some(Self {
            width: header.width.into(),
            height: header.height.into(),
            tile_width: across * grid.h * BLOCK,
            tile_height: down * grid.v * BLOCK,
            columns: grid.columns / across,
            rows: grid.rows.div_ceil(down),
        })
    }

    pub(super) const fn all(&self) -> Tiles {
        Tiles { left: 0, right: self.columns, top: 0, bottom: self.rows }
    }

    /// Returns the tiles that a decoder needs for the rectangle `rect` of the picture.
    pub(super) fn tiles(&self, rect: &Rect, needs: &Needs) -> Tiles {
        let (left, right) = span(rect.x, rect.right(), needs.beside);
        let (top, bottom) = span(rect.y, rect.bottom(), needs.above);
        let mut tiles = Tiles {
            left: left / self.tile_width,
            right: right.div_ceil(self.tile_width).min(self.columns),
            top: top / self.tile_height,
            bottom: bottom.div_ceil(self.tile_height).min(self.rows),
        };
        // libjpeg cannot interpolate if the last tile of a row is too narrow.
        while self.shown(&tiles).width < needs.min_width && tiles.right < self.columns {
            tiles.right += 1;
        }
        while self.shown(&tiles).width < needs.min_width && tiles.left > 0 {
            tiles.left -= 1;
        }
        tiles
    }

    pub(super) fn shown(&self, tiles: &Tiles) -> Rect {
        let (x, y) = (tiles.left * self.tile_width, tiles.top * self.tile_height);
        // The products cannot overflow: a side has at most 65,535 pixels, and a tile has at most 65,535 MCUs
        // of 32 pixels.
        let (right, bottom) = (tiles.right * self.tile_width, tiles.bottom * self.tile_height);
        Rect { x, y, width: right.min(self.width) - x, height: bottom.min(self.height) - y }
    }
}

/// Returns the range from `start` to `end`, extended by one pixel on each side if `margin` is true.
fn span(start: u32, end: u32, margin: bool) -> (u32, u32) {
    let margin = u32::from(margin);
    (start.saturating_sub(margin), end + margin)
}
