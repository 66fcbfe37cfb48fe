//! Numbers that a random draw from 0 to 1 selects.

/// Returns the number in `range` that `draw` selects.
pub(crate) fn between(range: (f64, f64), draw: f64) -> f64 {
    range.0 + (range.1 - range.0) * draw
}

/// Returns the number below `count` that `draw` selects.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0 and below `count`")]
pub(crate) fn one_of(count: u32, draw: f64) -> u32 {
    (draw * f64::from(count)) as u32
}
