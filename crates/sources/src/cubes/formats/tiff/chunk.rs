//! Decompression of one strip or tile.

use crate::cubes::error::{CubeError, Result};
use crate::cubes::source::{CubeFile, PIECE_BYTES};
use std::fmt;
use std::io::Read;

/// A compression that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Lzw,
    Deflate,
    PackBits,
    Zstd,
}

impl Compression {
    /// By how much a chunk can expand at most. A larger claim is false, and no reason to allocate
    /// memory.
    pub(super) const fn max_ratio(self) -> u64 {
        match self {
            Self::None => 1,
            // A code of 12 bits stands for at most 4,096 bytes.
            Self::Lzw => 4096,
            Self::Deflate => crate::cubes::source::MAX_DEFLATE_RATIO,
            // Two bytes for a run of 128.
            Self::PackBits => 64,
            // Four bytes for a block of 128 KiB.
            Self::Zstd => 32 << 10,
        }
    }

    pub(super) fn from_code(source: &CubeFile, code: u64) -> Result<Self> {
        Ok(match code {
            1 => Self::None,
            5 => Self::Lzw,
            8 | 32946 => Self::Deflate,
            32773 => Self::PackBits,
            // 34926 was used before libtiff registered the other number.
            50000 | 34926 => Self::Zstd,
            _ => {
                let name = match code {
                    2..=4 => " (CCITT)",
                    6 | 7 => " (JPEG)",
                    34712 => " (JPEG 2000)",
                    34887 => " (LERC)",
                    34925 => " (LZMA)",
                    50001 => " (WebP)",
                    _ => "",
                };
                let error = source.unsupported(
                    "TIFF compression",
                    "none, LZW, deflate, PackBits or zstd",
                    format_args!("{code}{name}"),
                );
                return Err(error.with_hint("convert with `gdal_translate -co COMPRESS=ZSTD IN OUT`"));
            }
        })
    }
}

/// Where the bytes of a strip or tile are in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkRange {
    pub(super) offset: u64,
    pub(super) count: u64,
}

/// Fills `out` from the bytes of chunk `number`. `packed` is scratch memory.
pub(super) fn decode(
    source: &CubeFile,
    compression: Compression,
    number: usize,
    at: ChunkRange,
    out: &mut [u8],
    packed: &mut Vec<u8>,
) -> Result<()> {
    let (ChunkRange { offset, count }, bytes) = (at, out.len());
    if compression == Compression::None {
        if count < bytes as u64 {
            return Err(source.format(
                format_args!("TIFF strip or tile {number} at offset {offset}"),
                format_args!("{bytes} bytes"),
                count,
            ));
        }
        return source.fill_at("TIFF strip or tile", offset, out);
    }
    source.check_range("TIFF strip or tile", offset, count)?;
    source.resize("TIFF strip or tile", packed, count)?;
    source.fill_at("TIFF strip or tile", offset, packed)?;
    let bad = |found: &dyn fmt::Display| -> CubeError {
        source.format(
            format_args!("TIFF strip or tile {number} at offset {offset}"),
            format_args!("{bytes} bytes, {compression:?}-compressed"),
            found,
        )
    };
    // A strip may hold the whole picture: the flag of the run is asked between its pieces.
    let pieces = out.chunks_mut(PIECE_BYTES);
    match compression {
        Compression::None => {}
        Compression::Lzw if is_old_lzw(packed) => {
            let error =
                source.unsupported("TIFF compression", "LZW of TIFF 6", "LZW of TIFF 5, in another order of bits");
            return Err(error.with_hint("write the file anew: `tiffcp -c lzw IN OUT`"));
        }
        Compression::Lzw => {
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            let mut from = packed.as_slice();
            let mut left = bytes;
            for piece in pieces {
                source.check_cancel()?;
                from = lzw(&mut decoder, from, piece, left).map_err(|found| bad(&found))?;
                left -= piece.len();
            }
        }
        Compression::Deflate => inflate(source, flate2::read::ZlibDecoder::new(packed.as_slice()), pieces, &bad)?,
        Compression::PackBits => {
            let mut runs = PackBits { packed, run: PackBitsRun::Literal(&[]), left: bytes };
            for piece in pieces {
                source.check_cancel()?;
                runs.fill(piece).map_err(|found| bad(&found))?;
            }
        }
        Compression::Zstd => {
            let stream = zstd::stream::read::Decoder::with_buffer(packed.as_slice()).map_err(|error| bad(&error))?;
            inflate(source, stream, pieces, &bad)?;
        }
    }
    Ok(())
}

