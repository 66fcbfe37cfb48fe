//! Pictures, recognised by their content: JPEG, PNG, WebP, BMP, TIFF. Dimensions, and whether the
//! file is whole, come from its first and last bytes; nothing is decoded here. When it is packed, a picture
//! that is no baseline JPEG is decoded once ([`PictureMaker`](crate::pack)).
#![deny(clippy::indexing_slicing)]

use super::bad::Flaw;
use super::jpeg_file;
use super::read_at::ReadAt;
use super::{tiff_header, tiff_words};
use serde::{Deserialize, Serialize};
use shardpack_jpeg::exif_orientation;

/// Where to look for the end of a picture before reading the whole file.
pub(crate) const TAIL_BYTES: u64 = 4 << 10;

/// Largest file that is searched completely for the end of its picture.
pub(crate) const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Most chunks of a file that are passed over in search of its Exif data, and the most of that.
const MAX_CHUNKS: usize = 1_000;
const MAX_EXIF_BYTES: u64 = 64 << 10;

/// A fixed word. By its own name, because serde takes a plain `&str` for one that is borrowed from
/// the input.
type Word = &'static str;

/// A picture, as its header describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// `image/jpeg`, `image/png`, `image/webp`, `image/bmp` or `image/tiff`.
    #[serde(deserialize_with = "super::listing_file::media_type")]
    pub media_type: Word,
    /// Width in pixels as stored, before any Exif orientation.
    pub width: u32,
    /// Height in pixels as stored, before any Exif orientation.
    pub height: u32,
    /// Whether it is not a JPEG and has more than 8 bits per sample. It is kept byte for byte, and
    /// decodes to 8.
    pub deep: bool,
    /// Exif orientation, 1..=8, if there is one; not of JPEGs.
    #[serde(default)]
    pub exif: Option<u8>,
    /// What it has beside its colours, which is kept to the byte, and not decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// More about a JPEG.
    pub jpeg: Option<JpegFacts>,
}

/// What a picture has beside its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beside {
    /// Transparency.
    Alpha,
    /// A band of which the file does not say what it is.
    Band,
}

impl Picture {
    /// Height and width as it is shown, after any Exif orientation.
    pub const fn upright(&self) -> [u32; 2] {
        match self.orientation() {
            5..=8 => [self.width, self.height],
            _ => [self.height, self.width],
        }
    }

    /// Exif orientation, 1..=8.
    pub const fn orientation(&self) -> u8 {
        let found = match self.jpeg {
            Some(JpegFacts { orientation, .. }) => orientation,
            None => self.exif,
        };
        match found {
            Some(orientation) => orientation,
            None => 1,
        }
    }
}

/// What the rest of the program needs to know about a JPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JpegFacts {
    /// Whether a GPU decodes it: see
    /// [`device_decodable`](shardpack_jpeg::JpegHeader::device_decodable).
    pub gpu_jpeg: bool,
    /// The feature that few decoders read, if there is one: the lossless or the hierarchical
    /// process, arithmetic coding, 12 bits, two components. The picture is kept like any other, and
    /// `gpu_jpeg` is false.
    #[serde(deserialize_with = "super::listing_file::rare")]
    pub rare: Option<Word>,
    /// Whether it is progressive.
    pub progressive: bool,
    /// Components: 1 to 4.
    pub components: u8,
    /// MCUs between restart markers; 0 = none.
    pub restart_interval: u16,
    /// Exif orientation, 1..=8, if there is one. Not searched for in a hierarchical JPEG.
    pub orientation: Option<u8>,
    /// Whether there is an ICC profile. Not searched for in a hierarchical JPEG.
    pub icc: bool,
    /// Bytes after EOI, kept like everything else. Also 0 if a second whole JPEG fills them to the
    /// end: only the last bytes are read.
    pub trailing_bytes: u64,
}

