//! Opens pictures other than JPEGs, with a memory budget that depends on the size of the file.
#![deny(clippy::indexing_slicing)]

use crate::bmp::Bmp;
use crate::picture_format::PictureFormat;
use crate::tiff::Tiff;
use image_webp::WebPDecoder;
use png::{BitDepth, ColorType, Transformations};
use shardpack_base::parts::grow;
use shardpack_format::{Error, Limits, Result, to_usize};
use std::io::Cursor;

/// Number of bytes that a decoder may allocate in addition to the memory for the pixels and the file. Even small
/// pictures need this memory for rows, tiles and tables.
const SLACK_BYTES: u64 = 16 << 20;

/// A picture whose header has been read. It can be decoded once.
pub(crate) enum Opened<'a> {
    Png(Box<png::Reader<Cursor<&'a [u8]>>>),
    WebP(Box<WebPDecoder<Cursor<&'a [u8]>>>),
    Bmp(Bmp<'a>),
    Tiff(Box<Tiff<'a>>),
}

/// Reads the header of a picture and checks its sizes against the limits. Returns `None` for a JPEG.
///
/// # Errors
/// `Format` if `bytes` has no header of this media type, or the type is unknown; `Limit` if the picture
/// exceeds `limits.max_decoded_bytes`.
pub(crate) fn open<'a>(media_type: &str, bytes: &'a [u8], limits: &Limits) -> Result<Option<Opened<'a>>> {
    let format = PictureFormat::of_media_type(media_type).ok_or_else(|| {
        let known = PictureFormat::ALL.map(PictureFormat::media_type).join(", ");
        Error::format("media type", known, format!("{media_type:?}"))
    })?;
    Ok(Some(match format {
        PictureFormat::Jpeg => return Ok(None),
        PictureFormat::Png => Opened::Png(Box::new(open_png(bytes, limits)?)),
        PictureFormat::WebP => Opened::WebP(Box::new(open_webp(bytes, limits)?)),
        PictureFormat::Bmp => Opened::Bmp(Bmp::open(bytes, limits)?),
        PictureFormat::Tiff => Opened::Tiff(Box::new(Tiff::open(bytes, limits)?)),
    }))
}

impl Opened<'_> {
    pub(crate) fn dimensions(&self) -> (u32, u32) {
        match self {
            Self::Png(reader) => reader.info().size(),
            Self::WebP(decoder) => decoder.dimensions(),
            Self::Bmp(bmp) => (bmp.width, bmp.height),
            Self::Tiff(tiff) => (tiff.width, tiff.height),
        }
    }

    /// Returns true if samples have more than 8 bits.
    pub(crate) fn is_deep(&self) -> bool {
        match self {
            Self::Png(reader) => reader.output_color_type().1 == BitDepth::Sixteen,
            Self::WebP(_) | Self::Bmp(_) => false,
            Self::Tiff(tiff) => tiff.is_deep(),
        }
    }

    /// Decodes the whole picture into `rgb`, 3 bytes per pixel. `raw` is scratch memory.
    ///
    /// # Errors
    /// `Format` if the picture is damaged.
    pub(crate) fn decode(self, raw: &mut Vec<u8>, rgb: &mut [u8]) -> Result<()> {
        match self {
            Self::Png(mut reader) => match reader.output_color_type() {
                (ColorType::Rgb, BitDepth::Eight) => reader.next_frame(rgb).map(drop).map_err(damaged),
                color => {
                    let raw = grow(raw, decoded_bytes(reader.output_buffer_size())?);
                    reader.next_frame(raw).map_err(damaged)?;
                    to_rgb(color, raw, rgb)
                }
            },
            Self::WebP(mut decoder) => {
                if !decoder.has_alpha() {
                    return decoder.read_image(rgb).map_err(damaged);
                }
                let raw = grow(raw, decoded_bytes(decoder.output_buffer_size())?);
                decoder.read_image(raw).map_err(damaged)?;
                to_rgb((ColorType::Rgba, BitDepth::Eight), raw, rgb)
            }
            Self::Bmp(bmp) => bmp.decode(rgb),
            Self::Tiff(tiff) => tiff.decode(rgb),
        }
    }
}

/// Opens a PNG. The decoder reports the size of the pixels only after it has read everything before them. Until then,
/// it may allocate only a few times the file size, regardless of the limits and of the size in the header. As a
/// result, it skips an ICC profile that is compressed a thousandfold.
fn open_png<'a>(bytes: &'a [u8], limits: &Limits) -> Result<png::Reader<Cursor<&'a [u8]>>> {
    if let Some((width, height)) = png_size(bytes) {
        check(0, width, height, limits)?;
    }
    let budget = png::Limits { bytes: budget(bytes, limits) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), budget);
    // Expand samples of 1, 2 and 4 bits to 8, and palettes to RGB. 16-bit samples stay unchanged.
    decoder.set_transformations(Transformations::EXPAND);
    let reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = reader.info().size();
    let decoded = reader.output_buffer_size().map_or(u64::MAX, |bytes| bytes as u64);
    check(decoded, width, height, limits)?;
    Ok(reader)
}

/// Opens a WebP. Its decoder allocates a fixed multiple of the picture's size.
fn open_webp<'a>(bytes: &'a [u8], limits: &Limits) -> Result<WebPDecoder<Cursor<&'a [u8]>>> {
    let decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    let decoded = decoder.output_buffer_size().map_or(u64::MAX, |bytes| bytes as u64);
    check(decoded, width, height, limits)?;
    Ok(decoder)
}

/// Returns the size of the decoded picture in bytes. [`check`] has already compared this size with the limits.
fn decoded_bytes(bytes: Option<usize>) -> Result<usize> {
    bytes.ok_or_else(|| Error::usage("the decoded picture is larger than the address space"))
}

