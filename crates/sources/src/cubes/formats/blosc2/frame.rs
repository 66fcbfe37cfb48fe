//! Reads the header, metalayer `b2nd`, chunk offsets and trailer of a Blosc2 frame.

use super::chunk::{chunk_at, of_blosc2};
use super::fields::Fields;
use super::grid::Grid;
use crate::cubes::error::Result;
use crate::cubes::formats::npy;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::select::{Purpose, cube_shape};
use crate::cubes::source::CubeFile;
use shardpack_array::blosc2::{ForeignChunk, ForeignDecoder};
use shardpack_format::to_usize;
use std::fmt::Arguments;

const MAGIC: &[u8] = b"b2frame\0";

/// Size of the header before its metalayers, in bytes.
const FIXED_BYTES: u64 = 87;

/// Number of bytes at the end of the trailer, for its length and the frame's fingerprint.
const TRAILER_END: u64 = 23;

/// Maximum size of a header, in bytes. A header may contain metalayers of other programs. They are skipped.
const MAX_HEADER: u64 = 16 << 20;

/// Maximum total size of the decoded chunks, as a multiple of the cube size. It is above 1 because chunks may
/// extend beyond the edges of the array.
const DECODED_TIMES: u64 = 16;

/// Total size of decoded chunks that is always accepted, in bytes, even for a small cube.
const SMALL_CHUNKS: u64 = 256 << 20;

/// Size of a decoded chunk that is always accepted, in bytes, even for a small cube.
const SMALL_CHUNK: u64 = 16 << 20;

/// Minimum average block size, in bytes, of an array with more than `FEW_BLOCKS` blocks. c-blosc2 does not
/// compress less than 32 bytes.
const SMALL_BLOCK: u64 = 16;
const FEW_BLOCKS: u64 = 1 << 20;

/// Maximum number of axes. The header stores this number in four bits.
const MAX_AXES: u8 = 15;

