//! Describes the layout of a cube's elements in its file, and converts them to `[height, width,
//! channels]` in C order.

use super::error::Result;
use super::gather;
use super::source::CubeFile;
use shardpack_format::{Dtype, to_usize};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CubeLayout {
    pub(super) dtype: Dtype,
    pub(super) big_endian: bool,
    pub(super) shape: [u64; 3],
    pub(super) order: AxisOrder,
}

/// Order of the axes in the file, slowest first. Rows are along the height, columns along the width, and bands
/// are channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisOrder {
    /// Rows, columns, bands, as in loaded cubes, ENVI BIP, chunky TIFF and C.
    Bip,
    /// Rows, bands, columns, as in ENVI BIL.
    Bil,
    /// Bands, rows, columns, as in ENVI BSQ, planar TIFF and stacked pages.
    Bsq,
    /// Bands, columns, rows, as in Fortran order and MATLAB.
    Fortran,
    /// Columns, rows, bands, as in a MATLAB matrix of bands × pixels.
    Columns,
    /// Same as `Columns`, but with the rows ordered from bottom to top, as in Tivita cubes.
    ColumnsUpward,
}

impl CubeLayout {
    /// Returns the total size of the elements, in bytes.
    ///
    /// # Errors
    /// `Format` if an axis is empty or the product overflows; `Limit` if the size exceeds `max_bytes`.
    pub(super) fn bytes(&self, source: &CubeFile, max_bytes: u64) -> Result<u64> {
        if self.shape.contains(&0) {
            return Err(source.damaged(format_args!("the array with shape {:?} is empty", self.shape)));
        }
        let bytes = self.dtype.array_bytes(&self.shape).map_err(|_| {
            source.damaged(format_args!("the array with shape {:?} has 2^64 bytes or more", self.shape))
        })?;
        if bytes > max_bytes {
            return Err(source.limit(
                format_args!("the {} cube with shape {:?}", self.dtype, self.shape),
                max_bytes,
                bytes,
            ));
        }
        Ok(bytes)
    }

    /// Converts the stored elements to little-endian `[height, width, channels]` in C order. Works in place if
    /// they are already in order, and otherwise allocates a second array.
    ///
    /// # Errors
    /// `Format` if the length of `stored` does not match this layout.
    pub(super) fn assemble(&self, source: &CubeFile, stored: Vec<u8>) -> Result<Vec<u8>> {
        let expected = self.bytes(source, u64::MAX)?;
        if stored.len() as u64 != expected {
            return Err(
                source.damaged(format_args!("the array needs {expected} bytes, but the file has {}", stored.len()))
            );
        }
        let mut cube = match self.plan() {
            None => {
                let mut cube = stored;
                if self.big_endian {
                    gather::swap_in_place(&mut cube, self.dtype.bytes());
                }
                cube
            }
            Some(plan) => gather::gather(&stored, &plan, self.dtype.bytes(), self.big_endian),
        };
        if self.dtype == Dtype::Bool {
            // NumPy and MATLAB treat any non-zero byte as true, but stored booleans must be 0 or 1.
            cube.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Ok(cube)
    }

    /// Returns true if the elements are stored in the order of the cube, in either byte order.
    pub(super) fn is_stored_order(&self) -> bool {
        self.dtype != Dtype::Bool && self.plan().is_none()
    }

    /// Returns the plan for reordering the elements, or `None` if they are already in order.
    fn plan(&self) -> Option<gather::GatherPlan> {
        // These products cannot overflow, because the shape has been checked and has no more
        // elements than fit into memory.
        let [h, w, c] = self.shape.map(to_usize);
        let (start, strides, flip) = match self.order {
            AxisOrder::Bip => (0, [w * c, c, 1], false),
            AxisOrder::Bil => (0, [c * w, 1, w], false),
            AxisOrder::Bsq => (0, [w, 1, h * w], false),
            AxisOrder::Fortran => (0, [1, h, h * w], false),
            AxisOrder::Columns => (0, [c, h * c, 1], false),
            AxisOrder::ColumnsUpward => ((h - 1) * c, [c, h * c, 1], true),
        };
        gather::GatherPlan::new([h, w, c], start, strides, flip)
    }
}
