//! Opens a picture that is not a JPEG, with a memory budget that depends on its own size.
#![deny(clippy::indexing_slicing)]

use crate::bmp::Bmp;
use crate::tiff::Tiff;
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader};
use shardpack_base::parts::grow;
use shardpack_format::{Error, Limits, Result};
use std::io::Cursor;

/// Bytes that a decoder may take besides the pixels and the file: rows, tiles and tables of small pictures.
const SLACK_BYTES: u64 = 16 << 20;

/// A picture whose header was read, to be decoded once.
pub(crate) enum Opened<'a> {
    /// PNG and WebP, by the `image` crate.
    Image(Box<dyn ImageDecoder + 'a>),
    Bmp(Bmp<'a>),
    Tiff(Box<Tiff<'a>>),
}

/// Reads the header of a picture of this media type, and compares its sizes with the limits. Returns `None`
/// for a JPEG.
///
/// # Errors
/// `Format` if there is no header of this type, or the type is unknown; `Limit` if the picture takes more than
/// `limits.max_decoded_bytes`.
pub(crate) fn open<'a>(media_type: &str, bytes: &'a [u8], limits: &Limits) -> Result<Option<Opened<'a>>> {
    Ok(Some(match media_type {
        "image/jpeg" => return Ok(None),
        "image/png" => Opened::Image(Box::new(open_image(ImageFormat::Png, bytes, limits)?)),
        "image/webp" => Opened::Image(Box::new(open_image(ImageFormat::WebP, bytes, limits)?)),
        "image/bmp" => Opened::Bmp(Bmp::open(bytes, limits)?),
        "image/tiff" => Opened::Tiff(Box::new(Tiff::open(bytes, limits)?)),
        other => {
            let expected = "image/jpeg, png, webp, bmp or tiff";
            return Err(Error::format("media type", expected, format!("{other:?}")));
        }
    }))
}

impl Opened<'_> {
    /// Width and height in pixels.
    pub(crate) fn dimensions(&self) -> (u32, u32) {
        match self {
            Self::Image(decoder) => decoder.dimensions(),
            Self::Bmp(bmp) => (bmp.width, bmp.height),
            Self::Tiff(tiff) => (tiff.width, tiff.height),
        }
    }

    /// True if samples have more than 8 bits.
    pub(crate) fn is_deep(&self) -> bool {
        match self {
            Self::Image(decoder) => {
                let color = decoder.color_type();
                color.bytes_per_pixel() > color.channel_count()
            }
            Self::Bmp(_) => false,
            Self::Tiff(tiff) => tiff.is_deep(),
        }
    }

    /// Decodes the whole picture into `rgb`, 3 bytes for each pixel. `raw` is scratch memory.
    ///
    /// # Errors
    /// `Format` if the picture is damaged.
    pub(crate) fn decode(self, raw: &mut Vec<u8>, rgb: &mut [u8]) -> Result<()> {
        match self {
            Self::Image(decoder) => {
                let color = decoder.color_type();
                if color == ColorType::Rgb8 {
                    return decoder.read_image_boxed(rgb).map_err(damaged);
                }
                let total = decoder.total_bytes();
                let total = usize::try_from(total).map_err(|_| {
                    Error::usage(format!("decoded picture: expected what the address space holds, found {total}"))
                })?;
                let raw = grow(raw, total);
                decoder.read_image_boxed(raw).map_err(damaged)?;
                to_rgb(color, raw, rgb)
            }
            Self::Bmp(bmp) => bmp.decode(rgb),
            Self::Tiff(tiff) => tiff.decode(rgb),
        }
    }
}

/// Opens a picture for the `image` crate.
///
/// Independent of the limits, a decoder may take only a few times the decoded picture and its file. The PNG
/// decoder reads everything before the pixels before it reports their size: it may take a fixed amount and a
/// few times the file, regardless of the size in the header. An ICC profile or a text that is compressed a
/// thousandfold is skipped, or is an error.
fn open_image<'a>(format: ImageFormat, bytes: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a> {
    let is_png = format == ImageFormat::Png;
    if let Some((width, height)) = png_size(bytes).filter(|_| is_png) {
        check(0, width, height, limits)?;
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(budget(0, bytes, limits));
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    let needed = check(decoder.total_bytes(), width, height, limits)?;
    if !is_png {
        decoder.set_limits(budget(needed, bytes, limits)).map_err(damaged)?;
    }
    Ok(decoder)
}

/// Returns the bytes of the picture, if they are within the limits. Any picture also decodes to 3 bytes per
/// pixel.
fn check(stored: u64, width: u32, height: u32, limits: &Limits) -> Result<u64> {
    let needed = stored.max((u64::from(width) * u64::from(height)).saturating_mul(3));
    if needed > limits.max_decoded_bytes {
        return Err(Error::limit("decoded picture", "max_decoded_bytes", limits.max_decoded_bytes, needed));
    }
    Ok(needed)
}

