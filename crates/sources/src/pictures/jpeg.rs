//! Reads the header of a JPEG and finds the end of the picture.
#![deny(clippy::indexing_slicing)]

use super::bytes::{MAX_SEARCHED_BYTES, TAIL_BYTES, be16};
use super::picture::{JpegFacts, PictureInfo};
use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_jpeg::{JpegError, JpegHeader, PictureFormat, end_of_image};

/// Maximum size of a JPEG header. A CMYK profile takes about 600 KiB, and Exif data at most 64 KiB. The rest is
/// for panoramas and depth maps in APP segments.
const MAX_JPEG_HEADER_BYTES: u64 = 16 << 20;

pub(super) fn probe(file: &(impl ReadAt + ?Sized)) -> Result<PictureInfo, Flaw> {
    let header = match jpeg_header(file)? {
        JpegStart::Frame(header) => header,
        JpegStart::Hierarchical { offset } => return hierarchical(file, offset),
    };
    let rare = rare(&header)?;
    let end = jpeg_end(file, header.scan_offset)?;
    Ok(PictureInfo {
        media_type: PictureFormat::Jpeg.media_type(),
        width: header.width.into(),
        height: header.height.into(),
        deep: false,
        exif: None,
        beside: None,
        jpeg: Some(JpegFacts {
            gpu_jpeg: header.device_decodable(),
            rare,
            progressive: header.is_progressive(),
            components: u8::try_from(header.components().len()).unwrap_or(0),
            restart_interval: header.restart_interval,
            orientation: header.orientation,
            icc: header.icc,
            trailing_bytes: file.len() - end,
        }),
    })
}

/// Returns the rarely supported feature that the JPEG uses, if any. A file that violates T.81 is damaged.
fn rare(header: &JpegHeader) -> Result<Option<&'static str>, Flaw> {
    match (header.sof, header.precision) {
        (5..=7 | 13..=15, _) => Err(Flaw::damaged("the JPEG is damaged: its first frame is a differential frame")),
        (3 | 11, 2..=16) | (_, 8 | 12) => Ok(header.unsupported()),
        (_, precision) => {
            Err(Flaw::damaged(format!("the JPEG has {precision} bits per sample, but must have 8 or 12")))
        }
    }
}

/// Reads the DHP segment at `offset`. It is laid out like a frame header and has the dimensions of
/// the whole picture (T.81, B.3.2).
fn hierarchical(file: &(impl ReadAt + ?Sized), offset: u64) -> Result<PictureInfo, Flaw> {
    let short = || Flaw::damaged("the JPEG header is truncated");
    let segment = file.read_at(offset, 10).map_err(|_| short())?;
    let side = |at| be16(&segment, at).ok_or_else(short);
    let (length, height, width) = (side(2)?, side(5)?, side(7)?);
    let components = segment.get(9).copied().ok_or_else(short)?;
    if !(1..=4).contains(&components) {
        return Err(Flaw::damaged(format!(
            "the hierarchical JPEG is damaged: it has {components} components instead of 1 to 4"
        )));
    }
    let expected = 8 + 3 * u16::from(components);
    if length != expected {
        return Err(Flaw::damaged(format!(
            "the hierarchical JPEG is damaged: its DHP segment has {length} bytes instead of {expected}"
        )));
    }
    let end = jpeg_end(file, offset + 2 + u64::from(length))?;
    Ok(PictureInfo {
        media_type: PictureFormat::Jpeg.media_type(),
        width: width.into(),
        height: height.into(),
        deep: false,
        exif: None,
        beside: None,
        jpeg: Some(JpegFacts {
            gpu_jpeg: false,
            rare: Some("hierarchical JPEG"),
            progressive: false,
            components,
            restart_interval: 0,
            orientation: None,
            icc: false,
            trailing_bytes: file.len() - end,
        }),
    })
}

/// The first segment of a JPEG after its tables and metadata.
enum JpegStart {
    Frame(JpegHeader),
    /// A segment that starts a hierarchy of frames.
    Hierarchical {
        offset: u64,
    },
}

fn jpeg_header(file: &(impl ReadAt + ?Sized)) -> Result<JpegStart, Flaw> {
    let mut have = 16 << 10;
    loop {
        let prefix = file.head(have)?;
        match JpegHeader::parse(&prefix) {
            Ok(header) => return Ok(JpegStart::Frame(header)),
            // The parser does not support hierarchies of frames, so it stops at the start of a hierarchy.
            Err(JpegError::Damaged { offset, .. })
                if file.read_at(offset, 2).is_ok_and(|marker| *marker == [0xFF, 0xDE]) =>
            {
                return Ok(JpegStart::Hierarchical { offset });
            }
            Err(JpegError::Truncated { needed }) if needed <= file.len() && prefix.len() as u64 != file.len() => {
                if needed > MAX_JPEG_HEADER_BYTES {
                    return Err(Flaw::damaged(format!(
                        "the JPEG header is longer than {} MiB",
                        MAX_JPEG_HEADER_BYTES >> 20
                    )));
                }
                // Grow the buffer exponentially. Otherwise a header with thousands of small
                // segments would be rescanned thousands of times.
                have = needed.max(2 * have);
            }
            Err(JpegError::Truncated { needed }) => {
                return Err(Flaw::damaged(format!(
                    "the JPEG header is truncated: it needs at least {needed} bytes, but the file has {}",
                    file.len()
                )));
            }
            Err(error) => return Err(Flaw::damaged(error.to_string())),
        }
    }
}

/// Finds the end of the picture. Nearly every file ends at EOI, but some have padding or another picture after it.
fn jpeg_end(file: &(impl ReadAt + ?Sized), scan_offset: u64) -> Result<u64, Flaw> {
    let from = file.len().saturating_sub(TAIL_BYTES).max(scan_offset).min(file.len());
    let tail = file.read_at(from, file.len() - from)?;
    if tail.ends_with(b"\xFF\xD9") {
        return Ok(file.len());
    }
    // Zeros after the picture are skipped quickly. Any other bytes may be a second picture with its
    // own EOI marker, so the markers must be followed from the start.
    let content = tail.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    if tail.get(..content).is_some_and(|content| content.ends_with(b"\xFF\xD9")) {
        return Ok(from + content as u64);
    }
    end_of_image(&file.head(MAX_SEARCHED_BYTES)?, scan_offset)
        .ok_or_else(|| Flaw::damaged(format!("the JPEG is truncated: no end marker (FF D9) in {} bytes", file.len())))
}
