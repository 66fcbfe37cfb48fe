//! Decodes Blosc2 chunks into units (spec §5.3).

use super::planes::{self, Coders, Planes};
use super::{Chunk, ChunkContent, HEADER_BYTES, STREAM_BYTES, Shuffle};
use shardpack_base::parts::{grow, part, split_mut};
use shardpack_format::{Error, Result, bug};

/// Decodes chunks. The decoder reuses its contexts and its scratch memory (two blocks) from call to call.
#[derive(Default)]
pub(crate) struct Decoder {
    coders: Coders,
    planes: Vec<u8>,
}

impl Decoder {
    /// Decodes a chunk into `out`. The chunk must have been parsed with the same `item_bytes` and a unit of `out.len()`
    /// bytes.
    pub(crate) fn decode(&mut self, chunk: &Chunk<'_>, item_bytes: u8, out: &mut [u8]) -> Result<()> {
        match chunk.content() {
            ChunkContent::Stored => match chunk.bytes().get(HEADER_BYTES..) {
                Some(body) if body.len() == out.len() => out.copy_from_slice(body),
                _ => {
                    return Err(Error::malformed(format!(
                        "the blosc2 chunk is damaged: it stores {} bytes uncompressed, but must decode to {}",
                        chunk.bytes().len().saturating_sub(HEADER_BYTES),
                        out.len()
                    )));
                }
            },
            ChunkContent::Repeated(item) => {
                let size = usize::from(item_bytes);
                let item = part(item, 0..size, "bytes in a repeated item")?;
                for to in out.chunks_mut(size.max(1)) {
                    to.copy_from_slice(part(item, 0..to.len(), "bytes in a repeated item")?);
                }
            }
            ChunkContent::Blocks { block_bytes, .. } => {
                for (number, out) in out.chunks_mut(*block_bytes).enumerate() {
                    self.decode_block(chunk, item_bytes, number, out)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes block `number` of a parsed chunk into `out`, which must be as long as the block.
    pub(crate) fn decode_block(
        &mut self,
        chunk: &Chunk<'_>,
        item_bytes: u8,
        number: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let item = usize::from(item_bytes).max(1);
        if in_place(chunk, item) {
            let Some(streams) = planes::of_block(chunk, number, item) else { bug("a block is missing from its chunk") };
            self.coders.streams(chunk, streams, out)?;
            planes::undo_delta(chunk, out.len() / item, out)?;
            return Ok(());
        }
        match self.planes(chunk, item_bytes, number)? {
            Some(planes) if planes.items() * item == out.len() => planes.join(0, out),
            planes => {
                let found = planes.map_or(0, |planes| planes.items() * item);
                Err(Error::format("size of a blosc2 block in bytes", out.len(), found))
            }
        }
    }

    /// Decodes block `number` of a parsed chunk to its byte planes. Returns `None` if its streams are not byte planes.
    pub(crate) fn planes<'a>(
        &'a mut self,
        chunk: &Chunk<'a>,
        item_bytes: u8,
        number: usize,
    ) -> Result<Option<Planes<'a>>> {
        let item = usize::from(item_bytes);
        let Some(streams) = planes::streams(chunk, number, item) else { return Ok(None) };
        let scratch = grow(&mut self.planes, STREAM_BYTES * item);
        planes::decode(chunk, streams, item, &mut self.coders, scratch).map(Some)
    }

    /// Same as [`Decoder::planes`], but uses the caller's scratch memory, so that the caller can keep many blocks.
    pub(crate) fn planes_in<'a>(
        &mut self,
        chunk: &Chunk<'a>,
        item_bytes: u8,
        number: usize,
        scratch: &mut &'a mut [u8],
    ) -> Result<Option<Planes<'a>>> {
        let item = usize::from(item_bytes);
        let Some(streams) = planes::streams(chunk, number, item) else { return Ok(None) };
        let bytes = planes::scratch_bytes(chunk, streams);
        let (here, rest) = split_mut(std::mem::take(scratch), bytes, "scratch buffer for a blosc2 block")?;
        *scratch = rest;
        planes::decode(chunk, streams, item, &mut self.coders, here).map(Some)
    }

    /// Returns a buffer that is large enough for any block whose items have `item` bytes. Calling this before the first
    /// block ensures that the memory is allocated only once.
    pub(crate) fn room(&mut self, item: usize) -> &mut [u8] {
        grow(&mut self.planes, STREAM_BYTES * item)
    }
}

fn in_place(chunk: &Chunk<'_>, item: usize) -> bool {
    match chunk.content() {
        ChunkContent::Blocks { filters, .. } => {
            filters.shuffle == Shuffle::None || (item == 1 && filters.shuffle == Shuffle::Bytes)
        }
        ChunkContent::Stored | ChunkContent::Repeated(_) => false,
    }
}
