//! A rectangle of pixels.

/// A rectangle of pixels, from the upper left corner.
///
/// ```
/// use shardpack_codec::jpeg::Rect;
/// let rect = Rect { x: 8, y: 0, width: 16, height: 16 };
/// assert_eq!(rect.x + rect.width, 24);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rect {
    /// Columns to the left of it.
    pub x: u32,
    /// Rows above it.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}