pub(super) fn is_frame(head: &[u8]) -> bool {
    head.get(2..10) == Some(MAGIC)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ChunkPlace {
    /// All items of the chunk have the same value, so the chunk is not stored.
    Special { kind: u8, item_bytes: u8 },
    /// The chunk starts at `start` and ends no later than `end`.
    Stored { start: u64, end: u64 },
}

/// The array in a contiguous frame.
pub(super) struct ContiguousFrame {
    pub(super) layout: CubeLayout,
    pub(super) grid: Grid,
    header: FrameHeader,
}

/// Sizes from the header of a frame, in bytes.
struct FrameHeader {
    header_bytes: u64,
    frame_bytes: u64,
    decoded_bytes: u64,
    chunks_bytes: u64,
    item_bytes: u64,
    chunk_bytes: u64,
}

/// The metalayer `b2nd`, which describes the array.
struct ArrayLayer {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    block: Vec<u64>,
    /// NumPy's name for the element type. Frames of the first version lack it.
    dtype: Option<String>,
}

impl ContiguousFrame {
    /// Reads the header, and checks that its sizes agree with each other and with the file size.
    pub(super) fn read(source: &CubeFile, want: &Purpose) -> Result<Self> {
        let fixed = source.read_at("Blosc2 header", 0, FIXED_BYTES)?;
        let header = FrameHeader::read(source, &mut Fields::new(source, &fixed))?;
        let bytes = source.read_at("Blosc2 header", 0, header.header_bytes)?;
        let Some(layer) = array_layer(source, &bytes)? else {
            let error =
                source.unsupported("the Blosc2 frame has no metalayer `b2nd`, so the shape of the array is unknown");
            return Err(error.with_hint("write the array with `blosc2.asarray(array, urlpath=\"FILE.b2nd\")`"));
        };
        let ArrayLayer { shape, chunk, block, dtype } = ArrayLayer::read(source, layer)?;
        let dtype = match (dtype, header.item_bytes) {
            (Some(dtype), _) => dtype,
            (None, 1) => "|u1".to_owned(),
            (None, bytes) => {
                let text = format!(
                    "the metalayer `b2nd` does not give the type of the elements, which have {bytes} bytes each"
                );
                return Err(source.unsupported(text));
            }
        };
        let (dtype, big_endian) = npy::dtype(source, "Blosc2", &dtype)?;
        let axes = array_axes(&shape, want);
        let layout = CubeLayout { dtype, big_endian, shape: cube_shape(source, axes)?, order: AxisOrder::Bip };
        let cube_bytes = layout.bytes(source, want.max_bytes())?;
        if header.item_bytes != dtype.bytes() {
            let text = format!("elements of {} bytes, but the type {dtype} needs {}", header.item_bytes, dtype.bytes());
            return Err(source.damaged(format_args!("the Blosc2 header describes {text}")));
        }
        let text = format!("array {shape:?}, chunk {chunk:?}, block {block:?}");
        let grid = Grid::new(shape, chunk, block, header.item_bytes).ok_or_else(|| {
            source.damaged(format_args!("the Blosc2 shapes contradict each other or are too large: {text}"))
        })?;
        header.check(source, &grid, cube_bytes)?;
        Ok(Self { layout, grid, header })
    }

    /// Returns the chunk offsets, 8 bytes each; see [`place`](Self::place).
    pub(super) fn offsets(&self, source: &CubeFile) -> Result<Vec<u8>> {
        let header = &self.header;
        let end = header.header_bytes + header.chunks_bytes;
        let what = "Blosc2 chunk offset table";
        let mut offsets = source.zeros(what, self.grid.chunks().saturating_mul(8))?;
        let trailer = header.trailer(source)?;
        let bytes = chunk_at(source, what, end, trailer, offsets.len())?;
        if bytes.len() as u64 != trailer - end {
            let (found, room) = (bytes.len(), trailer - end);
            let text = format!(
                "the Blosc2 frame is damaged: its chunk offset table has {found} bytes, but must fill the {room} bytes \
                 before the trailer"
            );
            return Err(source.damaged(text));
        }
        let bad = |error| of_blosc2(source, what, end, error);
        let chunk = ForeignChunk::parse(&bytes, offsets.len()).map_err(bad)?;
        let mut decoder = ForeignDecoder::default();
        for block in 0..chunk.blocks() {
            source.check_cancel()?;
            decoder.decode_block(&chunk, block, &mut offsets).map_err(bad)?;
        }
        Ok(offsets)
    }

    /// Returns the location of the chunk with this offset.
    pub(super) fn place(&self, offset: [u8; 8]) -> ChunkPlace {
        let FrameHeader { header_bytes, chunks_bytes, item_bytes, .. } = self.header;
        let [.., high] = offset;
        match i64::from_le_bytes(offset) {
            // An offset is negative if all items of the chunk have the same value. Its highest byte
            // identifies that value.
            ..0 => ChunkPlace::Special { kind: high & 7, item_bytes: u8::try_from(item_bytes).unwrap_or(u8::MAX) },
            offset => ChunkPlace::Stored {
                start: header_bytes.saturating_add(offset.unsigned_abs()),
                end: header_bytes + chunks_bytes,
            },
        }
    }
}

impl FrameHeader {
    fn read(source: &CubeFile, fields: &mut Fields<'_>) -> Result<Self> {
        fields.mark("header", 0x9E)?;
        fields.mark("signature", 0xA8)?;
        fields.take::<8>("signature")?;
        let header_bytes = fields.size32("header size")?;
        let frame_bytes = fields.u64("frame size", 0xCF)?;
        fields.mark("flags", 0xA4)?;
        let [general, kind, _, _] = fields.take("flags")?;
        if kind & 15 != 0 {
            let error =
                source.unsupported("sparse Blosc2 frames (a folder with a file for each chunk) are not supported");
            return Err(error.with_hint("write the array with `contiguous=True`"));
        }
        if !matches!(general & 15, 1..=3) {
            return Err(source.format("Blosc2 frame version", "1 to 3", general & 15));
        }
        if general & 0xF0 != 0x10 {
            let needed = "64-bit offsets, and chunks and blocks of a fixed size";
            let text =
                format!("the flags {general:#04x} of the Blosc2 frame are not supported: the frame must have {needed}");
            return Err(source.damaged(text));
        }
        let decoded_bytes = fields.size64("decoded size")?;
        let chunks_bytes = fields.size64("chunk sizes")?;
        let item_bytes = fields.size32("item size")?;
        fields.size32("block size")?;
        let chunk_bytes = fields.size32("chunk size")?;
        let header = Self { header_bytes, frame_bytes, decoded_bytes, chunks_bytes, item_bytes, chunk_bytes };
        header.check_parts(source)?;
        Ok(header)
    }

    /// Checks that header, chunks and trailer fit into the frame, and the frame into the file.
    fn check_parts(&self, source: &CubeFile) -> Result<()> {
        let Self { header_bytes, frame_bytes, chunks_bytes, .. } = *self;
        if !(FIXED_BYTES..=MAX_HEADER).contains(&header_bytes) {
            let expected = format!("{FIXED_BYTES} to {MAX_HEADER} bytes");
            return Err(source.format("Blosc2 header size", expected, header_bytes));
        }
        source.check_range("Blosc2 frame", 0, frame_bytes)?;
        let parts = header_bytes.checked_add(chunks_bytes).and_then(|parts| parts.checked_add(TRAILER_END));
        if parts.is_none_or(|parts| parts > frame_bytes) {
            let parts = format!("a header of {header_bytes} bytes and chunks of {chunks_bytes} bytes");
            return Err(source.damaged(format_args!("the Blosc2 frame has {frame_bytes} bytes, too few for {parts}")));
        }
        Ok(())
    }

    /// Checks the sizes of the chunks against the array and a cube of `cube_bytes` bytes, before
    /// any memory is allocated for them.
    fn check(&self, source: &CubeFile, grid: &Grid, cube_bytes: u64) -> Result<()> {
        let (chunks, chunk_bytes) = (grid.chunks(), grid.chunk_bytes());
        if self.chunk_bytes != chunk_bytes {
            let found = self.chunk_bytes;
            let text = format!("a Blosc2 chunk of this shape has {chunk_bytes} bytes, but the header says {found}");
            return Err(source.damaged(text));
        }
        let decoded = chunks.saturating_mul(chunk_bytes);
        if self.decoded_bytes != decoded {
            let found = self.decoded_bytes;
            let text = format!("the Blosc2 chunks decode to {decoded} bytes, but the header says {found}");
            return Err(source.damaged(text));
        }
        let most = |what: Arguments<'_>, found: u64, most: u64| {
            if found <= most {
                return Ok(());
            }
            let text = format!("{what}, but at most {most} are allowed for a cube of {cube_bytes} bytes");
            Err(source.damaged(text))
        };
        let times = cube_bytes.saturating_mul(DECODED_TIMES);
        most(format_args!("each Blosc2 chunk has {chunk_bytes} bytes"), chunk_bytes, times.max(SMALL_CHUNK))?;
        most(format_args!("the Blosc2 chunks decode to {decoded} bytes in total"), decoded, times.max(SMALL_CHUNKS))?;
        let blocks = grid.blocks();
        let most_blocks = (cube_bytes / SMALL_BLOCK).max(FEW_BLOCKS);
        most(format_args!("the Blosc2 array has {blocks} blocks"), blocks, most_blocks)
    }

    /// Returns the offset of the trailer. The end of the frame states the trailer's length.
    fn trailer(&self, source: &CubeFile) -> Result<u64> {
        let end = source.read_at("Blosc2 trailer", self.frame_bytes - TRAILER_END, TRAILER_END)?;
        let mut fields = Fields::new(source, &end);
        let length = u64::from(fields.u32("trailer size", 0xCE)?);
        let chunks_end = self.header_bytes + self.chunks_bytes;
        self.frame_bytes.checked_sub(length).filter(|&start| length >= TRAILER_END && start >= chunks_end).ok_or_else(
            || {
                let expected = format!("{TRAILER_END} to {} bytes", self.frame_bytes - chunks_end);
                source.format("Blosc2 trailer size", expected, length)
            },
        )
    }
}

