//! Decodes the blocks of a payload one by one or all together. The coder's output becomes values
//! before the next block comes, so that no step needs a separate pass over memory. Byte planes are
//! passed on unchanged ([`planes`]): the receiver puts elements together while it moves them to
//! their places.

use crate::blosc2::planes::{self, Planes};
use crate::blosc2::{self, Chunk, Content, HEADER_BYTES, STREAM_BYTES, walk_chunks};
use crate::bytes::{UNIT_BYTES, ZstdDecoder, check_expansion, end_of};
use shardpack_base::parts::{grow, item_bytes, part, rest, split_mut};
use shardpack_format::{Error, Limits, Result};
use std::ops::Range;

/// Stored elements as the coder leaves them.
#[derive(Clone, Copy)]
pub(crate) enum Block<'a> {
    /// The first bytes of all elements, the second ones, …
    Planes(Planes<'a>),
    /// The elements themselves.
    Bytes(&'a [u8]),
    /// One element, the first bytes of this, repeated.
    Repeated([u8; 8]),
}

impl<'a> Block<'a> {
    /// Fills `out` with elements of `width` bytes, starting with number `first` of the block.
    pub(crate) fn read(&self, first: usize, width: usize, out: &mut [u8]) -> Result<()> {
        match self {
            Self::Planes(planes) => planes.join(first, out)?,
            Self::Bytes(bytes) => {
                out.copy_from_slice(part(bytes, first * width..first * width + out.len(), "bytes of a block")?);
            }
            Self::Repeated(item) => {
                let item = part(item, 0..width, "bytes of a repeated item")?;
                out.chunks_exact_mut(width).for_each(|to| to.copy_from_slice(item));
            }
        }
        Ok(())
    }

    /// Low and high bytes of `count` elements from number `first` on, if they are available.
    pub(crate) fn pair(&self, first: usize, count: usize) -> Option<[&'a [u8]; 2]> {
        match self {
            Self::Planes(planes) => planes.pair(first, count),
            Self::Bytes(_) | Self::Repeated(_) => None,
        }
    }
}

/// Passes on blocks of stored bytes, in order.
pub(crate) enum Blocks<'p, 's> {
    Raw { payload: &'p [u8] },
    Blosc2 { decoder: &'s mut blosc2::Decoder, chunks: Vec<Chunk<'p>>, item_bytes: u8, payload: &'p [u8] },
    Zstd { decoder: &'s mut ZstdDecoder, payload: &'p [u8] },
}

impl<'p, 's> Blocks<'p, 's> {
    /// Walks all chunks of a payload of `stored_bytes`, one for each unit, before the first is
    /// decoded.
    pub(crate) fn of_chunks(
        decoder: &'s mut blosc2::Decoder,
        payload: &'p [u8],
        width: usize,
        stored_bytes: usize,
        limits: &Limits,
    ) -> Result<Self> {
        let item_bytes = item_bytes(width)?;
        let chunks = walk_chunks(payload, width, stored_bytes, limits)?;
        Ok(Self::Blosc2 { decoder, chunks, item_bytes, payload })
    }

    /// The frames of a payload of `stored_bytes`, one for each unit.
    pub(crate) fn of_frames(
        decoder: &'s mut ZstdDecoder,
        payload: &'p [u8],
        stored_bytes: usize,
        limits: &Limits,
    ) -> Result<Self> {
        check_expansion(stored_bytes as u64, stored_bytes as u64, payload.len() as u64, limits)?;
        Ok(Self::Zstd { decoder, payload })
    }

    /// Decodes everything, directly into `out`.
    pub(crate) fn into_whole(self, out: &mut [u8], limits: &Limits) -> Result<()> {
        match self {
            Self::Raw { payload } => Block::Bytes(payload).read(0, 1, out),
            Self::Zstd { decoder, payload } => decoder.decode(payload, out, limits),
            Self::Blosc2 { decoder, chunks, item_bytes, payload } => {
                for (chunk, unit) in chunks.iter().zip(out.chunks_mut(UNIT_BYTES)) {
                    decoder.decode(chunk, item_bytes, unit).map_err(|e| e.at(offset_in(payload, chunk)))?;
                }
                Ok(())
            }
        }
    }

    /// Decodes block by block: `each` gets the block and the number of its decoded bytes. Anything
    /// that must be decoded as a whole goes through `window`.
    pub(crate) fn for_each(
        self,
        stored_bytes: usize,
        window: &mut Vec<u8>,
        mut each: impl FnMut(&Block<'_>, usize) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(stored_bytes, window, |_| true, |block, bytes| each(block, bytes.len()))
    }

    /// The same of the blocks whose decoded bytes are `wanted`.
    pub(crate) fn for_each_of(
        self,
        stored_bytes: usize,
        window: &mut Vec<u8>,
        wanted: impl Fn(Range<usize>) -> bool,
        mut each: impl FnMut(&Block<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Raw { payload } => each(&Block::Bytes(payload), 0..payload.len()),
            Self::Zstd { decoder, payload } => {
                let mut pos = 0;
                for start in (0..stored_bytes).step_by(UNIT_BYTES) {
                    let bytes = start..(start + UNIT_BYTES).min(stored_bytes);
                    let to = grow(window, bytes.len());
                    let frame = rest(payload, pos, "payload after its frames")?;
                    pos += decoder.decode_unit(frame, to).map_err(|e| e.at(pos as u64))?;
                    each(&Block::Bytes(to), bytes)?;
                }
                end_of(payload, pos)
            }
            Self::Blosc2 { decoder, chunks, item_bytes, payload } => {
                for (chunk, start) in chunks.iter().zip((0..stored_bytes).step_by(UNIT_BYTES)) {
                    let unit = start..(start + UNIT_BYTES).min(stored_bytes);
                    if let Some(block) = undecoded(chunk)? {
                        each(&block, unit)?;
                        continue;
                    }
                    let at = |e: Error| e.at(offset_in(payload, chunk));
                    let block_bytes = STREAM_BYTES * usize::from(item_bytes);
                    for (number, start) in unit.clone().step_by(block_bytes).enumerate() {
                        let bytes = start..(start + block_bytes).min(unit.end);
                        if !wanted(bytes.clone()) {
                            continue;
                        }
                        if let Some(planes) = decoder.planes(chunk, item_bytes, number).map_err(at)? {
                            each(&Block::Planes(planes), bytes)?;
                        } else {
                            let to = grow(window, bytes.len());
                            decoder.decode_block(chunk, item_bytes, number, to).map_err(at)?;
                            each(&Block::Bytes(to), bytes)?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Decodes everything at once; what is not in the payload itself goes to `scratch`. All blocks
    /// except the last have the stated number of elements.
    pub(crate) fn into_all<'a>(
        self,
        stored_bytes: usize,
        width: usize,
        scratch: &'a mut Vec<u8>,
        limits: &Limits,
    ) -> Result<(Vec<Block<'a>>, usize)>
    where
        'p: 'a,
    {
        match self {
            Self::Raw { payload } => Ok((vec![Block::Bytes(payload)], stored_bytes / width)),
            Self::Zstd { decoder, payload } => {
                let scratch = grow(scratch, stored_bytes);
                decoder.decode(payload, scratch, limits)?;
                Ok((vec![Block::Bytes(scratch)], stored_bytes / width))
            }
            Self::Blosc2 { decoder, chunks, item_bytes, payload } => {
                let block_bytes = STREAM_BYTES * width;
                let units = (0..stored_bytes).step_by(UNIT_BYTES).map(|start| UNIT_BYTES.min(stored_bytes - start));
                let needed = chunks.iter().zip(units.clone()).map(|(chunk, unit)| match chunk.content() {
                    Content::Blocks { streams, .. } if planes::streams(chunk, 0, width).is_some() => {
                        planes::scratch_bytes(chunk, streams)
                    }
                    Content::Blocks { .. } => unit,
                    Content::Stored | Content::Repeated(_) => 0,
                });
                let mut scratch = grow(scratch, needed.sum());
                let mut blocks = Vec::with_capacity(stored_bytes.div_ceil(block_bytes));
                for (chunk, unit) in chunks.into_iter().zip(units) {
                    let at = |e: Error| e.at(offset_in(payload, &chunk));
                    for (number, start) in (0..unit).step_by(block_bytes).enumerate() {
                        let bytes = block_bytes.min(unit - start);
                        let block = match undecoded(&chunk)? {
                            Some(Block::Bytes(unit)) => {
                                Block::Bytes(part(unit, start..start + bytes, "bytes of a stored unit")?)
                            }
                            Some(block) => block,
                            None => match decoder.planes_in(&chunk, item_bytes, number, &mut scratch).map_err(at)? {
                                Some(planes) => Block::Planes(planes),
                                None => {
                                    let (to, rest) = split_mut(scratch, bytes, "scratch of blosc2 blocks")?;
                                    scratch = rest;
                                    decoder.decode_block(&chunk, item_bytes, number, to).map_err(at)?;
                                    Block::Bytes(to)
                                }
                            },
                        };
                        blocks.push(block);
                    }
                }
                Ok((blocks, STREAM_BYTES))
            }
        }
    }
}

/// The whole unit of a chunk that is not coded.
fn undecoded<'a>(chunk: &Chunk<'a>) -> Result<Option<Block<'a>>> {
    Ok(match chunk.content() {
        Content::Blocks { .. } => None,
        Content::Stored => Some(Block::Bytes(rest(chunk.bytes(), HEADER_BYTES, "body of a blosc2 chunk")?)),
        Content::Repeated(item) => Some(Block::Repeated(*item)),
    })
}

fn offset_in(payload: &[u8], chunk: &Chunk<'_>) -> u64 {
    (chunk.bytes().as_ptr().addr() - payload.as_ptr().addr()) as u64
}
