//! Decoding a JPEG into a slot: cut, decode, crop, resize, turn.

use super::baseline::BaselineDecoder;
use super::color::cmyk_to_rgb;
use super::orientation::Turn;
use super::render::{Plan, Renderer};
use super::resize::Pixels;
use super::shared::{grown, trim};
use super::tidy::tidied;
use super::turbo::{Color, Frame, Picture, PixelFormat};
use super::upsample::{BLOCK, Needs, max_factors};
use super::view::Area;
use super::{
    Bounds, CutKind, CutPlan, Decompressor, Interpolation, JpegHeader, Rect, Rendering, Sampling, Scale, Warnings,
};
use shardpack_format::{Error, Limits, Result};

/// How pictures are decoded.
///
/// ```
/// use shardpack_jpeg::DecodeOptions;
/// assert!(!DecodeOptions::default().scaled && !DecodeOptions::default().lenient);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeOptions {
    /// What one picture may ask for. `max_decoded_bytes` is compared with 4 bytes per pixel of the
    /// whole picture, and bounds libjpeg's own memory. No picture may have more than 500 scans, and
    /// a large one not more than 64, or 2³¹ by its pixels.
    pub limits: Limits,
    /// Whether to show pictures with damage that the decoder could get past. Default: damage is an
    /// error.
    pub lenient: bool,
    /// Whether pictures that shrink to half or less along both axes are decoded at 1/2, 1/4 or 1/8
    /// of their size (DCT scaling), and resized from there. For pictures many times the size of the
    /// view this is faster; pixels differ slightly from the exact ones (on photographs by about 1
    /// level of 255 on average). Default off: every pixel counts, on the host as on a device. Without
    /// the feature `turbo` it has no effect.
    pub scaled: bool,
    /// Whether to decode only the parts of a picture that a view needs: the tiles that it touches,
    /// if the picture has restart markers, and in any picture only the pixels needed. The pixels
    /// are the same, but damage in other parts is not noticed. Default on.
    pub partial: bool,
    /// Whether this crate's own decoder decodes baseline pictures. It is faster, above all on tiled
    /// ones. libjpeg-turbo decodes the pictures that it does not handle (progressive, CMYK, unusual
    /// subsampling, DCT scaling, and those it finds damaged). The pixels are the same, and so are
    /// the errors, with one exception: libjpeg-turbo may read more than a rectangle needs, and
    /// refuse it for damage there. Default on. Without the feature `turbo` there is no other decoder.
    pub own_decoder: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), lenient: false, scaled: false, partial: true, own_decoder: true }
    }
}

/// What was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Rows of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// The picture was decoded at 1/n of its size: 1, 2, 4 or 8.
    pub scale: u32,
    /// The part of the picture that was decoded.
    pub kind: CutKind,
    /// Bytes that the decoder read: for a cut, those of its header and its tiles.
    pub handed_bytes: usize,
}

/// A decoder for one thread.
///
/// Its buffers grow to the largest picture so far (3 bytes per decoded pixel, 4 more for CMYK, and
/// the bytes of a cut or of its scan). They are kept, except that buffers above 64 MiB are freed
/// after the picture. Apart from them, libjpeg-turbo allocates its own pools for each picture, and
/// the resizer its tables of weights; no pixels are allocated.
///
/// ```
/// use shardpack_jpeg::{DecodeOptions, JpegDecoder, Rendering};
/// let mut decoder = JpegDecoder::new(DecodeOptions::default());
/// let error = decoder.decode_into(b"\x89PNG", &Rendering::default(), &mut [0; 3]).unwrap_err();
/// assert!(error.to_string().contains("JPEG"), "{error}");
/// ```
pub struct JpegDecoder {
    jpeg: Decompressor,
    baseline: BaselineDecoder,
    options: DecodeOptions,
    renderer: Renderer,
    cut: Vec<u8>,
    pixels: Vec<u8>,
    cmyk: Vec<u8>,
}