/// Memory budget of the decoder of a picture of `decoded` bytes.
fn budget(decoded: u64, file: &[u8], limits: &Limits) -> image::Limits {
    let own = decoded.saturating_add(file.len() as u64).saturating_mul(4).saturating_add(SLACK_BYTES);
    let mut bounds = image::Limits::default();
    bounds.max_alloc = Some(own.min(limits.max_decoded_bytes));
    bounds
}

/// Width and height that the header of a PNG claims.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some((side(16)?, side(20)?))
}

/// Turns the output of the `image` crate, samples in the machine's byte order, into 8-bit RGB.
fn to_rgb(color: ColorType, raw: &[u8], rgb: &mut [u8]) -> Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    let of_u16 = |bytes: [u8; 2]| ((u32::from(u16::from_ne_bytes(bytes)) + 128) / 257) as u8;
    match color {
        ColorType::L8 => fill(rgb, raw, |&[v]: &[u8; 1]| [v; 3]),
        ColorType::La8 => fill(rgb, raw, |&[v, _]: &[u8; 2]| [v; 3]),
        ColorType::Rgb8 => fill(rgb, raw, |&pixel: &[u8; 3]| pixel),
        ColorType::Rgba8 => fill(rgb, raw, |&[r, g, b, _]: &[u8; 4]| [r, g, b]),
        ColorType::L16 => fill(rgb, raw, |&v: &[u8; 2]| [of_u16(v); 3]),
        ColorType::La16 => fill(rgb, raw, |&[a, b, ..]: &[u8; 4]| [of_u16([a, b]); 3]),
        ColorType::Rgb16 => fill(rgb, raw, |&[r, s, g, h, b, c]: &[u8; 6]| [[r, s], [g, h], [b, c]].map(of_u16)),
        ColorType::Rgba16 => {
            fill(rgb, raw, |&[r, s, g, h, b, c, ..]: &[u8; 8]| [[r, s], [g, h], [b, c]].map(of_u16));
        }
        other => return Err(Error::format("picture", "gray or RGB of 8 or 16 bits", format!("{other:?}"))),
    }
    Ok(())
}

fn fill<const N: usize>(rgb: &mut [u8], raw: &[u8], of: impl Fn(&[u8; N]) -> [u8; 3]) {
    for (to, from) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(raw.as_chunks::<N>().0) {
        *to = of(from);
    }
}

fn damaged(error: image::ImageError) -> Error {
    Error::format("picture", "one that decodes", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::ImageEncoder;
    use image::codecs::png::PngEncoder;

    fn png(side: u32, profile: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = PngEncoder::new(&mut out);
        encoder.set_icc_profile(vec![7; profile]).unwrap();
        let pixels = vec![90; side as usize * side as usize * 3];
        encoder.write_image(&pixels, side, side, image::ExtendedColorType::Rgb8).unwrap();
        out
    }

    /// Bytes of the profile that the decoder read, and true if it read the pixels.
    fn opened(png: &[u8]) -> (usize, bool) {
        let mut decoder = open_image(ImageFormat::Png, png, &Limits::default()).unwrap();
        let profile = decoder.icc_profile().unwrap().map_or(0, |profile| profile.len());
        let mut pixels = vec![0; usize::try_from(decoder.total_bytes()).unwrap()];
        decoder.read_image(&mut pixels).unwrap();
        (profile, pixels.iter().all(|&v| v == 90))
    }

    #[test]
    fn a_profile_a_thousand_times_the_picture_is_left_out() {
        let large = png(4, 64 << 20);
        assert!(large.len() < 1 << 20, "{} bytes", large.len());
        assert_eq!(opened(&large), (0, true));
        assert_eq!(opened(&png(4, 600 << 10)), (600 << 10, true), "one of the usual size");
        // 27 MB of pixels from a small file do not raise the budget of the profile.
        assert_eq!(opened(&png(3000, 1 << 10)), (1 << 10, true), "a large picture");
    }

    /// The same file with a different size in its header.
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
        let mut decoder = open_image(ImageFormat::Png, &large, &limits).unwrap();
        assert_eq!(decoder.dimensions(), (12_000, 12_000));
        assert_eq!(decoder.icc_profile().unwrap().map_or(0, |profile| profile.len()), 0);
        let limits = Limits { max_decoded_bytes: 432_000_000 - 1, ..Limits::default() };
        // Rejected by its header alone: the rest is no PNG.
        let error = open_image(ImageFormat::Png, &large[..33], &limits).map(drop).unwrap_err().to_string();
        assert!(error.contains("432000000"), "{error}");
    }

    #[test]
    fn the_budget_follows_the_picture_and_ends_at_the_limit() {
        let limits = Limits { max_decoded_bytes: 1 << 30, ..Limits::default() };
        let most = |decoded, file: usize| budget(decoded, &vec![0; file], &limits).max_alloc;
        assert_eq!(most(48, 100), Some(4 * 148 + SLACK_BYTES));
        assert_eq!(most(1 << 29, 100), Some(1 << 30));
        assert_eq!(png_size(&png(5, 1)), Some((5, 5)));
    }
}