/// The kind of picture in `bytes`, a whole file; `None` if it is not a known kind.
///
/// ```
/// use shardpack_sources::picture::probe_picture;
/// assert_eq!(probe_picture(b"neither fish nor fowl"), Ok(None));
/// assert_eq!(probe_picture(b"GIF89a\x01\0\x01\0").unwrap_err().detail, "GIF is not supported: convert it to PNG");
/// ```
///
/// # Errors
/// A picture that is damaged, cut off, or of a type that is not packed: GIF, HEIF, AVIF, JPEG 2000,
/// JPEG XL, animated WebP.
pub fn probe_picture(bytes: &[u8]) -> Result<Option<Picture>, Flaw> {
    match probe(bytes)? {
        Some(Sniffed::Picture(picture)) => Ok(Some(picture)),
        Some(Sniffed::Tiff(header)) if header.may_be_picture() => Ok(Some(tiff(&header))),
        Some(Sniffed::Tiff(_)) | None => Ok(None),
    }
}

/// What the content of a file looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sniffed {
    Picture(Picture),
    /// A picture or a cube.
    Tiff(tiff_header::TiffHeader),
}

pub(crate) fn probe(file: &(impl ReadAt + ?Sized)) -> Result<Option<Sniffed>, Flaw> {
    let head = file.head(72)?;
    let picture = if head.starts_with(b"\xFF\xD8\xFF") {
        jpeg_file::probe(file)?
    } else if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        png(file)?
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        webp(file, &head)?
    } else if is_bmp(&head) {
        bmp(file, &head)?
    } else if tiff_words::is_tiff(&head) {
        return Ok(Some(Sniffed::Tiff(tiff_header::parse(file)?)));
    } else if let Some(name) = unsupported(&head) {
        return Err(Flaw::unsupported(format!("{name} is not supported: convert it to PNG")));
    } else {
        return Ok(None);
    };
    if picture.width == 0 || picture.height == 0 {
        return Err(Flaw::damaged(format!("{} of {} × {} pixels", picture.media_type, picture.width, picture.height)));
    }
    Ok(Some(Sniffed::Picture(picture)))
}

/// A TIFF as a picture.
pub(crate) fn tiff(header: &tiff_header::TiffHeader) -> Picture {
    let exif = u8::try_from(header.orientation).ok().filter(|orientation| (1..=8).contains(orientation));
    let (width, height, deep) = (header.width, header.height, header.bits > 8);
    let beside = match (header.has_unknown_band(), header.has_alpha) {
        (true, _) => Some(Beside::Band),
        (false, true) => Some(Beside::Alpha),
        (false, false) => None,
    };
    Picture { media_type: "image/tiff", width, height, deep, exif, beside, jpeg: None }
}

/// Name of a type that is known but cannot be packed.
fn unsupported(head: &[u8]) -> Option<&'static str> {
    let brand = (head.get(4..8) == Some(b"ftyp")).then(|| head.get(8..12)).flatten();
    Some(match (head, brand) {
        (_, Some(b"avif" | b"avis")) => "AVIF",
        (_, Some(b"heic" | b"heix" | b"hevc" | b"heim" | b"heis" | b"mif1" | b"msf1")) => "HEIF",
        ([b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..], _) => "GIF",
        ([0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xFF, 0x4F, 0xFF, 0x51, ..], _) => "JPEG 2000",
        ([0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..], _) => "JPEG XL",
        ([b'8', b'B', b'P', b'S', 0, 1 | 2, ..], _) => "Photoshop",
        ([0x76, 0x2F, 0x31, 0x01, ..], _) => "OpenEXR",
        _ => return None,
    })
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn png(file: &(impl ReadAt + ?Sized)) -> Result<Picture, Flaw> {
    const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    let head = file.read_at(0, 33).map_err(|_| Flaw::damaged("PNG cut off in its header"))?;
    if head.get(8..16) != Some(b"\0\0\0\x0dIHDR") {
        return Err(Flaw::damaged("PNG without IHDR as its first chunk"));
    }
    let (width, height) = be32(&head, 16).zip(be32(&head, 20)).ok_or_else(|| Flaw::damaged("PNG without a size"))?;
    if width.max(height) > i32::MAX.unsigned_abs() {
        return Err(Flaw::damaged(format!("PNG of {width} × {height} pixels")));
    }
    let from = file.len().saturating_sub(TAIL_BYTES);
    let ended = |bytes: &[u8]| bytes.ends_with(END) || bytes.windows(END.len()).any(|window| window == END);
    // Bytes after the end are allowed and rare. Then search the whole file.
    if !ended(&file.read_at(from, file.len() - from)?) && !ended(&file.head(MAX_SEARCHED_BYTES)?) {
        return Err(Flaw::damaged(format!("PNG cut off: no end chunk (IEND) in its {} bytes", file.len())));
    }
    let deep = head.get(24).is_some_and(|bits| *bits > 8);
    let (exif, is_clear) = png_chunks(file);
    let alpha = is_clear || head.get(25).is_some_and(|color| matches!(color, 4 | 6));
    let beside = alpha.then_some(Beside::Alpha);
    Ok(Picture { media_type: "image/png", width, height, deep, exif, beside, jpeg: None })
}

