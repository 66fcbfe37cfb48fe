//! Decompresses one strip or tile, and undoes its predictor.

use super::ccitt::{self, Fax};
use super::coding::{TiffCoding, Unpacker};
use shardpack_format::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Fax(Fax),
    Jpeg,
    Coded(TiffCoding),
}

impl Compression {
    /// Returns the compression with the given number. `t4_options` are the options of CCITT T.4.
    pub(super) fn of(code: u64, t4_options: u64) -> Result<Self> {
        Ok(match code {
            1 => Self::None,
            2 => Self::Fax(Fax::Huffman),
            3 if t4_options & 2 == 0 => Self::Fax(Fax::Group3 { two_dimensional: t4_options & 1 != 0 }),
            4 => Self::Fax(Fax::Group4),
            7 => Self::Jpeg,
            other => {
                if let Some(coding) = TiffCoding::of(other) {
                    return Ok(Self::Coded(coding));
                }
                let name = match other {
                    3 => " (CCITT T.4 in uncompressed mode)",
                    6 => " (the old JPEG of TIFF 6.0, now obsolete)",
                    32809 => " (ThunderScan)",
                    34712 => " (JPEG 2000)",
                    34887 => " (LERC)",
                    34925 => " (LZMA)",
                    50001 => " (WebP)",
                    _ => "",
                };
                let expected = "none, CCITT, LZW, JPEG, deflate, PackBits or zstd";
                return Err(Error::format("TIFF compression", expected, format!("{other}{name}")));
            }
        })
    }

    /// Returns true if the compression supports predictors. libtiff ignores them for other compressions.
    pub(super) const fn has_predictor(self) -> bool {
        matches!(self, Self::Coded(TiffCoding::Lzw | TiffCoding::Deflate | TiffCoding::Zstd))
    }
}

/// Decompresses `packed` into `out`, which has rows of `width` pixels.
pub(super) fn unpack(how: Compression, packed: &[u8], width: usize, out: &mut [u8]) -> Result<(), String> {
    match how {
        Compression::None => {
            let packed = packed
                .get(..out.len())
                .ok_or_else(|| format!("it has {} bytes, but needs {}", packed.len(), out.len()))?;
            out.copy_from_slice(packed);
            Ok(())
        }
        Compression::Fax(how) => ccitt::decode(how, packed, width, out),
        Compression::Coded(coding) => Unpacker::new(coding, packed, out.len())?.fill(out),
        // JPEGs are decoded elsewhere, directly to pixels.
        Compression::Jpeg => Err("a JPEG cannot be decompressed to bytes".to_owned()),
    }
}

/// Transformation that the writer applied to each row before compression.
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
                return Err(Error::malformed(format!(
                    "TIFF predictor {other} is not supported for {bits}-bit samples"
                )));
            }
        })
    }

    /// Undoes the predictor for one row of pixels with `bands` samples of `bits` bits. If `big_endian` is
    /// true, 16-bit samples are big-endian before and after the call.
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

/// Computes running sums over pixels with `bands` samples of `N` bytes.
fn sum<const N: usize>(row: &mut [u8], bands: usize, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let mut pixels = row.as_chunks_mut::<N>().0.chunks_exact_mut(bands.max(1));
    let Some(mut before) = pixels.next() else { return };
    for pixel in pixels {
        pixel.iter_mut().zip(before.iter()).for_each(|(to, from)| *to = add(*to, *from));
        before = pixel;
    }
}
