//! Iterates over the chunks of a payload and their streams, either parsed from the payload or read from kept tables.

use super::kept::{Chunk, Content, KeptArray, Streams};
use shardpack_array::Units;
use shardpack_array::blosc2::ChunkContent;
use shardpack_format::bug;

pub(super) enum PayloadSource<'a> {
    Walked(Units<'a>, &'a [u8]),
    /// A payload with kept tables. Its bytes are on the host or on the device.
    Kept(KeptArray<'a>, KeptPayload<'a>),
}

/// Where the bytes of a payload with kept tables are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeptPayload<'a> {
    Host(&'a [u8]),
    /// The payload is on the device. Offsets in the tables are relative to this offset in the kept values.
    Device(u64),
}

impl PayloadSource<'_> {
    /// Returns the chunks of the payload, one per unit. In plain zstd, the chunks are frames. Returns `None` if the
    /// payload has no chunks.
    pub(super) fn chunks(&self) -> Option<Box<dyn Iterator<Item = Chunk<'_>> + '_>> {
        match self {
            Self::Walked(Units::Blosc2(chunks), _) => Some(Box::new(chunks.iter().map(|chunk| {
                let content = match chunk.content() {
                    ChunkContent::Stored => Content::Stored,
                    ChunkContent::Repeated(item) => Content::Repeated(*item),
                    &ChunkContent::Blocks { coder, filters, block_bytes, ref streams } => {
                        Content::Blocks { coder, filters, block_bytes, streams: Streams::Walked(streams) }
                    }
                };
                Chunk { bytes: chunk.bytes().len(), content }
            }))),
            Self::Walked(Units::Zstd(frames), _) => {
                Some(Box::new(frames.iter().map(|frame| Chunk { bytes: frame.len(), content: Content::Frame })))
            }
            Self::Walked(Units::Raw(_), _) => None,
            Self::Kept(kept, _) => Some(Box::new(
                kept.chunks()?
                    .map(|chunk| chunk.unwrap_or_else(|| bug("the decoding tables of an array were overwritten"))),
            )),
        }
    }

    /// Returns the bytes of the payload if they are on the host, and an empty slice if they are on the device.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Walked(_, bytes) => bytes,
            Self::Kept(_, KeptPayload::Host(bytes)) => bytes,
            Self::Kept(_, KeptPayload::Device(_)) => &[],
        }
    }
}
