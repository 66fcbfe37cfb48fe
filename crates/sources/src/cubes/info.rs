//! The properties of a cube in a file, in a form that is the same for all file formats.

use super::cube::CubeHeader;
use super::formats::CubeKind;
use serde::{Deserialize, Serialize};
use shardpack_format::Dtype;

/// Properties of a cube that [`peek`](super::peek) reads from the header of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeInfo {
    /// File format.
    pub kind: CubeKind,
    /// Shape in the order `[height, width, channels]`.
    pub shape: [u64; 3],
    /// Element type of the cube as returned by [`load`](super::load).
    pub dtype: Dtype,
    /// Size of the cube in memory, in bytes.
    pub array_bytes: u64,
    /// True if [`open`](super::open) leaves the values in the file.
    pub in_file: bool,
    /// Bytes on disk, including any separate data file.
    pub source_bytes: u64,
    /// Name of the array, in formats that name arrays (`.npz`, `.mat`, HDF5). In the `meta` of
    /// [`load`](super::load), it is called `variable`.
    pub variable: Option<String>,
    /// Names of the other arrays, except scalars and vectors. Empty if the options name an array.
    pub others: Vec<String>,
}

impl CubeInfo {
    pub(super) fn of(kind: CubeKind, header: CubeHeader) -> Self {
        let CubeHeader { shape, dtype, array_bytes, in_file, source_bytes, variable, others } = header;
        Self { kind, shape, dtype, array_bytes, in_file, source_bytes, variable, others }
    }
}
