//! Encodes units as chunks (spec §5.3). The output is identical to that of c-blosc2 2.21, byte for byte.
//!
//! A chunk consists of a header, a table of block offsets, and the blocks. A block is a sequence of streams, each
//! preceded by its length. Three lengths are special:
//!
//! - 0 marks a run of zeros.
//! - The negative of a byte value, followed by [`RUN_TOKEN`], marks a run of that byte.
//! - The decoded length marks a stream that is stored unchanged.
//!
//! If all streams are runs of zeros, the chunk is only a header. If the chunk would be longer than the header plus the
//! unit, the header is followed by the unit itself.

use super::chunk::{
    CODER_VERSION, FILTER_BITSHUFFLE, FILTER_BYTE_DELTA, FILTER_SHUFFLE, FLAG_COPIED, FLAGS_EXTENDED, SPECIAL_ZEROS,
    VERSION,
};
use super::{HEADER_BYTES, STREAM_BYTES, bits, delta, ffi, shuffle};
use crate::bytes::UNIT_BYTES;
use crate::filter::Filter;
use shardpack_base::parts::{check_length, grow};
use shardpack_format::{Error, Result};
use zstd::zstd_safe::{CCtx, ErrorCode};

/// The zstd levels that c-blosc2 can reach, one for each of its own levels 1..=9.
///
/// c-blosc2 maps its level to `2 · level − 1`, and level 9 to the highest level of zstd. (A later line of c-blosc2 is
/// meant to map 8 to 20, but it tests the level after the first mapping, so 8 becomes 15.)
pub const ZSTD_LEVELS: [i32; 9] = [1, 3, 5, 7, 9, 11, 13, 15, 22];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blosc2Coder {
    Lz4,
    Lz4hc,
    Zstd,
}

const MIN_CODED_BYTES: usize = 32;
const RUN_TOKEN: u8 = 1;

/// Error code of zstd for a failed allocation (`memory_allocation`).
const OUT_OF_MEMORY: ErrorCode = 64_usize.wrapping_neg();

/// Encodes chunks. The encoder reuses its context and its scratch memory (two blocks and a stream) from call to call.
pub(crate) struct Encoder {
    coder: Coder,
    filter: Filter,
    /// The block after the first filter, and the block after the second filter.
    filtered: [Vec<u8>; 2],
    coded: Vec<u8>,
}

enum Coder {
    Lz4,
    Lz4hc(i32),
    Zstd(i32, CCtx<'static>),
}

#[derive(Clone, Copy)]
enum Kind {
    Coded,
    Zeros,
    Copied,
    /// The unit is too short to be compressed. c-blosc2 omits the coder from the chunk's flags.
    Short,
}

impl Encoder {
    /// Creates an encoder. `level` is one of [`ZSTD_LEVELS`] for zstd, 1..=9 for LZ4HC, and `None` for LZ4.
    pub(crate) fn new(coder: Blosc2Coder, level: Option<i32>, filter: Filter) -> Result<Self> {
        let coder = match (coder, level) {
            (Blosc2Coder::Lz4, _) => Coder::Lz4,
            (Blosc2Coder::Lz4hc, Some(level @ 1..=9)) => Coder::Lz4hc(level),
            (Blosc2Coder::Zstd, Some(level)) if ZSTD_LEVELS.contains(&level) => {
                let context = CCtx::try_create().ok_or_else(|| Error::usage("cannot allocate a zstd encoder"))?;
                Coder::Zstd(level, context)
            }
            (coder, level) => {
                let (name, allowed) = match coder {
                    Blosc2Coder::Zstd => ("zstd", format!("one of {ZSTD_LEVELS:?}")),
                    Blosc2Coder::Lz4 | Blosc2Coder::Lz4hc => ("LZ4HC", "from 1 to 9".into()),
                };
                let given = level.map_or("none".into(), |l| l.to_string());
                return Err(Error::usage(format!(
                    "the compression level of {name} in Blosc2 must be {allowed}, but {given} was given"
                )));
            }
        };
        Ok(Self { coder, filter, filtered: [Vec::new(), Vec::new()], coded: Vec::new() })
    }

