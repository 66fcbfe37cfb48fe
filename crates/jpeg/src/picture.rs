//! Checks that an encoded picture can be decoded, for `verify --deep`.

use crate::{FRAMES, Frames, PictureDecoder, Rendering, StoredPicture, trim};
use shardpack_base::parts::grow;
use shardpack_format::{Limits, Result, to_usize};

/// Checks pictures by decoding them. The pixels are not kept.
///
/// Uses [`PictureDecoder`] like the loader, so a picture that passes can be loaded within the same limits. Reuse one
/// check for all pictures of a thread to avoid allocating its buffers again.
///
/// ```
/// use shardpack_jpeg::PictureCheck;
/// let mut check = PictureCheck::new();
/// assert!(check.check("image/jpeg", b"not a JPEG", &Default::default()).is_err());
/// ```
#[derive(Debug, Default)]
pub struct PictureCheck {
    /// The decoder and the limits that it was created with.
    decoder: Option<(Limits, PictureDecoder)>,
    pixels: Vec<u8>,
}

impl PictureCheck {
    /// Creates a check. Each thread needs its own check.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the picture, or all pictures of a list. Returns the width and height of the first one in
    /// pixels.
    ///
    /// # Errors
    /// `Format` if a picture does not decode completely or its media type is unknown; `Limit` if its pixels
    /// exceed `limits.max_decoded_bytes` or it has too many scans.
    pub fn check(&mut self, media_type: &str, bytes: &[u8], limits: &Limits) -> Result<(u64, u64)> {
        let frames = match media_type {
            FRAMES => Frames::of(media_type, bytes)?,
            _ => return self.check_one(media_type, bytes, limits),
        };
        let size = self.check_one(frames.media_type(), frames.first(), limits)?;
        frames.iter().skip(1).try_for_each(|frame| self.check_one(frames.media_type(), frame, limits).map(|_| ()))?;
        Ok(size)
    }

    fn check_one(&mut self, media_type: &str, bytes: &[u8], limits: &Limits) -> Result<(u64, u64)> {
        let decoder = match &mut self.decoder {
            Some((known, decoder)) if known == limits => decoder,
            other => &mut other.insert((limits.clone(), PictureDecoder::new(limits.clone()))).1,
        };
        let (height, width) = decoder.size_of(media_type, bytes, 1)?;
        let (width, height) = (u64::from(width), u64::from(height));
        let needed = (width * height).saturating_mul(3);
        limits.check_decoded_picture(needed)?;
        // The loader rejects a picture with too many pixels before it opens the record.
        limits.check_pixels(needed, bytes.len() as u64)?;
        let pixels = grow(&mut self.pixels, to_usize(needed));
        let decoded = decoder.decode_into(&StoredPicture::new(media_type, bytes), &Rendering::default(), pixels);
        trim([&mut self.pixels]);
        decoded.map(|_| (width, height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compressor, Encoding, PixelFormat, Subsampling};
    use shardpack_format::Error;

    fn jpeg(width: usize, height: usize) -> Vec<u8> {
        let pixels: Vec<u8> = (0..width * height * 3).map(|i| (i * 7 % 251) as u8).collect();
        let mut out = Vec::new();
        let how = Encoding { quality: 90, subsampling: Subsampling::S420, restart_interval: 0 };
        let size = (u32::try_from(width).unwrap(), u32::try_from(height).unwrap());
        Compressor::new().encode(&pixels, size.0, size.1, PixelFormat::Rgb, how, &mut out).unwrap();
        out
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let pixels = vec![0; width as usize * height as usize * 3];
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        out
    }

    #[test]
    fn whole_pictures_pass() {
        let mut check = PictureCheck::new();
        assert_eq!(check.check("image/jpeg", &jpeg(61, 35), &Limits::default()), Ok((61, 35)));
        assert_eq!(check.check("image/png", &png(5, 9), &Limits::default()), Ok((5, 9)));
    }

    #[test]
    fn a_jpeg_cut_anywhere_fails() {
        let mut check = PictureCheck::new();
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
        let error = PictureCheck::new().check("image/jpeg", &whole, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{error}");
    }

    #[test]
    fn a_picture_that_cannot_be_loaded_does_not_pass() {
        let mut twelve = jpeg(61, 35);
        let sof = memchr::memmem::find(&twelve, b"\xFF\xC0").unwrap();
        twelve[sof + 4] = 12;
        let error = PictureCheck::new().check("image/jpeg", &twelve, &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("12"), "{error}");
    }

    #[test]
    fn other_media_types_are_named() {
        let error = PictureCheck::new().check("image/gif", b"GIF89a", &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("image/gif"), "{error}");
    }
}
