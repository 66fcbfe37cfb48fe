//! The first bytes of the byte planes of one block, for regions that need little of it.
//!
//! A stream is decoded from its start, but nothing says that it must be decoded to its end. LZ4 can stop anywhere, stored streams and runs
//! need no decoding at all, and byte planes make items again one by one. A patch of a cube with long rows needs a tenth of each block that it
//! touches and takes half the time so (`examples/region_rate.rs`: 64 × 64 pixels of 480 × 640 × 100 float16, 1.5 ms for 3.0 ms). A zstd stream
//! of 64 KiB is a single zstd block and cannot stop; bit planes and byte deltas would need more than their planes.

use super::{Chunk, Content, STREAM_BYTES, Shuffle, Stream, StreamCoder, StreamKind, ffi};
use shardpack_format::{Error, Result};

/// The streams of block `number` of a chunk, if they are byte planes that [`decode`] can decode in part.
pub(crate) fn of<'a>(chunk: &'a Chunk<'_>, number: usize, item: usize) -> Option<&'a [Stream]> {
    let Content::Blocks { coder: StreamCoder::Lz4, filters, block_bytes, streams } = chunk.content() else {
        return None;
    };
    let planes = filters.shuffle == Shuffle::Bytes || (item == 1 && filters.shuffle == Shuffle::None);
    let streams = streams.get(number * item..(number + 1) * item)?;
    // A short last block is one stream, in which the planes stand behind each other.
    let full = *block_bytes == STREAM_BYTES * item && streams.iter().all(|stream| stream.out_bytes == STREAM_BYTES);
    (full && planes && !filters.byte_delta).then_some(streams)
}

/// Decodes the first `count` bytes of each stream to the start of its own [`STREAM_BYTES`] of `planes`.
pub(crate) fn decode(chunk: &Chunk<'_>, streams: &[Stream], count: usize, planes: &mut [u8]) -> Result<()> {
    for (stream, plane) in streams.iter().zip(planes.chunks_exact_mut(STREAM_BYTES)) {
        let bytes = chunk.bytes().get(stream.offset..stream.offset + stream.bytes);
        let (Some(bytes), Some(plane)) = (bytes, plane.get_mut(..count)) else {
            return Err(Error::format("blosc2 stream", format!("{count} bytes"), stream.bytes).at(stream.offset as u64));
        };
        match (stream.kind, bytes.get(..count)) {
            (StreamKind::Run(value), _) => plane.fill(value),
            (StreamKind::Stored, Some(bytes)) => plane.copy_from_slice(bytes),
            _ => ffi::lz4_prefix(bytes, plane).map_err(|e| e.at(stream.offset as u64))?,
        }
    }
    Ok(())
}

/// Fills `out` with items of `item` bytes, of which the first is number `first` of the block.
pub(crate) fn join(planes: &[u8], item: usize, first: usize, out: &mut [u8]) {
    match item {
        1 => join_by::<1>(planes, first, out),
        2 => join_by::<2>(planes, first, out),
        4 => join_by::<4>(planes, first, out),
        _ => join_by::<8>(planes, first, out),
    }
}

fn join_by<const N: usize>(planes: &[u8], first: usize, out: &mut [u8]) {
    let out = out.as_chunks_mut::<N>().0;
    let mut parts = [&[][..]; N];
    for (part, plane) in parts.iter_mut().zip(planes.chunks_exact(STREAM_BYTES)) {
        *part = plane.get(first..first + out.len()).unwrap_or_default();
    }
    if let [low, high] = parts[..] {
        // The usual case, written so that the compiler sees how to do many at a time.
        for ((to, low), high) in out.as_flattened_mut().as_chunks_mut().0.iter_mut().zip(low).zip(high) {
            *to = [*low, *high];
        }
        return;
    }
    for (j, part) in parts.iter().enumerate() {
        for (to, from) in out.iter_mut().zip(*part) {
            if let Some(to) = to.get_mut(j) {
                *to = *from;
            }
        }
    }
}
