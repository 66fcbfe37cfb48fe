//! Encodes one picture for storage: unchanged, as a tiled JPEG, or as a re-encoded JPEG.

use super::picture_figures::{PictureFigures, PictureTotals, ReencodedFigures};
use super::sample_error::SampleError;
use shardpack_array::Array;
use shardpack_format::{Dtype, Error, Limits};
use shardpack_jpeg::{
    JpegHeader, JpegReencoder, JpegTiler, Metadata, PictureCheck, PixelCheck, Quality, ReencodeOptions, SegmentIndexer,
    TileOptions, TileOutcome, check_markers, tidied,
};
use shardpack_recipe::PictureOptions;
use shardpack_sources::pictures::{JpegFacts, PictureInfo};
use std::borrow::Cow;

#[derive(Default)]
pub(crate) struct PictureEncoder {
    tiler: JpegTiler,
    reencoder: JpegReencoder,
    check: PixelCheck,
    loads: PictureCheck,
    indexer: SegmentIndexer,
    made: Vec<u8>,
}

/// Maximum decoded size of a picture, in bytes. The command and the Python package use the same limit.
const MAX_DECODED_BYTES: u64 = 4 << 30;

pub(crate) struct StoredPicture<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) media_type: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Orientation that a reader still has to apply.
    pub(crate) orientation: u8,
    pub(crate) gpu_jpeg: bool,
    pub(crate) icc: Option<Vec<u8>>,
    pub(crate) segments: Option<Vec<u8>>,
    pub(crate) figures: PictureFigures,
    pub(crate) note: PictureNote,
    pub(crate) oddity: Option<String>,
}

/// Facts about a picture that are not stored in a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PictureNote {
    pub(crate) kept_because: Option<&'static str>,
    /// True if the ICC profile was dropped, because it was damaged or described colours that the picture no longer has.
    pub(crate) profile_dropped: bool,
}

/// Parts of a picture that are stored in separate fields of the record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PictureFields {
    pub(crate) icc: bool,
    pub(crate) segments: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PictureChecks {
    pub(crate) pixels: bool,
    pub(crate) score: bool,
}

fn unchanged<'a>(
    bytes: &'a [u8],
    picture: &PictureInfo,
    options: &PictureOptions,
    because: Option<&'static str>,
) -> StoredPicture<'a> {
    StoredPicture {
        bytes: bytes.into(),
        media_type: picture.media_type,
        width: picture.width,
        height: picture.height,
        orientation: picture.orientation(),
        gpu_jpeg: picture.jpeg.is_some_and(|jpeg| jpeg.gpu_jpeg),
        icc: None,
        segments: None,
        figures: PictureFigures {
            source_bytes: bytes.len() as u64,
            tiles_per_row: 0,
            pixels_checked: false,
            reencoded: options.reencodes().then_some(ReencodedFigures::NONE),
        },
        note: PictureNote { kept_because: because, profile_dropped: false },
        oddity: None,
    }
}

impl PictureNote {
    pub(crate) fn totals(self, key: &str, figures: &PictureFigures, options: &PictureOptions) -> PictureTotals {
        let target = match options {
            PictureOptions::Reencode { how: ReencodeOptions { quality: Quality::Ssimulacra2(target), .. }, .. } => {
                Some(*target)
            }
            _ => None,
        };
        let mut totals = PictureTotals::of(key, figures, self.kept_because);
        totals.note(self.profile_dropped, target);
        totals
    }
}

