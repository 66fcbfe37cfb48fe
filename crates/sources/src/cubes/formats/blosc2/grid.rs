//! The grid of chunks and blocks of an array. Chunks consist of blocks. Chunks and blocks are in C order and
//! stored in full, even at the edges of the array.

use shardpack_format::to_usize;

/// The axes of an array, slowest first, with their lengths in the array, in a chunk and in a block, in items.
pub(super) struct Grid {
    axes: Vec<Axis>,
    item_bytes: u64,
    chunks: u64,
    chunk_bytes: u64,
}

struct Axis {
    length: u64,
    chunk: u64,
    block: u64,
    /// Distance between neighbours along this axis in the array, in bytes. `block_stride` is the distance
    /// within a block.
    stride: u64,
    block_stride: u64,
}

impl Axis {
    const fn chunks(&self) -> u64 {
        self.length.div_ceil(self.chunk)
    }

    const fn blocks(&self) -> u64 {
        self.chunk.div_ceil(self.block)
    }

    /// Returns the part of block `within` of chunk `origin` that lies in the array, or `None` if the block is outside.
    fn span(&self, origin: u64, within: u64) -> Option<Span> {
        let in_chunk = within * self.block;
        let in_array = origin * self.chunk + in_chunk;
        let left = self.length.checked_sub(in_array).filter(|&left| left > 0)?;
        let count = self.block.min(self.chunk - in_chunk).min(left);
        Some(Span { count, start: in_array * self.stride, from: self.block_stride, to: self.stride })
    }
}

/// Part of a block along one axis that lies in the array: the number of items, and the strides in bytes in the
/// block (`from`) and in the array (`to`).
struct Span {
    count: u64,
    /// Byte offset of the first item in the array.
    start: u64,
    from: u64,
    to: u64,
}

impl Grid {
    /// Creates a grid. Returns `None` if the shapes contradict each other or a size overflows.
    pub(super) fn new(mut shape: Vec<u64>, mut chunk: Vec<u64>, mut block: Vec<u64>, item_bytes: u64) -> Option<Self> {
        merge(&mut shape, &mut chunk, &mut block);
        let mut grid = Self { axes: Vec::new(), item_bytes, chunks: 1, chunk_bytes: item_bytes };
        let (mut stride, mut block_stride) = (item_bytes, item_bytes);
        for ((&length, &chunk), &block) in shape.iter().zip(&chunk).zip(&block).rev() {
            if length == 0 || block == 0 || block > chunk {
                return None;
            }
            let axis = Axis { length, chunk, block, stride, block_stride };
            stride = stride.checked_mul(length)?;
            block_stride = block_stride.checked_mul(block)?;
            grid.chunks = grid.chunks.checked_mul(axis.chunks())?;
            grid.chunk_bytes = grid.chunk_bytes.checked_mul(axis.blocks())?.checked_mul(block)?;
            grid.axes.push(axis);
        }
        grid.axes.reverse();
        (grid.chunk_bytes < 1 << 63).then_some(grid)
    }

    pub(super) const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the total number of blocks in all chunks.
    pub(super) fn blocks(&self) -> u64 {
        self.axes.iter().fold(self.chunks, |blocks, axis| blocks.saturating_mul(axis.blocks()))
    }

    /// Returns the decoded size of a chunk, including the parts of blocks that extend beyond the
    /// edges of the chunk.
    pub(super) const fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Copies the items of chunk `number` into the array. Returns `None` if a buffer is too short.
    pub(super) fn scatter(&self, number: u64, chunk: &[u8], array: &mut [u8]) -> Option<()> {
        let origin = places(number, self.axes.iter().map(Axis::chunks));
        let block_bytes = self.axes.iter().fold(self.item_bytes, |bytes, axis| bytes * axis.block);
        for (block, bytes) in (0..).zip(chunk.chunks_exact(to_usize(block_bytes))) {
            let within = places(block, self.axes.iter().map(Axis::blocks));
            let places = self.axes.iter().zip(&origin).zip(&within);
            // A block at an edge may be entirely outside the array.
            let spans: Option<Vec<Span>> = places.map(|((axis, origin), within)| axis.span(*origin, *within)).collect();
            if let Some(spans) = spans {
                let to = spans.iter().map(|span| span.start).sum::<u64>();
                copy(&spans, bytes, array.get_mut(to_usize(to)..)?)?;
            }
        }
        Some(())
    }
}

/// Merges an axis that fits into one block with the axis before it, to copy longer runs at a time.
fn merge(shape: &mut Vec<u64>, chunk: &mut Vec<u64>, block: &mut Vec<u64>) {
    while let ([.., before, length], [.., chunks, chunk_length], [.., blocks, block_length]) =
        (shape.as_mut_slice(), chunk.as_mut_slice(), block.as_mut_slice())
        && *length == *chunk_length
        && *length == *block_length
        && let (Some(joined), Some(joined_chunk), Some(joined_block)) =
            (before.checked_mul(*length), chunks.checked_mul(*length), blocks.checked_mul(*length))
    {
        (*before, *chunks, *blocks) = (joined, joined_chunk, joined_block);
        for lengths in [&mut *shape, &mut *chunk, &mut *block] {
            lengths.pop();
        }
    }
}

/// Converts a number to the indexes of its cell in a grid with these counts, in C order.
fn places(mut number: u64, counts: impl DoubleEndedIterator<Item = u64>) -> Vec<u64> {
    let mut places: Vec<u64> = counts
        .rev()
        .map(|count| {
            let place = number % count;
            number /= count;
            place
        })
        .collect();
    places.reverse();
    places
}

/// Copies the items in `spans` from a block to the array.
fn copy(spans: &[Span], block: &[u8], array: &mut [u8]) -> Option<()> {
    match spans {
        [] => Some(()),
        // Along the last axis, items are contiguous in both the block and the array.
        [last] => {
            let run = to_usize(last.count * last.from);
            array.get_mut(..run)?.copy_from_slice(block.get(..run)?);
            Some(())
        }
        [first, rest @ ..] => {
            for n in 0..first.count {
                copy(rest, block.get(to_usize(n * first.from)..)?, array.get_mut(to_usize(n * first.to)..)?)?;
            }
            Some(())
        }
    }
}
