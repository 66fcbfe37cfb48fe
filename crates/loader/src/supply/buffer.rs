//! Buffers for runs and parts, in classes of sizes.

use shardpack_format::to_usize;
use shardpack_reader::Result;
use shardpack_reader::raw::room;

/// Grows a buffer to the size class of `bytes`, and returns it without preserving its content: a
/// buffer that doubles, or exists twice while it is copied, would take more than predicted.
pub(super) fn class_room(buffer: &mut Vec<u8>, bytes: u64) -> Result<&mut [u8]> {
    let class = size_class(bytes);
    if (buffer.len() as u64) < class {
        *buffer = Vec::new();
        // A failure here is reported by `room` below.
        _ = buffer.try_reserve_exact(to_usize(class));
    }
    room(buffer, class)
}

/// Size of the buffer for a run: steps of 6 to 12 %, and whole pages, so that buffers can be reused
/// although run sizes differ.
pub(crate) fn size_class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 16).max(4096);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_is_as_large_as_its_class() {
        let mut buffer = Vec::new();
        for bytes in [2_700_000, 3_000_000, 2_900_000, 3_100_000] {
            let length = class_room(&mut buffer, bytes).unwrap().len();
            assert_eq!(length as u64, size_class(bytes));
        }
        assert_eq!(buffer.capacity() as u64, size_class(3_100_000));
    }
}
