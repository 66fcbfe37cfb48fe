//! Defines the field codecs of version 1 (spec §5).

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The codec of a stored field value.
///
/// ```
/// use shardpack_format::Codec;
/// assert_eq!(Codec::from_code(3)?, Codec::Blosc2);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Codec {
    /// The bytes of the value, uncompressed.
    Raw,
    /// One or more standard zstd frames that declare their content size.
    Zstd,
    /// One or more standard Blosc2 chunks.
    Blosc2,
    /// A JPEG file.
    Jpeg,
}

impl Codec {
    /// Returns the number that represents this codec in files.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Raw => 1,
            Self::Zstd => 2,
            Self::Blosc2 => 3,
            Self::Jpeg => 4,
        }
    }

    /// Returns the codec with this code.
    ///
    /// # Errors
    /// `Format` if no codec has this code.
    pub fn from_code(code: u8) -> Result<Self> {
        match code {
            1 => Ok(Self::Raw),
            2 => Ok(Self::Zstd),
            3 => Ok(Self::Blosc2),
            4 => Ok(Self::Jpeg),
            other => Err(Error::format("codec code", "1 to 4", other)),
        }
    }

    /// Returns the codec's name in recipes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::Blosc2 => "blosc2",
            Self::Jpeg => "jpeg",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
