//! Defines a picture area with fractional coordinates.

use super::Rect;

/// A rectangle with fractional pixel coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Distance from the left edge.
    pub x: f64,
    /// Distance from the upper edge.
    pub y: f64,
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
}

impl Area {
    pub(crate) fn of(rect: Rect) -> Self {
        let Rect { x, y, width, height } = rect;
        Self { x: x.into(), y: y.into(), width: width.into(), height: height.into() }
    }

    /// Returns the area as a rectangle, or `None` if it does not consist of whole pixels.
    #[must_use]
    pub fn rect(self) -> Option<Rect> {
        let whole = |v: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "compared below")]
            let n = v as u32;
            (f64::from(n) == v).then_some(n)
        };
        Some(Rect { x: whole(self.x)?, y: whole(self.y)?, width: whole(self.width)?, height: whole(self.height)? })
    }
}
