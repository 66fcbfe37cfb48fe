//! Reads the header of a BMP.

use super::bytes::{le16, le32};
use super::picture::{Beside, PictureInfo};
use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_jpeg::PictureFormat;

/// Returns true if `head` is the start of a BMP. The two-letter signature is not enough, so the length of the
/// second header must match too, and the pixels must start after it. Reserved bytes are not always zero.
pub(super) fn is_bmp(head: &[u8]) -> bool {
    let has_header = |bytes: u32| matches!(bytes, 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124);
    head.starts_with(b"BM")
        && le32(head, 14).is_some_and(|bytes| has_header(bytes) && le32(head, 10).is_some_and(|at| at >= 14 + bytes))
}

pub(super) fn probe(file: &(impl ReadAt + ?Sized), head: &[u8]) -> Result<PictureInfo, Flaw> {
    let short = || Flaw::damaged("the BMP header is truncated");
    let pixels = u64::from(le32(head, 10).ok_or_else(short)?);
    let core = le32(head, 14) == Some(12);
    let (width, height, bits, compression) = if core {
        let [width, height, bits] = [18, 20, 24].map(|at| le16(head, at).map(u32::from));
        (width, height, bits, Some(0))
    } else {
        // A negative height means that the top row is stored first.
        let [width, height] = [18, 22].map(|at| le32(head, at).map(|side| side.cast_signed().unsigned_abs()));
        (width, height, le16(head, 28).map(u32::from), le32(head, 30))
    };
    let (Some(width), Some(height), Some(bits), Some(compression)) = (width, height, bits, compression) else {
        return Err(short());
    };
    let row = (u64::from(width) * u64::from(bits)).div_ceil(32) * 4;
    let expected = match compression {
        0 | 3 | 6 => row.checked_mul(height.into()).and_then(|bytes| bytes.checked_add(pixels)),
        _ => Some(pixels),
    };
    match expected {
        Some(expected) if expected <= file.len() => {
            // Headers of 56, 108 and 124 bytes have an alpha mask.
            let has_mask = matches!(le32(head, 14), Some(56 | 108 | 124)) && matches!(compression, 3 | 6);
            let beside = (has_mask && le32(head, 66).is_some_and(|mask| mask != 0)).then_some(Beside::Alpha);
            Ok(PictureInfo {
                media_type: PictureFormat::Bmp.media_type(),
                width,
                height,
                deep: false,
                exif: None,
                beside,
                jpeg: None,
            })
        }
        _ => Err(Flaw::damaged(format!(
            "the BMP is truncated: {width} × {height} pixels of {bits} bits do not fit into {} bytes",
            file.len()
        ))),
    }
}
