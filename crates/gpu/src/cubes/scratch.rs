//! Computes the size of the scratch memory for arrays on the device, which follows the uploaded part of a slot.

use super::wire::BLOCK_ELEMENTS;

/// Alignment of tables and scratch memory, in bytes.
pub(super) const ALIGN: usize = 256;

/// Returns the maximum size in bytes of the scratch memory for `cubes` cubes, which have `stored` stored bytes in
/// total and elements of `width` bytes.
pub(crate) fn most_scratch_bytes(stored: u64, width: u64, cubes: u64) -> u64 {
    // The last block of each unit may be joined before it is transposed.
    let blocks = (BLOCK_ELEMENTS as u64 * width).saturating_mul(cubes).min(stored);
    stored.saturating_add(blocks).saturating_add(cubes.saturating_mul(3 * ALIGN as u64))
}
