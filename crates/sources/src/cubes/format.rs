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
    /// A file of this format in a message: `NumPy array`.
    fn title(&self) -> &'static str;

    /// Usual extensions, in lower case, of the file and of those beside it.
    fn extensions(&self) -> &'static [&'static str];

    /// True if the file, which begins with `head`, has this format.
    ///
    /// # Errors
    /// `Io` if more than `head` has to be read, and cannot be.
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool>;

    /// True if a file of `bytes` among masks that begins with `head` is taken for a mask.
    fn may_be_mask(&self, _head: &[u8], _bytes: u64) -> bool {
        false
    }

    /// The file that holds the values, if it is not `source` itself.
    fn data_file(&self, _source: &CubeFile) -> Option<PathBuf> {
        None
    }

    /// Reads the headers, and no values.
    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader>;

    /// Reads the cube.
    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube>;

    /// The cube with its values left in the file; `None` if they have to be loaded.
    fn open_in_file(&self, _source: &CubeFile, _want: &Purpose) -> Result<Option<OpenCube>> {
        Ok(None)
    }

    /// The labels of a mask, `[height, width]`; `None` if they are read as a cube of one band.
    fn labels(&self, _source: &CubeFile, _max_bytes: u64) -> Result<Option<Array>> {
        Ok(None)
    }

    /// Height and width of a mask; `None` if only reading it tells.
    fn label_size(&self, _source: &CubeFile) -> Result<Option<[u64; 2]>> {
        Ok(None)
    }
}
