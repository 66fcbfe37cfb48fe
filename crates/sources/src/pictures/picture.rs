//! Defines the properties that are read from the header of a picture.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use shardpack_jpeg::PictureFormat;

/// A named type, because serde would borrow a plain `&str` from the input.
type Word = &'static str;

/// Properties that are read from the header of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureInfo {
    /// Media type of the [`PictureFormat`], for example `image/jpeg`.
    #[serde(deserialize_with = "media_type")]
    pub media_type: Word,
    /// Stored width in pixels, before any Exif orientation.
    pub width: u32,
    /// Stored height in pixels, before any Exif orientation.
    pub height: u32,
    /// True for pictures other than JPEGs with more than 8 bits per sample. They are stored unchanged and
    /// decoded to 8 bits.
    pub deep: bool,
    /// Exif orientation, 1..=8, if any. Always `None` for JPEGs.
    #[serde(default)]
    pub exif: Option<u8>,
    /// Extra band, such as alpha. It is stored unchanged, but not decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Properties of a JPEG, or `None` for other formats.
    pub jpeg: Option<JpegFacts>,
}

/// A band that a picture has in addition to its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beside {
    /// An alpha channel.
    Alpha,
    /// An extra band with unknown meaning.
    Band,
}

impl PictureInfo {
    /// Returns the height and width after applying the Exif orientation.
    pub const fn upright(&self) -> [u32; 2] {
        match self.orientation() {
            5..=8 => [self.width, self.height],
            _ => [self.height, self.width],
        }
    }

    /// Returns the Exif orientation, 1..=8.
    pub const fn orientation(&self) -> u8 {
        let found = match self.jpeg {
            Some(JpegFacts { orientation, .. }) => orientation,
            None => self.exif,
        };
        match found {
            Some(orientation) => orientation,
            None => 1,
        }
    }
}

/// Properties that only JPEGs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JpegFacts {
    /// True if a GPU can decode the picture; see [`device_decodable`](shardpack_jpeg::JpegHeader::device_decodable).
    pub gpu_jpeg: bool,
    /// Rarely supported feature of the picture, if any. It may be lossless or hierarchical, use arithmetic
    /// coding, or have 12 bits or two components. These pictures are stored like any other, but `gpu_jpeg` is
    /// false.
    #[serde(deserialize_with = "rare")]
    pub rare: Option<Word>,
    /// True for a progressive JPEG.
    pub progressive: bool,
    /// Number of components, 1 to 4.
    pub components: u8,
    /// Number of MCUs between restart markers, or 0 if there are none.
    pub restart_interval: u16,
    /// Exif orientation, 1..=8, if any. Not read from hierarchical JPEGs.
    pub orientation: Option<u8>,
    /// True if there is an ICC profile. Always false for hierarchical JPEGs, because they are not
    /// searched for profiles.
    pub icc: bool,
    /// Number of bytes after EOI. Only the last bytes are read, so the number is also 0 if a second complete
    /// JPEG follows.
    pub trailing_bytes: u64,
}

fn word<'de, D: Deserializer<'de>>(found: &str, words: &[&'static str]) -> Result<&'static str, D::Error> {
    let fixed = words.iter().copied().find(|word| *word == found);
    fixed.ok_or_else(|| D::Error::custom(format!("expected one of {}, found `{found}`", words.join(", "))))
}

fn media_type<'de, D: Deserializer<'de>>(input: D) -> Result<&'static str, D::Error> {
    word::<D>(&String::deserialize(input)?, &PictureFormat::ALL.map(PictureFormat::media_type))
}

fn rare<'de, D: Deserializer<'de>>(input: D) -> Result<Option<&'static str>, D::Error> {
    const WORDS: [&str; 7] = [
        "lossless JPEG",
        "differential JPEG",
        "JPEG with arithmetic coding",
        "JPEG of two components",
        "JPEG of 12 bits",
        "JPEG of neither 8 nor 12 bits",
        "hierarchical JPEG",
    ];
    let found = Option::<String>::deserialize(input)?;
    found.map(|found| word::<D>(&found, &WORDS)).transpose()
}
