//! The codecs of payloads, one file each. A file defines names, levels and costs for writers ([`CoderSpec`]), and
//! lengths and blocks for readers ([`Container`], [`PayloadDecoder`]).
//!
//! To add a coder, add a constant to the file of its codec and a variant to [`Coder`]. To add a container, add a file,
//! a field in [`Decoders`], and a variant of the format's [`Codec`].

mod blosc2;
mod container;
mod raw;
mod spec;
mod zstd;

pub use container::Units;
pub(crate) use container::{BlockPlace, BlockRequest, Budget, Coded, Container, PayloadDecoder};
pub(crate) use raw::Raw;
pub(crate) use spec::{CoderSpec, UnitEncoder};

use crate::bytes::ZstdDecoder;
use serde::{Deserialize, Serialize};
use shardpack_format::{Codec, Error, Result};
use std::fmt;

/// A way to code a payload: a codec and, for Blosc2, the coder of its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Coder {
    /// Blosc2 chunks whose streams are coded with LZ4.
    Blosc2Lz4,
    /// Blosc2 chunks of LZ4 streams, with a longer search for matches. Writing is slower than with plain LZ4, but
    /// reading is just as fast.
    Blosc2Lz4hc,
    /// Blosc2 chunks whose streams are coded with zstd.
    Blosc2Zstd,
    /// Plain zstd frames, one per unit.
    Zstd,
    /// Unencoded bytes.
    Raw,
}

impl Coder {
    /// All coders.
    pub const ALL: [Self; 5] = [Self::Blosc2Lz4, Self::Blosc2Lz4hc, Self::Blosc2Zstd, Self::Zstd, Self::Raw];

    pub(crate) const fn spec(self) -> &'static CoderSpec {
        match self {
            Self::Blosc2Lz4 => &blosc2::LZ4,
            Self::Blosc2Lz4hc => &blosc2::LZ4HC,
            Self::Blosc2Zstd => &blosc2::ZSTD,
            Self::Zstd => &zstd::ZSTD,
            Self::Raw => &raw::RAW,
        }
    }

    /// Returns the name used in recipes and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// True if a [`Filter`](crate::Filter) may precede this coder. Only coders of Blosc2 chunks have filters.
    #[must_use]
    pub const fn has_filters(self) -> bool {
        self.spec().has_filters
    }

    /// Returns the default level, or `None` if the coder has no levels.
    #[must_use]
    pub const fn default_level(self) -> Option<i32> {
        self.spec().levels.default()
    }

    /// Fails unless `level` is one of this coder's levels.
    ///
    /// # Errors
    /// `Usage`, listing the available levels.
    pub fn check_level(self, level: Option<i32>) -> Result<()> {
        self.spec().levels.check(self.name(), level)
    }
}

impl fmt::Display for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the container of a codec.
///
/// # Errors
/// `Format` if the codec does not support arrays.
pub(crate) fn container(codec: Codec) -> Result<&'static dyn Container> {
    Ok(match codec {
        Codec::Raw => &Raw,
        Codec::Zstd => &zstd::Zstd,
        Codec::Blosc2 => &blosc2::Blosc2,
        _ => return Err(not_of_arrays(codec)),
    })
}

#[derive(Default)]
pub(crate) struct Decoders {
    zstd: ZstdDecoder,
    blosc2: blosc2::Blosc2Decoder,
    raw: Raw,
}

impl Decoders {
    /// Returns the decoder of a codec.
    ///
    /// # Errors
    /// `Format` if the codec does not support arrays.
    pub(crate) fn of(&mut self, codec: Codec) -> Result<&mut dyn PayloadDecoder> {
        Ok(match codec {
            Codec::Raw => &mut self.raw,
            Codec::Zstd => &mut self.zstd,
            Codec::Blosc2 => &mut self.blosc2,
            _ => return Err(not_of_arrays(codec)),
        })
    }
}

#[cold]
fn not_of_arrays(codec: Codec) -> Error {
    Error::format("array codec", "raw, zstd or blosc2", codec)
}
