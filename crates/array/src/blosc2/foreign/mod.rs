//! Blosc2 chunks written by other programs. They may have any block size, may be split or not, and may use any coder
//! and filter that is built into c-blosc2. These chunks occur in cube files, but never in the payload of a record.

mod blosclz;
mod coder;
mod filters;
#[cfg(test)]
mod tests;
mod unsupported;

use super::chunk::{FLAG_COPIED, FLAG_NOT_SPLIT, FLAGS_EXTENDED, HEADER_BYTES, header_of};
use coder::{ForeignCoder, ForeignCoders};
use filters::ForeignFilters;
use shardpack_base::parts::{part, part_mut, rest};
use shardpack_format::{Error, Result, to_usize};
use unsupported::unsupported;

/// Chunk versions with an extended header. A chunk of version 6 whose blocks have different lengths is rejected.
const VERSIONS: std::ops::RangeInclusive<u8> = 5..=6;

/// A chunk written by any program. Its lengths have been checked.
///
/// ```
/// use shardpack_array::blosc2::{ForeignChunk, ForeignDecoder};
/// // A special chunk of four zero bytes.
/// let mut bytes = [0_u8; 32];
/// bytes[..4].copy_from_slice(&[5, 1, 0x25, 1]);
/// bytes[4] = 4; // decoded bytes
/// bytes[8] = 4; // block size
/// bytes[12] = 32; // stored bytes
/// bytes[31] = 1 << 4;
/// let chunk = ForeignChunk::parse(&bytes, 4)?;
/// let mut unit = [1; 4];
/// ForeignDecoder::default().decode_block(&chunk, 0, &mut unit)?;
/// assert_eq!((chunk.blocks(), unit), (1, [0; 4]));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ForeignChunk<'a> {
    bytes: &'a [u8],
    content: ForeignContent<'a>,
}

