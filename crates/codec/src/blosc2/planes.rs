//! One block as its byte planes: where the streams of a block are byte planes, whoever wants its items need not wait for them to be put together in memory.
//!
//! A stored stream *is* a plane, in the chunk itself: the low bytes of noisy floats mostly are, so that half of a cube is copied by nobody. The others
//! are decoded to scratch of 64 KiB each, which stays in the cache until its items are made. What is left of the time is LZ4's own: two thirds, for a cube with
//! differences along its bands. (A decoder of LZ4 in vectors, patterns of short offsets by shuffles, took a tenth longer than LZ4's.)
//!
//! Regions that need little of a block decode only the first bytes of its streams. Nothing says that a stream must be decoded to its end: LZ4 can stop anywhere,
//! stored streams and runs need no decoding at all. A patch of a cube with long rows needs a tenth of each block that it touches and takes half the time
//! so (`examples/region_rate.rs`: 64 × 64 pixels of 480 × 640 × 100 float16, 1.5 ms for 3.0 ms). A zstd stream of 64 KiB is a single zstd block and cannot
//! stop; bit planes and byte deltas would need more than their planes.

use super::join::join;
use super::{Chunk, Content, STREAM_BYTES, Shuffle, Stream, StreamCoder, StreamKind, ffi};
use crate::bytes::ZstdDecoder;
use crate::decoder::grow;
use shardpack_format::{Error, Result};

/// The first bytes of all planes of a block, or all bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planes<'a> {
    parts: [&'a [u8]; 8],
    item: usize,
}

impl<'a> Planes<'a> {
    /// Number of the items, whole ones.
    pub(crate) fn items(&self) -> usize {
        self.parts.first().map_or(0, |plane| plane.len())
    }

    /// Fills `out` with items, of which the first is number `first`.
    pub(crate) fn join(&self, first: usize, out: &mut [u8]) {
        let count = out.len() / self.item.max(1);
        let parts = self.parts.map(|plane| plane.get(first..first + count).unwrap_or_default());
        join(parts.get(..self.item).unwrap_or_default(), out);
    }

    /// Low and high bytes of `count` items from number `first` on, where items have two bytes.
    pub(crate) fn pair(&self, first: usize, count: usize) -> Option<[&'a [u8]; 2]> {
        let [low, high, ..] = self.parts;
        (self.item == 2).then_some([low.get(first..first + count)?, high.get(first..first + count)?])
    }
}

/// The streams of block `number` of a chunk, if they are its byte planes.
pub(crate) fn streams<'a>(chunk: &'a Chunk<'_>, number: usize, item: usize) -> Option<&'a [Stream]> {
    let Content::Blocks { filters, streams, .. } = chunk.content() else { return None };
    let planes = filters.shuffle == Shuffle::Bytes || (item == 1 && filters.shuffle == Shuffle::None);
    if filters.byte_delta || !planes {
        return None;
    }
    // A short last block is one stream, in which the planes stand behind each other.
    let rest = streams.get(number * item..)?;
    rest.get(..if rest.len() < item { 1 } else { item })
}

/// Whether the first bytes of each plane can be decoded without the others.
pub(crate) fn can_stop(chunk: &Chunk<'_>, streams: &[Stream], item: usize) -> bool {
    let lz4 = matches!(chunk.content(), Content::Blocks { coder: StreamCoder::Lz4, .. });
    lz4 && streams.len() == item && streams.iter().all(|stream| stream.out_bytes == STREAM_BYTES)
}

/// How many bytes of scratch [`decode`] takes for these streams.
pub(crate) fn scratch_bytes(streams: &[Stream]) -> usize {
    streams.iter().filter(|stream| stream.kind != StreamKind::Stored).map(|stream| stream.out_bytes).sum()
}

/// Decodes all of a block's streams, those that are not stored into `scratch`, of [`scratch_bytes`].
pub(super) fn decode<'a>(
    chunk: &Chunk<'a>,
    streams: &[Stream],
    item: usize,
    zstd: &mut ZstdDecoder,
    mut scratch: &'a mut [u8],
) -> Result<Planes<'a>> {
    let mut parts = [&[][..]; 8];
    let mut whole = &[][..];
    for (i, stream) in streams.iter().enumerate() {
        let bytes = bytes_of(chunk, stream)?;
        let plane = if stream.kind == StreamKind::Stored {
            bytes
        } else {
            let (plane, rest) = scratch.split_at_mut_checked(stream.out_bytes).unwrap_or_default();
            scratch = rest;
            let coder = match chunk.content() {
                Content::Blocks { coder, .. } => *coder,
                _ => StreamCoder::Lz4,
            };
            match (stream.kind, coder) {
                (StreamKind::Run(value), _) => plane.fill(value),
                (_, StreamCoder::Lz4) => ffi::lz4(bytes, plane).map_err(|e| e.at(stream.offset as u64))?,
                (_, StreamCoder::Zstd) => {
                    zstd.decode_unit(bytes, plane).map_err(|e| e.at(stream.offset as u64))?;
                }
            }
            plane
        };
        whole = plane;
        if let Some(part) = parts.get_mut(i) {
            *part = plane;
        }
    }
    if streams.len() < item {
        for (part, plane) in parts.iter_mut().zip(whole.chunks_exact((whole.len() / item).max(1))) {
            *part = plane;
        }
    }
    Ok(Planes { parts, item })
}

/// Decodes the first `count` bytes of each stream, of which [`can_stop`] must hold, into `scratch`, where [`of`] finds them.
pub(crate) fn decode_first(chunk: &Chunk<'_>, streams: &[Stream], count: usize, scratch: &mut Vec<u8>) -> Result<()> {
    // Room for all of them, so that the next region need not ask for more.
    let scratch = grow(scratch, STREAM_BYTES * streams.len());
    for (stream, plane) in streams.iter().zip(scratch.chunks_exact_mut(count.max(1))) {
        let bytes = bytes_of(chunk, stream)?;
        match (stream.kind, bytes.get(..count)) {
            (StreamKind::Run(value), _) => plane.fill(value),
            (StreamKind::Stored, Some(bytes)) => plane.copy_from_slice(bytes),
            _ => ffi::lz4_prefix(bytes, plane).map_err(|e| e.at(stream.offset as u64))?,
        }
    }
    Ok(())
}

/// What [`decode_first`] left in its scratch.
pub(crate) fn of(scratch: &[u8], item: usize, count: usize) -> Planes<'_> {
    let mut parts = [&[][..]; 8];
    for (part, plane) in parts.iter_mut().zip(scratch.chunks_exact(count.max(1)).take(item)) {
        *part = plane;
    }
    Planes { parts, item }
}

fn bytes_of<'a>(chunk: &Chunk<'a>, stream: &Stream) -> Result<&'a [u8]> {
    let bytes = chunk.bytes().get(stream.offset..stream.offset + stream.bytes);
    bytes.ok_or_else(|| Error::format("blosc2 stream", "within its chunk", stream.bytes).at(stream.offset as u64))
}