/// What stands before the pixels of a PNG: the orientation in its Exif chunk, as decoders read it, and
/// whether there is a chunk of transparency.
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
        // Length, name and CRC32.
        at += length + 12;
    }
    None
}

/// The orientation in the Exif chunk of a WebP of so many bytes.
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
            // Some writers put the mark of JPEG's segment before it.
            return exif_orientation(exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif));
        }
        at += 8 + length.next_multiple_of(2);
    }
    None
}

fn webp(file: &(impl ReadAt + ?Sized), head: &[u8]) -> Result<Picture, Flaw> {
    let short = || Flaw::damaged("WebP cut off in its header");
    let expected = u64::from(le32(head, 4).ok_or_else(short)?) + 8;
    if expected > file.len() {
        return Err(Flaw::damaged(format!("WebP cut off: expected {expected} bytes, found {}", file.len())));
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
                return Err(Flaw::damaged("WebP without a key frame"));
            }
            let side = |at| le16(head, at).map(|side| u32::from(side & 0x3FFF)).ok_or_else(short);
            (side(26)?, side(28)?)
        }
        Some(b"VP8L") => {
            if head.get(20) != Some(&0x2F) {
                return Err(Flaw::damaged("lossless WebP without its signature"));
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
        _ => return Err(Flaw::damaged("WebP without a picture as its first chunk")),
    };
    let has_exif = head.get(12..16) == Some(b"VP8X") && head.get(20).is_some_and(|flags| flags & 8 != 0);
    let exif = if has_exif { webp_exif(file, expected) } else { None };
    let beside = alpha.then_some(Beside::Alpha);
    Ok(Picture { media_type: "image/webp", width, height, deep: false, exif, beside, jpeg: None })
}

/// Two letters are not a signature: the length of the second header must match, and the pixels begin
/// behind it. Reserved bytes are not always zero.
fn is_bmp(head: &[u8]) -> bool {
    let has_header = |bytes: u32| matches!(bytes, 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124);
    head.starts_with(b"BM")
        && le32(head, 14).is_some_and(|bytes| has_header(bytes) && le32(head, 10).is_some_and(|at| at >= 14 + bytes))
}

fn bmp(file: &(impl ReadAt + ?Sized), head: &[u8]) -> Result<Picture, Flaw> {
    let short = || Flaw::damaged("BMP cut off in its header");
    let pixels = u64::from(le32(head, 10).ok_or_else(short)?);
    let core = le32(head, 14) == Some(12);
    let (width, height, bits, compression) = if core {
        let [width, height, bits] = [18, 20, 24].map(|at| le16(head, at).map(u32::from));
        (width, height, bits, Some(0))
    } else {
        // A negative height means that the rows are stored from the top.
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
            // From this header on there is a mask of alpha.
            let has_mask = matches!(le32(head, 14), Some(56 | 108 | 124)) && matches!(compression, 3 | 6);
            let beside = (has_mask && le32(head, 66).is_some_and(|mask| mask != 0)).then_some(Beside::Alpha);
            Ok(Picture { media_type: "image/bmp", width, height, deep: false, exif: None, beside, jpeg: None })
        }
        _ => {
            Err(Flaw::damaged(format!("BMP cut off: {width} × {height} pixels of {bits} bits in {} bytes", file.len())))
        }
    }
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
