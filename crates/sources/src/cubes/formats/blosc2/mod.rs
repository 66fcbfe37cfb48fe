//! Reads Blosc2 files with one array (`.b2nd`). The array is in a contiguous frame with the metalayer `b2nd`.

mod chunk;
mod fields;
mod frame;
mod grid;

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;
use chunk::{chunk_at, of_blosc2};
use frame::{ChunkPlace, ContiguousFrame};
use shardpack_array::blosc2::{ForeignChunk, ForeignDecoder, fill_special};

pub(super) struct Blosc2;

impl CubeFormat for Blosc2 {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(frame::is_frame(head))
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        frame::is_frame(head)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        CubeHeader::new(&ContiguousFrame::read(source, want)?.layout, source, want.max_bytes())
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let frame = ContiguousFrame::read(source, want)?;
        let layout = &frame.layout;
        let mut stored = source.zeros("Blosc2 array", layout.bytes(source, want.max_bytes())?)?;
        let mut unit = source.zeros("Blosc2 chunk", frame.grid.chunk_bytes())?;
        let mut decoder = ForeignDecoder::default();
        for (number, offset) in (0..).zip(frame.offsets(source)?.as_chunks().0) {
            read_chunk(source, number, frame.place(*offset), &mut decoder, &mut unit)?;
            frame.grid.scatter(number, &unit, &mut stored).ok_or_else(|| {
                source.damaged(format_args!("Blosc2 chunk {number} is outside the array of shape {:?}", layout.shape))
            })?;
        }
        LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)
    }
}

/// Decodes chunk `number` into `unit`.
fn read_chunk(
    source: &CubeFile,
    number: u64,
    place: ChunkPlace,
    decoder: &mut ForeignDecoder,
    unit: &mut [u8],
) -> Result<()> {
    source.check_cancel()?;
    let chunk_number = format!("Blosc2 chunk {number}");
    let (start, end) = match place {
        ChunkPlace::Special { kind, item_bytes } => {
            return fill_special(kind, item_bytes, unit).map_err(|error| of_blosc2(source, &chunk_number, 0, error));
        }
        ChunkPlace::Stored { start, end } => (start, end),
    };
    let bytes = chunk_at(source, &chunk_number, start, end, unit.len())?;
    let bad = |error| of_blosc2(source, &chunk_number, start, error);
    let chunk = ForeignChunk::parse(&bytes, unit.len()).map_err(bad)?;
    for block in 0..chunk.blocks() {
        source.check_cancel()?;
        decoder.decode_block(&chunk, block, unit).map_err(bad)?;
    }
    Ok(())
}
