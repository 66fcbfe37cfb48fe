//! Reads the header and the Exif data of a PNG, and finds its end.

use super::bytes::{MAX_CHUNKS, MAX_EXIF_BYTES, MAX_SEARCHED_BYTES, TAIL_BYTES, be32};
use super::picture::{Beside, PictureInfo};
use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_jpeg::{PictureFormat, exif_orientation};

pub(super) fn probe(file: &(impl ReadAt + ?Sized)) -> Result<PictureInfo, Flaw> {
    const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    let head = file.read_at(0, 33).map_err(|_| Flaw::damaged("the PNG header is truncated"))?;
    if head.get(8..16) != Some(b"\0\0\0\x0dIHDR") {
        return Err(Flaw::damaged("the PNG is damaged: its first chunk is not IHDR"));
    }
    let short = || Flaw::damaged("the PNG header is truncated");
    let (width, height) = be32(&head, 16).zip(be32(&head, 20)).ok_or_else(short)?;
    if width.max(height) > i32::MAX.unsigned_abs() {
        return Err(Flaw::damaged(format!(
            "the PNG is damaged: its size is {width} × {height} pixels, but PNG allows at most {} per side",
            i32::MAX
        )));
    }
    let from = file.len().saturating_sub(TAIL_BYTES);
    let ended = |bytes: &[u8]| bytes.ends_with(END) || bytes.windows(END.len()).any(|window| window == END);
    // Bytes after the end are allowed but rare, so search the whole file only if there are any.
    if !ended(&file.read_at(from, file.len() - from)?) && !ended(&file.head(MAX_SEARCHED_BYTES)?) {
        return Err(Flaw::damaged(format!(
            "the PNG is truncated: it ends after {} bytes without an end chunk (IEND)",
            file.len()
        )));
    }
    let deep = head.get(24).is_some_and(|bits| *bits > 8);
    let (exif, is_clear) = png_chunks(file);
    let alpha = is_clear || head.get(25).is_some_and(|color| matches!(color, 4 | 6));
    let beside = alpha.then_some(Beside::Alpha);
    Ok(PictureInfo { media_type: PictureFormat::Png.media_type(), width, height, deep, exif, beside, jpeg: None })
}

/// Returns the Exif orientation as decoders read it, and whether there is a transparency chunk.
fn png_chunks(file: &(impl ReadAt + ?Sized)) -> (Option<u8>, bool) {
    let (mut exif, mut is_clear) = (None, false);
    walk_png(file, &mut exif, &mut is_clear);
    (exif, is_clear)
}

fn walk_png(file: &(impl ReadAt + ?Sized), exif: &mut Option<u8>, is_clear: &mut bool) -> Option<()> {
    let mut at = 33;
    for _ in 0..MAX_CHUNKS {
        let head = file.read_at(at, 8).ok()?;
        let length = u64::from(be32(&head, 0)?);
        match head.get(4..8)? {
            b"eXIf" => *exif = exif_orientation(&file.read_at(at + 8, length.min(MAX_EXIF_BYTES)).ok()?),
            b"tRNS" => *is_clear = true,
            b"IDAT" | b"IEND" => return None,
            _ => {}
        }
        // A chunk also has 12 bytes for its length, name and CRC32.
        at += length + 12;
    }
    None
}
