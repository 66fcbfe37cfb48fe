//! Undoes the filters of a block.

use super::unsupported::unsupported;
use crate::blosc2::chunk::{FILTER_BITSHUFFLE, FILTER_BYTE_DELTA, FILTER_SHUFFLE};
use crate::blosc2::{bits, delta, shuffle};
use shardpack_base::parts::{part, part_mut, rest};
use shardpack_format::Result;

const FILTER_DELTA: u8 = 3;
const FILTER_TRUNCATED: u8 = 4;
const FILTER_INT_TRUNCATED: u8 = 36;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignFilter {
    /// Byte planes. The number is the item size in bytes.
    Shuffle(usize),
    BitShuffle,
    /// The first block of a chunk is combined with the previous item by XOR, and all other blocks with the first
    /// block.
    Delta,
    /// Byte deltas. The number is the number of planes.
    ByteDelta(usize),
}

/// Filters of a chunk, in the order that the writer applied them.
#[derive(Debug, Clone)]
pub(super) struct ForeignFilters {
    filters: Vec<ForeignFilter>,
    pub(super) item_bytes: u8,
}

impl ForeignFilters {
    pub(super) fn of(numbers: [u8; 6], metas: [u8; 6], item_bytes: u8) -> Result<Self> {
        let mut filters = Vec::new();
        for (number, meta) in numbers.into_iter().zip(metas) {
            let items = usize::from(if meta == 0 { item_bytes } else { meta });
            filters.push(match number {
                // The bits that these filters truncate are lost, so there is nothing to undo.
                0 | FILTER_TRUNCATED | FILTER_INT_TRUNCATED => continue,
                FILTER_SHUFFLE => ForeignFilter::Shuffle(items),
                FILTER_BITSHUFFLE => ForeignFilter::BitShuffle,
                FILTER_BYTE_DELTA => ForeignFilter::ByteDelta(items),
                FILTER_DELTA if filters.is_empty() => ForeignFilter::Delta,
                FILTER_DELTA => return Err(unsupported("blosc2 filter 3 (delta) after another filter")),
                32 => return Err(unsupported("blosc2 filter 32 (NDCELL)")),
                33 => return Err(unsupported("blosc2 filter 33 (NDMEAN)")),
                other => return Err(unsupported(&format!("blosc2 filter {other}"))),
            });
        }
        Ok(Self { filters, item_bytes })
    }

    /// Undoes the filters of `block`. `reference` is the first block of the chunk, or empty if `block` is the first
    /// block. `scratch` is as long as `block`.
    pub(super) fn undo(&self, reference: &[u8], block: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Result<()> {
        let item = usize::from(self.item_bytes);
        for filter in self.filters.iter().rev() {
            match *filter {
                ForeignFilter::Shuffle(items) => join(items, block, scratch)?,
                ForeignFilter::BitShuffle => {
                    let whole = block.len() / item * item;
                    bits::undo_block(
                        part(block, 0..whole, "bit planes of a block")?,
                        item,
                        part_mut(scratch, 0..whole, "byte planes of a block")?,
                    )?;
                    let tail = rest(block, whole, "bytes after the bit planes")?;
                    part_mut(scratch, whole..block.len(), "bytes after the byte planes")?.copy_from_slice(tail);
                    std::mem::swap(block, scratch);
                    join(item, block, scratch)?;
                }
                ForeignFilter::Delta => {
                    undo_delta(item, reference, block);
                    continue;
                }
                ForeignFilter::ByteDelta(planes) => {
                    // Bytes after the last whole item are stored unchanged.
                    let plane = block.len() / planes;
                    let whole = part_mut(block, 0..plane * planes, "planes of differences")?;
                    whole.chunks_exact_mut(plane.max(1)).for_each(delta::undo);
                    continue;
                }
            }
            std::mem::swap(block, scratch);
        }
        Ok(())
    }
}

/// Joins byte planes to items of `item` bytes. Bytes after the last whole item are stored unchanged.
fn join(item: usize, from: &[u8], to: &mut [u8]) -> Result<()> {
    let whole = from.len() / item * item;
    let (planes, tail) = from.split_at(whole);
    let (items, to_tail) = to.split_at_mut(whole.min(to.len()));
    to_tail.copy_from_slice(tail);
    match whole {
        0 => Ok(()),
        _ => {
            let planes: Vec<&[u8]> = planes.chunks_exact(whole / item).collect();
            shuffle::join(&planes, items)
        }
    }
}

fn undo_delta(item: usize, reference: &[u8], block: &mut [u8]) {
    // c-blosc2 treats all other items as 8-byte items if their size is a multiple of 8, and otherwise as single bytes.
    let step = match item {
        1 | 2 | 4 | 8 => item,
        _ if item.is_multiple_of(8) => 8,
        _ => 1,
    };
    let whole = block.len() / step * step;
    let (block, _) = block.split_at_mut(whole);
    if !reference.is_empty() {
        block.iter_mut().zip(reference).for_each(|(to, from)| *to ^= from);
        return;
    }
    let mut before = [0; 8];
    for to in block.chunks_exact_mut(step) {
        to.iter_mut().zip(&mut before).for_each(|(to, before)| {
            *to ^= *before;
            *before = *to;
        });
    }
}
