//! Filters that Blosc2 applies before the coder.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A filter that Blosc2 applies before the coder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Filter {
    /// No filter.
    None,
    /// Byte shuffle: splits elements into byte planes.
    Shuffle,
    /// Bit shuffle: splits elements into bit planes.
    Bitshuffle,
    /// Byte planes, then the difference of each byte from the previous byte.
    Bytedelta,
}

impl Filter {
    /// All filters.
    pub const ALL: [Self; 4] = [Self::None, Self::Shuffle, Self::Bitshuffle, Self::Bytedelta];

    /// Returns the name used in recipes and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shuffle => "shuffle",
            Self::Bitshuffle => "bitshuffle",
            Self::Bytedelta => "bytedelta",
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
