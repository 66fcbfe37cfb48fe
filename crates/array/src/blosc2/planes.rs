//! A block as its byte planes. If the streams of a block are byte planes, items are joined directly from them, and
//! the block need not be assembled in memory first.
//!
//! A stored stream is already a plane, so it is read directly from the chunk. The low bytes of noisy floats are mostly
//! stored, so half of a noisy cube is never copied. Other streams are decoded to scratch memory, 64 KiB each, which
//! stays in the cache until the items are joined. LZ4 itself takes two thirds of the time for a cube with band
//! differences. (An LZ4 decoder with vector instructions took a tenth longer.)
//!
//! Bit planes and byte deltas are also converted to byte planes here, 64 KiB at a time, while they are in the cache.
//!
//! A region that needs little of a block decodes only the start of its streams: LZ4 can stop anywhere, and stored
//! streams and runs need no decoding. A patch of a cube with long rows needs a tenth of each block that it touches,
//! so this halves the time per patch (64 × 64 pixels of 480 × 640 × 100 float16 take 1.5 ms
//! instead of 3.0 ms). Zstd cannot stop early, because a stream of 64 KiB is a single zstd block. For bit planes and
//! byte deltas, the start of each stream is not enough.

use super::shuffle::join;
use super::{Chunk, ChunkContent, ChunkStream, STREAM_BYTES, Shuffle, StreamCoder, StreamKind, bits, delta, ffi};
use crate::bytes::ZstdDecoder;
use shardpack_base::parts::{check_length, grow, part};
use shardpack_format::{Error, Result};

/// The byte planes of a block, either whole or only their first bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planes<'a> {
    parts: [&'a [u8]; 8],
    item: usize,
}

impl<'a> Planes<'a> {
    pub(crate) fn items(&self) -> usize {
        self.parts.first().map_or(0, |plane| plane.len())
    }

    /// Fills `out` with items, starting with item `first`.
    pub(crate) fn join(&self, first: usize, out: &mut [u8]) -> Result<()> {
        let end = first + out.len() / self.item.max(1);
        let mut parts = [&[][..]; 8];
        for (to, plane) in parts.iter_mut().zip(self.parts).take(self.item) {
            *to = part(plane, first..end, "items in a blosc2 block")?;
        }
        join(part(&parts, 0..self.item, "planes in a blosc2 block")?, out)
    }

    /// Returns the low and the high bytes of `count` two-byte items, or `None` for other item sizes.
    pub(crate) fn pair(&self, first: usize, count: usize) -> Option<[&'a [u8]; 2]> {
        let [low, high, ..] = self.parts;
        (self.item == 2).then_some([low.get(first..first + count)?, high.get(first..first + count)?])
    }
}

/// Returns the streams of block `number` of a chunk, or `None` if they cannot be decoded to byte planes.
pub(crate) fn streams<'a>(chunk: &'a Chunk<'_>, number: usize, item: usize) -> Option<&'a [ChunkStream]> {
    let ChunkContent::Blocks { filters, .. } = chunk.content() else { return None };
    if filters.shuffle == Shuffle::None && item != 1 { None } else { of_block(chunk, number, item) }
}

pub(super) fn of_block<'a>(chunk: &'a Chunk<'_>, number: usize, item: usize) -> Option<&'a [ChunkStream]> {
    let ChunkContent::Blocks { streams, .. } = chunk.content() else { return None };
    let rest = streams.get(number * item..)?;
    rest.get(..if rest.len() < item { 1 } else { item })
}

fn are_planes(chunk: &Chunk<'_>) -> bool {
    match chunk.content() {
        ChunkContent::Blocks { filters, .. } => !filters.byte_delta && filters.shuffle != Shuffle::Bits,
        ChunkContent::Stored | ChunkContent::Repeated(_) => false,
    }
}

/// True if the first bytes of each plane can be decoded without decoding the whole plane.
pub(crate) fn can_stop(chunk: &Chunk<'_>, streams: &[ChunkStream], item: usize) -> bool {
    let lz4 = matches!(chunk.content(), ChunkContent::Blocks { coder: StreamCoder::Lz4, .. });
    lz4 && are_planes(chunk) && streams.len() == item && streams.iter().all(|stream| stream.out_bytes == STREAM_BYTES)
}

/// Returns the number of scratch bytes that [`decode`] needs for `streams`.
pub(crate) fn scratch_bytes(chunk: &Chunk<'_>, streams: &[ChunkStream]) -> usize {
    let stays = are_planes(chunk);
    let made = streams.iter().filter(|stream| !stays || stream.kind != StreamKind::Stored);
    made.map(|stream| stream.out_bytes).sum()
}

/// Contexts and memory that are reused from block to block.
#[derive(Default)]
pub(super) struct Coders {
    zstd: ZstdDecoder,
    /// Bit planes before they are converted to byte planes.
    rows: Vec<u8>,
}

impl Coders {
    pub(super) fn stream(&mut self, chunk: &Chunk<'_>, stream: &ChunkStream, out: &mut [u8]) -> Result<()> {
        let bytes = bytes_of(chunk, stream)?;
        match (stream.kind, chunk.content()) {
            (StreamKind::Run(value), _) => {
                out.fill(value);
                Ok(())
            }
            (StreamKind::Coded, ChunkContent::Blocks { coder: StreamCoder::Lz4, .. }) => ffi::lz4(bytes, out),
            (StreamKind::Coded, ChunkContent::Blocks { coder: StreamCoder::Zstd, .. }) => {
                self.zstd.decode_unit(bytes, out).map(|_| ())
            }
            _ if bytes.len() == out.len() => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(Error::format("size of a stored blosc2 stream in bytes", out.len(), bytes.len())),
        }
        .map_err(|e| e.at(stream.offset as u64))
    }

