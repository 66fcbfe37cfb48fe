//! Estimates the stored size of pictures, and the memory for packing them, before packing.

use crate::encode::{PictureChecks, SampleError, is_usual, skip_or_keep};
use rayon::prelude::*;
use shardpack_format::visible_path;
use shardpack_format::{Note, to_usize};
use shardpack_jpeg::{JpegReencoder, Quality, ReencodeOptions, Resize, SCORE_BYTES_PER_PIXEL, SCORE_MAX_PIXELS};
use shardpack_recipe::PictureOptions;
use shardpack_sources::pictures::{JpegFacts, PictureInfo};
use shardpack_sources::{Listing, SourceSample};

/// Estimated size of a record without its picture, in bytes: frame, head and padding.
const OVERHEAD_BYTES: u64 = 256;
/// Number of pictures to re-encode to estimate stored sizes, and the maximum size of each in pixels.
const TRIED: usize = 8;
const MAX_TRIED_PIXELS: u64 = 4 << 20;
/// Pixels per byte of a segment index. A segment of 1,024 pixels (4:2:0) takes about nine bytes.
const PIXELS_PER_INDEX_BYTE: u64 = 110;
/// Maximum number of pixels of a picture, derived from the default limit on decoded bytes.
const MAX_PIXELS: u64 = 1 << 28;

#[derive(Debug)]
pub(super) struct PictureSizes<'a> {
    options: &'a PictureOptions,
    /// Total stored size and total source size of a few pictures, in bytes. Estimates for other pictures use
    /// their ratio.
    ratio: (u64, u64),
}

impl<'a> PictureSizes<'a> {
    /// Re-encodes a few pictures on the caller's rayon pool to estimate stored sizes.
    pub(super) fn new(listing: &Listing, options: &'a PictureOptions) -> crate::Result<Self> {
        Ok(Self { options, ratio: try_ratio(listing, options)? })
    }

    pub(super) fn estimate(&self, entry: &SourceSample) -> u64 {
        let (stored, source) = self.ratio;
        // Use only integers, because the plan must be the same on every machine.
        let bytes = u128::from(entry.bytes) * u128::from(stored) / u128::from(source.max(1));
        let bytes = match entry.content.picture() {
            Some(picture) if picture.jpeg.is_some() => {
                let (width, height) = self.options.resize().of(picture.width, picture.height);
                let (before, after) = (u128::from(pixels(picture)), u128::from(width) * u128::from(height));
                // Shrinking a picture increases its bytes per pixel, by a quarter in our trials.
                if after < before { bytes * after * 5 / (before.max(1) * 4) } else { bytes }
            }
            _ => bytes,
        };
        let index = match entry.content.picture() {
            Some(picture) if self.options.has_segment_index() && picture.jpeg.as_ref().is_some_and(is_baseline) => {
                pixels(picture) / PIXELS_PER_INDEX_BYTE
            }
            _ => 0,
        };
        shardpack_format::saturating_u64(bytes).saturating_add(index).saturating_add(OVERHEAD_BYTES)
    }

    /// Returns the memory for packing a picture, including its source and record.
    ///
    /// - Building a segment index needs a copy of the entropy-coded data and a list of the segments.
    /// - A transcoded JPEG needs its symbols (at most 12 bytes per pixel) or its coefficients (6 bytes per
    ///   pixel, or twice as much if the picture is turned).
    /// - A re-encoded JPEG needs its decoded, resized and compared pixels (3 bytes each), and may be transcoded
    ///   instead.
    /// - A progressive JPEG that is kept is decoded, which needs its pixels (3 bytes per pixel) and its coefficients
    ///   (6 bytes). A CMYK picture is decoded by all options, which needs its inks (4 bytes), their pixels twice,
    ///   and the coefficients of four components (8 bytes, if progressive).
    /// - Scoring needs planes of floats.
    /// - Other pictures are decoded, which needs up to 11 bytes per pixel.
    pub(super) fn memory_bytes(&self, entry: &SourceSample, checks: PictureChecks) -> u64 {
        let Some(found) = entry.content.picture() else { return 0 };
        let both = entry.bytes.saturating_mul(2).saturating_add(OVERHEAD_BYTES);
        let pixels = pixels(found).min(MAX_PIXELS);
        let each = match self.options {
            _ if found.jpeg.is_none() => return both.saturating_add(pixels.saturating_mul(11)),
            PictureOptions::Keep { segment_index } if found.jpeg.as_ref().is_some_and(is_usual) => {
                let index = if *segment_index { entry.bytes.saturating_mul(2).saturating_add(pixels / 16) } else { 0 };
                return both.saturating_add(index);
            }
            _ if found.jpeg.is_some_and(|jpeg| jpeg.components == 4) => 18,
            PictureOptions::Keep { .. } => 9,
            PictureOptions::Tile { .. } | PictureOptions::Reencode { .. } => 12,
        };
        let scored = match self.options {
            PictureOptions::Reencode { how, .. } => checks.score || matches!(how.quality, Quality::Ssimulacra2(_)),
            _ => false,
        };
        let score = if scored { pixels.min(SCORE_MAX_PIXELS).saturating_mul(SCORE_BYTES_PER_PIXEL) } else { 0 };
        entry.bytes.saturating_mul(3).saturating_add(pixels.saturating_mul(each)).saturating_add(score)
    }
}

