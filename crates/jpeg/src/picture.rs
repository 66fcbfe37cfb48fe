//! Whether an encoded picture decodes: the check behind `verify --deep`.

use crate::picture_open::{damaged, open};
use crate::{Bounds, Decompressor, FRAMES, Frames, Scale, Warnings, grown, trim};
use image::{ImageDecoder, ImageFormat};
use shardpack_format::{Error, Limits, Result};

/// Decodes `bytes` and throws the pixels away.
///
/// JPEG goes through libjpeg-turbo, whose warnings (damaged or truncated entropy data) count as
/// errors; PNG, WebP, BMP and TIFF through the `image` crate. Reused between calls, so that a
/// thread checks many pictures without allocating for each.
///
/// ```
/// use shardpack_jpeg::PictureCheck;
/// let mut check = PictureCheck::new()?;
/// assert!(check.check("image/jpeg", b"not a JPEG", &Default::default()).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
pub struct PictureCheck {
    jpeg: Decompressor,
    pixels: Vec<u8>,
}

impl std::fmt::Debug for PictureCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PictureCheck").finish_non_exhaustive()
    }
}

impl PictureCheck {
    /// A new check. Each thread has its own.
    ///
    /// # Errors
    /// `Usage` if libjpeg-turbo cannot be set up (out of memory).
    pub fn new() -> Result<Self> {
        Ok(Self { jpeg: Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse), pixels: Vec::new() })
    }

    /// Decodes the picture, of a list all, and returns the width and height of the first, in pixels.
    ///
    /// # Errors
    /// `Format` if it does not decode completely or its media type is unknown; `Limit` if its
    /// pixels take more than `limits.max_decoded_bytes` or it has more than 500 scans.
    pub fn check(&mut self, media_type: &str, bytes: &[u8], limits: &Limits) -> Result<(u64, u64)> {
        match media_type {
            FRAMES => {
                let frames = Frames::of(media_type, bytes)?;
                let size = self.check_jpeg(frames.first(), limits)?;
                frames.iter().skip(1).try_for_each(|frame| self.check_jpeg(frame, limits).map(|_| ()))?;
                Ok(size)
            }
            "image/jpeg" => self.check_jpeg(bytes, limits),
            "image/png" => self.check_other(ImageFormat::Png, bytes, limits),
            "image/webp" => self.check_other(ImageFormat::WebP, bytes, limits),
            "image/bmp" => self.check_other(ImageFormat::Bmp, bytes, limits),
            "image/tiff" => self.check_other(ImageFormat::Tiff, bytes, limits),
            other => Err(Error::format("media type", "image/jpeg, png, webp, bmp or tiff", format!("{other:?}"))),
        }
    }

    fn check_jpeg(&mut self, bytes: &[u8], limits: &Limits) -> Result<(u64, u64)> {
        if let Some((precision, width, height)) = rare_precision(bytes) {
            // libjpeg-turbo's 8-bit decoder would refuse an undamaged picture, so trust the
            // picture's header.
            pixel_bytes(width, height, 8, limits)?;
            return match bytes.ends_with(b"\xFF\xD9") {
                true => Ok((width, height)),
                false => Err(Error::format(format!("JPEG of {precision} bits"), "an end-of-image marker", "none")),
            };
        }
        self.jpeg.set_bounds(Bounds::of(limits));
        let picture = self.jpeg.open(bytes)?;
        let frame = picture.frame();
        let (width, height) = (u64::from(frame.width), u64::from(frame.height));
        // At an eighth of the size all entropy-coded data is still read, for a fraction of the
        // work. Our own decoder knows no scale.
        let whole = frame.lossless || cfg!(not(feature = "turbo"));
        let scale = if whole { Scale::Full } else { Scale::Eighth };
        let format = frame.color.format();
        let pitch = scale.of(frame.width) as usize * format.bytes();
        self.pixels.resize(pitch * scale.of(frame.height) as usize, 0);
        let decoded = picture.decode(scale, format, &mut self.pixels, pitch);
        trim([&mut self.pixels]);
        decoded?;
        Ok((width, height))
    }

    fn check_other(&mut self, format: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<(u64, u64)> {
        let decoder = open(format, bytes, limits)?;
        let (width, height) = decoder.dimensions();
        let total = usize::try_from(decoder.total_bytes())
            .map_err(|_| Error::usage("decoded picture", "what the address space holds", decoder.total_bytes()))?;
        let decoded = decoder.read_image(grown(&mut self.pixels, total)).map_err(damaged);
        trim([&mut self.pixels]);
        decoded?;
        Ok((width.into(), height.into()))
    }
}

