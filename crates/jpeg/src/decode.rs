//! Decodes a JPEG into a slot in these steps: cut, decode, crop, resize, turn.

use super::area::Area;
use super::baseline::BaselineDecoder;
use super::color::cmyk_to_rgb;
use super::mcu_grid::BLOCK;
use super::orientation::Orientation;
use super::render::{RenderPlan, Renderer};
use super::resize::{Cutout, RgbPixels};
use super::shared::{check_size, trim};
use super::tidy::tidied;
use super::turbo::{Color, OpenedJpeg, PixelFormat};
use super::upsample::Needs;
use super::{
    Bounds, CutKind, CutPlan, Decompressor, JpegHeader, Rect, Rendering, Sampling, Scale, SegmentIndex, Warnings,
};
use shardpack_base::parts::grow;
use shardpack_format::{Error, Limits, Result};

/// Switches for the decoding paths. Tests and measurements use them to compare the paths with the default.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodePaths {
    /// Accepts damage after which libjpeg-turbo can continue.
    pub lenient: bool,
    /// Decodes only the tiles and pixels that a view needs, instead of the whole picture.
    pub partial: bool,
    /// Decodes baseline pictures with this crate's own decoder instead of libjpeg-turbo.
    pub own_decoder: bool,
}

impl Default for DecodePaths {
    fn default() -> Self {
        Self { lenient: false, partial: true, own_decoder: true }
    }
}

/// Size of a decoded picture, and how much of the file was read to decode it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Number of rows of the output.
    pub height: u32,
    /// Number of columns of the output.
    pub width: u32,
    /// Kind of the cut that was decoded.
    pub kind: CutKind,
    /// Number of bytes that the decoder read. For a cut, these are its header and tiles.
    pub handed_bytes: usize,
}

/// A decoder for one thread.
///
/// Its buffers grow to fit the largest picture so far: 3 bytes per decoded pixel, 4 more for CMYK, and the bytes of
/// a cut or of its scan. Buffers above 64 MiB are freed after the picture, and smaller ones are kept. For each picture,
/// libjpeg-turbo allocates its own pools, and the resizer its tables of weights. The pixels need no other memory.
///
/// ```
/// use shardpack_format::Limits;
/// use shardpack_jpeg::{JpegDecoder, Rendering};
/// let mut decoder = JpegDecoder::new(&Limits::default());
/// let error = decoder.decode_into(b"\x89PNG", &Rendering::default(), &mut [0; 3]).unwrap_err();
/// assert!(error.to_string().contains("JPEG"), "{error}");
/// ```
pub struct JpegDecoder {
    jpeg: Decompressor,
    baseline: BaselineDecoder,
    paths: DecodePaths,
    limits: Limits,
    renderer: Renderer,
    cut: Vec<u8>,
    pixels: Vec<u8>,
    cmyk: Vec<u8>,
    wrong_indexes: u64,
}

