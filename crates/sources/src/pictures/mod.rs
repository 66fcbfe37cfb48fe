//! Recognises pictures by their content (see [`PictureFormat`]). The first bytes of a file contain its
//! dimensions, and the last bytes show that it is complete, so nothing is decoded here. Packing later decodes
//! each picture once, except for baseline JPEGs.
#![deny(clippy::indexing_slicing)]

mod bmp;
mod bytes;
mod jpeg;
mod picture;
mod png;
pub(crate) mod tiff;
mod webp;

pub use picture::{Beside, JpegFacts, PictureInfo};

use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_base::tiff::is_tiff;
pub use shardpack_jpeg::PictureFormat;
use tiff::TiffHeader;

/// Returns true if files with this lower-case extension are usually pictures.
pub(crate) fn has_extension(extension: &str) -> bool {
    PictureFormat::ALL.iter().any(|format| format.extensions().contains(&extension))
}

/// Returns the properties of the picture file `bytes`, or `None` if its kind is unknown.
///
/// ```
/// use shardpack_sources::pictures::probe_picture;
/// assert_eq!(probe_picture(b"neither fish nor fowl"), Ok(None));
/// let flaw = probe_picture(b"GIF89a\x01\0\x01\0").unwrap_err();
/// assert_eq!(flaw.detail, "GIF pictures are not supported: convert the picture to PNG");
/// ```
///
/// # Errors
/// Returns a flaw if the picture is damaged, truncated, or of an unsupported type: GIF, HEIF, AVIF, JPEG 2000,
/// JPEG XL, animated WebP.
pub fn probe_picture(bytes: &[u8]) -> Result<Option<PictureInfo>, Flaw> {
    match probe(bytes)? {
        Some(Sniffed::Picture(picture)) => Ok(Some(picture)),
        Some(Sniffed::Tiff(header)) if header.may_be_picture() => Ok(Some(tiff::picture(&header))),
        Some(Sniffed::Tiff(_)) | None => Ok(None),
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Sniffed {
    Picture(PictureInfo),
    /// A TIFF. It may be a picture or a cube.
    Tiff(TiffHeader),
}

pub(crate) fn probe(file: &(impl ReadAt + ?Sized)) -> Result<Option<Sniffed>, Flaw> {
    let head = file.head(72)?;
    let Some(format) = PictureFormat::ALL.into_iter().find(|format| recognises(*format, &head)) else {
        return match unsupported(&head) {
            Some(name) => {
                Err(Flaw::unsupported(format!("{name} pictures are not supported: convert the picture to PNG")))
            }
            None => Ok(None),
        };
    };
    let picture = match format {
        PictureFormat::Jpeg => jpeg::probe(file)?,
        PictureFormat::Png => png::probe(file)?,
        PictureFormat::WebP => webp::probe(file, &head)?,
        PictureFormat::Bmp => bmp::probe(file, &head)?,
        PictureFormat::Tiff => return Ok(Some(Sniffed::Tiff(tiff::parse(file)?))),
    };
    if picture.width == 0 || picture.height == 0 {
        return Err(Flaw::damaged(format!(
            "the picture ({}) is empty: {} × {} pixels",
            picture.media_type, picture.width, picture.height
        )));
    }
    Ok(Some(Sniffed::Picture(picture)))
}

fn recognises(format: PictureFormat, head: &[u8]) -> bool {
    match format {
        PictureFormat::Jpeg => head.starts_with(b"\xFF\xD8\xFF"),
        PictureFormat::Png => head.starts_with(b"\x89PNG\r\n\x1a\n"),
        PictureFormat::WebP => head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP"),
        PictureFormat::Bmp => bmp::is_bmp(head),
        PictureFormat::Tiff => is_tiff(head),
    }
}

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

#[cfg(test)]
mod tests;
