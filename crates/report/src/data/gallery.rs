//! Pictures to look at: the original, the stored picture and their difference, for one region of a sample.

use super::{Measure, Why};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One region of one sample, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GalleryItem {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Position of the sample in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Why this sample is shown.
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
    /// The region in the original, which is resized without loss if the candidate resizes.
    #[serde(skip)]
    pub original: EmbeddedPicture,
    /// The same region in the stored picture, decoded.
    #[serde(skip)]
    pub stored: EmbeddedPicture,
    /// The difference between the two pictures, multiplied by the factor and centred on mid grey.
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

/// An encoded picture. The page embeds it, but the JSON omits it.
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