impl std::fmt::Debug for JpegDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JpegDecoder").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl JpegDecoder {
    /// Creates a decoder. libjpeg-turbo is set up for each picture.
    ///
    /// `max_decoded_bytes` limits the size of the whole picture, at 4 bytes per pixel, and the memory of
    /// libjpeg itself. The size must also be plausible for the bytes of the picture ([`Limits::check_pixels`]).
    /// A picture may have at most 500 scans. For a large picture the limit is 64 scans, or
    /// 2³¹ divided by its number of pixels, whichever is more.
    ///
    /// This crate's own decoder handles baseline pictures, and libjpeg-turbo all others: progressive
    /// pictures, CMYK, unusual subsampling, and damaged pictures. Only the tiles and pixels that a view needs
    /// are decoded. The pixels are the same as after decoding the whole picture, but damage elsewhere goes
    /// unnoticed.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self::with_paths(limits, DecodePaths::default())
    }

    /// Creates a decoder that uses the given paths.
    #[doc(hidden)]
    #[must_use]
    pub fn with_paths(limits: &Limits, paths: DecodePaths) -> Self {
        let warnings = if paths.lenient { Warnings::Accept } else { Warnings::Refuse };
        Self {
            jpeg: Decompressor::new(Bounds::of(limits), warnings),
            baseline: BaselineDecoder::new(),
            paths,
            limits: limits.clone(),
            renderer: Renderer::new(),
            cut: Vec::new(),
            pixels: Vec::new(),
            cmyk: Vec::new(),
            wrong_indexes: 0,
        }
    }

    /// Returns the number of pictures so far that had a wrong segment index and were decoded without it.
    #[must_use]
    pub const fn wrong_indexes(&self) -> u64 {
        self.wrong_indexes
    }

    /// Returns the height and width of the upright picture.
    ///
    /// # Errors
    /// `Format` if the header is missing; `Limit` if the picture is too large; `Usage` if the orientation is
    /// not in 1..=8.
    pub fn size_of(&mut self, jpeg: &[u8], orientation: u8) -> Result<(u32, u32)> {
        let turn = Orientation::of(orientation)?;
        let frame = match self.jpeg.open(jpeg) {
            Ok(picture) => picture.frame(),
            Err(error) => self.jpeg.open(&tidied(jpeg).ok_or(error)?)?.frame(),
        };
        let (width, height) = turn.size(frame.width, frame.height);
        Ok((height, width))
    }

    /// Decodes a picture into `slot`, C-contiguous `[height, width, 3]` or `[3, height, width]` u8, with
    /// exactly the size of the view.
    ///
    /// Gray, CMYK and YCCK pictures are converted to RGB. CMYK and YCCK are converted as in Pillow (inverted
    /// values, no ICC profile). Resizing is antialiased and follows the view's
    /// [`Interpolation`](crate::Interpolation), with the rules of Pillow and torchvision. After an error the
    /// content of `slot` is unspecified and the decoder stays usable.
    ///
    /// # Errors
    /// `Format` if the picture is damaged, or libjpeg-turbo warns; `Limit` if it exceeds the limits; `Usage`
    /// if the view is impossible for this picture or the slot has a different size.
    pub fn decode_into(&mut self, jpeg: &[u8], how: &Rendering, slot: &mut [u8]) -> Result<Decoded> {
        self.decode_indexed(jpeg, None, how, slot)
    }

    /// Decodes a picture like [`decode_into`](Self::decode_into), and uses its segment index
    /// ([`SegmentIndex`]) if there is one. With an index, only the segments that the view needs are decoded,
    /// although no restart markers separate them.
    ///
    /// The pixels are the same with and without an index. A picture with a wrong index is decoded without it,
    /// and counted in [`wrong_indexes`](Self::wrong_indexes).
    ///
    /// # Errors
    /// Same as [`decode_into`](Self::decode_into).
    pub fn decode_indexed(
        &mut self,
        jpeg: &[u8],
        segments: Option<&[u8]>,
        how: &Rendering,
        slot: &mut [u8],
    ) -> Result<Decoded> {
        let decoded = match self.jpeg.open(jpeg) {
            Ok(source) => self.decode_opened(jpeg, segments, source, how, slot),
            // An irregular header must not prevent decoding. The index is then useless, because our own decoder rejects
            // the picture.
            Err(error) => tidied(jpeg)
                .ok_or(error)
                .and_then(|tidy| self.decode_opened(&tidy, None, self.jpeg.open(&tidy)?, how, slot)),
        };
        trim([&mut self.cut, &mut self.pixels, &mut self.cmyk]);
        self.baseline.trim();
        self.renderer.trim();
        decoded
    }

    fn decode_opened(
        &mut self,
        jpeg: &[u8],
        segments: Option<&[u8]>,
        source: OpenedJpeg<'_>,
        how: &Rendering,
        slot: &mut [u8],
    ) -> Result<Decoded> {
        let (frame, header) = (source.frame(), *source.header());
        let plan = RenderPlan::new(how, frame.width, frame.height, slot.len())?;
        check_size(&self.limits, frame.width, frame.height, jpeg.len())?;
        let whole = Rect::whole(frame.width, frame.height);
        let partial = self.paths.partial && plan.window != whole;
        let cut = partial.then(|| CutPlan::new(jpeg, &header, plan.window)).transpose()?;
        if self.paths.own_decoder && matches!(frame.color, Color::Gray | Color::YCbCr) {
            let wanted = if partial { plan.window } else { whole };
            let kind = cut.map_or(CutKind::Whole, |plan| plan.cut().kind);
            let (width, height) = plan.output;
            if let Some(segments) = segments
                && let Ok(index) = SegmentIndex::parse(segments)
                && let Some(handed_bytes) = self.decode_baseline(jpeg, &header, Some(&index), &plan, wanted, slot)?
            {
                return Ok(Decoded { height, width, kind, handed_bytes });
            }
            if let Some(handed_bytes) = self.decode_baseline(jpeg, &header, None, &plan, wanted, slot)? {
                // The picture can be decoded without the index, so the index must be wrong.
                self.wrong_indexes += u64::from(segments.is_some());
                return Ok(Decoded { height, width, kind, handed_bytes });
            }
        }
        let (picture, handed_bytes, shown, kind) = match cut {
            Some(plan) if plan.cut().kind != CutKind::Whole => {
                plan.write(&mut self.cut)?;
                (self.jpeg.open(&self.cut)?, self.cut.len(), plan.cut().shown, plan.cut().kind)
            }
            _ => (source, jpeg.len(), whole, CutKind::Whole),
        };
        let decoded = Decoded { height: plan.output.1, width: plan.output.0, kind, handed_bytes };
        let format = match frame.color.format() {
            PixelFormat::Cmyk => PixelFormat::Cmyk,
            // libjpeg-turbo does not convert the colours of lossless pictures.
            PixelFormat::Gray if frame.lossless => PixelFormat::Gray,
            PixelFormat::Gray | PixelFormat::Rgb => PixelFormat::Rgb,
        };
        if format == PixelFormat::Rgb && plan.is_plain() && plan.exact() == Some(shown) {
            picture.decode(Scale::Full, format, slot, shown.width as usize * 3)?;
            return Ok(decoded);
        }
        let (window, area) = within(&plan, shown)?;
        let all = Rect::whole(shown.width, shown.height);
        let region = partial.then(|| region(&header, window, all)).flatten().unwrap_or(all);
        let (width, height) = (region.width, region.height);
        let count = width as usize * height as usize;
        let pixels = grow(&mut self.pixels, count * 3);
        if format == PixelFormat::Cmyk {
            let inks = grow(&mut self.cmyk, count * 4);
            picture.decode_region(region, format, inks, width as usize * 4)?;
            cmyk_to_rgb(inks, pixels);
        } else if format == PixelFormat::Gray {
            let levels = grow(&mut self.cmyk, count);
            picture.decode_region(region, format, levels, width as usize)?;
            pixels.as_chunks_mut::<3>().0.iter_mut().zip(levels).for_each(|(to, level)| *to = [*level; 3]);
        } else {
            picture.decode_region(region, format, pixels, width as usize * 3)?;
        }
        let area = Area { x: area.x - f64::from(region.x), y: area.y - f64::from(region.y), ..area };
        let window = Rect { x: window.x - region.x, y: window.y - region.y, ..window };
        let pixels = RgbPixels { bytes: pixels, width, height };
        self.renderer.render(&plan, &Cutout { pixels, window, area }, slot)?;
        Ok(decoded)
    }

    /// Decodes the pixels of `wanted` with our own decoder and renders them. Returns the number of bytes
    /// read, or `None` if libjpeg-turbo has to decode the picture.
    fn decode_baseline(
        &mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        index: Option<&SegmentIndex<'_>>,
        plan: &RenderPlan,
        wanted: Rect,
        slot: &mut [u8],
    ) -> Result<Option<usize>> {
        if plan.is_plain() && plan.exact() == Some(wanted) {
            return Ok(self.baseline.decode(jpeg, header, index, wanted, slot));
        }
        let (width, height) = (wanted.width, wanted.height);
        let pixels = grow(&mut self.pixels, width as usize * height as usize * 3);
        let Some(bytes) = self.baseline.decode(jpeg, header, index, wanted, pixels) else { return Ok(None) };
        let (window, area) = within(plan, wanted)?;
        let pixels = RgbPixels { bytes: pixels, width, height };
        self.renderer.render(plan, &Cutout { pixels, window, area }, slot)?;
        Ok(Some(bytes))
    }
}

