//! Lossy re-encoding: decodes a picture, turns it upright, shrinks it, and encodes it as a tiled baseline
//! JPEG with optimised Huffman tables.
//!
//! libjpeg-turbo is the only encoder. Measurements showed that trellis quantisation gains nothing at the same
//! score (docs/adr/0007-encoders.md).
#![deny(clippy::indexing_slicing)]

mod options;

pub use options::{ChromaSampling, Quality, ReencodeOptions, Resize};

use super::color::cmyk_to_rgb;
use super::keep::KeepReason;
use super::mcu_grid::McuGrid;
use super::metadata::{Metadata, picture_bytes, with_metadata};
use super::orientation::Orientation;
use super::quantisation::Steps;
use super::resize::RgbPixels;
use super::score::Reference;
use super::shared::{KEPT_BYTES, parse, trim};
use super::tile::{JpegTiler, Reencoding, TileOutcome, Tiled};
use super::turbo::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Scale, Subsampling, Warnings};
use super::{JpegHeader, PixelLayout, Rect, Sampling};
use fast_image_resize as fir;
use shardpack_base::{RgbWindow, resize_rgb};
use shardpack_format::{Error, Limits, Result, bug, to_usize};

/// Re-encodes pictures. Each thread needs its own re-encoder. Its buffers are up to three times as large as
/// the decoded picture. Buffers above 64 MiB are freed after each picture.
///
/// ```
/// use shardpack_jpeg::{JpegReencoder, ReencodeOptions};
/// let mut out = Vec::new();
/// assert!(JpegReencoder::new().reencode(b"not a JPEG", &ReencodeOptions::default(), false, &mut out).is_err());
/// ```
pub struct JpegReencoder {
    tiler: JpegTiler,
    decoder: Decompressor,
    encoder: Compressor,
    resizer: fir::Resizer,
    pixels: Vec<u8>,
    /// Pixels of an intermediate step, or pixels decoded from the encoded picture.
    other: Vec<u8>,
    encoded: Vec<u8>,
    best: Vec<u8>,
    /// The most recently requested quality, and the encoder's quantisation steps at this quality.
    steps: Option<(u8, Option<Steps>)>,
}

impl std::fmt::Debug for JpegReencoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JpegReencoder").finish_non_exhaustive()
    }
}

impl Default for JpegReencoder {
    fn default() -> Self {
        Self::new()
    }
}