#[derive(Debug, Clone)]
enum ForeignContent<'a> {
    Blocks { coder: ForeignCoder, filters: ForeignFilters, block_bytes: usize, is_split: bool, blocks: usize },
    Stored(&'a [u8]),
    Repeated(&'a [u8]),
}

impl<'a> ForeignChunk<'a> {
    /// Number of header bytes that [`stored_bytes`](Self::stored_bytes) needs.
    pub const HEAD_BYTES: usize = HEADER_BYTES;

    /// Returns the length of the chunk that begins with `head` and decodes to `unit_bytes`.
    ///
    /// # Errors
    /// `Format` if `head` is too short, or if the length is impossible for a unit of `unit_bytes`.
    pub fn stored_bytes(head: &[u8], unit_bytes: usize) -> Result<usize> {
        let &[_, _, _, _, _, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = header_of(head)?;
        let stored = u32::from_le_bytes([c0, c1, c2, c3]);
        // Writers store the unit itself if its coded form would be larger.
        let most = unit_bytes.saturating_add(HEADER_BYTES);
        usize::try_from(stored)
            .ok()
            .filter(|stored| (HEADER_BYTES..=most).contains(stored))
            .ok_or_else(|| Error::format("blosc2 chunk size", format!("{HEADER_BYTES} to {most}"), stored).at(12))
    }

    /// Parses the chunk at the start of `bytes`. The chunk must decode to `unit_bytes`. More bytes may follow it.
    ///
    /// # Errors
    /// `Format`, with the offset within `bytes`, if the chunk is damaged. `Usage` if it is valid but needs a
    /// coder or a filter that is not built in.
    pub fn parse(bytes: &'a [u8], unit_bytes: usize) -> Result<Self> {
        let stored = Self::stored_bytes(bytes, unit_bytes)?;
        let &[version, _, flags, item_bytes, sizes @ .., flags_more, flags2] = header_of(bytes)?;
        let [n0, n1, n2, n3, b0, b1, b2, b3, _, _, _, _, pipeline @ ..] = sizes;
        let [f0, f1, f2, f3, f4, f5, user_coder, _, metas @ ..] = pipeline;
        if !VERSIONS.contains(&version) {
            return Err(Error::format("blosc2 version", "5 or 6", version).at(0));
        }
        if flags & FLAGS_EXTENDED != FLAGS_EXTENDED {
            return Err(unsupported("a chunk with the short header of Blosc1"));
        }
        let decoded = u32::from_le_bytes([n0, n1, n2, n3]);
        if u64::from(decoded) != unit_bytes as u64 || item_bytes == 0 || unit_bytes == 0 {
            let expected = format!("{unit_bytes} bytes, in items of at least 1 byte");
            return Err(Error::format(
                "blosc2 decoded size",
                expected,
                format!("{decoded} bytes, in items of {item_bytes} bytes"),
            )
            .at(4));
        }
        if flags_more != 0 {
            return Err(unsupported("a chunk with blocks of different lengths"));
        }
        if flags2 & 0x8F != 0 {
            let found = "a chunk with a dictionary (`use_dict`), big-endian data or instrumentation";
            return Err(unsupported(found));
        }
        let chunk = part(bytes, 0..stored.min(bytes.len()), "blosc2 chunk")?;
        if chunk.len() != stored {
            return Err(Error::malformed(format!(
                "the blosc2 chunk is truncated: it needs {stored} bytes, but only {} remain",
                chunk.len()
            ))
            .at(12));
        }
        let body = rest(chunk, HEADER_BYTES, "blosc2 chunk body")?;
        let content = match (flags2 >> 4, flags & FLAG_COPIED != 0) {
            (0, true) if body.len() == unit_bytes => ForeignContent::Stored(body),
            (0, true) => return Err(Error::format("stored bytes in a blosc2 chunk", unit_bytes, body.len()).at(12)),
            (0, false) => {
                let block = u32::from_le_bytes([b0, b1, b2, b3]);
                let block_bytes = to_usize(u64::from(block)).min(unit_bytes);
                if block_bytes == 0 {
                    return Err(Error::format("blosc2 block size", "at least 1", block).at(8));
                }
                let blocks = unit_bytes.div_ceil(block_bytes);
                if blocks > body.len() / 4 {
                    return Err(Error::format(
                        "number of blosc2 blocks",
                        format!("at most {}", body.len() / 4),
                        blocks,
                    )
                    .at(8));
                }
                ForeignContent::Blocks {
                    coder: ForeignCoder::of(flags >> 5, user_coder)?,
                    filters: ForeignFilters::of([f0, f1, f2, f3, f4, f5], metas, item_bytes)?,
                    block_bytes,
                    is_split: flags & FLAG_NOT_SPLIT == 0,
                    blocks,
                }
            }
            (special, _) => ForeignContent::Repeated(repeated(special, body, item_bytes, unit_bytes)?),
        };
        Ok(Self { bytes: chunk, content })
    }

    /// Returns the number of blocks.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        match self.content {
            ForeignContent::Blocks { blocks, .. } => blocks,
            ForeignContent::Stored(_) | ForeignContent::Repeated(_) => 1,
        }
    }
}

/// Fills `unit` with a special value, for a chunk that stores no data.
///
/// # Errors
/// `Format` if `special` is not a special value, or if items of `item_bytes` bytes cannot have this value.
pub fn fill_special(special: u8, item_bytes: u8, unit: &mut [u8]) -> Result<()> {
    fill(repeated(special, &[], item_bytes, unit.len())?, unit)
}

/// Decodes chunks that other programs wrote. The decoder reuses its contexts and its scratch memory (two blocks) from
/// call to call.
#[derive(Default)]
pub struct ForeignDecoder {
    coders: ForeignCoders,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl std::fmt::Debug for ForeignDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignDecoder").finish_non_exhaustive()
    }
}