/// Returns the part of the picture that must be decoded to get exact pixels in `window`, or `None` if the whole
/// picture (`all`) must be decoded.
fn region(header: &JpegHeader, window: Rect, all: Rect) -> Option<Rect> {
    // libjpeg-turbo's API can decode regions only for some subsamplings.
    if header.sof == 3 || matches!(header.sampling(), Sampling::Other | Sampling::S410) {
        return None;
    }
    let needs = Needs::of(header.components(), u32::from(header.width));
    let (beside, above) = (u32::from(needs.beside), u32::from(needs.above));
    let mcu = BLOCK * header.mcu_grid().h;
    let mut x = window.x.saturating_sub(beside) / mcu * mcu;
    let right = ((window.right() + beside).div_ceil(mcu) * mcu).min(all.width);
    // libjpeg-turbo replicates chroma along both axes in a region with a single chroma column
    // (`jpeg_crop_scanline`), but interpolates it in the whole picture.
    while needs.beside && right - x < needs.min_width && x > 0 {
        x = x.saturating_sub(mcu);
    }
    let y = window.y.saturating_sub(above);
    let bottom = (window.bottom() + above).min(all.height);
    Some(Rect { x, y, width: right - x, height: bottom - y })
}

/// Returns the plan's window and area in pixels relative to the part `shown`.
fn within(plan: &RenderPlan, shown: Rect) -> Result<(Rect, Area)> {
    if !shown.contains(&plan.window) {
        return Err(Error::malformed(format!(
            "the crop {} extends beyond the decoded part of the JPEG ({shown})",
            plan.window
        )));
    }
    let window = Rect { x: plan.window.x - shown.x, y: plan.window.y - shown.y, ..plan.window };
    let area = Area { x: plan.area.x - f64::from(shown.x), y: plan.area.y - f64::from(shown.y), ..plan.area };
    Ok((window, area))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
