//! Parses one Blosc2 chunk (spec §5.3). Every length is checked before a decoder on the CPU or a GPU sees the bytes.
//!
//! The parser accepts only the chunks that the specification allows, which are a subset of c-blosc2's. They have an
//! extended header of version 5 and streams of LZ4 or zstd. Blocks have 64 KiB × item size bytes, are always split, and
//! are stored in order without gaps. The only filters are shuffle and byte delta.

use crate::zstd_frame;
use shardpack_base::parts::rest;
use shardpack_format::{Error, Result};

/// Size of the extended header in bytes.
pub const HEADER_BYTES: usize = 32;
/// Decoded size of one stream of a full block, in bytes.
pub const STREAM_BYTES: usize = 64 << 10;

pub(super) const VERSION: u8 = 5;
pub(super) const CODER_VERSION: u8 = 1;
pub(super) const FLAG_COPIED: u8 = 0x02;
const FLAG_DELTA: u8 = 0x08;
pub(super) const FLAG_NOT_SPLIT: u8 = 0x10;
pub(super) const FLAGS_EXTENDED: u8 = 0x05;
pub(super) const FILTER_SHUFFLE: u8 = 1;
pub(super) const FILTER_BITSHUFFLE: u8 = 2;
pub(super) const FILTER_BYTE_DELTA: u8 = 35;
/// Special value of a unit that consists of zero bytes. The value is stored in the high half of the
/// last byte of the header.
pub(super) const SPECIAL_ZEROS: u8 = 1;

/// Coder of a chunk's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCoder {
    /// Streams are LZ4 blocks.
    Lz4,
    /// Streams are zstd frames, one frame per stream.
    Zstd,
}

/// Filters of a chunk. A writer applies them in the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filters {
    /// How the bytes or bits of the items are shuffled.
    pub shuffle: Shuffle,
    /// True if, after the shuffle, each byte of a plane is replaced by its difference from the byte before.
    pub byte_delta: bool,
}

/// The shuffle, the first filter of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    /// Items are not shuffled.
    None,
    /// Byte planes: the first bytes of all items of the block, then the second bytes, …
    Bytes,
    /// Bit planes: each byte plane is split into eight rows, one per bit.
    Bits,
}

/// How a stream is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Encoded by the chunk's coder.
    Coded,
    /// Unencoded bytes.
    Stored,
    /// A run of this byte. The chunk stores no data for it.
    Run(u8),
}

/// A stream that can be decoded independently: a byte plane of a full block, or an entire short last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkStream {
    /// How the stream is stored.
    pub kind: StreamKind,
    /// Offset of the stream from the start of the chunk.
    pub offset: usize,
    /// Length of the stored stream, in bytes.
    pub bytes: usize,
    /// Offset of the stream's output in the decoded unit, before the filters are undone.
    pub out_offset: usize,
    /// Length of the decoded stream, in bytes.
    pub out_bytes: usize,
}

/// How a chunk stores its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkContent {
    /// The blocks of the unit, coded as streams.
    Blocks {
        /// Coder of the streams.
        coder: StreamCoder,
        /// Filters to undo, block by block.
        filters: Filters,
        /// Size of every block in bytes. Only the last block may be shorter.
        block_bytes: usize,
        /// The streams, in order.
        streams: Vec<ChunkStream>,
    },
    /// The whole unit follows the header, unchanged.
    Stored,
    /// A single item (zero, NaN or another value) that fills the unit. It is stored in the first `item_bytes` bytes.
    Repeated([u8; 8]),
}

/// A parsed and validated chunk.
///
/// ```
/// use shardpack_array::blosc2::{Chunk, ChunkContent};
/// // A special chunk of four zero bytes.
/// let mut bytes = [0_u8; 32];
/// bytes[..4].copy_from_slice(&[5, 1, 0x25, 1]);
/// bytes[4] = 4; // decoded bytes
/// bytes[8] = 4; // block size
/// bytes[12] = 32; // stored bytes
/// bytes[31] = 1 << 4;
/// let chunk = Chunk::parse(&bytes, 1, 4)?;
/// assert_eq!(*chunk.content(), ChunkContent::Repeated([0; 8]));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    bytes: &'a [u8],
    content: ChunkContent,
}

