//! Parses the chunks of a payload, one per unit.

use super::{Chunk, HEADER_BYTES};
use crate::bytes::{UNIT_BYTES, check_expansion, end_of};
use shardpack_base::parts::{item_bytes, rest};
use shardpack_format::{Limits, Result};

/// Parses all chunks of a payload, one per unit. The payload decodes to `stored_bytes`.
pub(crate) fn walk_chunks<'a>(
    payload: &'a [u8],
    width: usize,
    stored_bytes: usize,
    limits: &Limits,
) -> Result<Vec<Chunk<'a>>> {
    let item_bytes = item_bytes(width)?;
    // The capacity is limited by the length of the payload, so a forged descriptor cannot cause a huge allocation.
    let mut chunks = Vec::with_capacity(stored_bytes.div_ceil(UNIT_BYTES).min(payload.len() / HEADER_BYTES));
    let (mut pos, mut coded, mut left) = (0, 0, stored_bytes);
    while left > 0 {
        let unit = left.min(UNIT_BYTES);
        let bytes = rest(payload, pos, "payload after the last chunk")?;
        let chunk = Chunk::parse(bytes, item_bytes, unit).map_err(|e| e.at(pos as u64))?;
        coded += chunk.coded_out_bytes();
        pos += chunk.bytes().len();
        left -= unit;
        chunks.push(chunk);
    }
    end_of(payload, pos)?;
    check_expansion(stored_bytes as u64, coded, payload.len() as u64, limits)?;
    Ok(chunks)
}
