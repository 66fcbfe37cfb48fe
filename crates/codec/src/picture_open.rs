//! Opens a picture that is not a JPEG, with a memory budget that depends on its own size.
#![deny(clippy::indexing_slicing)]

use image::{ImageDecoder, ImageFormat, ImageReader};
use shardpack_format::{Error, Limits, Result};
use std::io::Cursor;

/// What a decoder may take besides the pixels and the file: rows, tiles and tables of small
/// pictures.
const SLACK_BYTES: u64 = 16 << 20;

/// Reads the header, and compares its sizes with the limits.
///
/// Whatever the limits are, the decoder may take only a few times the decoded picture and its file.
/// An ICC profile or a text that is compressed a thousandfold is left out, or is an error.
///
/// # Errors
/// `Format` if there is no header of this format; `Limit` if the picture takes more than
/// `limits.max_decoded_bytes`.
pub(crate) fn open<'a>(format: ImageFormat, bytes: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    // The PNG decoder reads everything before the pixels before it tells their size.
    let known = if format == ImageFormat::Png { png_bytes(bytes) } else { None };
    reader.limits(budget(known.unwrap_or(0), bytes, limits));
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    // Whatever is stored, the output has 3 bytes per pixel.
    let needed = decoder.total_bytes().max((u64::from(width) * u64::from(height)).saturating_mul(3));
    if needed > limits.max_decoded_bytes {
        return Err(Error::limit("decoded picture", "max_decoded_bytes", limits.max_decoded_bytes, needed));
    }
    if known.is_none() {
        decoder.set_limits(budget(needed, bytes, limits)).map_err(damaged)?;
    }
    Ok(decoder)
}

/// What the decoder of a picture of `decoded` bytes may take.
fn budget(decoded: u64, file: &[u8], limits: &Limits) -> image::Limits {
    let own = decoded.saturating_add(file.len() as u64).saturating_mul(4).saturating_add(SLACK_BYTES);
    let mut bounds = image::Limits::default();
    bounds.max_alloc = Some(own.min(limits.max_decoded_bytes));
    bounds
}

/// Bytes that the header of a PNG asks for, at most eight per pixel.
fn png_bytes(bytes: &[u8]) -> Option<u64> {
    let side = |at: usize| Some(u64::from(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    Some(side(16)?.saturating_mul(side(20)?).saturating_mul(8))
}

pub(crate) fn damaged(error: image::ImageError) -> Error {
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

    /// Bytes of the profile that the decoder took, and whether it read the pixels.
    fn opened(png: &[u8]) -> (usize, bool) {
        let mut decoder = open(ImageFormat::Png, png, &Limits::default()).unwrap();
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
    }

    #[test]
    fn the_budget_follows_the_picture_and_ends_at_the_limit() {
        let limits = Limits { max_decoded_bytes: 1 << 30, ..Limits::default() };
        let most = |decoded, file: usize| budget(decoded, &vec![0; file], &limits).max_alloc;
        assert_eq!(most(48, 100), Some(4 * 148 + SLACK_BYTES));
        assert_eq!(most(1 << 29, 100), Some(1 << 30));
        assert_eq!(png_bytes(&png(5, 1)), Some(200));
    }
}
