//! Decodes pictures of any format into slots: JPEG with [`JpegDecoder`], PNG and WebP with the crates `png`
//! and `image-webp`, and BMP and TIFF with our own readers.

use crate::picture_open::{Opened, open};
use crate::shared::check_size;
use crate::{
    Area, Crops, CutKind, Cutout, Decoded, Frames, JpegDecoder, Orientation, Rect, RenderPlan, Renderer, Rendering,
    RgbPixels, View, trim,
};
use shardpack_base::parts::grow;
use shardpack_format::{Error, Limits, Result, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An encoded picture, as it is stored in a record.
#[derive(Debug, Clone, Copy)]
pub struct StoredPicture<'a> {
    /// Media type, for example `image/jpeg`.
    pub media_type: &'a str,
    /// The encoded picture.
    pub bytes: &'a [u8],
    /// Segment index of a JPEG ([`SegmentIndex`](crate::SegmentIndex)), if one is stored with the picture.
    pub segments: Option<&'a [u8]>,
}

impl<'a> StoredPicture<'a> {
    /// Creates a stored picture without a segment index.
    #[must_use]
    pub const fn new(media_type: &'a str, bytes: &'a [u8]) -> Self {
        Self { media_type, bytes, segments: None }
    }
}

/// Decoded pixels of a picture, shared by several of its crops.
#[derive(Debug, Default)]
pub struct SharedPixels {
    /// Width and height of the stored picture.
    size: (u32, u32),
    /// Part of the stored picture that was decoded.
    window: Rect,
    pixels: Vec<u8>,
}

impl SharedPixels {
    /// Frees the buffer if it exceeds 64 MiB.
    pub fn trim(&mut self) {
        trim([&mut self.pixels]);
    }
}

/// A decoder of JPEG, PNG, WebP, BMP and TIFF, for one thread.
///
/// JPEG is decoded by [`JpegDecoder`]. Other pictures are decoded as a whole and rendered by the same rules. 16-bit
/// samples are reduced to 8 bits by rounding v · 255 / 65535, and floats are clamped to 0..=1. Palettes, gray, CMYK
/// and YCbCr are converted to RGB, and alpha is dropped (like Pillow's `convert("RGB")`). If a picture has several
/// pages or frames, or is a list of JPEGs ([`Frames`]), the first one is used. Buffers of up to 64 MiB are kept from
/// picture to picture. In addition, the decoders allocate their own buffers for each picture. A panic in a decoder is
/// returned as an error for its picture.
///
/// ```
/// use shardpack_format::Limits;
/// use shardpack_jpeg::{PictureDecoder, Rendering, StoredPicture};
/// // A bitmap of 1 × 1 pixel, blue = 1, green = 2, red = 3.
/// let mut bmp = b"BM\x3A\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
/// bmp.extend([0; 24]);
/// bmp.extend([1, 2, 3, 0]);
/// let mut decoder = PictureDecoder::new(Limits::default());
/// assert_eq!(decoder.size_of("image/bmp", &bmp, 1)?, (1, 1));
/// let mut slot = [0; 3];
/// decoder.decode_into(&StoredPicture::new("image/bmp", &bmp), &Rendering::default(), &mut slot)?;
/// assert_eq!(slot, [3, 2, 1]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug)]
pub struct PictureDecoder {
    jpeg: JpegDecoder,
    limits: Limits,
    renderer: Renderer,
    /// Decoded samples before the conversion to RGB.
    raw: Vec<u8>,
    pixels: Vec<u8>,
    narrowed: u64,
}

