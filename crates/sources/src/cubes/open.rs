//! Cubes whose values need not be in memory: if a file has them in our order, they are read as
//! needed.

use super::cube::{CubeKind, CubeOptions, LoadedCube};
use super::error::Result;
use super::gather;
use super::layout::Layout;
use super::select::Want;
use super::source::Source;
use super::{envi, known, load_as, npy};
use serde_json::{Map, Value};
use shardpack_array::{Array, ArraySource, EncodeError, EncodeResult};
use shardpack_format::Dtype;
use std::path::Path;

/// A cube that is ready to be read.
#[derive(Debug)]
pub struct OpenCube {
    /// The values, `[height, width, channels]`.
    pub values: CubeValues,
    /// As [`LoadedCube::no_data`].
    pub no_data: Option<f64>,
    /// As [`LoadedCube::meta`].
    pub meta: Map<String, Value>,
}

/// Where the values of a cube are.
#[derive(Debug)]
pub enum CubeValues {
    /// In a file, in C order.
    InFile(ValuesInFile),
    /// In memory, because the file stores them compressed or in another order.
    InMemory(Array),
}

/// The elements of a cube that a file stores without gaps, in the order in which we store them.
#[derive(Debug)]
pub struct ValuesInFile {
    source: Source,
    offset: u64,
    dtype: Dtype,
    shape: [u64; 3],
    big_endian: bool,
}

impl ValuesInFile {
    /// The elements of `layout`, which must be in the stored order, from `offset` on.
    pub(super) fn new(source: Source, offset: u64, layout: &Layout) -> Self {
        let Layout { dtype, big_endian, shape, .. } = *layout;
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

/// Opens a cube. Like [`load`](super::load), but values that a plain file stores in our order stay
/// there. Other values go into the memory of `spare` if it is large enough (its content is
/// dropped): pages that the process already has cost a third of fresh ones.
///
/// # Errors
/// As [`load`](super::load).
pub fn open(path: &Path, options: &CubeOptions, spare: Vec<u8>) -> Result<OpenCube> {
    let source = Source::open(path, &options.run)?.with_spare(spare);
    source.check_cancel()?;
    options.run.or_cancelled(path, open_in(source, &Want::Cube(options)))
}

fn open_in(source: Source, want: &Want) -> Result<OpenCube> {
    let kind = known(&source)?;
    match kind {
        CubeKind::Npy => {
            let (layout, offset) = npy::place(&source, want)?;
            if layout.is_stored_order() {
                let values = CubeValues::InFile(ValuesInFile::new(source, offset, &layout));
                return Ok(OpenCube { values, no_data: None, meta: Map::new() });
            }
        }
        CubeKind::EnviHeader => {
            if let Some(cube) = envi::open_in_file(&source, want)? {
                return Ok(cube);
            }
        }
        _ => {}
    }
    let LoadedCube { array, no_data, meta } = load_as(kind, &source, want)?;
    Ok(OpenCube { values: CubeValues::InMemory(array), no_data, meta })
}
