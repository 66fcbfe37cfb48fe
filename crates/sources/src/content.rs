//! What the samples of a source are: pictures or cubes.

use crate::cubes::CubeInfo;
use crate::pictures::PictureInfo;
use serde::{Deserialize, Serialize};
pub use shardpack_recipe::SourceKind;

/// What one sample holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleContent {
    /// A picture.
    Picture(PictureInfo),
    /// A cube.
    Cube(CubeInfo),
}

impl SampleContent {
    /// The kind of source that contains it.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        match self {
            Self::Picture(_) => SourceKind::Images,
            Self::Cube(_) => SourceKind::Cubes,
        }
    }

    /// Height and width that a mask must have, and what has them.
    pub const fn mask_size(&self) -> ([u64; 2], &'static str) {
        match self {
            Self::Picture(picture) => {
                let [height, width] = picture.upright();
                ([height as u64, width as u64], "upright picture")
            }
            Self::Cube(CubeInfo { shape: [height, width, _], .. }) => ([*height, *width], "cube"),
        }
    }
}