/// Fails if the decoded picture exceeds the limits. Every pixel counts as at least 3 bytes, the size of the RGB
/// output.
fn check(stored: u64, width: u32, height: u32, limits: &Limits) -> Result<()> {
    limits.check_decoded_picture(stored.max((u64::from(width) * u64::from(height)).saturating_mul(3)))
}

/// Returns the memory budget for everything that a decoder reads before the pixels.
fn budget(file: &[u8], limits: &Limits) -> usize {
    let own = (file.len() as u64).saturating_mul(4).saturating_add(SLACK_BYTES);
    to_usize(own.min(limits.max_decoded_bytes))
}

fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some((side(16)?, side(20)?))
}

/// Converts decoded pixels to 8-bit RGB. 16-bit samples are big-endian.
fn to_rgb(color: (ColorType, BitDepth), raw: &[u8], rgb: &mut [u8]) -> Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    let of_u16 = |bytes: [u8; 2]| ((u32::from(u16::from_be_bytes(bytes)) + 128) / 257) as u8;
    match color {
        (ColorType::Grayscale, BitDepth::Eight) => fill(rgb, raw, |&[v]: &[u8; 1]| [v; 3]),
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => fill(rgb, raw, |&[v, _]: &[u8; 2]| [v; 3]),
        (ColorType::Rgb, BitDepth::Eight) => fill(rgb, raw, |&pixel: &[u8; 3]| pixel),
        (ColorType::Rgba, BitDepth::Eight) => fill(rgb, raw, |&[r, g, b, _]: &[u8; 4]| [r, g, b]),
        (ColorType::Grayscale, BitDepth::Sixteen) => fill(rgb, raw, |&v: &[u8; 2]| [of_u16(v); 3]),
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen) => fill(rgb, raw, |&[a, b, ..]: &[u8; 4]| [of_u16([a, b]); 3]),
        (ColorType::Rgb, BitDepth::Sixteen) => {
            fill(rgb, raw, |&[r, s, g, h, b, c]: &[u8; 6]| [[r, s], [g, h], [b, c]].map(of_u16));
        }
        (ColorType::Rgba, BitDepth::Sixteen) => {
            fill(rgb, raw, |&[r, s, g, h, b, c, ..]: &[u8; 8]| [[r, s], [g, h], [b, c]].map(of_u16));
        }
        (color, depth) => {
            let text = format!("{color:?} pictures with {} bits per channel are not supported", depth as u8);
            return Err(Error::malformed(text));
        }
    }
    Ok(())
}

fn fill<const N: usize>(rgb: &mut [u8], raw: &[u8], of: impl Fn(&[u8; N]) -> [u8; 3]) {
    for (to, from) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(raw.as_chunks::<N>().0) {
        *to = of(from);
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::malformed(format!("the picture is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(side: u32, profile: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut info = png::Info::with_size(side, side);
        info.color_type = ColorType::Rgb;
        info.icc_profile = Some(vec![7; profile].into());
        let mut writer = png::Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
        writer.write_image_data(&vec![90; side as usize * side as usize * 3]).unwrap();
        writer.finish().unwrap();
        out
    }

    fn profile_bytes(reader: &png::Reader<Cursor<&[u8]>>) -> usize {
        reader.info().icc_profile.as_ref().map_or(0, |profile| profile.len())
    }

    /// Returns the number of profile bytes that the decoder read, and true if it read the pixels.
    fn opened(png: &[u8]) -> (usize, bool) {
        let mut reader = open_png(png, &Limits::default()).unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        (profile_bytes(&reader), pixels.iter().all(|&v| v == 90))
    }

    #[test]
    fn a_profile_a_thousand_times_the_picture_is_left_out() {
        let large = png(4, 64 << 20);
        assert!(large.len() < 1 << 20, "{} bytes", large.len());
        assert_eq!(opened(&large), (0, true));
        assert_eq!(opened(&png(4, 600 << 10)), (600 << 10, true), "one of the usual size");
        // The picture has 27 MB of pixels in a small file. Even this does not raise the budget for the profile.
        assert_eq!(opened(&png(3000, 1 << 10)), (1 << 10, true), "a large picture");
    }

    fn claims(mut png: Vec<u8>, side: u32) -> Vec<u8> {
        png[16..24].copy_from_slice(&[side.to_be_bytes(), side.to_be_bytes()].concat());
        let crc = crc32fast::hash(&png[12..29]);
        png[29..33].copy_from_slice(&crc.to_be_bytes());
        png
    }

    #[test]
    fn a_large_size_in_the_header_buys_no_large_profile() {
        let large = claims(png(4, 64 << 20), 12_000);
        let limits = Limits { max_decoded_bytes: 4 << 30, ..Limits::default() };
        let reader = open_png(&large, &limits).unwrap();
        assert_eq!(reader.info().size(), (12_000, 12_000));
        assert_eq!(profile_bytes(&reader), 0);
        let limits = Limits { max_decoded_bytes: 432_000_000 - 1, ..Limits::default() };
        // The picture must be rejected because of its header alone. Everything after it is missing.
        let error = open_png(&large[..33], &limits).map(drop).unwrap_err().to_string();
        assert!(error.contains("432000000"), "{error}");
    }

    #[test]
    fn the_budget_follows_the_file_and_ends_at_the_limit() {
        let most = |max_decoded_bytes, file: usize| {
            budget(&vec![0; file], &Limits { max_decoded_bytes, ..Limits::default() }) as u64
        };
        assert_eq!(most(1 << 30, 148), 4 * 148 + SLACK_BYTES);
        assert_eq!(most(1 << 20, 148), 1 << 20);
        assert_eq!(png_size(&png(5, 1)), Some((5, 5)));
    }
}
