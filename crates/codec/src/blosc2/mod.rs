//! Standard Blosc2 chunks (spec §5.3), written so that a GPU can decode their streams one by one and any Blosc2 reader the whole.

mod chunk;
mod ffi;
mod join;
pub(crate) mod planes;
#[cfg(test)]
mod tests;

pub use chunk::{Chunk, Content, Filters, HEADER_BYTES, STREAM_BYTES, Shuffle, Stream, StreamCoder, StreamKind};

use crate::bytes::ZstdDecoder;
use crate::decoder::grow;
use crate::settings::Filter;
use planes::Planes;
use shardpack_format::{Error, Result};

/// Compressor inside a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blosc2Coder {
    Lz4,
    Lz4hc,
    Zstd,
}

/// The zstd levels that c-blosc2 can reach: its own levels 1..=9 stand for these.
///
/// From `zstd_wrap_compress` of c-blosc2 2.21: `clevel < 9 ? 2·clevel − 1 : maximum`. (Its next line means to map 8 to 20 but compares the
/// value already mapped, so 8 is 15; a test compares the bytes.)
pub const ZSTD_LEVELS: [i32; 9] = [1, 3, 5, 7, 9, 11, 13, 15, 22];

/// Everything that a compression context is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Params {
    coder: Blosc2Coder,
    clevel: u8,
    typesize: u8,
    block_bytes: usize,
    filters: [u8; 6],
    filters_meta: [u8; 6],
}

/// Makes chunks; keeps its contexts for the next call.
pub(crate) struct Encoder {
    coder: Blosc2Coder,
    clevel: u8,
    filter: Filter,
    full: Option<(Params, ffi::Compressor)>,
    /// Units shorter than a block have a context of their own: one that meets such a unit keeps that unit's length as its block size.
    short: Option<(Params, ffi::Compressor)>,
}

impl Encoder {
    /// `level` is the coder's own: [`ZSTD_LEVELS`], 1..=9 of LZ4HC, none of LZ4.
    pub(crate) fn new(coder: Blosc2Coder, level: Option<i32>, filter: Filter) -> Result<Self> {
        let clevel = match coder {
            // c-blosc2 fixes LZ4's acceleration at 1 whatever its level, so this number changes nothing.
            Blosc2Coder::Lz4 => Some(5),
            Blosc2Coder::Lz4hc => level.and_then(|l| u8::try_from(l).ok()),
            Blosc2Coder::Zstd => (1..=9).zip(ZSTD_LEVELS).find(|&(_, real)| Some(real) == level).map(|(own, _)| own),
        };
        let clevel =
            clevel.ok_or_else(|| Error::usage("level inside blosc2", "one of the coder's", format!("{level:?}")))?;
        Ok(Self { coder, clevel, filter, full: None, short: None })
    }

    /// Appends the chunk that holds `unit`, whose length is a multiple of `item_bytes` and at most [`crate::UNIT_BYTES`].
    pub(crate) fn encode(&mut self, unit: &[u8], item_bytes: u8, out: &mut Vec<u8>) -> Result<()> {
        let full_block = STREAM_BYTES * usize::from(item_bytes);
        let (mut filters, mut filters_meta) = ([0; 6], [0; 6]);
        match (self.filter, item_bytes) {
            // Shuffling items of one byte changes nothing.
            (Filter::None, _) | (Filter::Shuffle, 1) => {}
            (Filter::Shuffle, _) => filters[5] = 1,
            (Filter::Bitshuffle, _) => filters[5] = 2,
            (Filter::Bytedelta, n) => {
                filters[4] = u8::from(n > 1);
                filters[5] = 35;
                filters_meta[5] = n;
            }
        }
        let (coder, clevel, block_bytes) = (self.coder, self.clevel, unit.len().min(full_block));
        let params = Params { coder, clevel, typesize: item_bytes, block_bytes, filters, filters_meta };
        let slot = if block_bytes == full_block { &mut self.full } else { &mut self.short };
        let context = match slot {
            Some((known, context)) if *known == params => context,
            _ => &mut slot.insert((params, ffi::Compressor::new(&params)?)).1,
        };
        context.compress(unit, out)
    }
}

/// Decodes chunks; keeps its contexts and its scratch, a block, for the next call.
///
/// Byte planes are decoded and put together here. c-blosc2 gets the rest: bit planes, byte deltas, and items whose streams are no planes.
#[derive(Default)]
pub(crate) struct Decoder {
    /// By item size: c-blosc2 sizes a context's scratch for the first item size that it meets.
    contexts: [Option<ffi::Decompressor>; 9],
    zstd: ZstdDecoder,
    planes: Vec<u8>,
}