impl JpegReencoder {
    /// Creates a re-encoder with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tiler: JpegTiler::new(),
            decoder: Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse),
            encoder: Compressor::new(),
            resizer: fir::Resizer::new(),
            pixels: Vec::new(),
            other: Vec::new(),
            encoded: Vec::new(),
            best: Vec::new(),
            steps: None,
        }
    }

    /// Appends the re-encoded picture to `out`, and scores it if `score` is true (a search for a score
    /// computes it anyway). Scoring temporarily needs another
    /// [`SCORE_BYTES_PER_PIXEL`](super::SCORE_BYTES_PER_PIXEL) bytes per pixel.
    ///
    /// In three cases the source is stored instead, tiled according to `options.tile`:
    ///
    /// 1. It is not resized, and without its metadata it is no larger than the encoded picture.
    /// 2. It is neither resized nor subsampled, and all its quantisation steps are at least as coarse as
    ///    those of the requested fixed quality. Encoding is not even tried, because finer steps would cost
    ///    bytes without restoring anything.
    /// 3. It cannot be encoded: it has two components, does not have 8 bits, is hierarchical, has sampling
    ///    factors that do not fit into one scan, or is CMYK. However, a CMYK picture that must be resized is
    ///    converted to RGB as in decoding (without its profile) and encoded.
    ///
    /// # Errors
    /// `Format` if the picture is damaged, which includes all warnings of libjpeg-turbo; `Limit` if it has
    /// too many pixels; `Usage` if an option is out of range or the picture cannot be scored. An error leaves
    /// `out` unchanged.
    pub fn reencode(
        &mut self,
        jpeg: &[u8],
        options: &ReencodeOptions,
        score: bool,
        out: &mut Vec<u8>,
    ) -> Result<Tiled> {
        options.check()?;
        let start = out.len();
        self.then_trim(|this| this.try_reencode(jpeg, options, score, out)).inspect_err(|_| out.truncate(start))
    }

    /// Does some work, and then frees the buffers that are too large to be kept, even if the work failed.
    fn then_trim<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = work(self);
        trim([&mut self.pixels, &mut self.other, &mut self.encoded, &mut self.best]);
        if self.resizer.size_of_internal_buffers() > KEPT_BYTES {
            self.resizer.reset_internal_buffers();
        }
        done
    }

    fn try_reencode(
        &mut self,
        jpeg: &[u8],
        options: &ReencodeOptions,
        score: bool,
        out: &mut Vec<u8>,
    ) -> Result<Tiled> {
        let header = parse(jpeg)?;
        let turn = Orientation::of(header.orientation.unwrap_or(1))?;
        let upright = turn.size(header.width.into(), header.height.into());
        let size = options.resize.of(upright.0, upright.1);
        let resized = size != upright;
        let encodable = match KeepReason::of(&header) {
            None | Some(KeepReason::Arithmetic | KeepReason::Lossless) => true,
            Some(KeepReason::Cmyk) => resized,
            Some(_) => false,
        };
        if !encodable {
            return self.tiler.tile(jpeg, &options.tile, out);
        }
        let subsampling = subsampling_of(options.subsampling, &header, turn);
        if let Quality::Fixed(quality) = options.quality
            && !resized
            && KeepReason::of(&header).is_none()
            && subsampling == subsampling_of(ChromaSampling::Keep, &header, turn)
            && self.is_as_coarse(jpeg, &header, quality)?
        {
            return self.tiler.tile(jpeg, &options.tile, out);
        }
        self.decode(jpeg, &options.tile.limits)?;
        self.turn(turn, upright);
        self.shrink(upright, size)?;
        let source_bytes = picture_bytes(jpeg, header.scan_offset);
        let is_stored = |encoded: &[u8]| resized || encoded.len() < source_bytes;
        // Do not score a picture that will not be stored.
        let made = self.encode_and_score(options, subsampling, size, |encoded| score && is_stored(encoded))?;
        if !is_stored(&self.encoded) {
            return self.tiler.tile(jpeg, &options.tile, out);
        }
        match options.tile.keep_metadata {
            true => with_metadata(&self.encoded, Metadata::read(jpeg)?.icc.as_deref(), 1, out)?,
            false => out.extend_from_slice(&self.encoded),
        }
        Ok(made)
    }

    /// Appends a JPEG of `pixels`, C-contiguous `[height, width, channels]` u8 with one channel (gray) or
    /// three (RGB), and scores it like [`reencode`](Self::reencode). Chroma is subsampled only if
    /// `options.subsampling` is 4:2:0.
    ///
    /// ```
    /// use shardpack_jpeg::{JpegHeader, JpegReencoder, ReencodeOptions};
    /// let (options, mut out) = (ReencodeOptions::default(), Vec::new());
    /// JpegReencoder::new().encode_pixels(&[128; 20 * 30], (30, 20), 1, &options, false, &mut out)?;
    /// let header = JpegHeader::parse(&out)?;
    /// assert_eq!((header.width, header.height), (30, 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if `pixels` does not have `height * width * channels` bytes, a side is not in 1..=65,535, an
    /// option is out of range, or the picture cannot be scored. An error leaves `out` unchanged.
    pub fn encode_pixels(
        &mut self,
        pixels: &[u8],
        from: (u32, u32),
        channels: u8,
        options: &ReencodeOptions,
        score: bool,
        out: &mut Vec<u8>,
    ) -> Result<Tiled> {
        options.check()?;
        let (width, height) = (from.0 as usize, from.1 as usize);
        let expected = width.checked_mul(height).and_then(|n| n.checked_mul(channels.into()));
        if !matches!(channels, 1 | 3) || expected != Some(pixels.len()) {
            return Err(Error::usage(format!(
                "cannot encode {} bytes as {width} × {height} pixels of {channels} channels: pixels must have 1 or 3 \
                 channels of 1 byte",
                pixels.len()
            )));
        }
        let size = options.resize.of(from.0, from.1);
        if size.0.min(size.1) == 0 || size.0.max(size.1) > 65_535 {
            return Err(Error::usage(format!(
                "the width and height of a JPEG must be from 1 to 65,535 pixels, but the size is {} × {}",
                size.0, size.1
            )));
        }
        self.pixels.clear();
        match channels {
            1 => self.pixels.extend(pixels.iter().flat_map(|&grey| [grey; 3])),
            _ => self.pixels.extend_from_slice(pixels),
        }
        let subsampling = match (channels, options.subsampling) {
            (1, _) => Subsampling::Gray,
            (_, ChromaSampling::S420) => Subsampling::S420,
            (_, ChromaSampling::Keep | ChromaSampling::S444) => Subsampling::S444,
        };
        self.then_trim(|this| {
            this.shrink(from, size)?;
            let made = this.encode_and_score(options, subsampling, size, |_| score)?;
            out.extend_from_slice(&this.encoded);
            Ok(made)
        })
    }

    /// Encodes `self.pixels` into `self.encoded`. A search for a score scores the picture anyway. Otherwise it is
    /// scored if `is_scored` returns true for its bytes.
    fn encode_and_score(
        &mut self,
        options: &ReencodeOptions,
        subsampling: Subsampling,
        size: (u32, u32),
        is_scored: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Tiled> {
        let (interval, encoded) = match options.quality {
            Quality::Fixed(quality) => {
                let interval = self.encode(quality, subsampling, size, options)?;
                let score = match is_scored(&self.encoded) {
                    true => Some(self.score(&Reference::new(&self.pixels, size)?, size)?),
                    false => None,
                };
                (interval, Reencoding { quality, score })
            }
            Quality::Ssimulacra2(target) => self.search(target, subsampling, size, options)?,
        };
        Ok(Tiled {
            outcome: TileOutcome::tiled(parse(&self.encoded)?.mcu_grid(), interval),
            width: size.0,
            height: size.1,
            orientation: 1,
            applied: 1,
            reencoded: Some(encoded),
        })
    }

    /// Returns true if the picture's coefficients are already quantised at least as coarsely as with
    /// `quality`.
    fn is_as_coarse(&mut self, jpeg: &[u8], header: &JpegHeader, quality: u8) -> Result<bool> {
        let asked = match self.steps {
            Some((of, steps)) if of == quality => steps,
            _ => self.steps.insert((quality, Steps::at(quality, &mut self.encoder)?)).1,
        };
        let own = Steps::of(jpeg, header);
        Ok(own.zip(asked).is_some_and(|(own, asked)| own.as_coarse_as(&asked, header.components().len())))
    }

    /// Decodes to RGB, even if the picture is gray. The encoder converts gray pixels back to the same luma, bit for
    /// bit.
    fn decode(&mut self, jpeg: &[u8], limits: &Limits) -> Result<()> {
        self.decoder.set_bounds(Bounds::of(limits));
        let picture = self.decoder.open(jpeg)?;
        let frame = picture.frame();
        let pixels = frame.width as usize * frame.height as usize;
        if frame.color.format() == PixelFormat::Cmyk {
            self.other.resize(pixels * 4, 0);
            picture.decode(Scale::Full, PixelFormat::Cmyk, &mut self.other, frame.width as usize * 4)?;
            self.pixels.resize(pixels * 3, 0);
            cmyk_to_rgb(&self.other, &mut self.pixels);
        } else {
            self.pixels.resize(pixels * 3, 0);
            picture.decode(Scale::Full, PixelFormat::Rgb, &mut self.pixels, frame.width as usize * 3)?;
        }
        Ok(())
    }

    fn turn(&mut self, turn: Orientation, upright: (u32, u32)) {
        if turn.is_none() {
            return;
        }
        let (width, height) = turn.size(upright.0, upright.1);
        let stored = RgbPixels { bytes: &self.pixels, width, height };
        self.other.resize(self.pixels.len(), 0);
        let rows = stored.rows(Rect::whole(width, height));
        let rows = rows.unwrap_or_else(|| bug("a picture has fewer pixels than its size says"));
        let (columns, lines) = (upright.0 as usize, upright.1 as usize);
        turn.write(rows, columns, lines, PixelLayout::HeightWidthChannels, &mut self.other);
        std::mem::swap(&mut self.pixels, &mut self.other);
    }

    /// Shrinks `rgb`, of shape `[height, width, 3]`, like [`reencode`](Self::reencode). `from` and `to` are
    /// width and height.
    ///
    /// # Errors
    /// `Usage` if `rgb` does not have the size `from`, or cannot be resized to `to`.
    pub fn shrunk(&mut self, rgb: Vec<u8>, from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>> {
        self.pixels = rgb;
        self.then_trim(|this| {
            this.shrink(from, to)?;
            Ok(std::mem::take(&mut this.pixels))
        })
    }

    fn shrink(&mut self, from: (u32, u32), to: (u32, u32)) -> Result<()> {
        if from == to {
            return Ok(());
        }
        self.other.resize(to.0 as usize * to.1 as usize * 3, 0);
        let picture = from.into();
        let source = RgbWindow { bytes: &self.pixels, picture, origin: [0, 0], size: picture };
        let filter = fir::ResizeAlg::Convolution(fir::FilterType::Lanczos3);
        let how = fir::ResizeOptions::new().resize_alg(filter);
        resize_rgb(&mut self.resizer, &source, &how, to.into(), &mut self.other)?;
        std::mem::swap(&mut self.pixels, &mut self.other);
        Ok(())
    }

    /// Encodes `self.pixels` into `self.encoded` and returns the restart interval.
    fn encode(
        &mut self,
        quality: u8,
        subsampling: Subsampling,
        size: (u32, u32),
        options: &ReencodeOptions,
    ) -> Result<u16> {
        let grid = grid(subsampling, size.0, size.1);
        let interval = options.tile.interval.of(grid, expected_bytes(quality, size.0, size.1));
        self.encoded.clear();
        let how = Encoding { quality, subsampling, restart_interval: interval };
        self.encoder.encode(&self.pixels, size.0, size.1, PixelFormat::Rgb, how, &mut self.encoded)?;
        Ok(interval)
    }

    fn score(&mut self, reference: &Reference, size: (u32, u32)) -> Result<f64> {
        self.other.resize(self.pixels.len(), 0);
        let picture = self.decoder.open(&self.encoded)?;
        picture.decode(Scale::Full, PixelFormat::Rgb, &mut self.other, size.0 as usize * 3)?;
        reference.score(&self.other, size)
    }

    /// Searches for the lowest quality that reaches `target`, and encodes with it into `self.encoded`.
    /// Returns the restart interval, and the quality and score.
    fn search(
        &mut self,
        target: f64,
        subsampling: Subsampling,
        size: (u32, u32),
        options: &ReencodeOptions,
    ) -> Result<(u16, Reencoding)> {
        let reference = Reference::new(&self.pixels, size)?;
        let (mut low, mut high) = (1_u8, 100_u8);
        let mut found = None;
        loop {
            let quality = low.midpoint(high);
            let interval = self.encode(quality, subsampling, size, options)?;
            let score = self.score(&reference, size)?;
            let tried = (interval, Reencoding { quality, score: Some(score) });
            if score >= target {
                found = Some(tried);
                std::mem::swap(&mut self.encoded, &mut self.best);
                high = quality - 1;
            } else {
                low = quality + 1;
            }
            if low > high {
                return Ok(match found {
                    Some(found) => {
                        std::mem::swap(&mut self.encoded, &mut self.best);
                        found
                    }
                    // No quality reaches the score, not even 100.
                    None => tried,
                });
            }
        }
    }
}

fn subsampling_of(asked: ChromaSampling, header: &JpegHeader, turn: Orientation) -> Subsampling {
    let sampling = match (header.sampling(), turn.size(1, 2) == (2, 1)) {
        (Sampling::S422, true) => Sampling::S440,
        (Sampling::S440, true) => Sampling::S422,
        // Turned by 90°, 4:1:1 has one chroma row per four luma rows, which the encoder does not support.
        (Sampling::S411, true) => Sampling::S420,
        (sampling, _) => sampling,
    };
    match (sampling, asked) {
        (Sampling::Gray, _) => Subsampling::Gray,
        (_, ChromaSampling::S420) => Subsampling::S420,
        (_, ChromaSampling::S444) => Subsampling::S444,
        (Sampling::S422, _) => Subsampling::S422,
        (Sampling::S420 | Sampling::S410, _) => Subsampling::S420,
        (Sampling::S440, _) => Subsampling::S440,
        (Sampling::S411, _) => Subsampling::S411,
        (Sampling::S444 | Sampling::Other, _) => Subsampling::S444,
    }
}

/// Returns the MCU grid of the picture after encoding.
const fn grid(subsampling: Subsampling, width: u32, height: u32) -> McuGrid {
    let factors = match subsampling {
        Subsampling::Gray => [1, 1, 1],
        Subsampling::S444 => [1, 1, 3],
        Subsampling::S422 => [2, 1, 3],
        Subsampling::S420 => [2, 2, 3],
        Subsampling::S440 => [1, 2, 3],
        Subsampling::S411 => [4, 1, 3],
    };
    McuGrid::new(width, height, factors)
}

/// Estimates the size of the encoded picture in bytes, because the size of tiles must be chosen before encoding. A
/// photo at quality 80 takes 0.2 bytes per pixel.
fn expected_bytes(quality: u8, width: u32, height: u32) -> usize {
    let permille = match quality {
        0..=49 => 80,
        50..=69 => 130,
        70..=84 => 200,
        85..=92 => 320,
        93..=97 => 550,
        _ => 900,
    };
    to_usize(u64::from(width) * u64::from(height) * permille / 1000)
}

#[cfg(test)]
#[path = "reencode_tests.rs"]
mod tests;
