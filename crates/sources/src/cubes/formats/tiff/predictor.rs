//! Undoes predictors. Predictor 2 stores differences between neighbouring elements. Predictor 3,
//! for floats, stores differences between bytes of the same significance.

use super::chunk::Compression;
use crate::cubes::error::Result;
use crate::cubes::gather::swap_in_place;
use crate::cubes::source::CubeFile;
use shardpack_format::Dtype;
use shardpack_jpeg::TiffCoding;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    Horizontal,
    Float,
}

impl Predictor {
    pub(super) fn from_code(source: &CubeFile, code: u64, dtype: Dtype, compression: Compression) -> Result<Self> {
        let predictor = match code {
            1 => return Ok(Self::None),
            2 if dtype != Dtype::Bool => Self::Horizontal,
            3 if dtype.is_float() => Self::Float,
            _ => {
                let expected = match dtype {
                    Dtype::Bool => "1",
                    _ if dtype.is_float() => "1, 2 or 3",
                    _ => "1 or 2",
                };
                return Err(source.damaged(format_args!(
                    "TIFF predictor {code} is invalid for {dtype} samples: expected {expected}"
                )));
            }
        };
        // For uncompressed and PackBits data, libtiff ignores the predictor but other readers apply it, so the
        // file is ambiguous.
        if matches!(compression, Compression::None | Compression::Coded(TiffCoding::PackBits)) {
            return Err(source.damaged(format_args!("TIFF predictor {code} needs LZW, deflate or zstd compression")));
        }
        Ok(predictor)
    }
}

/// Undoes `predictor` on one row of pixels with `bands` elements each. The row is little-endian afterwards.
pub(super) fn undo(
    predictor: Predictor,
    row: &mut [u8],
    dtype: Dtype,
    bands: usize,
    big_endian: bool,
    scratch: &mut Vec<u8>,
) {
    match predictor {
        Predictor::None => {}
        Predictor::Horizontal => {
            if big_endian {
                swap_in_place(row, dtype.bytes());
            }
            match dtype.bytes() {
                1 => sum::<1>(row, bands, |a, b| [a[0].wrapping_add(b[0])]),
                2 => sum(row, bands, |a, b| u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes()),
                4 => sum(row, bands, |a, b| u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()),
                _ => sum(row, bands, |a, b| u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()),
            }
        }
        Predictor::Float => {
            // Undo the byte differences. The result is byte planes, most significant first,
            // whatever the file's byte order.
            sum::<1>(row, bands, |a, b| [a[0].wrapping_add(b[0])]);
            scratch.clear();
            scratch.extend_from_slice(row);
            match dtype.bytes() {
                2 => interleave::<2>(scratch, row),
                4 => interleave::<4>(scratch, row),
                _ => interleave::<8>(scratch, row),
            }
        }
    }
}

fn sum<const N: usize>(row: &mut [u8], bands: usize, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let mut pixels = row.as_chunks_mut::<N>().0.chunks_exact_mut(bands.max(1));
    let Some(mut before) = pixels.next() else { return };
    for pixel in pixels {
        pixel.iter_mut().zip(before.iter()).for_each(|(to, from)| *to = add(*to, *from));
        before = pixel;
    }
}

/// Converts planes of bytes, most significant first, to little-endian elements.
fn interleave<const N: usize>(planes: &[u8], row: &mut [u8]) {
    let elements = row.as_chunks_mut::<N>().0;
    for (plane, byte) in planes.chunks_exact(elements.len().max(1)).zip((0..N).rev()) {
        for (element, value) in elements.iter_mut().zip(plane) {
            if let Some(to) = element.get_mut(byte) {
                *to = *value;
            }
        }
    }
}