/// Bits per sample, width and height of a JPEG that does not have 8 bits; `None` for all others,
/// and if there is no frame header.
fn rare_precision(bytes: &[u8]) -> Option<(u8, u64, u64)> {
    let mut rest = bytes.strip_prefix(b"\xFF\xD8")?;
    loop {
        let (&[prefix, marker], tail) = rest.split_first_chunk::<2>()?;
        if prefix != 0xFF || marker == 0xDA {
            return None;
        }
        let length = usize::from(u16::from_be_bytes(*tail.first_chunk()?));
        let body = tail.get(2..length)?;
        // Every SOF; C4, C8 and CC in this range are not frames.
        if matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC) {
            let &[precision, h1, h0, w1, w0] = body.first_chunk()?;
            let axis = |high, low| u64::from(u16::from_be_bytes([high, low]));
            return (precision != 8).then(|| (precision, axis(w1, w0), axis(h1, h0)));
        }
        rest = tail.get(length..)?;
    }
}

fn pixel_bytes(width: u64, height: u64, channels: u64, limits: &Limits) -> Result<u64> {
    let bytes = width.checked_mul(height).and_then(|n| n.checked_mul(channels)).unwrap_or(u64::MAX);
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded picture", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    Ok(bytes)
}

#[cfg(all(test, feature = "turbo"))]
mod tests {
    use super::*;
    use crate::{Compressor, Encoding, PixelFormat, Subsampling};
    use std::io::Cursor;

    fn jpeg(width: usize, height: usize) -> Vec<u8> {
        let pixels: Vec<u8> = (0..width * height * 3).map(|i| (i * 7 % 251) as u8).collect();
        let mut out = Vec::new();
        let how = Encoding { quality: 90, subsampling: Subsampling::S420, restart_interval: 0 };
        let size = (u32::try_from(width).unwrap(), u32::try_from(height).unwrap());
        Compressor::new().encode(&pixels, size, PixelFormat::Rgb, how, &mut out).unwrap();
        out
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        image::RgbImage::new(width, height).write_to(&mut out, image::ImageFormat::Png).unwrap();
        out.into_inner()
    }

    #[test]
    fn whole_pictures_pass() {
        let mut check = PictureCheck::new().unwrap();
        assert_eq!(check.check("image/jpeg", &jpeg(61, 35), &Limits::default()), Ok((61, 35)));
        assert_eq!(check.check("image/png", &png(5, 9), &Limits::default()), Ok((5, 9)));
    }

    #[test]
    fn a_jpeg_cut_anywhere_fails() {
        let mut check = PictureCheck::new().unwrap();
        let whole = jpeg(61, 35);
        for len in 0..whole.len() {
            assert!(check.check("image/jpeg", &whole[..len], &Limits::default()).is_err(), "cut at {len}");
        }
        assert_eq!(check.check("image/jpeg", &whole, &Limits::default()), Ok((61, 35)), "the decoder stays usable");
    }

    #[test]
    fn huge_dimensions_are_refused_before_decoding() {
        let mut whole = jpeg(16, 16);
        let sof = memchr::memmem::find(&whole, b"\xFF\xC0").unwrap();
        whole[sof + 5..sof + 9].copy_from_slice(&[0x9C, 0x40, 0x9C, 0x40]);
        let error = PictureCheck::new().unwrap().check("image/jpeg", &whole, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{error}");
    }

    #[test]
    fn twelve_bits_are_no_damage() {
        let mut whole = jpeg(61, 35);
        let sof = memchr::memmem::find(&whole, b"\xFF\xC0").unwrap();
        whole[sof + 4] = 12;
        let mut check = PictureCheck::new().unwrap();
        assert_eq!(check.check("image/jpeg", &whole, &Limits::default()), Ok((61, 35)));
        whole.truncate(whole.len() - 1);
        assert!(check.check("image/jpeg", &whole, &Limits::default()).is_err());
    }

    #[test]
    fn other_media_types_are_named() {
        let error = PictureCheck::new().unwrap().check("image/gif", b"GIF89a", &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("image/gif"), "{error}");
    }
}
