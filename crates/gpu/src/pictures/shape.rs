//! Determines the number and size of the thread blocks that decode the segments of a batch.

use super::layout::{DECODE_THREADS, MOST_DECODE_THREADS, WARP_BLOCKS_BYTES};
use crate::driver::Launch;

const WARP: u32 = 32;

/// Number and size of the blocks that decode segments. By default, there are as many small blocks as the work needs,
/// so that all multiprocessors decode a batch at once. A few large blocks take longer, but leave the other
/// multiprocessors to kernels that run at the same time, for example in a training step. As many warps as possible
/// then share a multiprocessor, because a warp alone waits most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecodeShape {
    /// Number of warps per block.
    warps: u32,
    /// Maximum number of blocks per launch.
    blocks: u32,
}

impl Default for DecodeShape {
    fn default() -> Self {
        Self { warps: DECODE_THREADS / WARP, blocks: u32::MAX }
    }
}

impl DecodeShape {
    /// Returns a shape of at most `blocks` blocks with up to `warps` warps each. The number of warps is reduced if
    /// their shared memory would exceed `shared_bytes`, the maximum for a block on the device.
    pub(crate) fn few(blocks: u32, warps: u32, shared_bytes: u32) -> Self {
        let most = (MOST_DECODE_THREADS / WARP).min(shared_bytes / WARP_BLOCKS_BYTES);
        Self { warps: warps.min(most).max(1), blocks: blocks.max(1) }
    }

    /// Changes a launch that decodes segments to blocks of this shape. Returns any other launch unchanged.
    pub(crate) fn applied(self, launch: Launch) -> Launch {
        if launch.kernel != "picture_blocks" {
            return launch;
        }
        let ([x, y, z], [threads, ..]) = (launch.grid, launch.block);
        let blocks = x.saturating_mul(threads / WARP).div_ceil(self.warps).min(self.blocks);
        Launch {
            grid: [blocks, y, z],
            block: [self.warps * WARP, 1, 1],
            shared_bytes: self.warps * WARP_BLOCKS_BYTES,
            ..launch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Params;

    fn launch(kernel: &'static str) -> Launch {
        let shared_bytes = DECODE_THREADS / WARP * WARP_BLOCKS_BYTES;
        Launch { kernel, grid: [100, 1, 1], block: [DECODE_THREADS, 1, 1], shared_bytes, params: Params::new() }
    }

    #[test]
    fn the_default_shape_changes_nothing() {
        assert_eq!(DecodeShape::default().applied(launch("picture_blocks")), launch("picture_blocks"));
    }

    #[test]
    fn a_few_large_blocks_take_all_work() {
        let Launch { grid, block, shared_bytes, .. } =
            DecodeShape::few(16, 24, 227 << 10).applied(launch("picture_blocks"));
        assert_eq!((grid, block, shared_bytes), ([16, 1, 1], [768, 1, 1], 24 * WARP_BLOCKS_BYTES));
        let more_than_needed = DecodeShape::few(1000, 24, 227 << 10).applied(launch("picture_blocks"));
        assert_eq!(more_than_needed.grid, [17, 1, 1], "400 warps");
        let other = DecodeShape::few(16, 24, 227 << 10).applied(launch("picture_pixels"));
        assert_eq!(other, launch("picture_pixels"));
    }

    #[test]
    fn blocks_fit_in_the_shared_memory_of_the_device() {
        assert_eq!(DecodeShape::few(16, 24, 99 << 10).warps, 20);
        assert_eq!(DecodeShape::few(0, 99, 1 << 20), DecodeShape { warps: 24, blocks: 1 });
        assert_eq!(DecodeShape::few(16, 24, 0).warps, 1);
    }
}
