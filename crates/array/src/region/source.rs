//! The stored bytes of a payload in a range, with as little decoding as the codec allows.

use crate::blosc2::{self, Chunk, Content, STREAM_BYTES, StreamKind, planes};
use crate::bytes::{UNIT_BYTES, ZstdDecoder, check_coded, end_of};
use crate::coded::CodedArray;
use shardpack_base::parts::{grow, item_bytes, part, rest, split_mut};
use shardpack_format::{Codec, Error, Limits, Result};
use std::ops::Range;

/// Memory that one region leaves for the next.
#[derive(Default)]
pub(crate) struct SourceScratch {
    /// The block that was decoded last: of a Blosc2 chunk 64 KiB for each byte of an element, of
    /// plain zstd 4 MiB.
    block: Vec<u8>,
    /// A whole block, of which several regions take their parts.
    pub(crate) tile: Vec<u8>,
    streams: Vec<blosc2::Stream>,
}

/// Reads a payload's stored bytes, which must be requested in ascending order.
///
/// Units before a touched one are skipped by their length alone. A touched Blosc2 chunk is walked
/// completely before any of it is decoded.
pub(crate) struct PayloadReader<'p, 's> {
    kind: PayloadKind<'s>,
    payload: &'p [u8],
    /// Bytes of an element.
    width: usize,
    stored_bytes: usize,
    limits: &'s Limits,
    pub(crate) scratch: &'s mut SourceScratch,
    /// Number of the current unit, and where in the payload it starts.
    unit: usize,
    at: usize,
    chunk: Option<Chunk<'p>>,
    /// Where the block in `scratch.block` starts. If it still is byte planes, also how many bytes
    /// of each are there.
    loaded: Option<(usize, Option<usize>)>,
    coded: u64,
    /// Bytes that runs stand for in the blocks so far.
    runs: u64,
    decoded: u64,
}

/// The decoders of a thread, and the memory that one region leaves for the next.
pub(crate) struct Coders<'s> {
    pub(crate) blosc2: &'s mut blosc2::Decoder,
    pub(crate) zstd: &'s mut ZstdDecoder,
    pub(crate) scratch: &'s mut SourceScratch,
}

/// Stored bytes in a range.
pub(crate) type Run = Range<usize>;

