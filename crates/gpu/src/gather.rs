//! Copies kept values within the device. A kernel copies the bytes that a batch needs into the batch's slot, where
//! the other kernels read them.

use crate::config::KernelSource;
use crate::driver::{Launch, Params};
use std::ops::Range;

/// Threads per block. Each warp copies a piece.
const THREADS: u32 = 128;
/// Maximum length of a piece. A longer piece would keep a warp busy after all others are done.
const PIECE_BYTES: u64 = 8 << 10;
#[expect(clippy::cast_possible_truncation, reason = "a small number")]
pub(crate) const SOURCE: KernelSource<2> = KernelSource {
    ptx: include_str!("../ptx/gather.ptx"),
    kernels: &["gather_config", "gather"],
    config: "gather_config",
    expected: [Piece::BYTES as u32, THREADS],
};
/// Number of bytes past the last value that the kernel may read.
pub(crate) const MARGIN: usize = 16;

/// `struct Piece`: a range of the kept values, and its destination in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    from: u64,
    to: u64,
    bytes: u32,
}

impl Piece {
    pub(crate) const BYTES: usize = 24;

    /// Divides `from` into pieces to copy to the slot from `to` on, and appends them to `pieces`.
    pub(crate) fn cut(from: Range<u64>, to: u64, pieces: &mut Vec<Self>) {
        let Range { start, end } = from;
        let mut at = start;
        while at < end {
            let bytes = (end - at).min(PIECE_BYTES);
            pieces.push(Self { from: at, to: to + (at - start), bytes: u32::try_from(bytes).unwrap_or(0) });
            at += bytes;
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        for word in [self.from, self.to, self.bytes.into()] {
            out.extend(word.to_le_bytes());
        }
    }
}

/// The pieces of a batch: their number, and the offset of their table in the slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gather {
    at: u64,
    count: u32,
}

impl Gather {
    /// Maximum gap before the table, in bytes.
    pub(crate) const GAP: usize = 16;

    /// Appends the table to `tables`, whose first byte is at `start` in the slot. Returns `None` if the
    /// number of pieces exceeds 32 bits.
    pub(crate) fn assemble<'p>(
        pieces: impl Iterator<Item = &'p Piece>,
        start: usize,
        tables: &mut Vec<u8>,
    ) -> Option<Self> {
        tables.resize(tables.len().next_multiple_of(Self::GAP), 0);
        let begin = tables.len();
        pieces.for_each(|piece| piece.put(tables));
        let count = u32::try_from((tables.len() - begin) / Piece::BYTES).ok()?;
        Some(Self { at: (start + begin) as u64, count })
    }

    /// Returns the launch that must run before the other kernels. `kept` and `slot` are device addresses.
    pub(crate) fn launch(&self, kept: u64, slot: u64) -> Launch {
        let params = Params::new().address(kept).address(slot).address(slot + self.at).u32(self.count);
        let blocks = self.count.div_ceil(THREADS / 32);
        Launch { kernel: "gather", grid: [blocks, 1, 1], block: [THREADS, 1, 1], params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_gpu_play::{MANNERS, Manner};

    #[test]
    fn kernel_and_host_mean_the_same() {
        SOURCE.assert_same();
    }

    /// Runs the kernel on a slot that holds `before`, and returns the slot's new content.
    fn gathered(kept: &[u8], before: &[u8], copies: &[(Range<u64>, u64)], manner: Manner) -> Vec<u8> {
        let mut device = shardpack_gpu_play::Device::new(manner);
        let values = device.upload(&[kept, &[manner.poison; MARGIN]].concat());
        let mut pieces = Vec::new();
        copies.iter().for_each(|(from, to)| Piece::cut(from.clone(), *to, &mut pieces));
        let (mut tables, start) = (vec![7; 3], before.len().next_multiple_of(256));
        let gather = Gather::assemble(pieces.iter(), start, &mut tables).unwrap();
        let slot = device.alloc(start + tables.len());
        let bytes = device.bytes_mut(slot).unwrap();
        bytes[..before.len()].copy_from_slice(before);
        bytes[start..].copy_from_slice(&tables);
        let launch = gather.launch(device.address(values), device.address(slot));
        device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
        device.bytes(slot)[..before.len()].to_vec()
    }

    fn expected(kept: &[u8], before: &[u8], copies: &[(Range<u64>, u64)]) -> Vec<u8> {
        let mut slot = before.to_vec();
        for (Range { start, end }, to) in copies {
            let from = &kept[*start as usize..*end as usize];
            slot[*to as usize..][..from.len()].copy_from_slice(from);
        }
        slot
    }

    fn kept(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n * 31 + n / 251) as u8).collect()
    }

    #[test]
    fn every_start_and_length_is_copied_and_nothing_else() {
        let (kept, before) = (kept(3 * 4096), vec![0xEE; 3 * 4096]);
        for from in 0..17 {
            for to in 0..17 {
                for bytes in [0, 1, 2, 3, 4, 15, 16, 17, 33, 63, 150, 4096, 4097, 9000] {
                    let copies = [(from..from + bytes, to)];
                    let found = gathered(&kept, &before, &copies, MANNERS[(from + to) as usize % 2]);
                    assert!(found == expected(&kept, &before, &copies), "{from}..{} to {to}", from + bytes);
                }
            }
        }
        // One of the copies consists of only the last byte of the kept values.
        let copies = [(12_287..12_288, 5), (12_000..12_288, 161)];
        for manner in MANNERS {
            assert_eq!(gathered(&kept, &before, &copies, manner), expected(&kept, &before, &copies));
        }
    }

    proptest! {
        /// Adjacent destinations share a word. Each piece must write only its own bytes of that word.
        #[test]
        fn neighbours_do_not_meet(
            lengths in prop::collection::vec((0_u64..3000, 0_u64..40), 1..30),
            from in 0_u64..100,
        ) {
            let (mut copies, mut to) = (Vec::new(), 3);
            for (n, (bytes, gap)) in lengths.iter().enumerate() {
                let start = from + (n as u64 * 977) % 5000;
                copies.push((start..start + bytes, to));
                to += bytes + if n % 3 == 0 { *gap } else { 0 };
            }
            let (kept, before) = (kept(9000), vec![0x11; to as usize + 7]);
            for manner in MANNERS {
                prop_assert!(gathered(&kept, &before, &copies, manner) == expected(&kept, &before, &copies));
            }
        }
    }
}
