//! Decompression of one strip or tile, and its predictor.

use super::ccitt::{self, Fax};
use shardpack_format::{Error, Result};
use std::io::Read;

/// A compression that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Fax(Fax),
    Lzw,
    Jpeg,
    Deflate,
    PackBits,
    Zstd,
}

impl Compression {
    /// The compression of this number, with the options of CCITT T.4.
    pub(super) fn of(code: u64, t4_options: u64) -> Result<Self> {
        Ok(match code {
            1 => Self::None,
            2 => Self::Fax(Fax::Huffman),
            3 if t4_options & 2 == 0 => Self::Fax(Fax::Group3 { two_dimensional: t4_options & 1 != 0 }),
            4 => Self::Fax(Fax::Group4),
            5 => Self::Lzw,
            7 => Self::Jpeg,
            8 | 32946 => Self::Deflate,
            32773 => Self::PackBits,
            // 34926 was used before libtiff registered the other number.
            50000 | 34926 => Self::Zstd,
            other => {
                let name = match other {
                    3 => " (CCITT T.4 in uncompressed mode)",
                    6 => " (JPEG as in TIFF 6.0, which was withdrawn)",
                    32809 => " (ThunderScan)",
                    34712 => " (JPEG 2000)",
                    34887 => " (LERC)",
                    34925 => " (LZMA)",
                    50001 => " (WebP)",
                    _ => "",
                };
                let expected = "none, CCITT, LZW, JPEG, deflate, PackBits or zstd";
                return Err(Error::format("compression of a TIFF picture", expected, format!("{other}{name}")));
            }
        })
    }

    /// Whether predictors go with it. libtiff ignores them elsewhere.
    pub(super) const fn has_predictor(self) -> bool {
        matches!(self, Self::Lzw | Self::Deflate | Self::Zstd)
    }
}

/// Fills `out` from `packed`, rows of `width` pixels.
pub(super) fn unpack(how: Compression, packed: &[u8], width: usize, out: &mut [u8]) -> Result<(), String> {
    match how {
        Compression::None => {
            let packed = packed.get(..out.len()).ok_or_else(|| format!("{} bytes", packed.len()))?;
            out.copy_from_slice(packed);
            Ok(())
        }
        Compression::Fax(how) => ccitt::decode(how, packed, width, out),
        Compression::Lzw => lzw(packed, out),
        Compression::Deflate => inflate(flate2::read::ZlibDecoder::new(packed), out),
        Compression::PackBits => pack_bits(packed, out),
        Compression::Zstd => {
            inflate(zstd::stream::read::Decoder::with_buffer(packed).map_err(|error| error.to_string())?, out)
        }
        // Decoded to pixels elsewhere.
        Compression::Jpeg => Err("JPEG".to_owned()),
    }
}

fn inflate(mut stream: impl Read, out: &mut [u8]) -> Result<(), String> {
    stream.read_exact(out).map_err(|error| error.to_string())
}

fn lzw(packed: &[u8], out: &mut [u8]) -> Result<(), String> {
    use weezl::decode::Decoder;
    // Before TIFF 6.0 codes began at the lowest bit, and became longer one code later. Such a stream begins with
    // the code 256 in that order.
    let is_old = matches!(packed, [0, second, ..] if second & 1 == 1);
    let mut decoder = match is_old {
        true => Decoder::new(weezl::BitOrder::Lsb, 8),
        false => Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8),
    };
    let (mut from, mut to) = (packed, out);
    while !to.is_empty() {
        let step = decoder.decode_bytes(from, to);
        let left = to.len().saturating_sub(step.consumed_out);
        from = from.get(step.consumed_in..).unwrap_or_default();
        to = to.get_mut(step.consumed_out..).unwrap_or_default();
        match step.status {
            Ok(weezl::LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            Ok(weezl::LzwStatus::Done) if left == 0 => {}
            Ok(_) => return Err(format!("an end {left} bytes early")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn pack_bits(mut packed: &[u8], mut out: &mut [u8]) -> Result<(), String> {
    while !out.is_empty() {
        let early = || "an end that comes early".to_owned();
        let (&control, rest) = packed.split_first().ok_or_else(early)?;
        packed = rest;
        let length = match control {
            0..=127 => usize::from(control) + 1,
            128 => continue,
            129..=255 => 257 - usize::from(control),
        };
        // Some writers let the last run go past the end.
        let left = out.len();
        let (to, later) = std::mem::take(&mut out).split_at_mut(length.min(left));
        out = later;
        if control < 128 {
            let (from, rest) = packed.split_at_checked(to.len()).ok_or_else(early)?;
            to.copy_from_slice(from);
            packed = rest;
        } else {
            let (&byte, rest) = packed.split_first().ok_or_else(early)?;
            to.fill(byte);
            packed = rest;
        }
    }
    Ok(())
}

/// What was done to each row before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    Horizontal,
}

impl Predictor {
    pub(super) fn of(code: u64, bits: u32) -> Result<Self> {
        Ok(match code {
            1 => Self::None,
            2 if matches!(bits, 8 | 16) => Self::Horizontal,
            other => {
                let found = format!("{other} for {bits} bits");
                return Err(Error::format("TIFF predictor", "1, or 2 for 8 or 16 bits", found));
            }
        })
    }

    /// Undoes it on one row of pixels with `bands` samples of `bits` bits. Samples of 16 bits are big-endian if
    /// `big_endian`, before and after.
    pub(super) fn undo(self, row: &mut [u8], bands: usize, bits: u32, big_endian: bool) {
        match (self, bits) {
            (Self::None, _) => {}
            (Self::Horizontal, 16) => match big_endian {
                true => sum(row, bands, |a, b| u16::from_be_bytes(a).wrapping_add(u16::from_be_bytes(b)).to_be_bytes()),
                false => {
                    sum(row, bands, |a, b| u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes())
                }
            },
            (Self::Horizontal, _) => sum::<1>(row, bands, |a, b| [a[0].wrapping_add(b[0])]),
        }
    }
}

/// Running sums over pixels of `bands` samples of `N` bytes.
fn sum<const N: usize>(row: &mut [u8], bands: usize, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let mut pixels = row.as_chunks_mut::<N>().0.chunks_exact_mut(bands.max(1));
    let Some(mut before) = pixels.next() else { return };
    for pixel in pixels {
        pixel.iter_mut().zip(before.iter()).for_each(|(to, from)| *to = add(*to, *from));
        before = pixel;
    }
}
