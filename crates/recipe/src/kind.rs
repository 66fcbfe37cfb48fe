//! What the samples of a source are, and what becomes of those that are damaged.

use crate::Word;
use serde::{Deserialize, Serialize};

/// What the samples of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// Pictures: JPEG, PNG, WebP, BMP, TIFF.
    Images,
    /// Hyperspectral cubes: NumPy, ENVI, MATLAB, TIFF, PNG of 16 bits, Tivita.
    Cubes,
}

impl std::fmt::Display for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spelled())
    }
}

impl Word for SourceKind {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("images", Self::Images, ""), ("cubes", Self::Cubes, "")];
}

/// What to do when some files of a source cannot be packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadInput {
    /// Stop before anything is written, with the list.
    #[default]
    Stop,
    /// Leave them out, and pass the list on.
    Skip,
}

impl Word for OnBadInput {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[("stop", Self::Stop, ""), ("skip", Self::Skip, "")];
}
