//! Decompresses one strip or tile.

use crate::cubes::error::Result;
use crate::cubes::source::{CubeFile, PIECE_BYTES};
use shardpack_jpeg::{TiffCoding, Unpacker};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Coded(TiffCoding),
}

impl Compression {
    /// Returns the maximum number of decoded bytes per stored byte.
    pub(super) const fn max_ratio(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Coded(coding) => coding.max_ratio(),
        }
    }

    pub(super) fn from_code(source: &CubeFile, code: u64) -> Result<Self> {
        Ok(match (code, TiffCoding::of(code)) {
            (1, _) => Self::None,
            (_, Some(coding)) => Self::Coded(coding),
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
                let error = source.unsupported(format_args!(
                    "TIFF compression {code}{name} is not supported (supported: none, LZW, deflate, PackBits and zstd)"
                ));
                return Err(error.with_hint("convert with `gdal_translate -co COMPRESS=ZSTD IN OUT`"));
            }
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkRange {
    pub(super) offset: u64,
    pub(super) count: u64,
}

/// Decodes chunk `number` into `out`. `packed` is scratch space.
pub(super) fn decode(
    source: &CubeFile,
    compression: Compression,
    number: usize,
    at: ChunkRange,
    out: &mut [u8],
    packed: &mut Vec<u8>,
) -> Result<()> {
    let (ChunkRange { offset, count }, bytes) = (at, out.len());
    let Compression::Coded(coding) = compression else {
        if count < bytes as u64 {
            return Err(source.damaged(format_args!(
                "TIFF strip or tile {number} at offset {offset} has {count} bytes, but needs {bytes}"
            )));
        }
        return source.fill_at("TIFF strip or tile", offset, out);
    };
    source.check_range("TIFF strip or tile", offset, count)?;
    source.resize("TIFF strip or tile", packed, count)?;
    source.fill_at("TIFF strip or tile", offset, packed)?;
    let bad = |error: String| {
        source.damaged(format_args!("TIFF strip or tile {number} at offset {offset} is damaged: {error}"))
    };
    let mut unpacker = Unpacker::new(coding, packed, bytes).map_err(bad)?;
    // A strip may contain the whole picture, so check for cancellation between pieces.
    for piece in out.chunks_mut(PIECE_BYTES) {
        source.check_cancel()?;
        unpacker.fill(piece).map_err(bad)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded;

    #[test]
    fn control_bytes_that_stand_for_nothing() {
        // Formatting a message for each byte would take a minute instead of a second or two.
        let path = concat!(module_path!(), "::control_bytes_that_stand_for_nothing");
        bounded::within(path, 1 << 20, 20, || {
            let mut packed = vec![128; 100 << 20];
            let end = packed.len() - 2;
            packed[end..].copy_from_slice(&[254, 7]);
            let runs = |packed| Unpacker::new(TiffCoding::PackBits, packed, 3).unwrap();
            assert_eq!(runs(&packed[..end]).fill(&mut [0; 3]), Err("its stream ends 3 bytes early".to_owned()));
            let mut out = [0; 3];
            runs(&packed).fill(&mut out).unwrap();
            assert_eq!(out, [7; 3]);
        });
    }
}
