//! Defines the header, cube and mask types that format readers return.

use super::error::Result;
use super::layout::CubeLayout;
use super::source::CubeFile;
use serde_json::{Map, Value};
use shardpack_array::Array;
use shardpack_format::Dtype;

#[derive(Debug)]
pub(super) struct CubeHeader {
    pub(super) shape: [u64; 3],
    pub(super) dtype: Dtype,
    pub(super) array_bytes: u64,
    pub(super) in_file: bool,
    pub(super) source_bytes: u64,
    pub(super) variable: Option<String>,
    pub(super) others: Vec<String>,
}

impl CubeHeader {
    pub(super) fn new(layout: &CubeLayout, source: &CubeFile, max_bytes: u64) -> Result<Self> {
        let array_bytes = layout.bytes(source, max_bytes)?;
        let (shape, dtype, source_bytes) = (layout.shape, layout.dtype, source.len());
        Ok(Self { shape, dtype, array_bytes, in_file: false, source_bytes, variable: None, others: Vec::new() })
    }

    /// Leaves the values in the file if they are already stored in the order of the cube.
    pub(super) fn read_as_needed(self, layout: &CubeLayout) -> Self {
        Self { in_file: layout.is_stored_order(), ..self }
    }

    pub(super) fn of_array(self, name: &str, others: Vec<String>) -> Self {
        Self { variable: Some(name.to_owned()), others, ..self }
    }
}

/// A cube in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedCube {
    /// Values, in the order `[height, width, channels]`.
    pub array: Array,
    /// Value that marks missing data, rounded to the element type.
    pub no_data: Option<f64>,
    /// All other content of the file, in file order and with snake_case keys. This includes `variable` (the
    /// name of the array, in formats that name arrays), `wavelengths` and `fwhm` (numbers, one per channel),
    /// `wavelength_units`, `bbl`, `description`, and map information.
    pub meta: Map<String, Value>,
}

impl LoadedCube {
    /// Wraps elements that are already in C order.
    pub(super) fn new(source: &CubeFile, dtype: Dtype, shape: [u64; 3], bytes: Vec<u8>) -> Result<Self> {
        let found = bytes.len();
        let array = Array::new(dtype, shape.to_vec(), bytes).map_err(|_| {
            source.damaged(format_args!("{found} bytes do not match {dtype} values with shape {shape:?}"))
        })?;
        Ok(Self { array, no_data: None, meta: Map::new() })
    }

    pub(super) fn set_no_data(&mut self, value: Option<f64>) {
        self.no_data = value.map(|value| rounded(value, self.array.dtype()));
    }
}

/// Rounds a no-data value as the writer rounds elements.
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
    /// Labels in the order `[height, width]`, as integers or `bool`.
    pub array: Array,
    /// Value of unlabelled pixels, if the file has one.
    pub no_data: Option<f64>,
}

impl LoadedMask {
    pub(super) fn array(source: &CubeFile, dtype: Dtype, size: [u64; 2], bytes: Vec<u8>) -> Result<Array> {
        Array::new(dtype, size.to_vec(), bytes)
            .map_err(|error| source.damaged(format_args!("the label mask has the wrong size: {error}")))
    }
}
