//! A rectangle within a picture, in pixels.

use shardpack_format::{Error, Result};
use std::fmt;

/// A rectangle of pixels. `x` and `y` count from the upper left corner of the picture.
///
/// ```
/// use shardpack_jpeg::Rect;
/// let crop = Rect { x: 20, y: 10, width: 100, height: 50 };
/// let shown = Rect { x: 16, y: 0, width: 128, height: 64 };
/// assert!(shown.contains(&crop));
/// assert_eq!(crop.within(&shown), Some(Rect { x: 4, y: 10, ..crop }));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rect {
    /// Columns to the left of the rectangle.
    pub x: u32,
    /// Rows above the rectangle.
    pub y: u32,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

impl Rect {
    /// Creates the rectangle of a whole picture.
    #[must_use]
    pub const fn whole(width: u32, height: u32) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    /// Returns the column after the last column, at most `u32::MAX`.
    #[must_use]
    pub const fn right(&self) -> u32 {
        self.x.saturating_add(self.width)
    }

    /// Returns the row after the last row, at most `u32::MAX`.
    #[must_use]
    pub const fn bottom(&self) -> u32 {
        self.y.saturating_add(self.height)
    }

    /// Returns true if every pixel of `other` is in this rectangle.
    #[must_use]
    pub const fn contains(&self, other: &Self) -> bool {
        self.x <= other.x && self.y <= other.y && other.right() <= self.right() && other.bottom() <= self.bottom()
    }

    /// Returns this rectangle relative to the upper left corner of `outer`, or `None` if it is not inside
    /// `outer`.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Option<Self> {
        outer.contains(self).then(|| Self { x: self.x - outer.x, y: self.y - outer.y, ..*self })
    }

    /// Fails unless the rectangle is non-empty and lies within a picture of `width` × `height`.
    pub(super) fn check(&self, width: u32, height: u32) -> Result<()> {
        // Avoid `right` and `bottom` here, because they saturate.
        let ends = (self.x.checked_add(self.width), self.y.checked_add(self.height));
        let inside = matches!(ends, (Some(right), Some(bottom)) if right <= width && bottom <= height);
        if inside && self.width > 0 && self.height > 0 {
            return Ok(());
        }
        Err(Error::usage(match inside {
            true => format!("the rectangle {self} is empty"),
            false => format!("the rectangle {self} is not within the picture of {width} × {height} pixels"),
        }))
    }
}

impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} at ({}, {})", self.width, self.height, self.x, self.y)
    }
}
