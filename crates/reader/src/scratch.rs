//! Buffers that reads reuse.

use crate::error::{Error, Result};

/// Size of each read of a large record, in bytes. The bytes must stay in the L2 cache until their CRC32 is computed.
pub const STEP_BYTES: usize = 256 << 10;

/// Returns the first `bytes` bytes of a buffer. The buffer grows if needed and never shrinks, to avoid zeroing
/// it for every read.
///
/// # Errors
/// `Usage` if the memory cannot be allocated.
pub fn room(buffer: &mut Vec<u8>, bytes: u64) -> Result<&mut [u8]> {
    let too_large = || Error::usage(format!("cannot allocate a buffer of {bytes} bytes"));
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    if buffer.len() < bytes {
        buffer.try_reserve(bytes - buffer.len()).map_err(|_| too_large())?;
        buffer.resize(bytes, 0);
    }
    buffer.get_mut(..bytes).ok_or_else(too_large)
}
