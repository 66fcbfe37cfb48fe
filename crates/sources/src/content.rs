//! Describes the content of a sample: a picture or a cube.

use crate::cubes::CubeInfo;
use crate::pictures::PictureInfo;
use serde::{Deserialize, Serialize};
pub use shardpack_recipe::SourceKind;

/// The content of one sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleContent {
    /// A picture.
    Picture(PictureInfo),
    /// A cube.
    Cube(CubeInfo),
}

impl SampleContent {
    /// Returns the kind of source for this content.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        match self {
            Self::Picture(_) => SourceKind::Images,
            Self::Cube(_) => SourceKind::Cubes,
        }
    }

    /// Returns the picture, or `None` for a cube.
    #[must_use]
    pub const fn picture(&self) -> Option<&PictureInfo> {
        match self {
            Self::Picture(picture) => Some(picture),
            Self::Cube(_) => None,
        }
    }

    /// Returns the cube, or `None` for a picture.
    #[must_use]
    pub const fn cube(&self) -> Option<&CubeInfo> {
        match self {
            Self::Picture(_) => None,
            Self::Cube(cube) => Some(cube),
        }
    }

    /// Returns the required height and width of a mask, and a noun for error messages about them.
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
