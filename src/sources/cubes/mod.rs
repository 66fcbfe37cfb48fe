//! Cube files, told apart by their content.

use std::path::{Path, PathBuf};

/// What kind of cube file a path holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CubeKind {
    /// A NumPy array.
    Npy,
    /// The text header of an ENVI raster.
    EnviHeader,
    /// A TIFF.
    Tiff,
}

/// Why a cube file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CubeError(#[from] std::io::Error);

/// The kind of cube at `path`; `None` if it holds none.
///
/// # Errors
/// If the file cannot be read.
pub fn probe(path: &Path) -> Result<Option<CubeKind>, CubeError> {
    let bytes = std::fs::read(path)?;
    Ok(match bytes.get(..4) {
        Some(b"\x93NUM") => Some(CubeKind::Npy),
        Some(b"ENVI") => Some(CubeKind::EnviHeader),
        Some(b"II\x2a\0" | b"MM\0\x2a" | b"II\x2b\0" | b"MM\0\x2b") => Some(CubeKind::Tiff),
        _ => None,
    })
}

/// The data file that belongs to a header.
#[must_use]
pub fn companion(path: &Path) -> Option<PathBuf> {
    ["raw", "img", ""].iter().map(|e| path.with_extension(e)).find(|p| p != path && p.is_file())
}
