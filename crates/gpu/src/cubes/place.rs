//! Determines where the bytes of each element are. Turns the chunks and streams of a payload into tasks for the
//! kernels `cube_frames`, `cube_streams` and `cube_pieces`, and into the table of planes that `cube_values` and
//! `cube_quads` read.
//!
//! Bytes that can be read in place are not moved: a stored stream is a byte plane in the payload itself, and a run is
//! one byte of the constants at the start of each slot. LZ4 streams and zstd frames are decoded to scratch memory,
//! where bit planes and byte differences are undone in place. For a part of a plain zstd array, the host decodes the
//! whole array into the slot.

use super::blocks::Blocks;
use super::kept::{Chunk, Content, Streams};
use super::payload::PayloadSource;
use super::wire::{BLOCK_ELEMENTS, PieceTask, Plane, StreamSource, StreamTask};
use shardpack_array::blosc2::{ChunkStream, Filters, HEADER_BYTES, Shuffle, StreamCoder, StreamKind};
use shardpack_array::{UNIT_BYTES, Units, ZstdDecoder};
use shardpack_format::{Error, Result, bug};

/// Size of the constants at the start of a slot: the bytes 0 to 255.
pub(crate) const CONSTANT_BYTES: usize = 256;

pub(crate) fn write_constants(to: &mut [u8]) {
    for (value, byte) in (0..=u8::MAX).zip(to) {
        *byte = value;
    }
}

/// Byte ranges to copy into the uploaded part of a slot, each with its destination.
pub(super) type Copies<'a> = Vec<(&'a mut [u8], &'a [u8])>;

/// Slot memory that is allocated from start to end.
pub(super) struct SlotMemory<'a> {
    /// Free part of the uploaded bytes, followed by its offset in the slot.
    pub(super) free: &'a mut [u8],
    pub(super) at: u64,
    /// Offset of the next free scratch memory in the slot.
    pub(super) scratch: u64,
    pub(super) copies: Copies<'a>,
}

impl<'a> SlotMemory<'a> {
    fn take(&mut self, bytes: usize) -> Result<(u64, &'a mut [u8])> {
        let free = std::mem::take(&mut self.free);
        let held = free.len();
        match free.split_at_mut_checked(bytes) {
            Some((taken, rest)) => {
                let at = self.at;
                self.free = rest;
                self.at += bytes as u64;
                Ok((at, taken))
            }
            None => Err(Error::limit("size of a compressed array", "staged_bytes", held as u64, bytes as u64)),
        }
    }

    /// Returns the offset of a range of `from`. If the bytes are on the host, schedules a copy to the slot.
    fn at_of(&mut self, from: PayloadBytes<'a>, start: usize, bytes: usize) -> Result<u64> {
        match from {
            PayloadBytes::Slot(at) => Ok(at + start as u64),
            PayloadBytes::Host(all) => {
                let found = all.get(start..start.saturating_add(bytes));
                let found = found.unwrap_or_else(|| bug("a walked payload has become shorter"));
                let (at, to) = self.take(bytes)?;
                self.copies.push((to, found));
                Ok(at)
            }
        }
    }

    fn scratch(&mut self, bytes: usize) -> u64 {
        let at = self.scratch;
        self.scratch += bytes.next_multiple_of(16) as u64;
        at
    }
}

#[derive(Default)]
pub(super) struct Tasks {
    pub(super) streams: Vec<StreamTask>,
    pub(super) pieces: Vec<PieceTask>,
}

pub(super) struct Placer<'a, 'b> {
    pub(super) room: &'b mut SlotMemory<'a>,
    pub(super) tasks: &'b mut Tasks,
    pub(super) zstd: &'b mut ZstdDecoder,
    /// Offset of the payload if it is already in the slot or among the kept values.
    pub(super) payload_at: Option<u64>,
    pub(super) blocks: &'a Blocks,
    pub(super) width: usize,
    /// Number of streams so far.
    pub(super) number: u32,
    /// One plane per block and byte of an element.
    pub(super) planes: Vec<Plane>,
}

/// Bytes of a stream after decoding, before its filters are undone.
#[derive(Clone, Copy)]
enum DecodedBytes {
    /// Offset of the bytes. The flag is true if the bytes have their own scratch memory.
    At(u64, bool),
    Run(u8),
}