/// Fills the pieces from a stream.
fn inflate<'a>(
    source: &CubeFile,
    mut stream: impl Read,
    pieces: impl Iterator<Item = &'a mut [u8]>,
    bad: &dyn Fn(&dyn fmt::Display) -> CubeError,
) -> Result<()> {
    for piece in pieces {
        source.check_cancel()?;
        stream.read_exact(piece).map_err(|error| bad(&error))?;
    }
    Ok(())
}

/// Whether codes are packed from the lowest bit on. The first code, 256, says so.
fn is_old_lzw(packed: &[u8]) -> bool {
    matches!(packed, [0, second, ..] if second & 1 == 1)
}

/// Fills `piece`, which begins `left` bytes before the end of the chunk. Returns the rest of
/// `from`.
fn lzw<'a>(
    decoder: &mut weezl::decode::Decoder,
    mut from: &'a [u8],
    piece: &mut [u8],
    mut left: usize,
) -> Result<&'a [u8], String> {
    let mut to = piece;
    while !to.is_empty() {
        let step = decoder.decode_bytes(from, to);
        left -= step.consumed_out;
        let beyond = "a decoder that reads or writes beyond the end";
        from = from.get(step.consumed_in..).ok_or(beyond)?;
        match step.status {
            Ok(weezl::LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            Ok(weezl::LzwStatus::Done) if left == 0 => {}
            Ok(_) => return Err(format!("an end {left} bytes early")),
            Err(error) => return Err(error.to_string()),
        }
        to = to.get_mut(step.consumed_out..).ok_or(beyond)?;
    }
    Ok(from)
}

/// A PackBits stream that is read in pieces.
struct PackBits<'a> {
    packed: &'a [u8],
    run: PackBitsRun<'a>,
    /// Bytes of the chunk that are still to come.
    left: usize,
}

/// What is left of a run.
enum PackBitsRun<'a> {
    Literal(&'a [u8]),
    Repeated(u8, usize),
}

impl PackBitsRun<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Repeated(_, count) => *count,
        }
    }
}

impl PackBits<'_> {
    fn fill(&mut self, mut out: &mut [u8]) -> Result<(), String> {
        while !out.is_empty() {
            let length = self.run.len().min(out.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(length);
            match &mut self.run {
                PackBitsRun::Literal(bytes) => {
                    let (first, rest) = bytes.split_at(length);
                    now.copy_from_slice(first);
                    *bytes = rest;
                }
                PackBitsRun::Repeated(byte, count) => {
                    now.fill(*byte);
                    *count -= length;
                }
            }
            self.left -= length;
            out = later;
            if self.run.len() == 0 && !out.is_empty() {
                self.next_run()?;
            }
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<(), String> {
        let early = || format!("an end {} bytes early", self.left);
        let (&control, rest) = self.packed.split_first().ok_or_else(early)?;
        let length = match control {
            0..=127 => usize::from(control) + 1,
            128 => {
                self.packed = rest;
                return Ok(());
            }
            129..=255 => 257 - usize::from(control),
        };
        // A run may not go past the row, and so not past the chunk.
        if length > self.left {
            return Err("a run past the end".to_owned());
        }
        let (run, rest) = if control < 128 {
            let (literal, rest) = rest.split_at_checked(length).ok_or_else(early)?;
            (PackBitsRun::Literal(literal), rest)
        } else {
            let (&byte, rest) = rest.split_first().ok_or_else(early)?;
            (PackBitsRun::Repeated(byte, length), rest)
        };
        (self.run, self.packed) = (run, rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded;

    #[test]
    fn control_bytes_that_stand_for_nothing() {
        // In a process of its own. It takes a second or two; with a text for each byte, a minute.
        let path = concat!(module_path!(), "::control_bytes_that_stand_for_nothing");
        bounded::within(path, 1 << 20, 20, || {
            let mut packed = vec![128; 100 << 20];
            let end = packed.len() - 2;
            packed[end..].copy_from_slice(&[254, 7]);
            let runs = |packed| PackBits { packed, run: PackBitsRun::Literal(&[]), left: 3 };
            assert_eq!(runs(&packed[..end]).fill(&mut [0; 3]), Err("an end 3 bytes early".to_owned()));
            let mut out = [0; 3];
            runs(&packed).fill(&mut out).unwrap();
            assert_eq!(out, [7; 3]);
        });
    }
}