impl<'a> Chunk<'a> {
    /// Parses the chunk at the start of `bytes`, which may contain more bytes. `item_bytes` is the size of a stored
    /// element. The chunk must decode to `unit_bytes` bytes.
    ///
    /// # Errors
    /// `Format`, with the offset within `bytes`, if the chunk violates the specification.
    pub fn parse(bytes: &'a [u8], item_bytes: u8, unit_bytes: usize) -> Result<Self> {
        Self::parse_reusing(bytes, item_bytes, unit_bytes, &mut Vec::new())
    }

    /// Same as [`Chunk::parse`], but reuses the memory of `streams` for the list of streams. The old content of
    /// `streams` is lost.
    pub(crate) fn parse_reusing(
        bytes: &'a [u8],
        item_bytes: u8,
        unit_bytes: usize,
        streams: &mut Vec<ChunkStream>,
    ) -> Result<Self> {
        let header = header_of(bytes)?;
        let &[version, coder_version, flags, typesize, sizes @ .., reserved, flags2] = header;
        let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3, pipeline @ ..] = sizes;
        let [f0, f1, f2, f3, f4, f5, coder_id, coder_meta, filters_meta @ ..] = pipeline;
        let filters = [f0, f1, f2, f3, f4, f5];
        let is = |what: &'static str, offset: u64, found: u64, expected: u64| match found == expected {
            true => Ok(()),
            false => Err(Error::format(what, expected, found).at(offset)),
        };
        is("blosc2 version", 0, version.into(), VERSION.into())?;
        is("blosc2 coder version", 1, coder_version.into(), CODER_VERSION.into())?;
        if flags & FLAGS_EXTENDED != FLAGS_EXTENDED || flags & FLAG_DELTA != 0 {
            let text =
                format!("blosc2 flags {flags:#04x}: only extended headers without the delta filter are supported");
            return Err(Error::malformed(text).at(2));
        }
        is("blosc2 item size", 3, typesize.into(), item_bytes.into())?;
        is("blosc2 decoded size", 4, u32::from_le_bytes([n0, n1, n2, n3]).into(), unit_bytes as u64)?;
        let block_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        let chunk = sized(bytes, u32::from_le_bytes([c0, c1, c2, c3]))?;
        is("blosc2 coder parameter", 23, coder_meta.into(), 0)?;
        is("blosc2 reserved byte", 30, reserved.into(), 0)?;
        if flags2 & 0x8F != 0 {
            let text = format!(
                "blosc2 flags {flags2:#04x}: dictionaries, big-endian data, lazy loading and instrumentation are not \
                 supported"
            );
            return Err(Error::malformed(text).at(31));
        }
        let item = usize::from(item_bytes);
        if item == 0 || item > 8 || unit_bytes == 0 || !unit_bytes.is_multiple_of(item) {
            return Err(Error::format("blosc2 decoded size", format!("a positive multiple of {item}"), unit_bytes));
        }
        let body = rest(chunk, HEADER_BYTES, "blosc2 chunk body")?;
        let content = match (flags2 >> 4, flags & FLAG_COPIED != 0) {
            (0, true) => {
                is("size of a blosc2 chunk with a stored unit", 12, body.len() as u64, unit_bytes as u64)?;
                ChunkContent::Stored
            }
            (0, false) => {
                let coder = coder(flags >> 5, coder_id)?;
                is("blosc2 split mode", 2, (flags & FLAG_NOT_SPLIT).into(), 0)?;
                let filters = pipeline_of(filters, filters_meta, item_bytes)?;
                let block = unit_bytes.min(STREAM_BYTES * item);
                is("blosc2 block size", 8, block_bytes.into(), block as u64)?;
                walk_blocks(chunk, coder, unit_bytes, block, item, streams)?;
                ChunkContent::Blocks { coder, filters, block_bytes: block, streams: std::mem::take(streams) }
            }
            (special, _) => ChunkContent::Repeated(repeated(special, body, item_bytes)?),
        };
        Ok(Self { bytes: chunk, content })
    }

    /// Creates a chunk from its bytes and the content that an earlier parse returned.
    pub(crate) const fn walked(bytes: &'a [u8], content: ChunkContent) -> Self {
        Self { bytes, content }
    }

    /// Returns the length of the chunk at the start of `bytes`, according to the chunk's header. Checks nothing else,
    /// because callers only skip the chunk.
    pub(crate) fn length(bytes: &[u8]) -> Result<usize> {
        let &[_, _, _, _, _, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = header_of(bytes)?;
        Ok(sized(bytes, u32::from_le_bytes([c0, c1, c2, c3]))?.len())
    }

    pub(crate) fn into_content(self) -> ChunkContent {
        self.content
    }

    /// Returns the bytes of the chunk, including the header.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the content of the chunk.
    #[must_use]
    pub const fn content(&self) -> &ChunkContent {
        &self.content
    }

    /// Returns the number of bytes that the coder will output. Runs and stored streams do not count.
    #[must_use]
    pub fn coded_out_bytes(&self) -> u64 {
        match &self.content {
            ChunkContent::Blocks { streams, .. } => {
                streams.iter().filter(|s| s.kind == StreamKind::Coded).map(|s| s.out_bytes as u64).sum()
            }
            ChunkContent::Stored | ChunkContent::Repeated(_) => 0,
        }
    }
}