/// Returns the metalayer `b2nd` of a header, if any.
fn array_layer<'a>(source: &'a CubeFile, header: &'a [u8]) -> Result<Option<&'a [u8]>> {
    let what = "list of metalayers";
    let at = |offset: u64| header.get(to_usize(offset)..).unwrap_or_default();
    let mut fields = Fields::new(source, at(FIXED_BYTES));
    fields.mark(what, 0x93)?;
    fields.u16(what, 0xCD)?;
    for _ in 0..fields.u16(what, 0xDE)? {
        let length = fields.byte("name of a metalayer")?;
        let name = fields.slice("name of a metalayer", u32::from(length & 31))?;
        let offset = fields.size32("offset of a metalayer")?;
        if name == b"b2nd" {
            let mut layer = Fields::new(source, at(offset));
            let length = layer.u32("metalayer `b2nd`", 0xC6)?;
            return layer.slice("metalayer `b2nd`", length).map(Some);
        }
    }
    Ok(None)
}

impl ArrayLayer {
    fn read(source: &CubeFile, layer: &[u8]) -> Result<Self> {
        let mut fields = Fields::new(source, layer);
        let parts = fields.byte("metalayer `b2nd`")?;
        fields.byte("version of the metalayer `b2nd`")?;
        let axes = fields.byte("number of axes")?;
        if axes > MAX_AXES {
            return Err(source.format("number of Blosc2 axes", format_args!("at most {MAX_AXES}"), axes));
        }
        let mut lengths = |what: &str, is_long: bool| -> Result<Vec<u64>> {
            fields.mark(what, 0x90 | axes)?;
            (0..axes).map(|_| if is_long { fields.size64(what) } else { fields.size32(what) }).collect()
        };
        let shape = lengths("shape", true)?;
        let chunk = lengths("chunk shape", false)?;
        let block = lengths("block shape", false)?;
        let dtype = match parts {
            0x95 => None,
            0x97 => {
                let format = fields.byte("format of the element type")?;
                if format != 0 {
                    let text = format!(
                        "the Blosc2 array names its element type in format {format}, but only format 0 (NumPy) is \
                         supported"
                    );
                    return Err(source.unsupported(text));
                }
                let length = fields.u32("element type", 0xDB)?;
                let text = fields.slice("element type", length)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
            _ => {
                return Err(source.damaged(format_args!(
                    "the Blosc2 metalayer `b2nd` is damaged: its first byte is {parts:#04x} instead of 0x95 or 0x97"
                )));
            }
        };
        Ok(Self { shape, chunk, block, dtype })
    }
}

/// Returns the axes without surplus leading axes of length 1. nnU-Net stores a one-channel volume as `[1, z, y,
/// x]`, and a mask as `[1, 1, y, x]`.
fn array_axes<'a>(shape: &'a [u64], want: &Purpose) -> &'a [u64] {
    let most = if matches!(want, Purpose::Mask(_)) { 2 } else { 3 };
    let mut axes = shape;
    while let [1, rest @ ..] = axes
        && rest.len() >= most
    {
        axes = rest;
    }
    axes
}