    /// Decodes several streams into `out`, without gaps.
    pub(super) fn streams(&mut self, chunk: &Chunk<'_>, streams: &[ChunkStream], out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        for stream in streams {
            let (here, after) = take(rest, stream.out_bytes)?;
            self.stream(chunk, stream, here)?;
            rest = after;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Error::malformed(format!(
                "the blosc2 block is damaged: its streams are {} bytes too short",
                rest.len()
            )))
        }
    }
}

/// Decodes all streams of a block to its byte planes. Planes that the chunk does not store directly are written to
/// `scratch`, which must have [`scratch_bytes`] bytes.
pub(super) fn decode<'a>(
    chunk: &Chunk<'a>,
    streams: &[ChunkStream],
    item: usize,
    coders: &mut Coders,
    mut scratch: &'a mut [u8],
) -> Result<Planes<'a>> {
    let items = streams.iter().map(|stream| stream.out_bytes).sum::<usize>() / item.max(1);
    if let ChunkContent::Blocks { filters, .. } = chunk.content()
        && filters.shuffle == Shuffle::Bits
    {
        let (planes, _) = take(scratch, items * item)?;
        from_bits(chunk, streams, item, coders, planes)?;
        return Ok(of(planes, item, items));
    }
    let (mut parts, mut whole) = ([&[][..]; 8], &[][..]);
    for (part, stream) in parts.iter_mut().zip(streams) {
        let plane = if stream.kind == StreamKind::Stored && are_planes(chunk) {
            bytes_of(chunk, stream)?
        } else {
            let (plane, rest) = take(scratch, stream.out_bytes)?;
            scratch = rest;
            coders.stream(chunk, stream, plane)?;
            undo_delta(chunk, items, plane)?;
            plane
        };
        whole = plane;
        *part = plane;
    }
    Ok(if streams.len() < item { of(whole, item, items) } else { Planes { parts, item } })
}

/// Undoes the byte delta, if the chunk uses it. `planes` contains consecutive planes of `items` bytes.
pub(super) fn undo_delta(chunk: &Chunk<'_>, items: usize, planes: &mut [u8]) -> Result<()> {
    if let ChunkContent::Blocks { filters, .. } = chunk.content()
        && filters.byte_delta
    {
        let items = items.max(1);
        check_length("total size of the byte-delta planes", planes.len() / items * items, planes.len())?;
        planes.chunks_exact_mut(items).for_each(delta::undo);
    }
    Ok(())
}

fn from_bits(
    chunk: &Chunk<'_>,
    streams: &[ChunkStream],
    item: usize,
    coders: &mut Coders,
    planes: &mut [u8],
) -> Result<()> {
    let items = planes.len() / item.max(1);
    let mut rows = std::mem::take(&mut coders.rows);
    let result = if streams.len() == item && items.is_multiple_of(8) {
        // Each stream contains the bit planes of one byte plane.
        streams.iter().zip(planes.chunks_exact_mut(items.max(1))).try_for_each(|(stream, plane)| {
            if stream.kind == StreamKind::Stored {
                return bits::undo(bytes_of(chunk, stream)?, plane);
            }
            let rows = grow(&mut rows, items);
            coders.stream(chunk, stream, rows)?;
            bits::undo(rows, plane)
        })
    } else {
        let rows = grow(&mut rows, planes.len());
        coders.streams(chunk, streams, rows).and_then(|()| bits::undo_block(rows, item, planes))
    };
    coders.rows = rows;
    result
}

fn take(scratch: &mut [u8], count: usize) -> Result<(&mut [u8], &mut [u8])> {
    let found = scratch.len();
    scratch.split_at_mut_checked(count).ok_or_else(|| Error::format("size of a blosc2 block in bytes", count, found))
}

/// Decodes the first `count` bytes of each stream into `scratch`. [`of`] then returns them as planes. [`can_stop`] must
/// be true for these streams.
pub(crate) fn decode_first(
    chunk: &Chunk<'_>,
    streams: &[ChunkStream],
    count: usize,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    // Allocate space for whole planes, because a later region may need more of each plane.
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

/// Returns the planes that [`decode_first`] wrote to `scratch`.
pub(crate) fn of(scratch: &[u8], item: usize, count: usize) -> Planes<'_> {
    let mut parts = [&[][..]; 8];
    for (part, plane) in parts.iter_mut().zip(scratch.chunks_exact(count.max(1)).take(item)) {
        *part = plane;
    }
    Planes { parts, item }
}

fn bytes_of<'a>(chunk: &Chunk<'a>, stream: &ChunkStream) -> Result<&'a [u8]> {
    let bytes = chunk.bytes().get(stream.offset..stream.offset + stream.bytes);
    bytes.ok_or_else(|| {
        let text =
            format!("the blosc2 chunk is truncated: a stream of {} bytes extends past the chunk's end", stream.bytes);
        Error::malformed(text).at(stream.offset as u64)
    })
}
