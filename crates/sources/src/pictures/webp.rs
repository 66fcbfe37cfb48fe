//! Reads the header and the Exif data of a WebP.

use super::bytes::{MAX_CHUNKS, MAX_EXIF_BYTES, le16, le32};
use super::picture::{Beside, PictureInfo};
use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_jpeg::{PictureFormat, exif_orientation};

fn webp_exif(file: &(impl ReadAt + ?Sized), end: u64) -> Option<u8> {
    let mut at = 12;
    for _ in 0..MAX_CHUNKS {
        if at >= end {
            return None;
        }
        let head = file.read_at(at, 8).ok()?;
        let length = u64::from(le32(&head, 4)?);
        if head.starts_with(b"EXIF") {
            let exif = file.read_at(at + 8, length.min(MAX_EXIF_BYTES)).ok()?;
            // Some writers put the marker of JPEG's Exif segments in front of the data.
            return exif_orientation(exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif));
        }
        at += 8 + length.next_multiple_of(2);
    }
    None
}

pub(super) fn probe(file: &(impl ReadAt + ?Sized), head: &[u8]) -> Result<PictureInfo, Flaw> {
    let short = || Flaw::damaged("the WebP header is truncated");
    let expected = u64::from(le32(head, 4).ok_or_else(short)?) + 8;
    if expected > file.len() {
        return Err(Flaw::damaged(format!(
            "the WebP is truncated: it needs {expected} bytes, but the file has {}",
            file.len()
        )));
    }
    let three = |at: usize| Some(u32::from(le16(head, at)?) | u32::from(*head.get(at + 2)?) << 16);
    let alpha = match head.get(12..16) {
        Some(b"VP8L") => le32(head, 21).is_some_and(|bits| bits >> 28 & 1 == 1),
        Some(b"VP8X") => head.get(20).is_some_and(|flags| flags & 0x10 != 0),
        _ => false,
    };
    let (width, height) = match head.get(12..16) {
        Some(b"VP8 ") => {
            if head.get(23..26) != Some(b"\x9d\x01\x2a") {
                return Err(Flaw::damaged("the WebP is damaged: it has no key frame"));
            }
            let side = |at| le16(head, at).map(|side| u32::from(side & 0x3FFF)).ok_or_else(short);
            (side(26)?, side(28)?)
        }
        Some(b"VP8L") => {
            if head.get(20) != Some(&0x2F) {
                return Err(Flaw::damaged("the WebP is damaged: the signature of its lossless data is missing"));
            }
            let bits = le32(head, 21).ok_or_else(short)?;
            ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        }
        Some(b"VP8X") => {
            if head.get(20).ok_or_else(short)? & 2 != 0 {
                return Err(Flaw::unsupported("animated WebP is not supported: convert its frames to PNG"));
            }
            (three(24).ok_or_else(short)? + 1, three(27).ok_or_else(short)? + 1)
        }
        _ => return Err(Flaw::damaged("the WebP is damaged: its first chunk is not a picture")),
    };
    let has_exif = head.get(12..16) == Some(b"VP8X") && head.get(20).is_some_and(|flags| flags & 8 != 0);
    let exif = if has_exif { webp_exif(file, expected) } else { None };
    let beside = alpha.then_some(Beside::Alpha);
    Ok(PictureInfo {
        media_type: PictureFormat::WebP.media_type(),
        width,
        height,
        deep: false,
        exif,
        beside,
        jpeg: None,
    })
}
