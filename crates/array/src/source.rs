//! Sources of arrays to be encoded: memory, or a file that is read during encoding.

use crate::array::Array;
use crate::error::{EncodeError, EncodeResult};
use shardpack_base::parts::part_mut;
use shardpack_format::{Dtype, to_usize};

/// Number of bytes that are read at a time. A block of this size and its coded form fit in the L2 cache.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// An array whose bytes can be read at any offset, as often as needed. The bytes are C-contiguous and little-endian,
/// as in an [`Array`].
///
/// An encoder needs only a few MiB of an array at a time, so an array in a file need not fit in memory.
///
/// ```
/// use shardpack_array::{ArrayEncoder, ArrayOptions, ArraySource, EncodeError, EncodeResult, trial};
/// use shardpack_format::{Dtype, Result};
///
/// /// The integers 0, 1, 2, …, computed when they are read.
/// struct Counter([u64; 1]);
///
/// impl ArraySource for Counter {
///     fn dtype(&self) -> Dtype {
///         Dtype::U8
///     }
///     fn shape(&self) -> &[u64] {
///         &self.0
///     }
///     fn read_at(&self, offset: u64, out: &mut [u8]) -> EncodeResult<()> {
///         for (to, at) in out.iter_mut().zip(offset..) {
///             *to = at.to_le_bytes()[0];
///         }
///         Ok(())
///     }
/// }
///
/// let settings = trial(&[], &ArrayOptions::default())?.settings;
/// let mut payload = Vec::new();
/// let stored = ArrayEncoder::new(settings)?.encode_into(&Counter([1000]), None, &mut payload)?;
/// assert_eq!(stored.descriptor.shape, [1000]);
/// assert!(payload.len() < 500);
/// # Ok::<(), EncodeError>(())
/// ```
pub trait ArraySource {
    /// Returns the element type.
    fn dtype(&self) -> Dtype;

    /// Returns the shape with the outermost axis first. The product of all axes and the element size must be below 2⁶³.
    fn shape(&self) -> &[u64];

    /// Returns all bytes if they are in memory, which saves a copy.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// Fills `out` with the bytes from `offset` on. An encoder calls this with ascending offsets, in as many
    /// passes over the array as the settings need.
    ///
    /// # Errors
    /// [`EncodeError::Source`] if the bytes cannot be read.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> EncodeResult<()>;
}

impl ArraySource for Array {
    fn dtype(&self) -> Dtype {
        Self::dtype(self)
    }

    fn shape(&self) -> &[u64] {
        Self::shape(self)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(Self::bytes(self))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> EncodeResult<()> {
        let from = usize::try_from(offset).ok().and_then(|at| Self::bytes(self).get(at..)?.get(..out.len()));
        let missing =
            || EncodeError::Source(format!("cannot read {} bytes at offset {offset} of an array in memory", out.len()));
        out.copy_from_slice(from.ok_or_else(missing)?);
        Ok(())
    }
}

pub(crate) fn byte_count(array: &dyn ArraySource) -> usize {
    let bytes = array.bytes().map(<[u8]>::len);
    // If the size overflows, the first read fails, because no source has that many bytes.
    bytes.unwrap_or_else(|| array.dtype().array_bytes(array.shape()).map_or(usize::MAX, to_usize))
}

pub(crate) fn element_count(array: &dyn ArraySource) -> usize {
    byte_count(array) / array.dtype().size()
}

/// Calls `each` with consecutive blocks of `block_bytes` bytes until it returns false. The last block may be shorter.
pub(crate) fn for_each_block(
    array: &dyn ArraySource,
    block_bytes: usize,
    mut each: impl FnMut(&[u8]) -> EncodeResult<bool>,
) -> EncodeResult<()> {
    if let Some(bytes) = array.bytes() {
        for block in bytes.chunks(block_bytes) {
            if !each(block)? {
                break;
            }
        }
        return Ok(());
    }
    let total = byte_count(array);
    let mut block = vec![0; block_bytes.min(total)];
    let mut offset = 0;
    while offset < total {
        let block = part_mut(&mut block, 0..block_bytes.min(total - offset), "array block")?;
        array.read_at(offset as u64, block)?;
        if !each(block)? {
            break;
        }
        offset += block.len();
    }
    Ok(())
}
