//! Decoding pictures of any kind into slots: JPEG through libjpeg-turbo, all others through the
//! `image` crate.

use crate::picture_open::{damaged, open};
use crate::{
    CutKind, DecodeOptions, Decoded, Frames, JpegDecoder, Pixels, Plan, Rect, Renderer, Rendering, Turn, grown, trim,
};
use image::{ColorType, ImageDecoder, ImageFormat};
use shardpack_format::{Error, Limits, Result};

/// A decoder for one thread, of JPEG, PNG, WebP, BMP and TIFF.
///
/// [`JpegDecoder`] decodes JPEG. Other pictures are decoded as a whole and rendered by the same
/// rules: 16 bits become 8 by rounding v · 255 / 65535, floats by clamping to 0..=1, palettes and
/// gray become RGB, and alpha is simply dropped (like Pillow's `convert("RGB")`). Of several pages
/// or frames, also of a list of JPEGs ([`Frames`]), the first is used. Buffers of up to 64 MiB are
/// kept; the `image` crate allocates more of its own for each picture.
///
/// ```
/// use shardpack_jpeg::PictureDecoder;
/// use shardpack_jpeg::{DecodeOptions, Rendering};
/// // A bitmap of 1 × 1 pixel, blue = 1, green = 2, red = 3.
/// let mut bmp = b"BM\x3A\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
/// bmp.extend([0; 24]);
/// bmp.extend([1, 2, 3, 0]);
/// let mut decoder = PictureDecoder::new(DecodeOptions::default());
/// assert_eq!(decoder.size_of("image/bmp", &bmp, 1)?, (1, 1));
/// let mut slot = [0; 3];
/// decoder.decode_into("image/bmp", &bmp, &Rendering::default(), &mut slot)?;
/// assert_eq!(slot, [3, 2, 1]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug)]
pub struct PictureDecoder {
    jpeg: JpegDecoder,
    limits: Limits,
    renderer: Renderer,
    /// As the `image` crate returns it.
    raw: Vec<u8>,
    /// RGB.
    pixels: Vec<u8>,
    narrowed: u64,
}

impl PictureDecoder {
    /// A decoder. For pictures other than JPEG, only the limits among the options count.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        Self {
            limits: options.limits.clone(),
            jpeg: JpegDecoder::new(options),
            renderer: Renderer::new(),
            raw: Vec::new(),
            pixels: Vec::new(),
            narrowed: 0,
        }
    }

    /// Pictures decoded so far that have more than 8 bits per sample and were reduced to 8.
    #[must_use]
    pub const fn narrowed(&self) -> u64 {
        self.narrowed
    }

    /// Height and width of the upright picture, from its header.
    ///
    /// # Errors
    /// `Format` if the media type is unknown or there is no header of that type; `Limit` if the
    /// picture is too large; `Usage` if the orientation is none of 1..=8.
    pub fn size_of(&mut self, media_type: &str, bytes: &[u8], orientation: u8) -> Result<(u32, u32)> {
        let frames = Frames::of(media_type, bytes)?;
        let bytes = frames.first();
        let Some(format) = format_of(frames.media_type())? else { return self.jpeg.size_of(bytes, orientation) };
        let (width, height) = Turn::of(orientation)?.size(open(format, bytes, &self.limits)?.dimensions());
        Ok((height, width))
    }

    /// Decodes a picture into `slot`, C-contiguous u8, `[height, width, 3]` or
    /// `[3, height, width]`, exactly as many bytes as the view has. After an error the content of
    /// `slot` is unspecified and the decoder stays usable.
    ///
    /// # Errors
    /// `Format` if the media type is unknown or the picture is damaged; `Limit` if it takes more
    /// than `max_decoded_bytes`; `Usage` if this picture does not allow the view or the slot has
    /// another size.
    pub fn decode_into(&mut self, media_type: &str, bytes: &[u8], how: &Rendering, slot: &mut [u8]) -> Result<Decoded> {
        let frames = Frames::of(media_type, bytes)?;
        let bytes = frames.first();
        let Some(format) = format_of(frames.media_type())? else { return self.jpeg.decode_into(bytes, how, slot) };
        let decoded = self.decode_other(format, bytes, how, slot);
        if let Ok((_, color)) = &decoded
            && color.bytes_per_pixel() > color.channel_count()
        {
            self.narrowed = self.narrowed.saturating_add(1);
        }
        trim([&mut self.raw, &mut self.pixels]);
        self.renderer.trim();
        decoded.map(|(decoded, _)| decoded)
    }

    /// Also returns the type of the picture's samples.
    fn decode_other(
        &mut self,
        format: ImageFormat,
        bytes: &[u8],
        how: &Rendering,
        slot: &mut [u8],
    ) -> Result<(Decoded, ColorType)> {
        let decoder = open(format, bytes, &self.limits)?;
        let (width, height) = decoder.dimensions();
        let plan = Plan::new(how, (width, height), slot.len())?;
        let whole = Rect::whole(width, height);
        let decoded = Decoded {
            height: plan.output.1,
            width: plan.output.0,
            scale: 1,
            kind: CutKind::Whole,
            handed_bytes: bytes.len(),
        };
        let total = usize::try_from(decoder.total_bytes())
            .map_err(|_| Error::usage("decoded picture", "what the address space holds", decoder.total_bytes()))?;
        let count = width as usize * height as usize;
        let color = decoder.color_type();
        if color == ColorType::Rgb8 {
            if plan.is_plain() && plan.exact() == Some(whole) {
                decoder.read_image(slot).map_err(damaged)?;
                return Ok((decoded, color));
            }
            decoder.read_image(grown(&mut self.pixels, total)).map_err(damaged)?;
        } else {
            let raw = grown(&mut self.raw, total);
            decoder.read_image(raw).map_err(damaged)?;
            to_rgb(color, raw, grown(&mut self.pixels, count * 3))?;
        }
        let pixels = Pixels { bytes: grown(&mut self.pixels, count * 3), width, height };
        self.renderer.render(&plan, pixels, plan.window, plan.area, slot)?;
        Ok((decoded, color))
    }
}