impl PictureEncoder {
    /// Stores the picture unchanged if the loader can decode it.
    ///
    /// Building the segment index of a baseline JPEG reads all entropy-coded data, and so finds damage. Without
    /// an index only the markers are checked, because decoding would take forty times as long (2026-11-22: 1.9
    /// ms for a 116 kB photo). Pictures in other formats are decoded.
    fn keep<'b>(
        &mut self,
        source: &'b [u8],
        picture: &PictureInfo,
        options: &PictureOptions,
        is_indexed: bool,
        because: Option<&'static str>,
    ) -> Result<StoredPicture<'b>, SampleError> {
        let limits = Limits { max_decoded_bytes: MAX_DECODED_BYTES, ..Limits::default() };
        let is_usual = picture.jpeg.as_ref().is_some_and(is_usual);
        let mut index = Vec::new();
        let checked = match picture.jpeg {
            None => Ok(()),
            Some(_) if is_indexed && is_usual => match self.indexer.index(source, &limits, &mut index) {
                // If the picture is too large to be indexed, only check its markers, as without an index.
                Err(Error::Limit { .. }) => check_markers(source),
                indexed => indexed.map(drop),
            },
            Some(_) => check_markers(source),
        };
        let oddity = checked.err().map(|error| error.to_string());
        if oddity.is_some() || !is_usual {
            let decoded = self.loads.check(picture.media_type, source, &limits);
            let (width, height) = decoded.map_err(|error| SampleError::Picture { error })?;
            if (width, height) != (picture.width.into(), picture.height.into()) {
                let expected = format!("{} × {} pixels (as in the header)", picture.width, picture.height);
                let error = Error::format("decoded size", expected, format!("{width} × {height} pixels"));
                return Err(SampleError::Picture { error });
            }
        }
        let segments = (!index.is_empty()).then_some(index);
        let kept = unchanged(source, picture, options, because);
        let gpu_jpeg = kept.gpu_jpeg || segments.is_some();
        Ok(StoredPicture { oddity, segments, gpu_jpeg, ..kept })
    }

    pub(crate) fn encode<'b>(
        &'b mut self,
        source: &'b [u8],
        picture: &PictureInfo,
        options: &PictureOptions,
        fields: PictureFields,
        checks: PictureChecks,
    ) -> Result<StoredPicture<'b>, SampleError> {
        let PictureFields { icc, segments } = fields;
        let bad = |error| SampleError::Picture { error };
        self.made.clear();
        let Some(facts) = &picture.jpeg else {
            return self.keep(source, picture, options, segments, Some(picture.media_type));
        };
        // The codec cannot read a hierarchical JPEG, so keep the file unchanged.
        if let Some(rare @ "hierarchical JPEG") = facts.rare {
            return self.keep(source, picture, options, segments, Some(rare));
        }
        let own = source;
        let tidy = if options.keeps_files() { None } else { tidied(source) };
        let source = tidy.as_deref().unwrap_or(source);
        let mut figures = unchanged(own, picture, options, None).figures;
        // A CMYK picture is converted to RGB, so its CMYK profile no longer applies.
        let beside = facts.icc && icc && facts.components != 4;
        let profile = if beside { Metadata::read(source).map_err(bad)?.icc } else { None };
        // If the profile cannot be extracted, it stays in the picture.
        let keep_metadata = options.keeps_metadata() || (beside && profile.is_none());
        let mut profile_dropped = false;
        let made = match options {
            PictureOptions::Keep { .. } => return self.keep(own, picture, options, segments, None),
            PictureOptions::Tile { upright, .. } => {
                let how = TileOptions { keep_metadata, upright: *upright, ..TileOptions::default() };
                self.tiler.tile(source, &how, &mut self.made).map_err(bad)?
            }
            PictureOptions::Reencode { .. } => {
                let how = &options.encoding().unwrap_or_default();
                let made = self.reencoder.reencode(source, how, checks.score, &mut self.made).map_err(bad)?;
                figures.reencoded = Some(ReencodedFigures::of(made.reencoded));
                profile_dropped = facts.icc && icc && profile.is_none();
                made
            }
        };
        if let TileOutcome::Kept(why) = made.outcome {
            return Ok(StoredPicture { figures, ..self.keep(own, picture, options, segments, Some(why.name()))? });
        }
        figures.tiles_per_row = tiles_per_row(made.outcome);
        if checks.pixels {
            if !self.check.same(source, &self.made, made.applied, &Limits::default()).map_err(bad)? {
                // Different pixels have never been observed, but a bug in the transcoder must not destroy a picture.
                return self.keep(own, picture, options, segments, Some("pixels differ"));
            }
            figures.pixels_checked = true;
        }
        let gpu_jpeg = JpegHeader::parse(&self.made).is_ok_and(|header| header.device_decodable());
        let oddity = tidy.map(|_| "meaningless header bytes were removed".to_owned());
        Ok(StoredPicture {
            bytes: Cow::Borrowed(&self.made),
            media_type: JPEG,
            oddity,
            width: made.width,
            height: made.height,
            orientation: made.orientation,
            gpu_jpeg,
            icc: profile,
            segments: None,
            figures,
            note: PictureNote { kept_because: None, profile_dropped },
        })
    }
}

