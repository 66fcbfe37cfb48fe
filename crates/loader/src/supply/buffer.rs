//! Allocates buffers for runs and parts, in a fixed set of sizes.

use shardpack_format::to_usize;
use shardpack_reader::Result;
use shardpack_reader::raw::room;

/// Enlarges a buffer to the size class of `bytes`, without keeping its content. Memory would exceed the
/// prediction if the buffer doubled in size, or existed twice while it was copied.
pub(super) fn class_room(buffer: &mut Vec<u8>, bytes: u64) -> Result<&mut [u8]> {
    let class = size_class(bytes);
    if (buffer.len() as u64) < class {
        *buffer = Vec::new();
        // Ignore errors. `room` below reports them.
        _ = buffer.try_reserve_exact(to_usize(class));
    }
    room(buffer, class)
}

/// Rounds a size up to its class, in whole pages. Classes are 6 to 12 % apart, so different runs can reuse a buffer.
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
