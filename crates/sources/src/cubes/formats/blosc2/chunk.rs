//! Reads the chunks of a frame, and adds the file name to the decoder's errors.

use crate::cubes::error::{CubeError, Result};
use crate::cubes::source::CubeFile;
use shardpack_array::blosc2::ForeignChunk;
use shardpack_format::Error;

/// Reads a chunk between `start` and `end` that decodes to `unit` bytes.
pub(super) fn chunk_at(source: &CubeFile, what: &str, start: u64, end: u64, unit: usize) -> Result<Vec<u8>> {
    let bad = |error| of_blosc2(source, what, start, error);
    let room = end.saturating_sub(start);
    let head = source.read_at("Blosc2 chunk", start, room.min(ForeignChunk::HEAD_BYTES as u64))?;
    let stored = ForeignChunk::stored_bytes(&head, unit).map_err(bad)? as u64;
    if stored > room {
        return Err(source.damaged(format_args!(
            "{what} at offset {start} should take {stored} bytes, but only {room} bytes remain"
        )));
    }
    source.read_at("Blosc2 chunk", start, stored)
}

/// Adds the file name to an error of the decoder. `start` is the offset of the chunk.
pub(super) fn of_blosc2(source: &CubeFile, part: &str, start: u64, error: Error) -> CubeError {
    match error {
        Error::Format { what, expected, found, place, .. } => {
            let at = start.saturating_add(place.offset.unwrap_or_default());
            let text = shardpack_format::sentence(&what, &expected, &found);
            source.damaged(format_args!("{part}, offset {at}: {text}"))
        }
        other => {
            let hint = other.hint();
            let error = source.unsupported(format_args!("{part}: {other}"));
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        }
    }
}