/// Returns true if our own decoder might be able to decode the JPEG. Any other JPEG is decoded whole before it is kept.
pub(crate) fn is_usual(jpeg: &JpegFacts) -> bool {
    jpeg.rare.is_none() && !jpeg.progressive && matches!(jpeg.components, 1 | 3)
}

/// Returns the value of the column `tiles_per_row`, which is 0 for a picture without tiles.
fn tiles_per_row(outcome: TileOutcome) -> u16 {
    match outcome {
        TileOutcome::Kept(_) => 0,
        TileOutcome::Tiled { tiles_per_row, .. } => u16::try_from(tiles_per_row).unwrap_or(u16::MAX),
    }
}

/// Pixels that do not come from a file, as C-contiguous `[height, width, channels]` of u8. There is one channel
/// for grey, or three for RGB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawPicture<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) channels: u8,
}

impl<'a> RawPicture<'a> {
    /// Returns the pixels of `array` if they are grey or RGB pixels of type uint8, otherwise `None`.
    pub(crate) fn of(array: &'a Array) -> Option<Self> {
        let (height, width, channels) = match (array.dtype(), array.shape()) {
            (Dtype::U8, &[height, width]) => (height, width, 1),
            (Dtype::U8, &[height, width, channels @ (1 | 3)]) => (height, width, channels),
            _ => return None,
        };
        let side = |side: u64| u32::try_from(side).ok().filter(|side| *side > 0);
        let (height, width) = (side(height)?, side(width)?);
        Some(Self { bytes: array.bytes(), width, height, channels: u8::try_from(channels).ok()? })
    }
}

impl PictureEncoder {
    /// Encodes pixels as a JPEG if pictures are re-encoded, otherwise as a lossless PNG.
    pub(crate) fn encode_pixels(
        &mut self,
        pixels: RawPicture<'_>,
        options: &PictureOptions,
        checks: PictureChecks,
    ) -> Result<StoredPicture<'_>, SampleError> {
        let RawPicture { bytes, width, height, channels } = pixels;
        self.made.clear();
        let source_bytes = bytes.len() as u64;
        let Some(how) = &options.encoding() else {
            write_png(pixels, &mut self.made)
                .map_err(|e| Error::usage(format!("cannot encode the pixels as a PNG: {e}")))?;
            let picture =
                PictureInfo { media_type: PNG, width, height, deep: false, exif: None, beside: None, jpeg: None };
            let mut stored = unchanged(&self.made, &picture, options, Some(PNG));
            stored.figures.source_bytes = source_bytes;
            return Ok(stored);
        };
        let size = (width, height);
        let made = self.reencoder.encode_pixels(bytes, size, channels, how, checks.score, &mut self.made)?;
        let gpu_jpeg = JpegHeader::parse(&self.made).is_ok_and(|header| header.device_decodable());
        Ok(StoredPicture {
            bytes: Cow::Borrowed(&self.made),
            media_type: JPEG,
            oddity: None,
            width: made.width,
            height: made.height,
            orientation: 1,
            gpu_jpeg,
            icc: None,
            segments: None,
            figures: PictureFigures {
                source_bytes,
                tiles_per_row: tiles_per_row(made.outcome),
                pixels_checked: false,
                reencoded: Some(ReencodedFigures::of(made.reencoded)),
            },
            note: PictureNote::default(),
        })
    }
}

pub(crate) const PNG: &str = "image/png";
const JPEG: &str = "image/jpeg";

pub(crate) fn write_png(pixels: RawPicture<'_>, out: &mut Vec<u8>) -> Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(out, pixels.width, pixels.height);
    encoder.set_color(if pixels.channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels.bytes)?;
    writer.finish()
}