    /// Encodes `unit` as a chunk and appends it to `out`. The length of the unit must be a multiple of `item_bytes` (1
    /// to 8) and at most [`UNIT_BYTES`].
    pub(crate) fn chunk(&mut self, unit: &[u8], item_bytes: u8, out: &mut Vec<u8>) -> Result<()> {
        let item = usize::from(item_bytes);
        if !(1..=8).contains(&item) || !(1..=UNIT_BYTES).contains(&unit.len()) || !unit.len().is_multiple_of(item) {
            return Err(Error::usage(format!(
                "a blosc2 unit must have 1 to {UNIT_BYTES} bytes, in items of 1 to 8 bytes, not {} bytes in items of \
                 {item} bytes",
                unit.len()
            )));
        }
        let block_bytes = unit.len().min(STREAM_BYTES * item);
        let start = out.len();
        out.reserve(HEADER_BYTES + unit.len());
        let kind = self.body(unit, item, block_bytes, out)?;
        let chunk_bytes = out.len() - start;
        let header = self.header(kind, item_bytes, [unit.len(), block_bytes, chunk_bytes])?;
        let place = out.get_mut(start..start + HEADER_BYTES);
        place
            .ok_or_else(|| {
                Error::usage(format!(
                    "a blosc2 chunk of {chunk_bytes} bytes is too short for its header of {HEADER_BYTES} bytes"
                ))
            })?
            .copy_from_slice(&header);
        Ok(())
    }

    fn header(&self, kind: Kind, item_bytes: u8, sizes: [usize; 3]) -> Result<[u8; HEADER_BYTES]> {
        // The flags contain the format number, which differs from the coder's own number.
        let (format, id) = match self.coder {
            Coder::Lz4 => (1, 1),
            Coder::Lz4hc(_) => (1, 2),
            Coder::Zstd(..) => (4, 5),
        };
        let mut header = [0; HEADER_BYTES];
        header[0] = VERSION;
        header[1] = CODER_VERSION;
        header[2] = match kind {
            Kind::Short => FLAGS_EXTENDED | FLAG_COPIED,
            Kind::Copied => FLAGS_EXTENDED | FLAG_COPIED | format << 5,
            Kind::Coded | Kind::Zeros => FLAGS_EXTENDED | format << 5,
        };
        header[3] = item_bytes;
        for (to, size) in header[4..16].as_chunks_mut().0.iter_mut().zip(sizes) {
            let size = u32::try_from(size).map_err(|_| {
                Error::usage(format!("a blosc2 chunk must be smaller than 4 GiB, but has {size} bytes"))
            })?;
            *to = size.to_le_bytes();
        }
        // The header contains the numbers of six filters in order, the coder, and one parameter per filter.
        match self.filter {
            Filter::Shuffle if item_bytes > 1 => header[21] = FILTER_SHUFFLE,
            // Shuffling one-byte items changes nothing.
            Filter::None | Filter::Shuffle => {}
            Filter::Bitshuffle => header[21] = FILTER_BITSHUFFLE,
            Filter::Bytedelta => {
                header[20] = if item_bytes > 1 { FILTER_SHUFFLE } else { 0 };
                header[21] = FILTER_BYTE_DELTA;
                header[29] = item_bytes;
            }
        }
        header[22] = id;
        header[31] = if matches!(kind, Kind::Zeros) { SPECIAL_ZEROS << 4 } else { 0 };
        Ok(header)
    }

    fn body(&mut self, unit: &[u8], item: usize, block_bytes: usize, out: &mut Vec<u8>) -> Result<Kind> {
        let start = out.len();
        let end = start + HEADER_BYTES + unit.len();
        let kind =
            if unit.len() < MIN_CODED_BYTES { Kind::Short } else { self.blocks(unit, item, block_bytes, end, out)? };
        match kind {
            Kind::Coded => {}
            Kind::Zeros => out.truncate(start + HEADER_BYTES),
            Kind::Copied | Kind::Short => {
                out.truncate(start);
                out.resize(start + HEADER_BYTES, 0);
                out.extend_from_slice(unit);
            }
        }
        Ok(kind)
    }

