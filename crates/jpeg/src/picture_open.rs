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
/// Whatever the limits are, a decoder may take only a few times the decoded picture and its file.
/// The PNG decoder reads everything before the pixels before it tells their size: it may take a
/// fixed amount and a few times the file, whatever size the header claims. An ICC profile or a text
/// that is compressed a thousandfold is left out, or is an error.
///
/// # Errors
/// `Format` if there is no header of this format; `Limit` if the picture takes more than
/// `limits.max_decoded_bytes`.
pub(crate) fn open<'a>(format: ImageFormat, bytes: &'a [u8], limits: &Limits) -> Result<impl ImageDecoder + 'a> {
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

/// Bytes of the picture, if they are within the limits. Whatever is stored, 3 for each pixel are made.
fn check(stored: u64, width: u32, height: u32, limits: &Limits) -> Result<u64> {
    let needed = stored.max((u64::from(width) * u64::from(height)).saturating_mul(3));
    if needed > limits.max_decoded_bytes {
        return Err(Error::limit("decoded picture", "max_decoded_bytes", limits.max_decoded_bytes, needed));
    }
    Ok(needed)
}

/// What the decoder of a picture of `decoded` bytes may take.
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

pub(crate) fn damaged(error: image::ImageError) -> Error {
    Error::format("picture", "one that decodes", error)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
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
        // 27 MB of pixels out of a small file: the budget is not theirs.
        assert_eq!(opened(&png(3000, 1 << 10)), (1 << 10, true), "a large picture");
    }

    /// The same file, whose header claims another size.
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
        let mut decoder = open(ImageFormat::Png, &large, &limits).unwrap();
        assert_eq!(decoder.dimensions(), (12_000, 12_000));
        assert_eq!(decoder.icc_profile().unwrap().map_or(0, |profile| profile.len()), 0);
        let limits = Limits { max_decoded_bytes: 432_000_000 - 1, ..Limits::default() };
        // Refused by its header alone: what follows is no PNG.
        let error = open(ImageFormat::Png, &large[..33], &limits).map(drop).unwrap_err().to_string();
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