impl PictureDecoder {
    /// Creates a decoder. See [`JpegDecoder::new`] for the limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            jpeg: JpegDecoder::new(&limits),
            limits,
            renderer: Renderer::new(),
            raw: Vec::new(),
            pixels: Vec::new(),
            narrowed: 0,
        }
    }

    /// Returns the number of pictures so far whose samples were reduced from more than 8 bits to 8.
    #[must_use]
    pub const fn narrowed(&self) -> u64 {
        self.narrowed
    }

    /// Returns the number of pictures so far that had a wrong segment index and were decoded without it.
    #[must_use]
    pub const fn wrong_indexes(&self) -> u64 {
        self.jpeg.wrong_indexes()
    }

    /// Returns the height and width of the upright picture, from its header.
    ///
    /// # Errors
    /// `Format` if the media type is unknown or `bytes` has no header of that type; `Limit` if the picture is
    /// too large; `Usage` if the orientation is not in 1..=8.
    pub fn size_of(&mut self, media_type: &str, bytes: &[u8], orientation: u8) -> Result<(u32, u32)> {
        self.guarded(|decoder| {
            let frames = Frames::of(media_type, bytes)?;
            let bytes = frames.first();
            let Some(opened) = open(frames.media_type(), bytes, &decoder.limits)? else {
                return decoder.jpeg.size_of(bytes, orientation);
            };
            let (width, height) = opened.dimensions();
            let (width, height) = Orientation::of(orientation)?.size(width, height);
            Ok((height, width))
        })
    }

    /// Decodes a picture into `slot`, C-contiguous `[height, width, 3]` or `[3, height, width]` u8, with
    /// exactly the size of the view. After an error the content of `slot` is unspecified and the decoder
    /// stays usable.
    ///
    /// # Errors
    /// `Format` if the media type is unknown or the picture is damaged; `Limit` if it exceeds
    /// `max_decoded_bytes`, or has too many pixels for its bytes ([`Limits::check_pixels`]); `Usage` if the view
    /// is impossible for this picture or the slot has a different size.
    pub fn decode_into(&mut self, picture: &StoredPicture<'_>, how: &Rendering, slot: &mut [u8]) -> Result<Decoded> {
        self.guarded(|decoder| {
            let frames = Frames::of(picture.media_type, picture.bytes)?;
            let bytes = frames.first();
            let Some(opened) = open(frames.media_type(), bytes, &decoder.limits)? else {
                return decoder.jpeg.decode_indexed(bytes, picture.segments, how, slot);
            };
            let is_deep = opened.is_deep();
            let decoded = decoder.decode_other(opened, bytes.len(), how, slot);
            if decoded.is_ok() && is_deep {
                decoder.narrowed = decoder.narrowed.saturating_add(1);
            }
            trim([&mut decoder.raw, &mut decoder.pixels]);
            decoder.renderer.trim();
            decoded
        })
    }

    /// Decodes the pixels for all crops of a picture into `shared`. Returns false if decoding each crop separately
    /// would need fewer pixels.
    ///
    /// # Errors
    /// Same as [`decode_into`](Self::decode_into).
    pub fn decode_shared(
        &mut self,
        picture: &StoredPicture<'_>,
        crops: &Crops<'_>,
        how: &Rendering,
        shared: &mut SharedPixels,
    ) -> Result<bool> {
        let (height, width) = self.size_of(picture.media_type, picture.bytes, 1)?;
        check_size(&self.limits, width, height, picture.bytes.len())?;
        let Some(window) = crops.shared_window(how, width, height)? else { return Ok(false) };
        (shared.size, shared.window) = ((width, height), window);
        let pixels = grow(&mut shared.pixels, window.width as usize * window.height as usize * 3);
        let stored = Rendering { view: View::rectangle(window), ..Rendering::default() };
        self.decode_into(picture, &stored, pixels).map(|_| true)
    }

    /// Renders a crop from pixels that are already decoded. The result is the same as with
    /// [`decode_into`](Self::decode_into). Returns the height and width of the crop, or `None` if `shared`
    /// lacks its pixels.
    ///
    /// # Errors
    /// `Usage` if the view is impossible for this picture or the slot has a different size.
    pub fn render_shared(
        &mut self,
        shared: &SharedPixels,
        how: &Rendering,
        slot: &mut [u8],
    ) -> Result<Option<[u32; 2]>> {
        let (size, outer) = (shared.size, shared.window);
        let plan = RenderPlan::new(how, size.0, size.1, slot.len())?;
        let Some(window) = plan.window.within(&outer) else { return Ok(None) };
        let area = Area { x: plan.area.x - f64::from(outer.x), y: plan.area.y - f64::from(outer.y), ..plan.area };
        let (width, height) = (outer.width, outer.height);
        let bytes = shared.pixels.get(..width as usize * height as usize * 3).unwrap_or_default();
        let pixels = RgbPixels { bytes, width, height };
        self.guarded(|decoder| {
            decoder.renderer.render(&plan, &Cutout { pixels, window, area }, slot)?;
            decoder.renderer.trim();
            Ok(Some([plan.output.1, plan.output.0]))
        })
    }

    /// Turns a panic in a decoder into an error for its picture, so that other samples are not affected.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|panic| {
            // Replace the decoder, because its state after the panic is unknown.
            *self = Self { narrowed: self.narrowed, ..Self::new(self.limits.clone()) };
            Err(Error::malformed(format!("the decoder panicked on the picture: {}", panic_text(&*panic))))
        })
    }

    fn decode_other(
        &mut self,
        opened: Opened<'_>,
        stored_bytes: usize,
        how: &Rendering,
        slot: &mut [u8],
    ) -> Result<Decoded> {
        let (width, height) = opened.dimensions();
        let plan = RenderPlan::new(how, width, height, slot.len())?;
        check_size(&self.limits, width, height, stored_bytes)?;
        let decoded =
            Decoded { height: plan.output.1, width: plan.output.0, kind: CutKind::Whole, handed_bytes: stored_bytes };
        if plan.is_plain() && plan.exact() == Some(Rect::whole(width, height)) {
            opened.decode(&mut self.raw, slot)?;
            return Ok(decoded);
        }
        let pixels = grow(&mut self.pixels, width as usize * height as usize * 3);
        opened.decode(&mut self.raw, pixels)?;
        let pixels = RgbPixels { bytes: pixels, width, height };
        self.renderer.render(&plan, &Cutout { pixels, window: plan.window, area: plan.area }, slot)?;
        Ok(decoded)
    }
}

#[cfg(test)]
#[path = "picture_decoder_tests.rs"]
mod tests;
