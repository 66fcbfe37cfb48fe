//! Payloads in the order of the shape, decoded block by block through a window that stays in the cache: what the coder made becomes values before the
//! next block comes, so that no step makes a pass of its own over memory.
//!
//! A cube of 61 MB with differences along its bands takes 24 ms of one core so, of which LZ4 and the shuffle take 19 (`examples/cube_rate.rs`).

use crate::blosc2::{self, Chunk, Content, HEADER_BYTES, STREAM_BYTES};
use crate::bytes::{UNIT_BYTES, ZstdDecoder, check_expansion, end_of};
use shardpack_format::{Error, Limits, Result};

/// What hands out blocks of stored bytes, in order.
pub(crate) enum Blocks<'p, 's> {
    Blosc2 { decoder: &'s mut blosc2::Decoder, chunks: Vec<Chunk<'p>>, item_bytes: u8, payload: &'p [u8] },
    Zstd { decoder: &'s mut ZstdDecoder, payload: &'p [u8] },
}

impl<'p, 's> Blocks<'p, 's> {
    /// Walks all chunks of a payload of `stored_bytes`, one for each unit, before the first is decoded.
    pub(crate) fn of_chunks(
        decoder: &'s mut blosc2::Decoder,
        payload: &'p [u8],
        width: usize,
        stored_bytes: usize,
        limits: &Limits,
    ) -> Result<Self> {
        let item_bytes = u8::try_from(width).unwrap_or(8);
        let mut chunks = Vec::with_capacity(stored_bytes.div_ceil(UNIT_BYTES));
        let (mut pos, mut coded, mut left) = (0, 0, stored_bytes);
        while left > 0 {
            let unit = left.min(UNIT_BYTES);
            let chunk =
                Chunk::parse(payload.get(pos..).unwrap_or_default(), item_bytes, unit).map_err(|e| e.at(pos as u64))?;
            coded += chunk.coded_out_bytes();
            pos += chunk.bytes().len();
            left -= unit;
            chunks.push(chunk);
        }
        end_of(payload, pos)?;
        check_expansion(stored_bytes as u64, coded, payload.len() as u64, limits)?;
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

    /// Decodes everything, straight into `out`.
    pub(crate) fn into_whole(self, out: &mut [u8], limits: &Limits) -> Result<()> {
        match self {
            Self::Zstd { decoder, payload } => decoder.decode(payload, out, limits),
            Self::Blosc2 { decoder, chunks, item_bytes, payload } => {
                for (chunk, unit) in chunks.iter().zip(out.chunks_mut(UNIT_BYTES)) {
                    decoder.decode(chunk, item_bytes, unit).map_err(|e| e.at(offset_in(payload, chunk)))?;
                }
                Ok(())
            }
        }
    }

    /// Decodes everything through `window`: `each` gets whole pixels of `pixel_bytes`, one or more at a time, and the number of the first.
    pub(crate) fn for_each_pixels(
        self,
        stored_bytes: usize,
        pixel_bytes: usize,
        window: &mut Vec<u8>,
        mut each: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        // Bytes of a pixel whose other bytes come with the next block, and the pixels before it.
        let (mut kept, mut done) = (0, 0);
        let mut take = |window: &mut Vec<u8>, bytes: usize, kept: &mut usize| {
            let pixels = (*kept + bytes) / pixel_bytes;
            let whole = pixels * pixel_bytes;
            if pixels > 0 {
                each(done, window.get(..whole).unwrap_or_default())?;
                window.copy_within(whole..*kept + bytes, 0);
            }
            done += pixels;
            *kept = *kept + bytes - whole;
            Ok(())
        };
        match self {
            Self::Zstd { decoder, payload } => {
                let (mut pos, mut left) = (0, stored_bytes);
                while left > 0 {
                    let unit = left.min(UNIT_BYTES);
                    let to = room(window, kept, unit);
                    pos += decoder
                        .decode_unit(payload.get(pos..).unwrap_or_default(), to)
                        .map_err(|e| e.at(pos as u64))?;
                    take(window, unit, &mut kept)?;
                    left -= unit;
                }
                end_of(payload, pos)
            }
            Self::Blosc2 { decoder, chunks, item_bytes, payload } => {
                let (width, mut left) = (usize::from(item_bytes), stored_bytes);
                for chunk in &chunks {
                    let unit = left.min(UNIT_BYTES);
                    for start in (0..unit).step_by(STREAM_BYTES * width) {
                        let bytes = (unit - start).min(STREAM_BYTES * width);
                        let to = room(window, kept, bytes);
                        match chunk.content() {
                            Content::Blocks { .. } => decoder.decode_block(chunk, item_bytes, start / width, to),
                            Content::Stored => {
                                let at = HEADER_BYTES + start;
                                let body = chunk.bytes().get(at..at + bytes);
                                body.map(|body| to.copy_from_slice(body))
                                    .ok_or_else(|| Error::format("blosc2 stored unit", unit, chunk.bytes().len()))
                            }
                            Content::Repeated(item) => {
                                let item = item.get(..width).unwrap_or_default();
                                to.chunks_exact_mut(width).for_each(|to| to.copy_from_slice(item));
                                Ok(())
                            }
                        }
                        .map_err(|e| e.at(offset_in(payload, chunk)))?;
                        take(window, bytes, &mut kept)?;
                    }
                    left -= unit;
                }
                Ok(())
            }
        }
    }
}

/// Room for `bytes` behind the `kept` bytes at the start.
fn room(window: &mut Vec<u8>, kept: usize, bytes: usize) -> &mut [u8] {
    if window.len() < kept + bytes {
        window.resize(kept + bytes, 0);
    }
    window.get_mut(kept..kept + bytes).unwrap_or_default()
}

fn offset_in(payload: &[u8], chunk: &Chunk<'_>) -> u64 {
    (chunk.bytes().as_ptr().addr() - payload.as_ptr().addr()) as u64
}
