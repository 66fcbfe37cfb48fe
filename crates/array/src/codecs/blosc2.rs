//! Blosc2: one chunk of LZ4 or zstd streams per unit (spec §5.3).

use super::container::{BlockPlace, BlockRequest, Budget, Coded, Container, PayloadDecoder, Units};
use super::spec::{CoderSpec, Levels, UnitEncoder};
use super::zstd;
use crate::block::StoredBlock;
use crate::blosc2::{
    self, Blosc2Coder, Chunk, ChunkContent, ChunkStream, HEADER_BYTES, STREAM_BYTES, StreamKind, ZSTD_LEVELS, planes,
    walk_chunks,
};
use crate::bytes::{UNIT_BYTES, check_payload};
use shardpack_base::parts::{grow, item_bytes, part, rest, split_mut};
use shardpack_format::{Codec, Error, Limits, Result, bug};
use std::ops::Range;

const LZ4_NS: f64 = 0.21;
const DEVICE_LZ4_NS: f64 = 0.0050;
const DEVICE_ZSTD_NS: f64 = 0.0134;

pub(crate) const LZ4: CoderSpec = CoderSpec {
    name: "blosc2-lz4",
    codec: Codec::Blosc2,
    levels: Levels::One,
    has_filters: true,
    decode_ns: LZ4_NS,
    device_ns: DEVICE_LZ4_NS,
    encoder: |level, filter| Ok(Box::new(blosc2::Encoder::new(Blosc2Coder::Lz4, level, filter)?)),
};

pub(crate) const LZ4HC: CoderSpec = CoderSpec {
    name: "blosc2-lz4hc",
    levels: Levels::Range { default: 9, all: 1..=9 },
    encoder: |level, filter| Ok(Box::new(blosc2::Encoder::new(Blosc2Coder::Lz4hc, level, filter)?)),
    ..LZ4
};

pub(crate) const ZSTD: CoderSpec = CoderSpec {
    name: "blosc2-zstd",
    levels: Levels::List { default: 1, all: &ZSTD_LEVELS, noun: "the zstd levels that Blosc2 can reach" },
    decode_ns: zstd::DECODE_NS,
    device_ns: DEVICE_ZSTD_NS,
    encoder: |level, filter| Ok(Box::new(blosc2::Encoder::new(Blosc2Coder::Zstd, level, filter)?)),
    ..LZ4
};

impl UnitEncoder for blosc2::Encoder {
    fn codec(&self) -> Codec {
        Codec::Blosc2
    }

    fn encode(&mut self, unit: &[u8], item_bytes: u8, payload: &mut Vec<u8>) -> Result<u64> {
        let start = payload.len();
        self.chunk(unit, item_bytes, payload)?;
        // Parsing takes hardly any time, and proves that readers will accept the chunk.
        let bytes = rest(payload, start, "chunk that was just made")?;
        Ok(Chunk::parse(bytes, item_bytes, unit.len())?.coded_out_bytes())
    }
}

pub(crate) struct Blosc2;

impl Container for Blosc2 {
    fn check_length(&self, stored: u64, payload: u64, limits: &Limits) -> Result<()> {
        let is_short = payload < stored.div_ceil(UNIT_BYTES as u64) * HEADER_BYTES as u64;
        check_payload(is_short, stored, payload, limits)
    }

    fn fits(&self, stored: usize, payload: usize) -> bool {
        payload / HEADER_BYTES >= stored.div_ceil(UNIT_BYTES)
    }

    fn block_bytes(&self, width: usize) -> usize {
        STREAM_BYTES * width
    }

    fn scratch_bytes(&self, width: usize, _: u64) -> Option<u64> {
        // The scratch memory has room for whole streams, even if a chunk is short.
        Some(self.block_bytes(width) as u64)
    }

    fn region_blocks(&self) -> u64 {
        // One block of scratch memory contains the byte planes, and the other the block that is assembled from them.
        2
    }

    fn units<'a>(&self, coded: Coded<'a>, limits: &Limits) -> Result<Units<'a>> {
        walk_chunks(coded.payload, coded.width, coded.stored_bytes, limits).map(Units::Blosc2)
    }

    fn unit_length(&self, at: usize, _: usize, read: &mut dyn FnMut(usize, &mut [u8]) -> Option<()>) -> Option<usize> {
        let mut header = [0; HEADER_BYTES];
        read(at, &mut header)?;
        let [_, _, _, _, _, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = header;
        usize::try_from(u32::from_le_bytes([c0, c1, c2, c3])).ok().filter(|&bytes| bytes >= HEADER_BYTES)
    }
}