impl std::fmt::Debug for JpegDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JpegDecoder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl JpegDecoder {
    /// A decoder. libjpeg-turbo is set up for each picture.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        let warnings = if options.lenient { Warnings::Accept } else { Warnings::Refuse };
        Self {
            jpeg: Decompressor::new(Bounds::of(&options.limits), warnings),
            baseline: BaselineDecoder::new(),
            options,
            renderer: Renderer::new(),
            cut: Vec::new(),
            pixels: Vec::new(),
            cmyk: Vec::new(),
        }
    }

    /// Height and width of the upright picture.
    ///
    /// # Errors
    /// `Format` if there is no header; `Limit` if the picture is too large; `Usage` if the
    /// orientation is none of 1..=8.
    pub fn size_of(&mut self, jpeg: &[u8], orientation: u8) -> Result<(u32, u32)> {
        let turn = Turn::of(orientation)?;
        let frame = match self.jpeg.open(jpeg) {
            Ok(picture) => picture.frame(),
            Err(error) => self.jpeg.open(&tidied(jpeg).ok_or(error)?)?.frame(),
        };
        let (width, height) = turn.size((frame.width, frame.height));
        Ok((height, width))
    }

    /// Decodes a picture into `slot`, C-contiguous u8, `[height, width, 3]` or
    /// `[3, height, width]`, exactly as many bytes as the view has.
    ///
    /// Gray becomes RGB; CMYK and YCCK become RGB as in Pillow (inverted values, no ICC profile).
    /// Resizing is antialiased, by the view's [`Interpolation`] (Pillow's and torchvision's).
    /// After an error the content of `slot` is unspecified and the decoder stays usable.
    ///
    /// # Errors
    /// `Format` if the picture is damaged (and, unless lenient, if libjpeg-turbo warns); `Limit` if
    /// it asks for too much; `Usage` if this picture does not allow the view or the slot has
    /// another size.
    pub fn decode_into(&mut self, jpeg: &[u8], how: &Rendering, slot: &mut [u8]) -> Result<Decoded> {
        let decoded = match self.jpeg.open(jpeg) {
            Ok(source) => self.decode_opened(jpeg, source, how, slot),
            // An odd header is no reason to go without the pixels.
            Err(error) => {
                tidied(jpeg).ok_or(error).and_then(|tidy| self.decode_opened(&tidy, self.jpeg.open(&tidy)?, how, slot))
            }
        };
        trim([&mut self.cut, &mut self.pixels, &mut self.cmyk]);
        self.baseline.trim();
        self.renderer.trim();
        decoded
    }

    /// Decodes `source`, which is that of `jpeg`.
    fn decode_opened(&mut self, jpeg: &[u8], source: Picture<'_>, how: &Rendering, slot: &mut [u8]) -> Result<Decoded> {
        let (frame, header) = (source.frame(), *source.header());
        let stored = (frame.width, frame.height);
        let plan = Plan::new(how, stored, slot.len())?;
        let scale = self.scale(&plan, &frame);
        let whole = Rect::whole(frame.width, frame.height);
        let partial = self.options.partial && plan.window != whole;
        let cut = partial.then(|| CutPlan::new(jpeg, &header, plan.window, scale)).transpose()?;
        if self.options.own_decoder && scale == Scale::Full && matches!(frame.color, Color::Gray | Color::YCbCr) {
            let wanted = if partial { plan.window } else { whole };
            let kind = cut.map_or(CutKind::Whole, |plan| plan.cut().kind);
            if let Some(handed_bytes) = self.decode_baseline(jpeg, &header, &plan, wanted, slot)? {
                let (width, height) = plan.output;
                return Ok(Decoded { height, width, scale: 1, kind, handed_bytes });
            }
        }
        let (picture, handed_bytes, shown, kind) = match cut {
            Some(plan) if plan.cut().kind != CutKind::Whole => {
                plan.write(&mut self.cut)?;
                (self.jpeg.open(&self.cut)?, self.cut.len(), plan.cut().shown, plan.cut().kind)
            }
            _ => (source, jpeg.len(), whole, CutKind::Whole),
        };
        let decoded =
            Decoded { height: plan.output.1, width: plan.output.0, scale: scale.denominator(), kind, handed_bytes };
        let format = match frame.color.format() {
            PixelFormat::Cmyk => PixelFormat::Cmyk,
            // Of the lossless process libjpeg-turbo converts no colours.
            PixelFormat::Gray if frame.lossless => PixelFormat::Gray,
            PixelFormat::Gray | PixelFormat::Rgb => PixelFormat::Rgb,
        };
        if format == PixelFormat::Rgb && plan.is_plain() && plan.exact() == Some(shown) {
            picture.decode(Scale::Full, format, slot, shown.width as usize * 3)?;
            return Ok(decoded);
        }
        let (window, area) = scaled(&plan, shown, scale)?;
        let all = Rect::whole(scale.of(shown.width), scale.of(shown.height));
        let region = partial.then(|| region(&header, window, all, scale)).flatten().unwrap_or(all);
        let (width, height) = (region.width, region.height);
        let count = width as usize * height as usize;
        let pixels = grown(&mut self.pixels, count * 3);
        if format == PixelFormat::Cmyk {
            let inks = grown(&mut self.cmyk, count * 4);
            picture.decode_region(scale, region, format, inks, width as usize * 4)?;
            cmyk_to_rgb(inks, pixels);
        } else if format == PixelFormat::Gray {
            let levels = grown(&mut self.cmyk, count);
            picture.decode_region(scale, region, format, levels, width as usize)?;
            pixels.as_chunks_mut::<3>().0.iter_mut().zip(levels).for_each(|(to, level)| *to = [*level; 3]);
        } else {
            picture.decode_region(scale, region, format, pixels, width as usize * 3)?;
        }
        let (x, y) = (area.x - f64::from(region.x), area.y - f64::from(region.y));
        let window = Rect { x: window.x - region.x, y: window.y - region.y, ..window };
        self.renderer.render(&plan, Pixels { bytes: pixels, width, height }, window, Area { x, y, ..area }, slot)?;
        Ok(decoded)
    }

    /// Decodes the pixels of `wanted` with our own decoder and renders them. Returns how many bytes
    /// it read; `None` if libjpeg-turbo has to decode the picture.
    fn decode_baseline(
        &mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        plan: &Plan,
        wanted: Rect,
        slot: &mut [u8],
    ) -> Result<Option<usize>> {
        if plan.is_plain() && plan.exact() == Some(wanted) {
            return Ok(self.baseline.decode(jpeg, header, wanted, slot));
        }
        let (width, height) = (wanted.width, wanted.height);
        let pixels = grown(&mut self.pixels, width as usize * height as usize * 3);
        let Some(bytes) = self.baseline.decode(jpeg, header, wanted, pixels) else { return Ok(None) };
        let (window, area) = scaled(plan, wanted, Scale::Full)?;
        self.renderer.render(plan, Pixels { bytes: pixels, width, height }, window, area, slot)?;
        Ok(Some(bytes))
    }

    /// The smallest scale at which the picture still has to shrink.
    fn scale(&self, plan: &Plan, frame: &Frame) -> Scale {
        // The nearest pixel is one of the picture itself.
        let is_nearest = plan.resizing.interpolation == Interpolation::Nearest;
        let is_whole = !self.options.scaled || cfg!(not(feature = "turbo")) || frame.lossless;
        if is_whole || is_nearest || plan.exact().is_some() {
            return Scale::Full;
        }
        let shrinks = |scale: &Scale| {
            let n = f64::from(scale.denominator());
            plan.area.width >= n * f64::from(plan.resized.0) && plan.area.height >= n * f64::from(plan.resized.1)
        };
        [Scale::Eighth, Scale::Quarter, Scale::Half].into_iter().find(shrinks).unwrap_or(Scale::Full)
    }
}