/// Measures on a few pictures how re-encoding changes their size, so that shards come close to the requested
/// size.
///
/// The quality is fixed and nothing is resized. With these settings, libjpeg-turbo produces the same bytes on
/// every CPU, so all machines that pack parts of a dataset compute the same plan.
fn try_ratio(listing: &Listing, options: &PictureOptions) -> crate::Result<(u64, u64)> {
    let Some(how) = options.encoding() else { return Ok((1, 1)) };
    let quality = match how.quality {
        Quality::Fixed(quality) => quality,
        Quality::Ssimulacra2(score) => usual_quality(score),
    };
    let how = ReencodeOptions { quality: Quality::Fixed(quality), resize: Resize::No, ..how };
    let small = |entry: &&SourceSample| {
        entry.content.picture().is_some_and(|p| p.jpeg.is_some() && pixels(p) <= MAX_TRIED_PIXELS)
    };
    let candidates: Vec<&SourceSample> = listing.samples.iter().filter(small).collect();
    let tried: Vec<&SourceSample> =
        candidates.iter().copied().step_by(candidates.len().div_ceil(TRIED).max(1)).collect();
    let sizes = tried.par_iter().map(|entry| -> Result<(u64, u64), SampleError> {
        let first = entry.frames.first();
        let bytes = first.map_or(entry.bytes, |frame| frame.bytes);
        let mut source = vec![0; to_usize(bytes)];
        match first {
            Some(frame) => listing.read_frame(frame, &mut source)?,
            None => listing.read_into(entry, &mut source)?,
        }
        let mut made = Vec::new();
        // Ignore damaged pictures here. Packing handles them later.
        Ok(match JpegReencoder::new().reencode(&source, &how, false, &mut made) {
            Ok(_) => (made.len() as u64, bytes),
            Err(_) => (0, 0),
        })
    });
    let sum = sizes.try_reduce(|| (0, 0), |a, b| Ok((a.0 + b.0, a.1 + b.1)))?;
    Ok(if sum.1 == 0 { (1, 1) } else { sum })
}

/// Fails early if a picture is too large to be decoded.
pub(super) fn refuse_huge(listing: &Listing) -> crate::Result<()> {
    let huge =
        |entry: &&SourceSample| entry.content.picture().is_some_and(|p| p.jpeg.is_some() && pixels(p) > MAX_PIXELS);
    let Some((entry, found)) = listing.samples.iter().find(huge).and_then(|e| Some((e, e.content.picture()?))) else {
        return Ok(());
    };
    let (path, width, height) = (listing.path(entry), found.width, found.height);
    let text = format!(
        "`{}` is too large to decode: {width} × {height} pixels, but at most {MAX_PIXELS} are allowed",
        visible_path(&path)
    );
    crate::bail!(Note::new(text).with_hint(skip_or_keep()))
}

/// Returns true for the JPEGs whose estimated size includes a segment index. A CMYK picture is among them although it
/// gets none, because another estimate would move the borders of shards.
fn is_baseline(jpeg: &JpegFacts) -> bool {
    jpeg.rare.is_none() && !jpeg.progressive
}

fn pixels(picture: &PictureInfo) -> u64 {
    u64::from(picture.width) * u64::from(picture.height)
}

/// Returns the quality that most photos need to reach a score.
fn usual_quality(score: f64) -> u8 {
    const USUAL: [(f64, u8); 6] = [(50.0, 40), (60.0, 55), (70.0, 66), (80.0, 78), (85.0, 86), (90.0, 93)];
    USUAL.iter().find(|(most, _)| score <= *most).map_or(97, |&(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_recipe::Jpeg;
    use shardpack_sources::SampleContent;

    /// Returns the memory for keeping and for tiling a picture of 100 × 80 pixels.
    fn memory_bytes(components: u8, progressive: bool) -> [u64; 2] {
        let jpeg = JpegFacts {
            gpu_jpeg: false,
            rare: None,
            progressive,
            components,
            restart_interval: 0,
            orientation: None,
            icc: false,
            trailing_bytes: 0,
        };
        let (media_type, jpeg) = ("image/jpeg", Some(jpeg));
        let picture = PictureInfo { media_type, width: 100, height: 80, deep: false, exif: None, beside: None, jpeg };
        let entry = SourceSample {
            key: "a.jpg".to_owned(),
            bytes: 1000,
            mtime_ns: 0,
            class: None,
            content: SampleContent::Picture(picture),
            data: None,
            mask: None,
            meta: None,
            frames: Vec::new(),
        };
        [PictureOptions::Keep { segment_index: true }, PictureOptions::of(Jpeg::Tile)].map(|options| {
            let sizes = PictureSizes { options: &options, ratio: (1, 1) };
            sizes.memory_bytes(&entry, PictureChecks { pixels: false, score: false })
        })
    }

    #[test]
    fn a_picture_that_is_decoded_to_keep_it_needs_memory_for_its_pixels() {
        assert!(memory_bytes(3, false)[0] < 100 * 80);
        assert!(memory_bytes(3, true)[0] > 100 * 80 * (3 + 2 * 3));
        for progressive in [false, true] {
            assert!(memory_bytes(4, progressive).iter().all(|&bytes| bytes > 100 * 80 * (3 + 3 + 4 + 2 * 4)));
        }
    }
}
