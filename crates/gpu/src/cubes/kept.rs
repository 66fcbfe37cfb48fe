//! Tables of an array whose payload stays on the device. The host determines the chunk lengths and stream tables only
//! once.
//!
//! ```text
//! payload  16  where it begins in the kept memory, and its bytes
//! units    4   number of chunks; all ones: the elements themselves
//! each     8   bytes of the chunk, and what it holds: 0 a stored unit, 1 one item, 2 blocks
//!   item   8   its bytes
//!   blocks 16  filters, bytes of a block, number of streams, their coder
//!   stream 16  how it is stored, its place in the chunk, its bytes, bytes that it decodes to
//! ```

use shardpack_array::Units;
use shardpack_array::blosc2::{ChunkContent, ChunkStream, Filters, Shuffle, StreamCoder, StreamKind};
use shardpack_format::{Error, Result};
use std::borrow::Cow;

/// Marks an array whose elements are not compressed. Written in place of the number of chunks.
const RAW: u32 = u32::MAX;
const STORED_UNIT: u32 = 0;
const ITEM: u32 = 1;
const BLOCKS: u32 = 2;
const BYTE_DELTA: u32 = 4;
const CODED: u32 = 0;
const STORED: u32 = 1;
/// A stream of this kind repeats one byte, which is stored in the low byte.
const RUN: u32 = 0x100;
const LZ4: u32 = 0;
const ZSTD: u32 = 1;

/// The kept tables of an array, as written by [`keep`].
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptArray<'a> {
    /// Offset of the payload in the kept memory, followed by its length in bytes.
    pub(super) payload: u64,
    pub(super) bytes: u64,
    /// Number of chunks, and the tables of the chunks. `None` if the elements are not compressed.
    chunks: Option<(u32, Words<'a>)>,
}

/// A chunk of a payload: its length in bytes and its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: usize,
    pub(super) content: Content<'a>,
}

/// Content of a chunk, like [`ChunkContent`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
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

