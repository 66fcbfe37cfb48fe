//! Decompression of one strip or tile.

use super::super::error::{CubeError, Result};
use super::super::source::Source;
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
            Self::Deflate => super::super::npz::MAX_DEFLATE_RATIO,
            // Two bytes for a run of 128.
            Self::PackBits => 64,
            // Four bytes for a block of 128 KiB.
            Self::Zstd => 32 << 10,
        }
    }

    pub(super) fn from_code(source: &Source, code: u64) -> Result<Self> {
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
                return Err(error.hint("convert with `gdal_translate -co COMPRESS=ZSTD IN OUT`"));
            }
        })
    }
}

/// Fills `out` from the `place` (offset and size) of chunk `number`. `packed` is scratch memory.
pub(super) fn decode(
    source: &Source,
    compression: Compression,
    number: usize,
    place: (u64, u64),
    out: &mut [u8],
    packed: &mut Vec<u8>,
) -> Result<()> {
    let (offset, count) = place;
    let bad = |found: &dyn fmt::Display| -> CubeError {
        source.format(
            format_args!("TIFF strip or tile {number} at offset {offset}"),
            format_args!("{} bytes", out.len()),
            found,
        )
    };
    if compression == Compression::None {
        if count < out.len() as u64 {
            return Err(bad(&count));
        }
        return source.fill_at("TIFF strip or tile", offset, out);
    }
    source.check_range("TIFF strip or tile", offset, count)?;
    source.resize("TIFF strip or tile", packed, count)?;
    source.fill_at("TIFF strip or tile", offset, packed)?;
    let error = match compression {
        Compression::None => None,
        Compression::Lzw => lzw(packed, out).err(),
        Compression::Deflate => {
            flate2::read::ZlibDecoder::new(packed.as_slice()).read_exact(out).err().map(|error| error.to_string())
        }
        Compression::PackBits => pack_bits(packed, out).err(),
        Compression::Zstd => {
            let stream = zstd::stream::read::Decoder::with_buffer(packed.as_slice());
            stream.and_then(|mut stream| stream.read_exact(out)).err().map(|error| error.to_string())
        }
    };
    match error {
        None => Ok(()),
        Some(found) => Err(source.format(
            format_args!("TIFF strip or tile {number} at offset {offset}"),
            format_args!("{} bytes, {compression:?}-compressed", out.len()),
            found,
        )),
    }
}

fn lzw(packed: &[u8], out: &mut [u8]) -> Result<(), String> {
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
    let (mut from, mut to) = (packed, out);
    while !to.is_empty() {
        let step = decoder.decode_bytes(from, to);
        match step.status {
            Ok(weezl::LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            Ok(weezl::LzwStatus::Done) if step.consumed_out == to.len() => {}
            Ok(_) => return Err(format!("an end {} bytes early", to.len() - step.consumed_out)),
            Err(error) => return Err(error.to_string()),
        }
        from = from.get(step.consumed_in..).unwrap_or_default();
        to = to.get_mut(step.consumed_out..).unwrap_or_default();
    }
    Ok(())
}

fn pack_bits(mut packed: &[u8], mut out: &mut [u8]) -> Result<(), String> {
    while !out.is_empty() {
        let left = out.len();
        let early = || format!("an end {left} bytes early");
        let (&control, rest) = packed.split_first().ok_or_else(early)?;
        packed = rest;
        let length = match control {
            0..=127 => usize::from(control) + 1,
            128 => continue,
            129..=255 => 257 - usize::from(control),
        };
        // A run may not go past the row, and so not past the chunk.
        let (run, after) = std::mem::take(&mut out).split_at_mut_checked(length).ok_or("a run past the end")?;
        if control < 128 {
            let (literal, rest) = packed.split_at_checked(length).ok_or_else(early)?;
            run.copy_from_slice(literal);
            packed = rest;
        } else {
            let (&byte, rest) = packed.split_first().ok_or_else(early)?;
            run.fill(byte);
            packed = rest;
        }
        out = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded;

    #[test]
    fn control_bytes_that_stand_for_nothing() {
        // In a process of its own: a text for each byte takes minutes.
        let path = concat!(module_path!(), "::control_bytes_that_stand_for_nothing");
        bounded::within(path, 1 << 20, 10, || {
            let mut packed = vec![128; 400 << 20];
            let end = packed.len() - 2;
            packed[end..].copy_from_slice(&[254, 7]);
            assert_eq!(pack_bits(&packed[..end], &mut [0; 3]), Err("an end 3 bytes early".to_owned()));
            let mut out = [0; 3];
            pack_bits(&packed, &mut out).unwrap();
            assert_eq!(out, [7; 3]);
        });
    }
}