/// Decodes chunks. Keeps the parsed chunk that a region is being read from.
#[derive(Default)]
pub(crate) struct Blosc2Decoder {
    chunks: blosc2::Decoder,
    entered: Option<Entered>,
    streams: Vec<ChunkStream>,
}

struct Entered {
    chunk_bytes: usize,
    content: ChunkContent,
}

impl PayloadDecoder for Blosc2Decoder {
    fn decode(&mut self, coded: Coded<'_>, out: &mut [u8], limits: &Limits) -> Result<()> {
        let Coded { payload, width, stored_bytes } = coded;
        let item_bytes = item_bytes(width)?;
        let chunks = walk_chunks(payload, width, stored_bytes, limits)?;
        for (chunk, unit) in chunks.iter().zip(out.chunks_mut(UNIT_BYTES)) {
            self.chunks.decode(chunk, item_bytes, unit).map_err(|e| e.at(offset_in(payload, chunk)))?;
        }
        Ok(())
    }

    fn for_each(
        &mut self,
        coded: Coded<'_>,
        limits: &Limits,
        window: &mut Vec<u8>,
        wanted: &dyn Fn(Range<usize>) -> bool,
        each: &mut dyn FnMut(&StoredBlock<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let Coded { payload, width, stored_bytes } = coded;
        let item_bytes = item_bytes(width)?;
        let chunks = walk_chunks(payload, width, stored_bytes, limits)?;
        for (chunk, start) in chunks.iter().zip((0..stored_bytes).step_by(UNIT_BYTES)) {
            let unit = start..(start + UNIT_BYTES).min(stored_bytes);
            if let Some(block) = undecoded(chunk)? {
                each(&block, unit)?;
                continue;
            }
            let at = |e: Error| e.at(offset_in(payload, chunk));
            let block_bytes = STREAM_BYTES * width;
            for (number, start) in unit.clone().step_by(block_bytes).enumerate() {
                let bytes = start..(start + block_bytes).min(unit.end);
                if !wanted(bytes.clone()) {
                    continue;
                }
                if let Some(planes) = self.chunks.planes(chunk, item_bytes, number).map_err(at)? {
                    each(&StoredBlock::Planes(planes), bytes)?;
                } else {
                    let to = grow(window, bytes.len());
                    self.chunks.decode_block(chunk, item_bytes, number, to).map_err(at)?;
                    each(&StoredBlock::Bytes(to), bytes)?;
                }
            }
        }
        Ok(())
    }

    fn all<'a>(
        &mut self,
        coded: Coded<'a>,
        scratch: &'a mut Vec<u8>,
        limits: &Limits,
    ) -> Result<(Vec<StoredBlock<'a>>, usize)> {
        let Coded { payload, width, stored_bytes } = coded;
        let item_bytes = item_bytes(width)?;
        let chunks = walk_chunks(payload, width, stored_bytes, limits)?;
        let block_bytes = STREAM_BYTES * width;
        let units = (0..stored_bytes).step_by(UNIT_BYTES).map(|start| UNIT_BYTES.min(stored_bytes - start));
        let needed = chunks.iter().zip(units.clone()).map(|(chunk, unit)| match chunk.content() {
            ChunkContent::Blocks { streams, .. } if planes::streams(chunk, 0, width).is_some() => {
                planes::scratch_bytes(chunk, streams)
            }
            ChunkContent::Blocks { .. } => unit,
            ChunkContent::Stored | ChunkContent::Repeated(_) => 0,
        });
        let mut scratch = grow(scratch, needed.sum());
        let mut blocks = Vec::with_capacity(stored_bytes.div_ceil(block_bytes));
        for (chunk, unit) in chunks.into_iter().zip(units) {
            let at = |e: Error| e.at(offset_in(payload, &chunk));
            for (number, start) in (0..unit).step_by(block_bytes).enumerate() {
                let bytes = block_bytes.min(unit - start);
                let block = match undecoded(&chunk)? {
                    Some(StoredBlock::Bytes(unit)) => {
                        StoredBlock::Bytes(part(unit, start..start + bytes, "bytes in a stored unit")?)
                    }
                    Some(block) => block,
                    None => match self.chunks.planes_in(&chunk, item_bytes, number, &mut scratch).map_err(at)? {
                        Some(planes) => StoredBlock::Planes(planes),
                        None => {
                            let (to, rest) = split_mut(scratch, bytes, "scratch buffer for blosc2 blocks")?;
                            scratch = rest;
                            self.chunks.decode_block(&chunk, item_bytes, number, to).map_err(at)?;
                            StoredBlock::Bytes(to)
                        }
                    },
                };
                blocks.push(block);
            }
        }
        Ok((blocks, STREAM_BYTES))
    }