/// Streams of a chunk, parsed from the payload or kept. Kept streams are parsed only when needed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Streams<'a> {
    Walked(&'a [ChunkStream]),
    Kept(&'a [KeptStream]),
}

type KeptStream = [u8; 16];

/// Appends the tables that the host keeps for an array. `units` are the parsed units of its `payload`, which
/// will be at offset `at` of the kept memory.
///
/// # Errors
/// `Usage` if the payload is plain zstd, because the host decodes parts of it. The appended bytes are then meaningless.
pub(crate) fn keep(units: &Units<'_>, payload: &[u8], at: u64, out: &mut Vec<u8>) -> Result<()> {
    let mut words = |words: &[u32]| out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let number =
        |n: usize| u32::try_from(n).map_err(|_| Error::limit("size of a chunk", "u32::MAX", u32::MAX.into(), n as u64));
    for n in [at, payload.len() as u64] {
        words(&halves(n));
    }
    let chunks = match units {
        Units::Raw(_) => {
            words(&[RAW]);
            return Ok(());
        }
        Units::Zstd(_) => {
            return Err(Error::usage(
                "arrays with codec `zstd` cannot be kept on the device: only the host can decode parts of them",
            ));
        }
        Units::Blosc2(chunks) => chunks,
    };
    words(&[number(chunks.len())?]);
    for chunk in chunks {
        let bytes = number(chunk.bytes().len())?;
        match chunk.content() {
            ChunkContent::Stored => words(&[bytes, STORED_UNIT]),
            ChunkContent::Repeated(item) => {
                words(&[bytes, ITEM]);
                words(&halves(u64::from_le_bytes(*item)));
            }
            ChunkContent::Blocks { coder, filters, block_bytes, streams } => {
                let shuffle = match filters.shuffle {
                    Shuffle::None => 0,
                    Shuffle::Bytes => 1,
                    Shuffle::Bits => 2,
                };
                let filters = shuffle | if filters.byte_delta { BYTE_DELTA } else { 0 };
                let coder = match coder {
                    StreamCoder::Lz4 => LZ4,
                    StreamCoder::Zstd => ZSTD,
                };
                words(&[bytes, BLOCKS, filters, number(*block_bytes)?, number(streams.len())?, coder]);
                for stream in streams {
                    let kind = match stream.kind {
                        StreamKind::Coded => CODED,
                        StreamKind::Stored => STORED,
                        StreamKind::Run(value) => RUN | u32::from(value),
                    };
                    words(&[kind, number(stream.offset)?, number(stream.bytes)?, number(stream.out_bytes)?]);
                }
            }
        }
    }
    Ok(())
}

fn halves(n: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = n.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

#[derive(Debug, Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u32; N]> {
        let (taken, rest) = self.0.split_at_checked(4 * N)?;
        self.0 = rest;
        Some(words(taken))
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(|[low, high]| u64::from(high) << 32 | u64::from(low))
    }

    fn chunk(&mut self) -> Option<Chunk<'a>> {
        let [bytes, kind] = self.take()?;
        let content = match kind {
            STORED_UNIT => Content::Stored,
            ITEM => Content::Repeated(self.long()?.to_le_bytes()),
            BLOCKS => {
                let [filters, block_bytes, count, coder] = self.take()?;
                let coder = if coder == ZSTD { StreamCoder::Zstd } else { StreamCoder::Lz4 };
                let shuffle = match filters & !BYTE_DELTA {
                    0 => Shuffle::None,
                    1 => Shuffle::Bytes,
                    _ => Shuffle::Bits,
                };
                let filters = Filters { shuffle, byte_delta: filters & BYTE_DELTA != 0 };
                let (streams, rest) =
                    self.0.split_at_checked((count as usize).checked_mul(size_of::<KeptStream>())?)?;
                self.0 = rest;
                let streams = Streams::Kept(streams.as_chunks().0);
                Content::Blocks { coder, filters, block_bytes: block_bytes as usize, streams }
            }
            _ => return None,
        };
        Some(Chunk { bytes: bytes as usize, content })
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (to, from) in words.iter_mut().zip(bytes.as_chunks().0) {
        *to = u32::from_le_bytes(*from);
    }
    words
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

/// Converts a stream from its kept form. The offset of its output is not kept, and is set to 0.
fn stream(kept: &KeptStream) -> ChunkStream {
    let [kind, offset, bytes, out_bytes] = words(kept);
    let kind = match kind {
        CODED => StreamKind::Coded,
        STORED => StreamKind::Stored,
        run => StreamKind::Run(run.to_le_bytes()[0]),
    };
    let [offset, bytes, out_bytes] = [offset, bytes, out_bytes].map(|n| n as usize);
    ChunkStream { kind, offset, bytes, out_offset: 0, out_bytes }
}

impl<'a> KeptArray<'a> {
    /// Reads tables that [`keep`] wrote. Returns `None` if they are malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut words = Words(bytes);
        let (payload, bytes) = (words.long()?, words.long()?);
        let chunks = match words.take()? {
            [RAW] => None,
            [count] => Some((count, words)),
        };
        Some(Self { payload, bytes, chunks })
    }

    /// Returns an iterator over the chunks, in which a malformed chunk is `None`. Returns `None` if the elements are
    /// not compressed.
    pub(super) fn chunks(&self) -> Option<impl Iterator<Item = Option<Chunk<'a>>> + use<'a>> {
        let (count, mut words) = self.chunks?;
        Some((0..count).map(move |_| words.chunk()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubes::tests::generate::{Fill, array};
    use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
    use shardpack_format::{Codec, Dtype, Limits};

    #[test]
    fn kept_tables_are_read_again() {
        let of = |coder, filter, layout, band_difference| ArraySettings {
            values: ValueRule::Keep,
            coder,
            level: matches!(coder, Coder::Blosc2Zstd | Coder::Zstd).then_some(1),
            filter,
            band_difference,
            layout,
        };
        // The cube is larger than a block, so it has both streams of planes and a short block.
        let cube = |fill| array(Dtype::U16, vec![90, 100, 16], fill, 3);
        let lz4 = Coder::Blosc2Lz4;
        for (settings, fill) in [
            (of(lz4, Filter::Bitshuffle, ArrayLayout::BandMajor, true), Fill::Counts),
            (of(lz4, Filter::Shuffle, ArrayLayout::AsShape, false), Fill::Counts),
            (of(lz4, Filter::Shuffle, ArrayLayout::AsShape, false), Fill::Bits(0)),
            (of(lz4, Filter::None, ArrayLayout::AsShape, false), Fill::Bits(8)),
            (of(Coder::Blosc2Zstd, Filter::Shuffle, ArrayLayout::AsShape, true), Fill::Counts),
            (of(Coder::Raw, Filter::None, ArrayLayout::AsShape, false), Fill::Counts),
        ] {
            let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube(fill), None).unwrap();
            let units = Units::walk(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default()).unwrap();
            let mut out = vec![1; 3];
            keep(&units, &encoded.payload, 77 << 32, &mut out).unwrap();
            let kept = KeptArray::read(&out[3..]).unwrap();
            assert_eq!((kept.payload, kept.bytes), (77 << 32, encoded.payload.len() as u64));
            for cut in (3..out.len()).step_by(5) {
                let kept = KeptArray::read(&out[3..cut]);
                assert!(kept.is_none_or(|kept| kept.chunks().is_some_and(|mut chunks| chunks.any(|c| c.is_none()))));
            }
            match (units, kept.chunks()) {
                (Units::Raw(_), None) => assert_eq!(encoded.codec, Codec::Raw),
                (Units::Blosc2(chunks), Some(kept)) => {
                    let chunks: Vec<_> =
                        chunks.iter().map(|c| (c.bytes().len(), without_places(c.content()))).collect();
                    assert_eq!(kept.map(|chunk| chunk.map(walked)).collect::<Option<Vec<_>>>(), Some(chunks));
                }
                (units, kept) => panic!("{units:?} is kept as {}", kept.map_or(0, |kept| kept.count())),
            }
        }
        let plain = of(Coder::Zstd, Filter::None, ArrayLayout::BandMajor, false);
        let encoded = ArrayEncoder::new(plain).unwrap().encode(&cube(Fill::Counts), None).unwrap();
        let units = Units::walk(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default()).unwrap();
        assert!(keep(&units, &encoded.payload, 0, &mut Vec::new()).is_err());
    }

    fn walked(chunk: Chunk<'_>) -> (usize, ChunkContent) {
        let content = match chunk.content {
            Content::Stored => ChunkContent::Stored,
            Content::Repeated(item) => ChunkContent::Repeated(item),
            Content::Frame => panic!("a frame is not kept"),
            Content::Blocks { coder, filters, block_bytes, streams } => {
                ChunkContent::Blocks { coder, filters, block_bytes, streams: streams.list().into_owned() }
            }
        };
        (chunk.bytes, content)
    }

    /// Sets the output offsets to 0, because they are not kept.
    fn without_places(content: &ChunkContent) -> ChunkContent {
        let mut content = content.clone();
        if let ChunkContent::Blocks { streams, .. } = &mut content {
            streams.iter_mut().for_each(|stream| stream.out_offset = 0);
        }
        content
    }
}