/// `None` for JPEG.
fn format_of(media_type: &str) -> Result<Option<ImageFormat>> {
    match media_type {
        "image/jpeg" => Ok(None),
        "image/png" => Ok(Some(ImageFormat::Png)),
        "image/webp" => Ok(Some(ImageFormat::WebP)),
        "image/bmp" => Ok(Some(ImageFormat::Bmp)),
        "image/tiff" => Ok(Some(ImageFormat::Tiff)),
        other => Err(Error::format("media type", "image/jpeg, png, webp, bmp or tiff", format!("{other:?}"))),
    }
}

/// Turns the output of the `image` crate, samples in the machine's byte order, into 8-bit RGB.
fn to_rgb(color: ColorType, raw: &[u8], rgb: &mut [u8]) -> Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    let of_u16 = |bytes: [u8; 2]| ((u32::from(u16::from_ne_bytes(bytes)) + 128) / 257) as u8;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255; no number becomes 0")]
    let of_f32 = |bytes: [u8; 4]| (f32::from_ne_bytes(bytes).clamp(0.0, 1.0) * 255.0).round() as u8;
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
        ColorType::Rgb32F => fill(rgb, raw, |pixel: &[u8; 12]| floats(pixel).map(of_f32)),
        ColorType::Rgba32F => fill(rgb, raw, |pixel: &[u8; 16]| floats(pixel).map(of_f32)),
        other => return Err(Error::format("picture", "gray or RGB of 8, 16 or 32 bits", format!("{other:?}"))),
    }
    Ok(())
}

/// The first three samples.
fn floats(pixel: &[u8]) -> [[u8; 4]; 3] {
    let mut out = [[0; 4]; 3];
    for (to, from) in out.iter_mut().zip(pixel.as_chunks::<4>().0) {
        *to = *from;
    }
    out
}

fn fill<const N: usize>(rgb: &mut [u8], raw: &[u8], of: impl Fn(&[u8; N]) -> [u8; 3]) {
    for (to, from) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(raw.as_chunks::<N>().0) {
        *to = of(from);
    }
}

#[cfg(test)]
#[path = "picture_decoder_tests.rs"]
mod tests;
