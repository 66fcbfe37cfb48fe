//! Listed files with their path, size and modification time.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::io;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Path below the source, separated by `/`.
    pub(crate) key: String,
    pub(crate) bytes: u64,
    pub(crate) mtime_ns: i64,
}

/// A file that belongs to a sample: an ENVI data file, a mask, metadata, or a frame of a clip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size at the time of listing, in bytes.
    pub bytes: u64,
    /// Modification time at the time of listing, in ns since 1970.
    pub mtime_ns: i64,
}

pub(crate) fn mtime_ns(metadata: &Metadata) -> io::Result<i64> {
    let time = metadata.modified()?;
    let ns = |duration: std::time::Duration| shardpack_format::saturating_i64(duration.as_nanos());
    Ok(time.duration_since(UNIX_EPOCH).map_or_else(|before| -ns(before.duration()), ns))
}
