//! Cutting: stands in until the cutter is merged; returns the whole picture.

use super::{JpegHeader, Rect};
use shardpack_format::{Error, Result};

/// How a cut was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// The tiles that the rectangle touches.
    Tiles,
    /// The rows that the rectangle touches.
    Rows,
    /// The whole picture.
    Whole,
}

/// What a cut shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// What of the picture the cut shows.
    pub shown: Rect,
    /// How it was made.
    pub kind: CutKind,
}

/// Cuts `rect` out of `jpeg` into `out`.
///
/// # Errors
/// `Format` if `jpeg` has no header.
pub fn cut(jpeg: &[u8], _rect: Rect, out: &mut Vec<u8>) -> Result<Cut> {
    let header = JpegHeader::parse(jpeg).map_err(|e| Error::format("JPEG", "a header", e))?;
    out.clear();
    out.extend_from_slice(jpeg);
    let (width, height) = (u32::from(header.width), u32::from(header.height));
    Ok(Cut { shown: Rect { x: 0, y: 0, width, height }, kind: CutKind::Whole })
}
