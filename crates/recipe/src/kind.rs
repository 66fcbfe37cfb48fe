//! Defines the kinds of samples, and what to do with source files that cannot be packed.

use crate::Word;
use serde::{Deserialize, Serialize};

/// Kind of samples in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// Pictures: JPEG, PNG, WebP, BMP and TIFF files.
    Images,
    /// Hyperspectral cubes: NumPy, Blosc2, ENVI, MATLAB, TIFF, 16-bit PNG, Tivita and HDF5 files.
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

/// Action for source files that cannot be packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadInput {
    /// Report these files and stop before anything is written.
    #[default]
    Stop,
    /// Report these files and pack the others.
    Skip,
}

impl Word for OnBadInput {
    const WORDS: &'static [(&'static str, Self)] = &[("stop", Self::Stop), ("skip", Self::Skip)];
}
