//! Pictures for visual comparison. They show one region of a sample: the original, the stored picture, and
//! their difference.

use super::{Measure, Why};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pictures of one region of one sample, before and after storing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GalleryItem {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Position of the sample in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Why this sample is shown.
    pub why: Why,
    /// Region with the largest difference, in pixels of the stored picture.
    pub region: Rect,
    /// The sample's measured values, by measure.
    pub scores: BTreeMap<Measure, f64>,
    /// Factor by which the differences in `difference` are multiplied.
    pub difference_factor: f64,
    /// Bands shown as red, green and blue. Only for cubes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<u64>,
    /// The region in the original. If the candidate resizes pictures, the original is resized too, without
    /// other loss.
    #[serde(skip)]
    pub original: EmbeddedPicture,
    /// The same region in the decoded stored picture.
    #[serde(skip)]
    pub stored: EmbeddedPicture,
    /// The difference between the two pictures, multiplied by the factor and added to mid gray.
    #[serde(skip)]
    pub difference: EmbeddedPicture,
}

/// A rectangular part of a picture, in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    /// First column.
    pub x: u32,
    /// First row.
    pub y: u32,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

/// An encoded picture. It is embedded in the page and omitted from the JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddedPicture {
    /// `image/png` or `image/jpeg`.
    pub media_type: &'static str,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Content of the picture file.
    pub bytes: Vec<u8>,
}
