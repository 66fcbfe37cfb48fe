//! What the readers take and return: kinds of files, options, cubes, masks.

use super::error::Result;
use super::layout::Layout;
use super::run::CubeRun;
use super::source::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_array::Array;
use shardpack_format::{Dtype, Limits};
use std::fmt;

/// A file format that holds cubes.
///
/// ```
/// use shardpack_sources::cubes::CubeKind;
/// assert_eq!(CubeKind::Mat5.to_string(), "MATLAB v5 file");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CubeKind {
    /// One NumPy array.
    Npy,
    /// A zip archive of NumPy arrays.
    Npz,
    /// The text header of an ENVI cube. Its data file is in the same folder, see
    /// [`companion`](super::companion).
    EnviHeader,
    /// A MATLAB file of version 4, whose arrays are matrices.
    Mat4,
    /// A MATLAB file of version 5 to 7.
    Mat5,
    /// An HDF5 file, which includes MATLAB files of version 7.3.
    Hdf5,
    /// A TIFF or BigTIFF of numbers: integers of 8–64 bits (or 1 bit), floats of 16–64, chunky or
    /// planar, strips or tiles, none, LZW, deflate, PackBits or zstd compression, predictors 1–3,
    /// both byte orders. Pages of one band are stacked.
    Tiff,
    /// A PNG of grey or colours, 1 to 16 bits: uint8 or uint16.
    Png,
    /// A cube of a Tivita camera (`…_SpecCube.dat`).
    Tivita,
}

impl fmt::Display for CubeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npy => "NumPy array",
            Self::Npz => "NumPy archive",
            Self::EnviHeader => "ENVI header",
            Self::Mat4 => "MATLAB v4 file",
            Self::Mat5 => "MATLAB v5 file",
            Self::Hdf5 => "HDF5 file",
            Self::Tiff => "TIFF",
            Self::Png => "PNG",
            Self::Tivita => "Tivita cube",
        })
    }
}

/// How to read a cube.
///
/// ```
/// use shardpack_sources::cubes::CubeOptions;
/// let options = CubeOptions { variable: vec!["Y".into()], spatial: Some((95, 95)), ..Default::default() };
/// assert_eq!(options.max_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeOptions {
    /// Names of the array, for files that can hold several (`.npz`, `.mat`, HDF5): the first that a
    /// file has is read. In a name, `*` stands for any characters. Default, empty: the only array of
    /// three axes, else the only one of two. Other formats have no names and ignore this.
    pub variable: Vec<String>,
    /// Height and width of the picture, for MATLAB matrices of bands × pixels or pixels × bands.
    /// The pixels are in MATLAB's column order: pixel `p` is row `p mod height`, column
    /// `p / height`. If both axes fit, the matrix is read as bands × pixels. Arrays of three axes
    /// and other formats ignore this.
    pub spatial: Option<(u64, u64)>,
    /// Largest cube, in bytes as decoded. Default 1 GiB, which is also what a reader of a dataset
    /// accepts by default.
    pub max_bytes: u64,
    /// What all cubes of the run share. Default: nothing yet, and no flag to stop it.
    pub run: CubeRun,
}

impl Default for CubeOptions {
    fn default() -> Self {
        Self {
            variable: Vec::new(),
            spatial: None,
            max_bytes: Limits::default().max_decoded_bytes,
            run: CubeRun::default(),
        }
    }
}

/// What [`peek`](super::peek) finds out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeInfo {
    /// File format.
    pub kind: CubeKind,
    /// `[height, width, channels]`.
    pub shape: [u64; 3],
    /// Element type, as [`load`](super::load) will give it.
    pub dtype: Dtype,
    /// Bytes of the cube in memory.
    pub array_bytes: u64,
    /// Whether [`open`](super::open) leaves the values in the file, to be read as needed.
    pub in_file: bool,
    /// Bytes of the source on disk: the file, or header and data file together.
    pub source_bytes: u64,
    /// Name of the array, in files that name theirs (`.npz`, `.mat`, HDF5). [`load`](super::load)
    /// puts it into `meta` as `variable`.
    pub variable: Option<String>,
    /// Names of the other arrays in the file, except scalars and vectors, if the options do not
    /// name one.
    pub others: Vec<String>,
}

impl CubeInfo {
    pub(super) fn new(kind: CubeKind, layout: &Layout, source: &Source, max_bytes: u64) -> Result<Self> {
        let array_bytes = layout.bytes(source, max_bytes)?;
        let (shape, dtype, source_bytes) = (layout.shape, layout.dtype, source.len());
        let (variable, others) = (None, Vec::new());
        Ok(Self { kind, shape, dtype, array_bytes, in_file: false, source_bytes, variable, others })
    }

    /// For formats whose elements are plain bytes in a file: they are read as needed, if they are
    /// in our order.
    pub(super) fn read_as_needed(self, layout: &Layout) -> Self {
        Self { in_file: layout.is_stored_order(), ..self }
    }

    /// Adds the array's name and the names of the others.
    pub(super) fn of_array(self, name: &str, others: Vec<String>) -> Self {
        Self { variable: Some(name.to_owned()), others, ..self }
    }
}

/// A cube in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedCube {
    /// The values, `[height, width, channels]`.
    pub array: Array,
    /// The value that marks missing data, rounded to the element type like the values.
    pub no_data: Option<f64>,
    /// Everything else in the file: `variable` (the name of the array, if arrays have names),
    /// `wavelengths` and `fwhm` (numbers, one per channel), `wavelength_units`, `bbl`,
    /// `description`, map information, …. Keys are snake_case, in the order of the file.
    pub meta: Map<String, Value>,
}

impl LoadedCube {
    /// Wraps elements that are already in C order.
    pub(super) fn new(source: &Source, dtype: Dtype, shape: [u64; 3], bytes: Vec<u8>) -> Result<Self> {
        let array = Array::new(dtype, shape.to_vec(), bytes)
            .map_err(|error| source.format("array elements", "as many as the shape says", error))?;
        Ok(Self { array, no_data: None, meta: Map::new() })
    }

    /// Sets the no-data value, rounded as the writer rounded the elements.
    pub(super) fn set_no_data(&mut self, value: Option<f64>) {
        self.no_data = value.map(|value| rounded(value, self.array.dtype()));
    }
}

/// A no-data value, rounded as the writer rounded elements of this type.
pub(super) fn rounded(value: f64, dtype: Dtype) -> f64 {
    match dtype {
        #[allow(clippy::cast_possible_truncation, reason = "the rounding is the point")]
        Dtype::F32 if value.abs() < f64::from(f32::MAX) * 1.000_001 => {
            f64::from((value as f32).clamp(f32::MIN, f32::MAX))
        }
        _ => value,
    }
}

/// A label mask in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedMask {
    /// The labels, `[height, width]`, of an integer type or `bool`.
    pub array: Array,
    /// The value that marks unlabelled pixels, if the file says so.
    pub no_data: Option<f64>,
}