impl ForeignDecoder {
    /// Decodes block `number` to its place in `unit`, which is as long as the decoded chunk. The first block must be
    /// decoded before all others, because the delta filter combines them with it by XOR.
    ///
    /// # Errors
    /// `Format` if the block is damaged.
    pub fn decode_block(&mut self, chunk: &ForeignChunk<'_>, number: usize, unit: &mut [u8]) -> Result<()> {
        let (coder, filters, block_bytes, is_split, blocks) = match &chunk.content {
            ForeignContent::Stored(body) if body.len() == unit.len() => {
                unit.copy_from_slice(body);
                return Ok(());
            }
            ForeignContent::Stored(body) => return Err(Error::internal("blosc2 unit", body.len(), unit.len())),
            ForeignContent::Repeated(item) => return fill(item, unit),
            ForeignContent::Blocks { coder, filters, block_bytes, is_split, blocks } => {
                (*coder, filters, *block_bytes, *is_split, *blocks)
            }
        };
        let first = number * block_bytes;
        let length = block_bytes.min(unit.len().saturating_sub(first));
        // A short last block has a single stream.
        let streams = if is_split && length == block_bytes { usize::from(filters.item_bytes) } else { 1 };
        let start = start_of(chunk.bytes, number, blocks)?;
        self.from.resize(length, 0);
        self.to.resize(length, 0);
        self.coders.decode(coder, chunk.bytes, start, streams, &mut self.from).map_err(|e| e.at(start as u64))?;
        let (before, rest) = unit.split_at_mut(first.min(unit.len()));
        let reference = part(before, 0..block_bytes.min(before.len()), "first block of a blosc2 chunk")?;
        filters.undo(reference, &mut self.from, &mut self.to)?;
        part_mut(rest, 0..length, "block of a blosc2 chunk")?.copy_from_slice(&self.from);
        Ok(())
    }
}

/// Returns the offset of a block within its chunk.
fn start_of(chunk: &[u8], number: usize, blocks: usize) -> Result<usize> {
    let at = HEADER_BYTES + 4 * number;
    let start = part(chunk, at..at + 4, "table of the blosc2 blocks")?;
    let start = start.first_chunk().map_or(0, |start| u32::from_le_bytes(*start));
    usize::try_from(start).ok().filter(|&start| start >= HEADER_BYTES + 4 * blocks && start < chunk.len()).ok_or_else(
        || {
            let expected = format!("{}..{}", HEADER_BYTES + 4 * blocks, chunk.len());
            Error::format("offset of a blosc2 block", expected, start).at(at as u64)
        },
    )
}

/// Returns the item that is repeated in a chunk with the given special value.
fn repeated(special: u8, body: &[u8], item_bytes: u8, unit_bytes: usize) -> Result<&[u8]> {
    let item: &[u8] = match (special, item_bytes) {
        // c-blosc2 does not define uninitialised values. This decoder returns zeros.
        (1 | 4, _) => &[0],
        (2, 4) => &[0, 0, 0xC0, 0x7F],
        (2, 8) => &[0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
        (3, _) => body,
        _ => {
            let expected = "1 (zeros), 2 (NaN, only for items of 4 or 8 bytes), 3 (one value) or 4 (never set)";
            return Err(Error::format("kind of a blosc2 special chunk", expected, special).at(31));
        }
    };
    if item.is_empty() || !unit_bytes.is_multiple_of(item.len()) {
        let size = item.len();
        let text = format!("the blosc2 chunk is damaged: a value of {size} bytes cannot fill its {unit_bytes} bytes");
        return Err(Error::malformed(text).at(12));
    }
    Ok(item)
}

fn fill(item: &[u8], unit: &mut [u8]) -> Result<()> {
    match item {
        [byte] => unit.fill(*byte),
        _ => {
            for to in unit.chunks_exact_mut(item.len().max(1)) {
                to.copy_from_slice(item);
            }
        }
    }
    Ok(())
}
