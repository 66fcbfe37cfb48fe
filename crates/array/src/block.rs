//! A block of stored elements, as a coder outputs it. Byte planes stay separate ([`planes`](crate::blosc2::planes)).
//! The receiver joins the bytes of each element while it moves the element into place, which saves a pass over memory.

use crate::blosc2::planes::Planes;
use shardpack_base::parts::part;
use shardpack_format::Result;

/// A block of stored elements, as output by a coder.
#[derive(Clone, Copy)]
pub(crate) enum StoredBlock<'a> {
    /// Byte planes: the first bytes of all elements, then the second bytes, …
    Planes(Planes<'a>),
    /// All bytes of the first element, then all bytes of the second element, and so on.
    Bytes(&'a [u8]),
    /// A single repeated element, stored in the first bytes of the array.
    Repeated([u8; 8]),
}

impl<'a> StoredBlock<'a> {
    /// Fills `out` with elements of `width` bytes, starting with element `first` of the block.
    pub(crate) fn read(&self, first: usize, width: usize, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Planes(planes) => planes.join(first, out)?,
            Self::Bytes(bytes) => {
                out.copy_from_slice(part(bytes, first * width..first * width + out.len(), "bytes in a block")?);
            }
            Self::Repeated(item) => {
                let item = part(item, 0..width, "bytes in a repeated item")?;
                out.chunks_exact_mut(width).for_each(|to| to.copy_from_slice(item));
            }
        }
        Ok(())
    }

    /// Returns the low bytes and the high bytes of `count` elements, starting with element `first`.
    pub(crate) fn pair(&self, first: usize, count: usize) -> Option<[&'a [u8]; 2]> {
        match self {
            Self::Planes(planes) => planes.pair(first, count),
            Self::Bytes(_) | Self::Repeated(_) => None,
        }
    }
}