enum PayloadKind<'s> {
    Raw,
    Zstd(&'s mut ZstdDecoder),
    Blosc2(&'s mut blosc2::Decoder),
}

impl<'p, 's> PayloadReader<'p, 's> {
    /// Fails if the payload is too short for the array, or if the array has no elements and the
    /// payload has bytes.
    pub(crate) fn new(array: CodedArray<'p>, limits: &'s Limits, coders: Coders<'s>) -> Result<Self> {
        let CodedArray { codec, descriptor, payload } = array;
        let Coders { blosc2, zstd, scratch } = coders;
        let stored = descriptor.stored_bytes()?;
        let width = descriptor.stored.size();
        let stored_bytes = usize::try_from(stored)
            .map_err(|_| Error::limit("stored array", "max_decoded_bytes", usize::MAX as u64, stored))?;
        let kind = match codec {
            Codec::Raw => PayloadKind::Raw,
            Codec::Zstd => PayloadKind::Zstd(zstd),
            Codec::Blosc2 => {
                // The first region may need little of each block, and a later one all of it.
                blosc2.room(width);
                PayloadKind::Blosc2(blosc2)
            }
            _ => return Err(Error::format("codec of an array", "raw, zstd or blosc2", codec)),
        };
        let units = stored_bytes.div_ceil(UNIT_BYTES);
        let fits = match kind {
            PayloadKind::Raw => payload.len() == stored_bytes,
            PayloadKind::Zstd(_) => payload.len() >= units,
            PayloadKind::Blosc2(_) => payload.len() / blosc2::HEADER_BYTES >= units,
        };
        if !fits {
            let found = format!("{} bytes", payload.len());
            return Err(Error::format("payload", format!("that of {stored_bytes} stored bytes"), found));
        }
        if stored_bytes == 0 {
            end_of(payload, 0)?;
        }
        let source = Self {
            kind,
            payload,
            width,
            stored_bytes,
            limits,
            scratch,
            unit: 0,
            at: 0,
            chunk: None,
            loaded: None,
            coded: 0,
            runs: 0,
            decoded: 0,
        };
        Ok(source)
    }

    /// Blocks, or units of plain zstd, of the whole payload.
    pub(crate) fn blocks(&self) -> u64 {
        match self.kind {
            PayloadKind::Raw => 0,
            // A unit is a whole number of blocks.
            PayloadKind::Zstd(_) | PayloadKind::Blosc2(_) => self.stored_bytes.div_ceil(self.block_bytes()) as u64,
        }
    }

    /// Decoded bytes of a full block.
    fn block_bytes(&self) -> usize {
        match self.kind {
            PayloadKind::Zstd(_) => UNIT_BYTES,
            PayloadKind::Raw | PayloadKind::Blosc2(_) => STREAM_BYTES * self.width,
        }
    }

    /// Fills `out` with the stored bytes of `runs`, one after the other. All are whole elements,
    /// and none starts before the one before it ends.
    pub(crate) fn read(&mut self, mut runs: impl Iterator<Item = Run> + Clone, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        loop {
            let ahead = runs.clone();
            let Some(run) = runs.next() else { return Ok(()) };
            let mut start = run.start;
            while start < run.end {
                if matches!(self.kind, PayloadKind::Raw) {
                    let (here, tail) = split_mut(rest, run.len(), "place of a run")?;
                    here.copy_from_slice(self.payload.get(run.clone()).ok_or_else(|| self.beyond(run.end))?);
                    rest = tail;
                    break;
                }
                let first = start - start % self.block_bytes();
                let block = first..self.stored_bytes.min(first + self.block_bytes());
                let count = run.end.min(block.end).saturating_sub(start);
                if count == 0 {
                    return Err(self.beyond(run.end));
                }
                let (here, tail) = split_mut(rest, count, "place of a run")?;
                if self.loaded.is_none_or(|(loaded, _)| loaded != first) {
                    self.enter(start / UNIT_BYTES)?;
                    self.block(start, &block, ahead.clone(), here)?;
                }
                match self.loaded {
                    Some((loaded, Some(count))) if loaded == first => {
                        planes::of(&self.scratch.block, self.width, count).join((start - first) / self.width, here)?;
                    }
                    Some((loaded, None)) if loaded == first => {
                        let from = self.scratch.block.get(start - first..start - first + count);
                        here.copy_from_slice(from.ok_or_else(|| self.beyond(run.end))?);
                    }
                    // Then the bytes are in their place already.
                    None => {}
                    Some((loaded, _)) => return Err(Error::internal("block of a region", first, loaded)),
                }
                rest = tail;
                start += count;
            }
        }
    }

    /// The block that contains the stored byte `at`, decoded; of a raw payload all that is left. Blocks
    /// must be asked for in ascending order.
    pub(crate) fn whole_block<'t>(&mut self, at: usize, tile: &'t mut Vec<u8>) -> Result<(Range<usize>, &'t [u8])>
    where
        'p: 't,
    {
        if matches!(self.kind, PayloadKind::Raw) {
            return Ok((0..self.stored_bytes, self.payload));
        }
        let first = at - at % self.block_bytes();
        let block = first..self.stored_bytes.min(first + self.block_bytes());
        if block.is_empty() {
            return Err(self.beyond(at));
        }
        self.enter(first / UNIT_BYTES)?;
        let tile = grow(tile, block.len());
        self.block(first, &block, std::iter::empty(), tile)?;
        Ok((block, tile))
    }

    /// Either fills `out` with the bytes from `start` on, or loads the block that contains them, as
    /// far as `runs` need it.
    fn block(
        &mut self,
        start: usize,
        block: &Range<usize>,
        runs: impl Iterator<Item = Run>,
        out: &mut [u8],
    ) -> Result<()> {
        let (offset, unit_start) = (start % UNIT_BYTES, self.unit * UNIT_BYTES);
        let number = (block.start - unit_start) / self.block_bytes();
        match self.chunk.as_ref().map(Chunk::content) {
            Some(Content::Stored) => {
                let body = self.chunk.as_ref().and_then(|chunk| chunk.bytes().get(blosc2::HEADER_BYTES + offset..));
                let body = body.and_then(|body| body.get(..out.len())).ok_or_else(|| self.beyond(start))?;
                out.copy_from_slice(body);
                return Ok(());
            }
            Some(Content::Repeated(item)) => {
                let item = part(item, 0..self.width, "bytes of a repeated item")?;
                for to in out.chunks_mut(self.width) {
                    to.copy_from_slice(part(item, 0..to.len(), "bytes of a repeated item")?);
                }
                self.runs += out.len() as u64;
                return self.limits.check_runs(self.runs, self.payload.len() as u64);
            }
            Some(Content::Blocks { streams, .. }) => {
                // A block has as many streams as an element has bytes; a short last one has one
                // (spec §5.3).
                let streams = streams.iter().skip(number * self.width).take(self.width);
                for stream in streams {
                    match stream.kind {
                        StreamKind::Coded => self.coded += stream.out_bytes as u64,
                        StreamKind::Run(_) => self.runs += stream.out_bytes as u64,
                        StreamKind::Stored => {}
                    }
                }
            }
            None => self.coded += block.len() as u64,
        }
        check_coded(self.stored_bytes as u64, self.coded, self.payload.len() as u64, self.limits)?;
        self.limits.check_runs(self.runs, self.payload.len() as u64)?;
        // A block that is needed completely is decoded directly to its destination.
        let whole = out.len() == block.len();
        self.loaded = None;
        let mut in_planes = None;
        match (&mut self.kind, &self.chunk) {
            (PayloadKind::Blosc2(decoder), Some(chunk)) => {
                let (needed, end) = need(block, runs);
                let few = !whole && needed <= block.len() / 2;
                let streams = planes::streams(chunk, number, self.width).filter(|_| few);
                match streams.filter(|streams| planes::can_stop(chunk, streams, self.width)) {
                    Some(streams) => {
                        let count = (end - block.start) / self.width;
                        in_planes = Some(count);
                        planes::decode_first(chunk, streams, count, &mut self.scratch.block)
                    }
                    None => {
                        let to = if whole { out } else { grow(&mut self.scratch.block, block.len()) };
                        decoder.decode_block(chunk, item_bytes(self.width)?, number, to)
                    }
                }
            }
            (PayloadKind::Zstd(decoder), _) => {
                let to = if whole { out } else { grow(&mut self.scratch.block, block.len()) };
                let bytes = rest(self.payload, self.at, "payload after its units")?;
                decoder.decode_unit(bytes, to).map(|_| ())
            }
            (PayloadKind::Blosc2(_), None) | (PayloadKind::Raw, _) => {
                return Err(Error::internal("block of a region", "within a unit that was entered", number));
            }
        }
        .map_err(|e| e.at(self.at as u64))?;
        self.decoded += 1;
        if !whole {
            self.loaded = Some((block.start, in_planes));
        }
        Ok(())
    }

    /// Moves on to a unit and, if it is a chunk, into it.
    fn enter(&mut self, unit: usize) -> Result<()> {
        self.walk_to(unit)?;
        if matches!(self.kind, PayloadKind::Blosc2(_)) && self.chunk.is_none() {
            let item_bytes = item_bytes(self.width)?;
            let length =
                self.stored_bytes.checked_sub(unit * UNIT_BYTES).ok_or_else(|| self.beyond(unit * UNIT_BYTES))?;
            let length = UNIT_BYTES.min(length);
            let bytes = rest(self.payload, self.at, "payload after its units")?;
            let chunk = Chunk::parse_reusing(bytes, item_bytes, length, &mut self.scratch.streams);
            self.chunk = Some(chunk.map_err(|e| e.at(self.at as u64))?);
        }
        Ok(())
    }

    /// Skips all units before this one.
    fn walk_to(&mut self, unit: usize) -> Result<()> {
        while self.unit < unit {
            let bytes = rest(self.payload, self.at, "payload after its units")?;
            let length = match (&self.kind, self.chunk.take()) {
                (PayloadKind::Raw, _) => UNIT_BYTES.min(bytes.len()),
                (PayloadKind::Zstd(_), _) => ZstdDecoder::length(bytes).map_err(|e| e.at(self.at as u64))?,
                (PayloadKind::Blosc2(_), Some(chunk)) => {
                    let length = chunk.bytes().len();
                    if let Some(streams) = chunk.into_streams() {
                        self.scratch.streams = streams;
                    }
                    length
                }
                (PayloadKind::Blosc2(_), None) => Chunk::length(bytes).map_err(|e| e.at(self.at as u64))?,
            };
            self.at += length;
            self.unit += 1;
        }
        Ok(())
    }

    /// Walks to the end, which must be the end of the payload, and returns how many blocks were
    /// decoded.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.walk_to(self.stored_bytes.div_ceil(UNIT_BYTES))?;
        if !matches!(self.kind, PayloadKind::Raw) {
            end_of(self.payload, self.at)?;
        }
        Ok(self.decoded)
    }

    /// A plan never asks for such bytes.
    fn beyond(&self, end: usize) -> Error {
        Error::internal("stored bytes", format!("at most {}", self.stored_bytes), end)
    }
}

/// How many bytes of `block` the first of `runs` need, up to the first run beyond it; and where the
/// last of them ends.
fn need(block: &Range<usize>, runs: impl Iterator<Item = Run>) -> (usize, usize) {
    let here = runs.take_while(|run| run.start < block.end);
    here.fold((0, block.start), |(needed, _), run| {
        let end = run.end.min(block.end);
        (needed + end.saturating_sub(run.start.max(block.start)), end)
    })
}