impl<'a> Placer<'a, '_> {
    /// Fills `planes` for a payload that decodes to `stored_bytes`.
    pub(super) fn place(&mut self, payload: &'a PayloadSource<'_>, stored_bytes: usize) -> Result<()> {
        let from = self.payload_at.map_or(PayloadBytes::Host(payload.bytes()), PayloadBytes::Slot);
        if let Some(frames) = for_the_host(payload, self.blocks) {
            let (at, to) = self.room.take(stored_bytes)?;
            for (frame, unit) in frames.iter().zip(to.chunks_mut(UNIT_BYTES)) {
                self.zstd.decode_unit(frame, unit)?;
            }
            return self.elements(PayloadBytes::Slot(at), stored_bytes);
        }
        let Some(chunks) = payload.chunks() else { return self.elements(from, stored_bytes) };
        let (mut pos, mut left) = (0, stored_bytes);
        for chunk in chunks {
            let unit = UNIT_BYTES.min(left);
            self.chunk(from.after(pos), chunk, unit).map_err(|e| e.at(pos as u64))?;
            pos += chunk.bytes;
            left -= unit;
        }
        Ok(())
    }

    fn elements(&mut self, from: PayloadBytes<'a>, bytes: usize) -> Result<()> {
        let block_bytes = BLOCK_ELEMENTS * self.width;
        for start in (0..bytes).step_by(block_bytes) {
            match self.needs_next() {
                true => {
                    let at = self.room.at_of(from, start, block_bytes.min(bytes - start))?;
                    self.interleaved(at);
                }
                false => self.constant(0),
            }
        }
        Ok(())
    }

    fn needs_next(&self) -> bool {
        self.blocks.has(self.planes.len() / self.width.max(1))
    }

    fn interleaved(&mut self, at: u64) {
        let step = u32::try_from(self.width).unwrap_or(8);
        self.planes.extend((0..self.width as u64).map(|j| Plane { at: at + j, step }));
    }

    fn constant(&mut self, value: u8) {
        self.planes.extend((0..self.width).map(|_| constant(value)));
    }

    fn chunk(&mut self, from: PayloadBytes<'a>, chunk: Chunk<'_>, unit: usize) -> Result<()> {
        match chunk.content {
            Content::Frame => self.frame(from, chunk.bytes, unit),
            Content::Stored => self.elements(from.after(HEADER_BYTES), unit),
            Content::Repeated(item) => {
                for _ in 0..unit.div_ceil(BLOCK_ELEMENTS * self.width) {
                    self.planes.extend(item.iter().take(self.width).map(|byte| constant(*byte)));
                }
                Ok(())
            }
            Content::Blocks { coder, filters, block_bytes, streams } => {
                let chunk = Placed { coder, from };
                for (bytes, streams) in blocks_of(streams, block_bytes, unit, self.width) {
                    match self.needs_next() {
                        true => self.block(chunk, filters, &streams.list(), bytes / self.width)?,
                        false => {
                            self.number += shardpack_format::saturating_u32(streams.len());
                            self.constant(0);
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Schedules the decoding of a plain zstd frame to scratch memory. Its elements are not filtered.
    fn frame(&mut self, from: PayloadBytes<'a>, bytes: usize, unit: usize) -> Result<()> {
        self.number += 1;
        let at = self.room.at_of(from, 0, bytes)?;
        let to = self.room.scratch(unit);
        self.stream(StreamSource::Zstd(at), bytes, unit, to)?;
        (0..unit as u64).step_by(BLOCK_ELEMENTS * self.width).for_each(|start| self.interleaved(to + start));
        Ok(())
    }

    fn block(&mut self, chunk: Placed<'a>, filters: Filters, streams: &[ChunkStream], items: usize) -> Result<()> {
        let by_plane = match filters.shuffle {
            Shuffle::Bytes => true,
            Shuffle::Bits => items.is_multiple_of(8),
            Shuffle::None => self.width == 1,
        };
        if !by_plane || streams.len() != self.width {
            return self.joined_block(chunk, filters, streams, items);
        }
        for stream in streams {
            let source = self.decoded(chunk, stream)?;
            let plane = match (source, filters.shuffle == Shuffle::Bits || filters.byte_delta) {
                (DecodedBytes::Run(value), false) => constant(value),
                (DecodedBytes::Run(value @ 0), true) => constant(value),
                (DecodedBytes::Run(value @ 0xFF), true) if !filters.byte_delta => constant(value),
                (DecodedBytes::At(at, _), false) => Plane { at, step: 1 },
                (source, true) => {
                    let (from, own) = self.in_slot(source, items);
                    let to = if own { from } else { self.room.scratch(items) };
                    self.piece(
                        PieceTask { from, to, rest: from, step: 0, count: 0, delta: filters.byte_delta },
                        items,
                    )?;
                    Plane { at: to, step: 1 }
                }
            };
            self.planes.push(plane);
        }
        Ok(())
    }

    fn joined_block(
        &mut self,
        chunk: Placed<'a>,
        filters: Filters,
        streams: &[ChunkStream],
        items: usize,
    ) -> Result<()> {
        let width = self.width;
        let source = match streams {
            [stream] => self.decoded(chunk, stream)?,
            _ => {
                let to = self.room.scratch(items * width);
                let mut at = to;
                for stream in streams {
                    self.decode_to(chunk, stream, at)?;
                    at += stream.out_bytes as u64;
                }
                DecodedBytes::At(to, true)
            }
        };
        let filtered = filters.shuffle == Shuffle::Bits || filters.byte_delta;
        match source {
            DecodedBytes::Run(value) if !filtered || value == 0 || (value == 0xFF && !filters.byte_delta) => {
                self.constant(value);
                return Ok(());
            }
            _ => {}
        }
        let (from, own) = self.in_slot(source, items * width);
        let (n, wide) = (items as u64, width as u64);
        let planes = |at: u64| (0..wide).map(move |j| Plane { at: at + j * n, step: 1 });
        match (filters.shuffle, filters.byte_delta) {
            (Shuffle::None, false) => self.interleaved(from),
            (Shuffle::Bytes, false) => self.planes.extend(planes(from)),
            (Shuffle::Bits, _) => {
                let whole = n / 8 * 8;
                let step = u32::try_from(width).unwrap_or(8);
                for j in 0..wide {
                    let to = self.room.scratch(items);
                    let rest = from + whole * wide + j;
                    let piece = PieceTask { from: from + j * whole, to, rest, step, count: 0, delta: false };
                    self.piece(piece, items)?;
                    self.planes.push(Plane { at: to, step: 1 });
                }
            }
            (shuffle, true) => {
                let to = if own { from } else { self.room.scratch(items * width) };
                for j in 0..wide {
                    let piece =
                        PieceTask { from: from + j * n, to: to + j * n, rest: from, step: 0, count: 0, delta: true };
                    self.piece(piece, items)?;
                }
                match shuffle {
                    Shuffle::None => self.interleaved(to),
                    _ => self.planes.extend(planes(to)),
                }
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: PieceTask, items: usize) -> Result<()> {
        let count = u32::try_from(items).ok().filter(|&n| n as usize <= BLOCK_ELEMENTS);
        let count =
            count.ok_or_else(|| Error::format("blosc2 block", format!("at most {BLOCK_ELEMENTS} elements"), items))?;
        self.tasks.pieces.push(PieceTask { count, ..piece });
        Ok(())
    }

    /// Writes out a run so that a kernel can read it, and returns the offset of the bytes. The flag is true if the
    /// bytes have their own scratch memory.
    fn in_slot(&mut self, source: DecodedBytes, bytes: usize) -> (u64, bool) {
        match source {
            DecodedBytes::At(at, own) => (at, own),
            DecodedBytes::Run(value) => {
                let to = self.room.scratch(bytes);
                let out_bytes = shardpack_format::saturating_u32(bytes);
                let (source, row, number) = (StreamSource::Run(value), 0, self.number);
                self.tasks.streams.push(StreamTask { source, to, bytes: 0, out_bytes, row, number });
                (to, true)
            }
        }
    }

    fn decoded(&mut self, chunk: Placed<'a>, stream: &ChunkStream) -> Result<DecodedBytes> {
        match self.source(chunk, stream)? {
            StreamSource::Run(value) => Ok(DecodedBytes::Run(value)),
            StreamSource::Stored(at) => Ok(DecodedBytes::At(at, false)),
            source @ (StreamSource::Lz4(_) | StreamSource::Zstd(_)) => {
                let to = self.room.scratch(stream.out_bytes);
                self.stream(source, stream.bytes, stream.out_bytes, to)?;
                Ok(DecodedBytes::At(to, true))
            }
        }
    }

    fn decode_to(&mut self, chunk: Placed<'a>, stream: &ChunkStream, to: u64) -> Result<()> {
        let source = self.source(chunk, stream)?;
        self.stream(source, stream.bytes, stream.out_bytes, to)
    }

    fn stream(&mut self, source: StreamSource, bytes: usize, out_bytes: usize, to: u64) -> Result<()> {
        let size = |n: usize| {
            u32::try_from(n)
                .map_err(|_| Error::malformed(format!("a coded stream must be smaller than 4 GiB, but has {n} bytes")))
        };
        let (bytes, out_bytes) = (size(bytes)?, size(out_bytes)?);
        self.tasks.streams.push(StreamTask { source, to, bytes, out_bytes, row: 0, number: self.number - 1 });
        Ok(())
    }

    fn source(&mut self, chunk: Placed<'a>, stream: &ChunkStream) -> Result<StreamSource> {
        self.number += 1;
        if let StreamKind::Run(value) = stream.kind {
            return Ok(StreamSource::Run(value));
        }
        let at = self.room.at_of(chunk.from, stream.offset, stream.bytes)?;
        Ok(match (stream.kind, chunk.coder) {
            (StreamKind::Coded, StreamCoder::Lz4) => StreamSource::Lz4(at),
            (StreamKind::Coded, StreamCoder::Zstd) => StreamSource::Zstd(at),
            (StreamKind::Stored | StreamKind::Run(_), _) => StreamSource::Stored(at),
        })
    }
}

#[derive(Clone, Copy)]
struct Placed<'a> {
    coder: StreamCoder,
    from: PayloadBytes<'a>,
}

#[derive(Clone, Copy)]
enum PayloadBytes<'a> {
    Host(&'a [u8]),
    /// Offset in the slot or among the kept values.
    Slot(u64),
}

impl PayloadBytes<'_> {
    fn after(self, bytes: usize) -> Self {
        match self {
            Self::Host(all) => Self::Host(all.get(bytes..).unwrap_or_default()),
            Self::Slot(at) => Self::Slot(at + bytes as u64),
        }
    }
}

fn blocks_of<'a>(
    streams: Streams<'a>,
    block_bytes: usize,
    unit: usize,
    width: usize,
) -> impl Iterator<Item = (usize, Streams<'a>)> {
    let mut left = streams;
    (0..unit).step_by(block_bytes.max(1)).map(move |start| {
        let bytes = block_bytes.min(unit - start);
        let (here, rest) = left.split_at(if bytes == block_bytes { width } else { 1 });
        left = rest;
        (bytes, here)
    })
}

/// Returns the frames of a plain zstd payload if the host decodes them. The host does so for parts of arrays, because
/// a part needs whole frames of 4 MiB, and a CPU core decodes a frame faster than a warp.
fn for_the_host<'a>(payload: &'a PayloadSource<'_>, blocks: &Blocks) -> Option<&'a [&'a [u8]]> {
    match payload {
        PayloadSource::Walked(Units::Zstd(frames), _) if !blocks.is_all() => Some(frames),
        _ => None,
    }
}

/// Returns the number of bytes to upload from a payload that is on the host and decodes to `stored_bytes` bytes.
/// These are the compressed bytes of the blocks or, for parts of plain zstd arrays, all decoded bytes.
pub(super) fn needed_bytes(payload: &PayloadSource<'_>, blocks: &Blocks, stored_bytes: usize, width: usize) -> usize {
    if for_the_host(payload, blocks).is_some() {
        return stored_bytes;
    }
    let block_bytes = BLOCK_ELEMENTS * width.max(1);
    let mut next = 0;
    let mut needs_next = || {
        next += 1;
        blocks.has(next - 1)
    };
    let mut of_unit = |Chunk { bytes, content }: Chunk<'_>, unit: usize| match content {
        Content::Frame => bytes,
        Content::Blocks { block_bytes, streams, .. } => {
            let needed = blocks_of(streams, block_bytes, unit, width).filter(|_| needs_next());
            let bytes = |streams: Streams<'_>| {
                let streams = streams.list();
                let coded = streams.iter().filter(|stream| !matches!(stream.kind, StreamKind::Run(_)));
                coded.map(|stream| stream.bytes).sum::<usize>()
            };
            needed.map(|(_, streams)| bytes(streams)).sum()
        }
        Content::Stored | Content::Repeated(_) => {
            let needed = (0..unit).step_by(block_bytes).filter(|_| needs_next());
            let bytes = needed.map(|start| block_bytes.min(unit - start)).sum();
            if matches!(content, Content::Stored) { bytes } else { 0_usize }
        }
    };
    let Some(chunks) = payload.chunks() else {
        return of_unit(Chunk { bytes: stored_bytes, content: Content::Stored }, stored_bytes);
    };
    let (mut needed, mut left) = (0_usize, stored_bytes);
    for chunk in chunks {
        let unit = UNIT_BYTES.min(left);
        needed = needed.saturating_add(of_unit(chunk, unit));
        left -= unit;
    }
    needed
}

fn constant(value: u8) -> Plane {
    Plane { at: value.into(), step: 0 }
}
