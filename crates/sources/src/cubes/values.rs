//! Opened cubes. Values that the file stores in the order of the cube stay in the file and are read on demand.

use super::gather;
use super::layout::CubeLayout;
use super::source::CubeFile;
use serde_json::{Map, Value};
use shardpack_array::{Array, ArraySource, EncodeError, EncodeResult};
use shardpack_format::Dtype;

/// An opened cube, with its values in memory or in the file.
#[derive(Debug)]
pub struct OpenCube {
    /// Values in the order `[height, width, channels]`.
    pub values: CubeValues,
    /// Same as [`LoadedCube::no_data`](super::LoadedCube::no_data).
    pub no_data: Option<f64>,
    /// Same as [`LoadedCube::meta`](super::LoadedCube::meta).
    pub meta: Map<String, Value>,
}

/// Tells whether a cube's values are in memory or in the file.
#[derive(Debug)]
pub enum CubeValues {
    /// The values are in a file, in C order.
    InFile(ValuesInFile),
    /// The values are in memory, because the file stores them compressed or in a different order.
    InMemory(Array),
}

/// Contiguous elements of a cube in a file, in `[height, width, channels]` order.
#[derive(Debug)]
pub struct ValuesInFile {
    source: CubeFile,
    offset: u64,
    dtype: Dtype,
    shape: [u64; 3],
    big_endian: bool,
}

impl ValuesInFile {
    /// Creates values that stay in the file. The elements of `layout` start at `offset` and must be
    /// in the order of the cube.
    pub(super) fn new(source: CubeFile, offset: u64, layout: &CubeLayout) -> Self {
        let CubeLayout { dtype, big_endian, shape, .. } = *layout;
        Self { source, offset, dtype, shape, big_endian }
    }
}

impl ArraySource for CubeValues {
    fn dtype(&self) -> Dtype {
        match self {
            Self::InFile(values) => values.dtype,
            Self::InMemory(array) => array.dtype(),
        }
    }

    fn shape(&self) -> &[u64] {
        match self {
            Self::InFile(values) => &values.shape,
            Self::InMemory(array) => array.shape(),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::InFile(_) => None,
            Self::InMemory(array) => Some(array.bytes()),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> EncodeResult<()> {
        match self {
            Self::InFile(values) => {
                let offset = values.offset.saturating_add(offset);
                let read = values.source.fill_at("elements of the cube", offset, out);
                read.map_err(|error| EncodeError::Source(error.to_string()))?;
                if values.big_endian {
                    gather::swap_in_place(out, values.dtype.bytes());
                }
                Ok(())
            }
            Self::InMemory(array) => array.read_at(offset, out),
        }
    }
}
