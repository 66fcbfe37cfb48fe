//! Helpers for readers of whole files: parsing the header, and trimming buffers.
#![deny(clippy::indexing_slicing)]

use super::{JpegError, JpegHeader};
use shardpack_format::{Error, Limits, Result};

pub(super) fn parse(jpeg: &[u8]) -> Result<JpegHeader> {
    JpegHeader::parse(jpeg).map_err(damaged)
}

pub(super) fn damaged(error: JpegError) -> Error {
    match error {
        JpegError::Damaged { offset, what } => {
            Error::malformed(format!("cannot read the JPEG header: {what}")).at(offset)
        }
        JpegError::NotJpeg => Error::malformed(error.to_string()),
        JpegError::Truncated { needed } => {
            Error::malformed(format!("the JPEG header is truncated: it needs at least {needed} bytes"))
        }
    }
}

/// Fails if the header of a picture of `stored_bytes` bytes promises more pixels than the limits allow. Decoders
/// check this before they allocate memory for any of the pixels, because a damaged header can promise any number.
///
/// # Errors
/// `Limit`.
pub(crate) fn check_size(limits: &Limits, width: u32, height: u32, stored_bytes: usize) -> Result<()> {
    limits.check_pixels((u64::from(width) * u64::from(height)).saturating_mul(3), stored_bytes as u64)
}

/// Maximum size of a buffer that is kept between pictures, in bytes. This is enough for 22 million RGB pixels.
pub(crate) const KEPT_BYTES: usize = 64 << 20;

/// Frees buffers that exceed [`KEPT_BYTES`] after a large picture. Otherwise every thread that has ever decoded a large
/// picture would keep them.
pub(crate) fn trim<const N: usize>(buffers: [&mut Vec<u8>; N]) {
    for buffer in buffers {
        if buffer.capacity() > KEPT_BYTES {
            *buffer = Vec::new();
        }
    }
}
