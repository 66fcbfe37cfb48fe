//! Iterates over the chunks of a payload and their streams, either parsed from the payload or read from kept tables.

use super::kept::{KeptArray, KeptContent, KeptStream, stream};
use shardpack_array::Units;
use shardpack_array::blosc2::{ChunkContent, ChunkStream, Filters, StreamCoder};
use shardpack_format::{Result, bug};
use std::borrow::Cow;

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

/// A chunk: its length in bytes and its content.
pub(super) type Chunk<'a> = (usize, Holds<'a>);

/// Content of a chunk, like [`ChunkContent`].
pub(super) enum Holds<'a> {
    Stored,
    Repeated([u8; 8]),
    /// A single zstd frame that contains the whole unit.
    Frame,
    Blocks {
        coder: StreamCoder,
        filters: Filters,
        block_bytes: usize,
        streams: Streams<'a>,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Streams<'a> {
    Walked(&'a [ChunkStream]),
    Kept(&'a [KeptStream]),
}

impl PayloadSource<'_> {
    /// Returns the chunks of the payload, one per unit. In plain zstd, the chunks are frames. Returns `None` if the
    /// payload has no chunks.
    pub(super) fn chunks(&self) -> Option<Box<dyn Iterator<Item = Result<Chunk<'_>>> + '_>> {
        match self {
            Self::Walked(Units::Blosc2(chunks), _) => Some(Box::new(chunks.iter().map(|chunk| {
                let holds = match chunk.content() {
                    ChunkContent::Stored => Holds::Stored,
                    ChunkContent::Repeated(item) => Holds::Repeated(*item),
                    ChunkContent::Blocks { coder, filters, block_bytes, streams } => Holds::Blocks {
                        coder: *coder,
                        filters: *filters,
                        block_bytes: *block_bytes,
                        streams: Streams::Walked(streams),
                    },
                };
                Ok((chunk.bytes().len(), holds))
            }))),
            Self::Walked(Units::Zstd(frames), _) => {
                Some(Box::new(frames.iter().map(|frame| Ok((frame.len(), Holds::Frame)))))
            }
            Self::Walked(Units::Raw(_), _) => None,
            Self::Kept(kept, _) => Some(Box::new(kept.chunks()?.map(|chunk| {
                let chunk = chunk.unwrap_or_else(|| bug("the decoding tables of an array were overwritten"));
                let holds = match chunk.content {
                    KeptContent::Stored => Holds::Stored,
                    KeptContent::Repeated(item) => Holds::Repeated(item),
                    KeptContent::Blocks { coder, filters, block_bytes, streams } => {
                        Holds::Blocks { coder, filters, block_bytes, streams: Streams::Kept(streams) }
                    }
                };
                Ok((chunk.bytes, holds))
            }))),
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

impl<'a> Streams<'a> {
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Walked(streams) => streams.len(),
            Self::Kept(streams) => streams.len(),
        }
    }

    /// Splits off the first `count` streams, or all if there are fewer.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        let count = count.min(self.len());
        match self {
            Self::Walked(streams) => {
                let (here, rest) = streams.split_at(count);
                (Self::Walked(here), Self::Walked(rest))
            }
            Self::Kept(streams) => {
                let (here, rest) = streams.split_at(count);
                (Self::Kept(here), Self::Kept(rest))
            }
        }
    }

    pub(super) fn list(self) -> Cow<'a, [ChunkStream]> {
        match self {
            Self::Walked(streams) => Cow::Borrowed(streams),
            Self::Kept(streams) => streams.iter().map(stream).collect(),
        }
    }
}
