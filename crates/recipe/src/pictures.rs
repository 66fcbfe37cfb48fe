//! Storage options for pictures.

use crate::{Share, Word};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use shardpack_jpeg::{ReencodeOptions, Resize, TileOptions};

/// How JPEG pictures are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Jpeg {
    /// JPEGs are stored in tiles, with unchanged pixels. A reader can then cut out a rectangle without decoding the
    /// whole picture.
    #[default]
    Tile,
    /// JPEGs are stored byte for byte.
    Keep,
    /// JPEGs are re-encoded in tiles, after resizing if requested.
    Reencode,
}

impl Word for Jpeg {
    const WORDS: &'static [(&'static str, Self)] =
        &[("tile", Self::Tile), ("keep", Self::Keep), ("reencode", Self::Reencode)];
}

/// Storage options for pictures. The variant decides how JPEGs are stored. Other pictures are stored byte for byte.
/// This type is also the entry of a picture field in a recipe.
///
/// ```
/// use shardpack_recipe::PictureOptions;
/// let json = serde_json::to_string(&PictureOptions::default())?;
/// assert_eq!(json, r#"{"jpeg":"tile","upright":false,"check_pixels":"sample","keep_metadata":false}"#);
/// // An option of a later version is an error and is not ignored.
/// assert!(serde_json::from_str::<PictureOptions>(r#"{"jpeg":"keep","colour":"grey"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "jpeg", rename_all = "lowercase", remote = "Self")]
pub enum PictureOptions {
    /// Store JPEGs byte for byte.
    Keep {
        /// If true, stores a segment index with each picture that benefits from one. Default: true, but false for a
        /// recipe without this entry.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        segment_index: bool,
    },
    /// Store JPEGs in tiles.
    Tile {
        /// If true, turns pictures upright by rearranging their coefficients, if their dimensions allow it. Decoders
        /// then need not rotate them, but some pixels differ by one or two levels because of rounding. Default:
        /// false.
        upright: bool,
        /// Share of pictures that are decoded and compared with their sources pixel by pixel. Default: a sample.
        check_pixels: Share,
        /// If true, keeps all metadata segments in the stored JPEG. If false (the default), the ICC profile is stored
        /// in the field `icc`, the Exif orientation in the column `orientation`, and the rest is dropped.
        keep_metadata: bool,
    },
    /// Re-encode JPEGs.
    Reencode {
        /// Quality, subsampling and size. Tiles use their default options.
        #[serde(rename = "reencode")]
        how: ReencodeOptions,
        /// Share of pictures that get an SSIMULACRA2 score against their sources. Default: a sample.
        score: Share,
        /// If true, keeps the ICC profile in re-encoded JPEGs, and all metadata in JPEGs that are not
        /// re-encoded. Default: false.
        keep_metadata: bool,
    },
}

impl Serialize for PictureOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for PictureOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let options = Self::deserialize(&value).map_err(D::Error::custom)?;
        // Reject options of a later version, because they may change how pictures are stored.
        match serde_json::to_value(&options) {
            Ok(again) if again == value => Ok(options),
            _ => Err(D::Error::custom("the recipe has a picture option that this version of shardpack does not know")),
        }
    }
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self::of(Jpeg::Tile)
    }
}

impl PictureOptions {
    /// Returns the default options for this way of storing JPEGs.
    #[must_use]
    pub fn of(jpeg: Jpeg) -> Self {
        let keep_metadata = false;
        match jpeg {
            Jpeg::Keep => Self::Keep { segment_index: true },
            Jpeg::Tile => Self::Tile { upright: false, check_pixels: Share::Sample, keep_metadata },
            Jpeg::Reencode => Self::reencode(ReencodeOptions::default()),
        }
    }

    /// Returns options that re-encode pictures with `how` and score a sample of them.
    #[must_use]
    pub const fn reencode(how: ReencodeOptions) -> Self {
        Self::Reencode { how, score: Share::Sample, keep_metadata: false }
    }

    /// Returns how JPEGs are stored.
    #[must_use]
    pub const fn jpeg(&self) -> Jpeg {
        match self {
            Self::Keep { .. } => Jpeg::Keep,
            Self::Tile { .. } => Jpeg::Tile,
            Self::Reencode { .. } => Jpeg::Reencode,
        }
    }

    /// True if every picture is stored byte for byte.
    #[must_use]
    pub const fn keeps_files(&self) -> bool {
        matches!(self, Self::Keep { .. })
    }

    /// True if segment indexes are stored with pictures.
    #[must_use]
    pub const fn has_segment_index(&self) -> bool {
        matches!(self, Self::Keep { segment_index: true })
    }

    /// True if pictures are re-encoded.
    #[must_use]
    pub const fn reencodes(&self) -> bool {
        matches!(self, Self::Reencode { .. })
    }

    /// True if stored JPEGs keep their metadata. With `keep`, they always do.
    #[must_use]
    pub const fn keeps_metadata(&self) -> bool {
        match self {
            Self::Keep { .. } => false,
            Self::Tile { keep_metadata, .. } | Self::Reencode { keep_metadata, .. } => *keep_metadata,
        }
    }

    /// Makes stored JPEGs keep their metadata.
    pub const fn keep_metadata(&mut self) {
        match self {
            Self::Keep { .. } => {}
            Self::Tile { keep_metadata, .. } | Self::Reencode { keep_metadata, .. } => *keep_metadata = true,
        }
    }

    /// True if ICC profiles are moved from the pictures to a separate field.
    #[must_use]
    pub const fn takes_profiles_out(&self) -> bool {
        !self.keeps_files() && !self.keeps_metadata()
    }

    /// Returns the encoder options if pictures are re-encoded.
    #[must_use]
    pub fn encoding(&self) -> Option<ReencodeOptions> {
        match self {
            Self::Reencode { how, keep_metadata, .. } => {
                let tile = TileOptions { keep_metadata: *keep_metadata, ..how.tile.clone() };
                Some(ReencodeOptions { tile, ..how.clone() })
            }
            Self::Keep { .. } | Self::Tile { .. } => None,
        }
    }

    /// Returns the size that pictures are shrunk to.
    #[must_use]
    pub const fn resize(&self) -> Resize {
        match self {
            Self::Reencode { how, .. } => how.resize,
            Self::Keep { .. } | Self::Tile { .. } => Resize::No,
        }
    }

    /// Returns the share of pictures whose pixels are compared with their sources.
    #[must_use]
    pub const fn checked(&self) -> Share {
        match self {
            Self::Tile { check_pixels, .. } => *check_pixels,
            Self::Keep { .. } | Self::Reencode { .. } => Share::None,
        }
    }

    /// Returns the share of pictures that are scored against their sources.
    #[must_use]
    pub const fn scored(&self) -> Share {
        match self {
            Self::Reencode { score, .. } => *score,
            Self::Keep { .. } | Self::Tile { .. } => Share::None,
        }
    }
}