    /// Appends the coded blocks to `out`, which must not grow beyond `end`.
    fn blocks(&mut self, unit: &[u8], item: usize, block_bytes: usize, end: usize, out: &mut Vec<u8>) -> Result<Kind> {
        let start = out.len();
        let starts = start + HEADER_BYTES;
        let blocks = unit.len().div_ceil(block_bytes);
        out.resize(starts + 4 * blocks, 0);
        let mut all_zeros = true;
        for (number, block) in unit.chunks(block_bytes).enumerate() {
            let here = u32::try_from(out.len() - start).map_err(|_| {
                Error::usage("blosc2 cannot store the array: a compressed chunk would be 4 GiB or larger")
            })?;
            let place = out.get_mut(starts + 4 * number..starts + 4 * (number + 1));
            place
                .ok_or_else(|| {
                    Error::usage(format!("the table of {blocks} blosc2 blocks has no entry for block {number}"))
                })?
                .copy_from_slice(&here.to_le_bytes());
            let filtered = filtered(self.filter, block, item, &mut self.filtered)?;
            let streams = if block.len() == block_bytes { item } else { 1 };
            check_length("total size of the streams in a block", block.len() / streams * streams, block.len())?;
            for stream in filtered.chunks_exact(block.len() / streams) {
                let before = out.len();
                if !append(&mut self.coder, stream, &mut self.coded, end, out)? {
                    return Ok(Kind::Copied);
                }
                all_zeros &= out.len() == before + 4;
            }
        }
        Ok(if all_zeros { Kind::Zeros } else { Kind::Coded })
    }
}

fn filtered<'a>(filter: Filter, block: &'a [u8], item: usize, scratch: &'a mut [Vec<u8>; 2]) -> Result<&'a [u8]> {
    if filter == Filter::None || (filter == Filter::Shuffle && item == 1) {
        return Ok(block);
    }
    let [planes, second] = scratch;
    let planes: &[u8] = if item == 1 {
        block
    } else {
        let planes = grow(planes, block.len());
        shuffle::split(block, item, planes)?;
        planes
    };
    Ok(match filter {
        Filter::None | Filter::Shuffle => planes,
        Filter::Bitshuffle => {
            let out = grow(second, block.len());
            bits::of_block(block, planes, item, out)?;
            out
        }
        Filter::Bytedelta => {
            let out = grow(second, block.len());
            let length = (block.len() / item).max(1);
            for (plane, out) in planes.chunks_exact(length).zip(out.chunks_exact_mut(length)) {
                delta::of(plane, out)?;
            }
            out
        }
    })
}

/// Appends a stream to `out`. Returns `false` if `out` would grow beyond `end`.
fn append(coder: &mut Coder, stream: &[u8], coded: &mut Vec<u8>, end: usize, out: &mut Vec<u8>) -> Result<bool> {
    let Some(room) = end.checked_sub(out.len() + 4) else { return Ok(false) };
    if let Some(value) = run_of(stream) {
        out.extend_from_slice(&(-i32::from(value)).to_le_bytes());
        if value > 0 {
            out.push(RUN_TOKEN);
        }
        return Ok(value == 0 || room > 0);
    }
    if room == 0 {
        return Ok(false);
    }
    let coded = grow(coded, stream.len().min(room));
    let bytes = match coder.encode(stream, coded)? {
        // A coded length equal to the stream's own length would mean "stored unchanged".
        Some(length) if length < stream.len() => coded
            .get(..length)
            .ok_or_else(|| Error::usage(format!("a blosc2 stream must have at most {room} bytes, not {length}")))?,
        _ if stream.len() <= room => stream,
        _ => return Ok(false),
    };
    let length = i32::try_from(bytes.len()).map_err(|_| {
        Error::usage(format!("a blosc2 stream must be smaller than 2 GiB, but has {} bytes", bytes.len()))
    })?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(true)
}

fn run_of(stream: &[u8]) -> Option<u8> {
    let (first, rest) = stream.split_first()?;
    let (before, _) = stream.split_at(rest.len());
    (rest == before).then_some(*first)
}

impl Coder {
    fn encode(&mut self, stream: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        match self {
            // c-blosc2 sets LZ4's acceleration to 1 at every level.
            Self::Lz4 => ffi::lz4_encode(stream, None, out),
            Self::Lz4hc(level) => ffi::lz4_encode(stream, Some(*level), out),
            Self::Zstd(level, context) => match context.compress(out, stream, *level) {
                Ok(length) => Ok(Some(length)),
                Err(OUT_OF_MEMORY) => Err(Error::usage("the zstd encoder ran out of memory")),
                Err(_) => Ok(None),
            },
        }
    }
}
