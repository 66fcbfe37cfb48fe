//! Scores pictures by comparing decoded records with their sources, turned upright and shrunk as requested.

use super::maker::Maker;
use super::options::CandidateRecipe;
use super::record::{first_field, limits, scalar};
use super::sampled::{RecordScores, first_line};
use crate::compare::{PictureReference, ReferencePixels};
use crate::pack::{FidelityTotals, PackOptions};
use shardpack_format::to_usize;
use shardpack_jpeg::{PictureDecoder, Rendering, Resize, SCORE_BYTES_PER_PIXEL, SCORE_MAX_PIXELS, StoredPicture};
use shardpack_report::data::Measure;
use shardpack_sources::{Listing, SampleContent, SourceSample};
use shardpack_writer::EncodedSample;

type RgbPicture = (Vec<u8>, (u32, u32));

pub(super) struct PictureScorer<'a> {
    listing: &'a Listing,
    pub(super) decoder: PictureDecoder,
    shrinker: ReferencePixels,
    /// The decoded source of the current sample.
    source: Option<Result<RgbPicture, String>>,
    /// The same source, shrunk to the size that a candidate requests.
    reference: Option<(Resize, Result<PictureReference, String>)>,
    decoded: Vec<u8>,
}

/// Returns the memory for scoring a picture: three copies of its pixels, two of its luma, and the planes for the score.
pub(super) fn memory_bytes(entry: &SourceSample) -> u64 {
    let SampleContent::Picture(picture) = &entry.content else { return 0 };
    let pixels = u64::from(picture.width) * u64::from(picture.height);
    pixels.saturating_mul(9 + 8).saturating_add(pixels.min(SCORE_MAX_PIXELS) * SCORE_BYTES_PER_PIXEL)
}

pub(super) const fn resize_of(options: &PackOptions) -> Resize {
    options.pictures.resize()
}

/// Returns a key that is equal for options that resize pictures in the same way.
pub(super) const fn size_key(options: &PackOptions) -> (u8, u32) {
    match resize_of(options) {
        Resize::No => (0, 0),
        Resize::ShortSide(side) => (1, side),
        Resize::LongSide(side) => (2, side),
    }
}

impl<'a> PictureScorer<'a> {
    pub(super) fn new(listing: &'a Listing) -> Self {
        let decoder = PictureDecoder::new(limits());
        let shrinker = ReferencePixels::default();
        Self { listing, decoder, shrinker, source: None, reference: None, decoded: Vec::new() }
    }

    pub(super) fn begin(&mut self, _: usize) {
        self.source = None;
        self.reference = None;
    }

    /// Compares a picture's record with its source. There are no scores if the record cannot be decoded.
    pub(super) fn score(
        &mut self,
        position: usize,
        recipe: &CandidateRecipe,
        maker: &Maker<'_>,
        sample: &EncodedSample<FidelityTotals>,
    ) -> RecordScores {
        self.try_score(position, recipe, maker, sample)
            .unwrap_or_else(|reason| RecordScores { unscored: Some(reason), ..RecordScores::default() })
    }

    fn try_score(
        &mut self,
        position: usize,
        recipe: &CandidateRecipe,
        maker: &Maker<'_>,
        sample: &EncodedSample<FidelityTotals>,
    ) -> Result<RecordScores, String> {
        let mut decoded = std::mem::take(&mut self.decoded);
        let size = self.decode(maker, sample, &mut decoded)?;
        let reference = self.reference(position, resize_of(&recipe.options), size)?;
        let found = reference.compare(&decoded).map_err(|error| first_line(&error.to_string()))?;
        self.decoded = decoded;
        let whole = self.source.as_ref().is_some_and(|source| matches!(source, Ok((_, whole)) if *whole == size));
        let scores =
            [(Measure::Ssimulacra2, Some(found.ssimulacra2)), (Measure::Psnr, found.psnr), (Measure::Ssim, found.ssim)];
        Ok(RecordScores {
            values: scores.into_iter().filter_map(|(measure, value)| Some((measure, value?))).collect(),
            exact: found.identical && whole,
            cube: None,
            noise: None,
            unscored: None,
        })
    }

    /// Decodes a record's picture upright into `out`, and returns its width and height.
    pub(super) fn decode(
        &mut self,
        maker: &Maker<'_>,
        sample: &EncodedSample<FidelityTotals>,
        out: &mut Vec<u8>,
    ) -> Result<(u32, u32), String> {
        let field = first_field(sample, &limits()).map_err(|error| error.to_string())?;
        let media_type = std::str::from_utf8(field.descriptor).unwrap_or_default();
        let orientation = scalar(maker.schema(), &sample.scalars, "orientation")
            .and_then(|value| value.first().copied())
            .unwrap_or(1);
        decode(&mut self.decoder, media_type, field.bytes, orientation, out)
    }

    /// Returns the source as packing passes it to an encoder. It is resized to `size` unless pictures are not resized.
    pub(super) fn reference(
        &mut self,
        position: usize,
        resize: Resize,
        size: (u32, u32),
    ) -> Result<&PictureReference, String> {
        let Self { listing, decoder, shrinker, source, reference, .. } = self;
        let (rgb, whole) =
            source.get_or_insert_with(|| load(listing, position, decoder)).as_ref().map_err(Clone::clone)?;
        let resize = if size == *whole { Resize::No } else { resize };
        let is_at_hand = reference.as_ref().is_some_and(|(made, _)| *made == resize);
        if !is_at_hand {
            let made =
                shrinker.shrink(rgb.clone(), *whole, resize).and_then(|(rgb, size)| PictureReference::new(rgb, size));
            *reference = Some((resize, made.map_err(|error| first_line(&error.to_string()))));
        }
        let made =
            reference.as_ref().ok_or("internal error: no original is loaded")?.1.as_ref().map_err(Clone::clone)?;
        if made.size() == size {
            return Ok(made);
        }
        let (had, has) = (made.size(), size);
        Err(format!("the picture was stored with {} × {} pixels instead of {} × {}", has.0, has.1, had.0, had.1))
    }
}

fn load(listing: &Listing, position: usize, decoder: &mut PictureDecoder) -> Result<RgbPicture, String> {
    let entry = listing.samples.get(position).ok_or("no such sample")?;
    let SampleContent::Picture(picture) = &entry.content else { return Err("not a picture".to_owned()) };
    let mut bytes = vec![0; to_usize(entry.bytes)];
    listing.read_into(entry, &mut bytes).map_err(|error| first_line(&error.to_string()))?;
    let orientation = picture.orientation();
    let mut rgb = Vec::new();
    let size = decode(decoder, picture.media_type, &bytes, orientation, &mut rgb)?;
    Ok((rgb, size))
}

fn decode(
    decoder: &mut PictureDecoder,
    media_type: &str,
    bytes: &[u8],
    orientation: u8,
    out: &mut Vec<u8>,
) -> Result<(u32, u32), String> {
    let words = |error: shardpack_format::Error| first_line(&error.to_string());
    let (height, width) = decoder.size_of(media_type, bytes, orientation).map_err(words)?;
    let length = u64::from(width) * u64::from(height) * 3;
    out.resize(usize::try_from(length).map_err(|_| "too many pixels".to_owned())?, 0);
    let how = Rendering { orientation, ..Rendering::default() };
    decoder.decode_into(&StoredPicture::new(media_type, bytes), &how, out).map_err(words)?;
    Ok((width, height))
}
