//! The kind of samples that a source has, and how to treat damaged files.

use crate::Word;
use serde::{Deserialize, Serialize};

/// Kind of the samples of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// Pictures: JPEG, PNG, WebP, BMP, TIFF.
    Images,
    /// Hyperspectral cubes: NumPy, Blosc2, ENVI, MATLAB, TIFF, PNG of 16 bits, Tivita, HDF5.
    Cubes,
}

impl std::fmt::Display for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spelled())
    }
}

impl Word for SourceKind {
    const WORDS: &'static [(&'static str, Self)] = &[("images", Self::Images), ("cubes", Self::Cubes)];
}

/// How to treat source files that cannot be packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadInput {
    /// Stop before anything is written, and list these files.
    #[default]
    Stop,
    /// Pack without these files, and list them.
    Skip,
}

impl Word for OnBadInput {
    const WORDS: &'static [(&'static str, Self)] = &[("stop", Self::Stop), ("skip", Self::Skip)];
}
