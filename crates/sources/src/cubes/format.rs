//! The trait that a file format of cubes implements.

use super::cube::{CubeHeader, LoadedCube};
use super::error::Result;
use super::select::Purpose;
use super::source::CubeFile;
use super::values::OpenCube;
use shardpack_array::Array;
use std::path::PathBuf;

/// A file format of cubes: recognised by first bytes, then opened and read.
pub(super) trait CubeFormat: Sync {
    /// True if the file, which begins with `head`, has this format.
    ///
    /// # Errors
    /// `Io` if more than `head` is needed and cannot be read.
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool>;

    /// True if a file of `bytes` in a folder of masks, with the first bytes `head`, counts as a
    /// mask.
    fn may_be_mask(&self, _head: &[u8], _bytes: u64) -> bool {
        false
    }

    /// The file with the values, if it is a different file from `source`.
    fn data_file(&self, _source: &CubeFile) -> Option<PathBuf> {
        None
    }

    /// Reads the headers, and no values.
    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader>;

    /// Reads the cube.
    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube>;

    /// Opens the cube and leaves its values in the file; `None` if they must be loaded.
    fn open_in_file(&self, _source: &CubeFile, _want: &Purpose) -> Result<Option<OpenCube>> {
        Ok(None)
    }

    /// Labels of a mask, `[height, width]`; `None` if they are read as a cube of one band.
    fn labels(&self, _source: &CubeFile, _max_bytes: u64) -> Result<Option<Array>> {
        Ok(None)
    }

    /// Height and width of a mask; `None` if the headers do not tell.
    fn label_size(&self, _source: &CubeFile) -> Result<Option<[u64; 2]>> {
        Ok(None)
    }
}