pub(super) fn header_of(bytes: &[u8]) -> Result<&[u8; HEADER_BYTES]> {
    bytes.first_chunk().ok_or_else(|| {
        Error::malformed(format!("the blosc2 header is truncated: it has only {} bytes", bytes.len())).at(0)
    })
}

fn sized(bytes: &[u8], chunk_bytes: u32) -> Result<&[u8]> {
    usize::try_from(chunk_bytes).ok().filter(|&n| n >= HEADER_BYTES).and_then(|n| bytes.get(..n)).ok_or_else(|| {
        Error::format("blosc2 chunk size", format!("{HEADER_BYTES} to {}", bytes.len()), chunk_bytes).at(12)
    })
}

/// Returns the coder. `format` is bits 5..8 of the flags, and `id` is byte 22 of the header.
fn coder(format: u8, id: u8) -> Result<StreamCoder> {
    match (format, id) {
        (1, 1 | 2) => Ok(StreamCoder::Lz4),
        (4, 5) => Ok(StreamCoder::Zstd),
        _ => Err(Error::format(
            "blosc2 coder",
            "lz4 (format 1, coder 1 or 2) or zstd (format 4, coder 5)",
            format!("format {format}, coder {id}"),
        )
        .at(2)),
    }
}

fn pipeline_of(filters: [u8; 6], metas: [u8; 6], item_bytes: u8) -> Result<Filters> {
    let (mut shuffle, mut byte_delta) = (Shuffle::None, false);
    for (filter, meta) in filters.into_iter().zip(metas) {
        match filter {
            0 => {}
            FILTER_SHUFFLE | FILTER_BITSHUFFLE if shuffle == Shuffle::None && !byte_delta => {
                shuffle = if filter == FILTER_SHUFFLE { Shuffle::Bytes } else { Shuffle::Bits };
            }
            // The stride of the byte delta must be the item size. Otherwise the tail of each block
            // would stay unwritten.
            FILTER_BYTE_DELTA if shuffle != Shuffle::Bits && !byte_delta && meta == item_bytes => byte_delta = true,
            _ => {
                let text = format!(
                    "blosc2 filters {filters:?} with parameters {metas:?} are not supported: allowed are 1 (shuffle), \
                     2 (bit shuffle), 35 (byte delta by the item size), and 1 followed by 35"
                );
                return Err(Error::malformed(text).at(16));
            }
        }
    }
    Ok(Filters { shuffle, byte_delta })
}

fn repeated(special: u8, body: &[u8], item_bytes: u8) -> Result<[u8; 8]> {
    let mut item = [0; 8];
    let stored = match (special, item_bytes) {
        (1, _) => 0,
        (2, 4) => {
            item[..4].copy_from_slice(&0x7FC0_0000_u32.to_le_bytes());
            0
        }
        (2, 8) => {
            item = 0x7FF8_0000_0000_0000_u64.to_le_bytes();
            0
        }
        (3, n) => {
            for (to, from) in item.iter_mut().take(n.into()).zip(body) {
                *to = *from;
            }
            n
        }
        _ => {
            let expected = "1 (zeros), 2 (NaN, only for items of 4 or 8 bytes) or 3 (one value)";
            return Err(Error::format("kind of a blosc2 special chunk", expected, special).at(31));
        }
    };
    if body.len() == usize::from(stored) {
        return Ok(item);
    }
    Err(Error::format(
        "size of a blosc2 special chunk in bytes",
        HEADER_BYTES + usize::from(stored),
        HEADER_BYTES + body.len(),
    )
    .at(12))
}