    fn begin(&mut self, width: usize) {
        // Allocate whole blocks now, because a later region may need more of a block than the first region.
        self.chunks.room(width);
        self.entered = None;
    }

    fn enter(&mut self, bytes: &[u8], width: usize, unit_bytes: usize) -> Result<()> {
        if self.entered.is_none() {
            let chunk = Chunk::parse_reusing(bytes, item_bytes(width)?, unit_bytes, &mut self.streams)?;
            self.entered = Some(Entered { chunk_bytes: chunk.bytes().len(), content: chunk.into_content() });
        }
        Ok(())
    }

    fn leave(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(Entered { chunk_bytes, content }) = self.entered.take() else { return Chunk::length(bytes) };
        if let ChunkContent::Blocks { streams, .. } = content {
            self.streams = streams;
        }
        Ok(chunk_bytes)
    }

    fn block(
        &mut self,
        block: &mut BlockRequest<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<BlockPlace> {
        let Some(Entered { chunk_bytes, content }) = self.entered.take() else {
            bug("a block was requested before its chunk")
        };
        let chunk = Chunk::walked(part(block.bytes, 0..chunk_bytes, "bytes in a blosc2 chunk")?, content);
        let place = self.block_of(&chunk, block, budget, out, scratch);
        self.entered = Some(Entered { chunk_bytes, content: chunk.into_content() });
        place
    }
}

impl Blosc2Decoder {
    fn block_of(
        &mut self,
        chunk: &Chunk<'_>,
        block: &mut BlockRequest<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<BlockPlace> {
        let BlockRequest { width, number, block_bytes, start, .. } = *block;
        match chunk.content() {
            ChunkContent::Stored => {
                let from = HEADER_BYTES + start;
                out.copy_from_slice(part(chunk.bytes(), from..from + out.len(), "blosc2 chunk body")?);
                return Ok(BlockPlace::Copied);
            }
            ChunkContent::Repeated(item) => {
                let item = part(item, 0..width, "bytes in a repeated item")?;
                for to in out.chunks_mut(width) {
                    to.copy_from_slice(part(item, 0..to.len(), "bytes in a repeated item")?);
                }
                budget.spend(0, out.len() as u64)?;
                return Ok(BlockPlace::Copied);
            }
            ChunkContent::Blocks { streams, .. } => {
                let (mut coded, mut runs) = (0, 0);
                // A short last block has a single stream (spec §5.3).
                for stream in streams.iter().skip(number * width).take(width) {
                    match stream.kind {
                        StreamKind::Coded => coded += stream.out_bytes as u64,
                        StreamKind::Run(_) => runs += stream.out_bytes as u64,
                        StreamKind::Stored => {}
                    }
                }
                budget.spend(coded, runs)?;
            }
        }
        if block.is_whole(out) {
            self.chunks.decode_block(chunk, item_bytes(width)?, number, out)?;
            return Ok(BlockPlace::Out);
        }
        let (needed, end) = (block.need)();
        let streams = planes::streams(chunk, number, width).filter(|_| needed <= block_bytes / 2);
        if let Some(streams) = streams.filter(|streams| planes::can_stop(chunk, streams, width)) {
            let count = end / width;
            planes::decode_first(chunk, streams, count, scratch)?;
            return Ok(BlockPlace::ScratchPlanes(count));
        }
        self.chunks.decode_block(chunk, item_bytes(width)?, number, grow(scratch, block_bytes))?;
        Ok(BlockPlace::Scratch)
    }
}

fn undecoded<'a>(chunk: &Chunk<'a>) -> Result<Option<StoredBlock<'a>>> {
    Ok(match chunk.content() {
        ChunkContent::Blocks { .. } => None,
        ChunkContent::Stored => Some(StoredBlock::Bytes(rest(chunk.bytes(), HEADER_BYTES, "blosc2 chunk body")?)),
        ChunkContent::Repeated(item) => Some(StoredBlock::Repeated(*item)),
    })
}

fn offset_in(payload: &[u8], chunk: &Chunk<'_>) -> u64 {
    (chunk.bytes().as_ptr().addr() - payload.as_ptr().addr()) as u64
}
