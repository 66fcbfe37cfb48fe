//! The trait that every cube file format implements.

use super::cube::{CubeHeader, LoadedCube};
use super::error::Result;
use super::select::Purpose;
use super::source::CubeFile;
use super::values::OpenCube;
use shardpack_array::Array;
use std::path::PathBuf;

/// A file format for cubes, with functions to recognise and read a file.
pub(super) trait CubeFormat: Sync {
    /// Returns true if the file has this format. `head` is the start of the file.
    ///
    /// # Errors
    /// `Io` if more bytes than `head` are needed and cannot be read.
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool>;

    /// Returns true if a file in a mask folder may be a mask. `head` is the start of the file, and `bytes` is its size.
    fn may_be_mask(&self, _head: &[u8], _bytes: u64) -> bool {
        false
    }

    /// Returns the file that contains the values, unless it is `source` itself.
    fn data_file(&self, _source: &CubeFile) -> Option<PathBuf> {
        None
    }

    /// Reads the headers but no values.
    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader>;

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube>;

    /// Opens the cube and leaves its values in the file. Returns `None` if the values must be loaded into memory.
    fn open_in_file(&self, _source: &CubeFile, _want: &Purpose) -> Result<Option<OpenCube>> {
        Ok(None)
    }

    /// Reads the labels of a mask as `[height, width]`. Returns `None` if masks of this format are read as
    /// cubes with one band.
    fn labels(&self, _source: &CubeFile, _max_bytes: u64) -> Result<Option<Array>> {
        Ok(None)
    }

    /// Returns the height and width of a mask, or `None` if the headers lack them.
    fn label_size(&self, _source: &CubeFile) -> Result<Option<[u64; 2]>> {
        Ok(None)
    }
}
