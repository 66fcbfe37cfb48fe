//! A dense array in memory, as returned by sources and decoders.

use shardpack_format::{Dtype, Error, Result};

/// A C-contiguous, little-endian array that owns its bytes.
///
/// ```
/// use shardpack_array::Array;
/// use shardpack_format::Dtype;
/// let array = Array::new(Dtype::U16, vec![2, 3], vec![0; 12])?;
/// assert_eq!(array.shape(), [2, 3]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    dtype: Dtype,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

impl Array {
    /// Creates an array of the given shape (outermost axis first) from the bytes of its elements.
    ///
    /// # Errors
    /// `Usage` if the length does not match the shape; `Format` if the shape overflows.
    pub fn new(dtype: Dtype, shape: Vec<u64>, bytes: Vec<u8>) -> Result<Self> {
        let expected = dtype.array_bytes(&shape)?;
        if bytes.len() as u64 != expected {
            return Err(Error::usage(format!(
                "a {dtype} array of shape {shape:?} takes {expected} bytes, but {} were given",
                bytes.len()
            )));
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Returns the element type.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the shape with the outermost axis first, for example `[height, width, channels]` for a cube.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the little-endian bytes of the elements.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Consumes the array and returns the bytes of its elements.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
