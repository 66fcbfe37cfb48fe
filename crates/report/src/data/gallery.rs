//! Pictures to look at: original, stored and difference picture of one region in one sample.

use super::{Measure, Why};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One region of one sample, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GalleryItem {
    /// The candidate, as a position in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// The sample, as a position in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Reason for showing this sample.
    pub why: Why,
    /// Region of the stored picture with the largest difference.
    pub region: Rect,
    /// Measures of the whole sample.
    pub scores: BTreeMap<Measure, f64>,
    /// Multiplier of the differences in `difference`.
    pub difference_factor: f64,
    /// Bands shown as red, green and blue; only for cubes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<u64>,
    /// The original's region, after lossless resizing if the candidate resizes.
    #[serde(skip)]
    pub original: EmbeddedPicture,
    /// The same region of the decoded stored picture.
    #[serde(skip)]
    pub stored: EmbeddedPicture,
    /// Difference of the two, times the factor, around mid grey.
    #[serde(skip)]
    pub difference: EmbeddedPicture,
}

/// Part of a picture, in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    /// First column.
    pub x: u32,
    /// First row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// An encoded picture. The page embeds it; the JSON omits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddedPicture {
    /// `image/png` or `image/jpeg`.
    pub media_type: &'static str,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// File bytes.
    pub bytes: Vec<u8>,
}