/// The part of the scaled picture `all` to make pixels of, so that those of `window` are exact;
/// `None` for all of it.
fn region(header: &JpegHeader, window: Rect, all: Rect, scale: Scale) -> Option<Rect> {
    // If libjpeg-turbo's interface does not know the sampling, it cannot decode regions.
    if header.sof == 3 || matches!(header.sampling(), Sampling::Other | Sampling::S410) {
        return None;
    }
    let needs = Needs::of(header.components(), u32::from(header.width), scale);
    let (beside, above) = (u32::from(needs.beside), u32::from(needs.above));
    let mcu = BLOCK * max_factors(header.components()).0 / scale.denominator();
    let mut x = window.x.saturating_sub(beside) / mcu * mcu;
    let right = ((window.right() + beside).div_ceil(mcu) * mcu).min(all.width);
    // In a region with a single column of chroma, libjpeg-turbo replicates chroma along both axes
    // (`jpeg_crop_scanline`); in the whole picture it interpolates.
    while needs.beside && right - x < needs.min_width.div_ceil(scale.denominator()) && x > 0 {
        x = x.saturating_sub(mcu);
    }
    let y = window.y.saturating_sub(above);
    let bottom = (window.bottom() + above).min(all.height);
    Some(Rect { x, y, width: right - x, height: bottom - y })
}

/// Window and area of the plan, in pixels of the decoded picture.
fn scaled(plan: &Plan, shown: Rect, scale: Scale) -> Result<(Rect, Area)> {
    let n = scale.denominator();
    let axis = |at: u32, extent: u32, from: u32, side: u32| {
        let start = at.checked_sub(from)?;
        let end = start.checked_add(extent).filter(|&end| end <= side)?;
        Some((start / n, end.div_ceil(n) - start / n))
    };
    let Rect { x, y, width, height } = plan.window;
    match (axis(x, width, shown.x, shown.width), axis(y, height, shown.y, shown.height)) {
        (Some((x, width)), Some((y, height))) => {
            let (f, n) = (f64::from, f64::from(n));
            let Area { x: left, y: top, width: w, height: h } = plan.area;
            let area = Area { x: (left - f(shown.x)) / n, y: (top - f(shown.y)) / n, width: w / n, height: h / n };
            Ok((Rect { x, y, width, height }, area))
        }
        _ => Err(Error::format("cut of a JPEG", format!("{:?} within it", plan.window), format!("{shown:?}"))),
    }
}

#[cfg(all(test, feature = "turbo"))]
#[path = "decode_tests.rs"]
mod tests;