impl Decoder {
    /// Decodes a chunk that was parsed for `out.len()` bytes of items of `item_bytes`.
    pub(crate) fn decode(&mut self, chunk: &Chunk<'_>, item_bytes: u8, out: &mut [u8]) -> Result<()> {
        match chunk.content() {
            Content::Stored => match chunk.bytes().get(HEADER_BYTES..) {
                Some(body) if body.len() == out.len() => out.copy_from_slice(body),
                _ => return Err(Error::format("blosc2 stored unit", out.len(), chunk.bytes().len())),
            },
            Content::Repeated(item) => {
                let item = item.get(..item_bytes.into()).unwrap_or_default();
                for to in out.chunks_mut(item.len().max(1)) {
                    to.copy_from_slice(item.get(..to.len()).unwrap_or_default());
                }
            }
            Content::Blocks { block_bytes, .. } if joins(chunk, item_bytes) => {
                for (number, out) in out.chunks_mut(*block_bytes).enumerate() {
                    self.decode_block(chunk, item_bytes, number, out)?;
                }
            }
            Content::Blocks { .. } => self.context(item_bytes)?.decompress(chunk, out)?,
        }
        Ok(())
    }

    /// Decodes block `number` of a parsed chunk of blocks; `out` is as long as the block.
    pub(crate) fn decode_block(
        &mut self,
        chunk: &Chunk<'_>,
        item_bytes: u8,
        number: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let item = usize::from(item_bytes);
        if joins(chunk, item_bytes)
            && let Some(planes) = self.planes(chunk, item_bytes, number)?
        {
            if planes.items() * item != out.len() {
                return Err(Error::format("blosc2 block", out.len(), planes.items() * item));
            }
            planes.join(0, out);
            return Ok(());
        }
        self.context(item_bytes)?.decompress_block(chunk, item_bytes, number * STREAM_BYTES, out)
    }

    /// Decodes block `number` of a parsed chunk to its byte planes; `None` if its streams are none.
    pub(crate) fn planes<'a>(
        &'a mut self,
        chunk: &Chunk<'a>,
        item_bytes: u8,
        number: usize,
    ) -> Result<Option<Planes<'a>>> {
        let item = usize::from(item_bytes);
        let Some(streams) = planes::streams(chunk, number, item) else { return Ok(None) };
        let scratch = grow(&mut self.planes, STREAM_BYTES * item);
        planes::decode(chunk, streams, item, &mut self.zstd, scratch).map(Some)
    }

    /// The same with scratch of the caller, of which it takes what it needs; so that many blocks can stay.
    pub(crate) fn planes_in<'a>(
        &mut self,
        chunk: &Chunk<'a>,
        item_bytes: u8,
        number: usize,
        scratch: &mut &'a mut [u8],
    ) -> Result<Option<Planes<'a>>> {
        let item = usize::from(item_bytes);
        let Some(streams) = planes::streams(chunk, number, item) else { return Ok(None) };
        let bytes = planes::scratch_bytes(streams);
        let (here, rest) = std::mem::take(scratch).split_at_mut_checked(bytes).unwrap_or_default();
        *scratch = rest;
        planes::decode(chunk, streams, item, &mut self.zstd, here).map(Some)
    }

    /// Room for any block of items of `item` bytes. Whoever wants to take memory once asks for it before the first block.
    pub(crate) fn room(&mut self, item: usize) -> &mut [u8] {
        grow(&mut self.planes, STREAM_BYTES * item)
    }

    fn context(&mut self, item_bytes: u8) -> Result<&mut ffi::Decompressor> {
        match self.contexts.get_mut(usize::from(item_bytes)) {
            Some(Some(context)) => Ok(context),
            Some(slot @ None) => Ok(slot.insert(ffi::Decompressor::new()?)),
            None => Err(Error::format("blosc2 item size", "1..=8", item_bytes)),
        }
    }
}

/// Whether items are put together here. A plane that already is all there is to items of one byte is better decoded to its place.
fn joins(chunk: &Chunk<'_>, item_bytes: u8) -> bool {
    matches!(item_bytes, 2 | 4 | 8) && planes::streams(chunk, 0, item_bytes.into()).is_some()
}