/// Lists the streams of a chunk. They must be in order, without gaps, and end at the chunk's last byte.
fn walk_blocks(
    chunk: &[u8],
    coder: StreamCoder,
    unit: usize,
    block: usize,
    item: usize,
    streams: &mut Vec<ChunkStream>,
) -> Result<()> {
    streams.clear();
    let blocks = unit.div_ceil(block);
    let starts = chunk.get(HEADER_BYTES..HEADER_BYTES + 4 * blocks).ok_or_else(|| {
        Error::malformed(format!(
            "the blosc2 chunk is truncated: its table of {blocks} blocks needs {} bytes, but only {} remain",
            4 * blocks,
            chunk.len() - HEADER_BYTES
        ))
        .at(HEADER_BYTES as u64)
    })?;
    let mut pos = HEADER_BYTES + 4 * blocks;
    let mut out_offset = 0;
    streams.reserve(blocks * item);
    for (i, start) in starts.as_chunks().0.iter().enumerate() {
        let start = u32::from_le_bytes(*start);
        if u64::from(start) != pos as u64 {
            return Err(Error::format("blosc2 block start", pos, start).at((HEADER_BYTES + 4 * i) as u64));
        }
        let here = block.min(unit - out_offset);
        // A short last block has a single stream. Every other block has one stream per byte of an item.
        let count = if here == block { item } else { 1 };
        for _ in 0..count {
            let stream = walk_stream(chunk, pos, coder, out_offset, here / count)?;
            pos = stream.offset + stream.bytes;
            out_offset += stream.out_bytes;
            streams.push(stream);
        }
    }
    if pos != chunk.len() {
        return Err(Error::format("blosc2 chunk size", pos, chunk.len()).at(12));
    }
    Ok(())
}

fn walk_stream(
    chunk: &[u8],
    at: usize,
    coder: StreamCoder,
    out_offset: usize,
    out_bytes: usize,
) -> Result<ChunkStream> {
    let truncated = |needed: usize, left: usize| {
        let text = format!("the blosc2 stream is truncated: it needs {needed} bytes, but only {left} remain");
        Error::malformed(text).at(at as u64)
    };
    let stream = rest(chunk, at, "stream in a blosc2 chunk")?;
    let (size, data) = stream.split_first_chunk().ok_or_else(|| truncated(4, stream.len()))?;
    let size = i32::from_le_bytes(*size);
    let offset = at + 4;
    let Ok(bytes) = usize::try_from(size) else {
        // The length field of a run contains the negated byte value. A token with bit 0 set follows.
        let value = u8::try_from(-i64::from(size));
        return match (value, data.first()) {
            (Ok(value), Some(1)) => {
                Ok(ChunkStream { kind: StreamKind::Run(value), offset, bytes: 1, out_offset, out_bytes })
            }
            _ => {
                let text = format!(
                    "the blosc2 stream is damaged: its length field is {size}, which is neither a byte count nor a \
                     valid run"
                );
                Err(Error::malformed(text).at(at as u64))
            }
        };
    };
    if bytes == 0 {
        return Ok(ChunkStream { kind: StreamKind::Run(0), offset, bytes: 0, out_offset, out_bytes });
    }
    let data = data.get(..bytes).ok_or_else(|| truncated(bytes, data.len()))?;
    let kind = if bytes == out_bytes { StreamKind::Stored } else { StreamKind::Coded };
    if bytes > out_bytes {
        return Err(Error::format("blosc2 stream size", format!("at most {out_bytes}"), bytes).at(at as u64));
    }
    if kind == StreamKind::Coded && coder == StreamCoder::Zstd {
        let frame = zstd_frame::walk(data).map_err(|e| e.at(offset as u64))?;
        if frame.len != bytes || frame.content_bytes != out_bytes as u64 {
            let expected = format!("a zstd frame of {bytes} bytes that decodes to {out_bytes} bytes");
            let found = format!("a frame of {} bytes that decodes to {} bytes", frame.len, frame.content_bytes);
            return Err(Error::format("blosc2 stream", expected, found).at(offset as u64));
        }
    }
    Ok(ChunkStream { kind, offset, bytes, out_offset, out_bytes })
}
