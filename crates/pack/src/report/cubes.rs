//! Scores cubes by comparing decoded records with their sources, by value and by spectrum.

use super::record::{first_field, limits};
use super::sampled::{RecordScores, first_line};
use crate::compare::{ArrayDifference, BandDifferences, DifferenceOptions, band_noise, compare_arrays, noise_bytes};
use crate::encode::FidelityTotals;
use shardpack_array::{Array, ArrayDecoder};
use shardpack_format::{ArrayDescriptor, Dtype};
use shardpack_report::data::{Measure, NO_NOISE};
use shardpack_sources::cubes::{CubeInfo, CubeOptions, LoadedCube, load};
use shardpack_sources::{Listing, SampleContent, SourceSample};
use shardpack_writer::EncodedSample;
use std::sync::Arc;

/// Longest distance for the autocorrelation of the error, in elements.
const LAGS: usize = 16;
/// Number of cubes to inspect for deriving the ladder of maximum errors.
const TRIED: usize = 3;

pub(super) struct CubeScorer<'a> {
    listing: &'a Listing,
    options: CubeOptions,
    decoder: ArrayDecoder,
    source: Option<Result<LoadedCube, String>>,
    noise: Option<Arc<[f64]>>,
}

/// Properties of cubes that determine the ladder of candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CubeTraits {
    /// True if some cubes have floating-point values. These can be stored with less precision.
    pub floats: bool,
    /// True if some cubes have floating-point values that are not integers.
    pub fractions: bool,
    /// Estimated noise over all bands, or `None` if no band has any noise.
    pub noise: Option<Noise>,
}

/// Noise levels of the inspected cubes. Bands without noise are ignored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of the noise in the band with the least noise.
    pub quietest: f64,
    /// Standard deviation of the noise in the median band.
    pub typical: f64,
}

/// Returns the memory for scoring a cube: its source and decoded values, the bytes being decoded, and the
/// angles or the noise.
pub(super) fn memory_bytes(entry: &SourceSample) -> u64 {
    let of = |info: &CubeInfo| {
        let [height, width, bands] = info.shape;
        let angles = height.saturating_mul(width).saturating_mul(8);
        let noise = noise_bytes(height, width, bands);
        info.array_bytes.saturating_mul(2).saturating_add(info.source_bytes).saturating_add(angles.max(noise))
    };
    info(entry).map_or(entry.bytes, of)
}

pub(super) const fn info(entry: &SourceSample) -> Option<&CubeInfo> {
    match &entry.content {
        SampleContent::Cube(info) => Some(info),
        SampleContent::Picture(_) => None,
    }
}

/// Inspects the first, the middle and the last cube.
pub(super) fn traits(listing: &Listing, options: &CubeOptions) -> CubeTraits {
    let is_float = |entry: &SourceSample| {
        info(entry).is_some_and(|info| matches!(info.dtype, Dtype::F16 | Dtype::F32 | Dtype::F64))
    };
    let floats = listing.samples.iter().any(is_float);
    let last = listing.samples.len().saturating_sub(1);
    let mut positions: Vec<usize> = (0..TRIED).map(|i| last * i / (TRIED - 1)).collect();
    positions.dedup();
    let mut noise = Vec::new();
    let mut fractions = false;
    for entry in
        positions.into_iter().filter_map(|position| listing.samples.get(position)).filter(|entry| is_float(entry))
    {
        let Ok(cube) = load(&listing.path(entry), options) else { continue };
        fractions |= has_fractions(&cube.array);
        noise.extend(
            band_noise(&cube.array, cube.no_data).into_iter().filter(|&sigma| sigma > 0.0 && sigma.is_finite()),
        );
    }
    noise.sort_by(f64::total_cmp);
    let quietest = noise.first().copied();
    let noise = quietest.zip(noise.get(noise.len() / 2).copied());
    CubeTraits { floats, fractions, noise: noise.map(|(quietest, typical)| Noise { quietest, typical }) }
}

fn has_fractions(cube: &Array) -> bool {
    let mut rows = cube.bytes().chunks(1 << 20);
    rows.any(|bytes| {
        shardpack_array::floats_of(cube.dtype(), bytes).iter().any(|value| value.is_finite() && value.fract() != 0.0)
    })
}

impl<'a> CubeScorer<'a> {
    pub(super) fn new(listing: &'a Listing, options: CubeOptions) -> Self {
        Self { listing, options, decoder: ArrayDecoder::new(), source: None, noise: None }
    }

    pub(super) fn begin(&mut self, _: usize) {
        self.source = None;
        self.noise = None;
    }

    pub(super) fn score(
        &mut self,
        position: usize,
        sample: &EncodedSample<FidelityTotals>,
        keep: usize,
    ) -> Result<RecordScores, String> {
        let decoded = self.decode(sample)?;
        let source = self.source(position)?;
        let how = DifferenceOptions { lags: LAGS, keep };
        let found = compare_arrays(&source.array, &decoded, source.no_data, how)
            .map_err(|error| first_line(&error.to_string()))?;
        let mut record = RecordScores { exact: found.altered == 0, ..RecordScores::default() };
        record.values = scores(&found).into_iter().filter_map(|(measure, value)| Some((measure, value?))).collect();
        let ratio = match record.exact {
            true => found.bands.iter().any(|band| band.count > 0).then_some(0.0),
            false => {
                let noise = self.noise(position)?;
                record.noise = Some(Arc::clone(&noise));
                let ratios = found.bands.iter().zip(noise.iter());
                ratios.filter_map(|(band, noise)| noise_ratio(band, *noise)).reduce(f64::max)
            }
        };
        record.values.extend(ratio.map(|ratio| (Measure::NoiseRatio, ratio)));
        // All differences of an exact record are zero, so there is no need to keep them.
        record.cube = (!record.exact).then_some(found);
        Ok(record)
    }

    fn noise(&mut self, position: usize) -> Result<Arc<[f64]>, String> {
        if let Some(noise) = &self.noise {
            return Ok(Arc::clone(noise));
        }
        let source = self.source(position)?;
        let noise: Arc<[f64]> = band_noise(&source.array, source.no_data).into();
        self.noise = Some(Arc::clone(&noise));
        Ok(noise)
    }

    pub(super) fn source(&mut self, position: usize) -> Result<&LoadedCube, String> {
        let Self { listing, options, source, .. } = self;
        let load = || {
            let entry = listing.samples.get(position).ok_or("no such sample")?;
            load(&listing.path(entry), options).map_err(|error| first_line(&error.to_string()))
        };
        source.get_or_insert_with(load).as_ref().map_err(Clone::clone)
    }

    pub(super) fn decode(&mut self, sample: &EncodedSample<FidelityTotals>) -> Result<Array, String> {
        let words = |error: shardpack_format::Error| first_line(&error.to_string());
        // A constant field may compress to almost nothing, so do not limit the ratio.
        let limits = shardpack_format::Limits { max_expansion: u64::MAX, ..limits() };
        let field = first_field(sample, &limits).map_err(words)?;
        let descriptor = ArrayDescriptor::parse(field.descriptor, &limits).map_err(words)?;
        self.decoder.decode(field.codec, &descriptor, field.bytes, &limits).map_err(words)
    }
}

fn scores(found: &ArrayDifference) -> [(Measure, Option<f64>); 9] {
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let altered = found.altered as f64 / found.values.max(1) as f64;
    let measured = found.bands.iter().any(|band| band.count > 0);
    let angles = found.spectral_angles;
    [
        (Measure::Psnr, found.psnr),
        (Measure::Ssim, found.ssim),
        (Measure::SpectralAngleP50, angles.map(|angles| angles.p50)),
        (Measure::SpectralAngleP95, angles.map(|angles| angles.p95)),
        (Measure::SpectralAngleP99, angles.map(|angles| angles.p99)),
        (Measure::SpectralAngleMax, angles.map(|angles| angles.max)),
        (Measure::MaxAbsError, measured.then_some(found.max_abs_error)),
        (Measure::MaxRelError, measured.then_some(found.max_rel_error)),
        (Measure::Altered, Some(altered)),
    ]
}

/// Returns the ratio of a band's largest error to its noise, or `None` if no values were compared.
pub(super) fn noise_ratio(band: &BandDifferences, noise: f64) -> Option<f64> {
    match (band.count, band.max_abs > 0.0, noise > 0.0) {
        (0, ..) => None,
        (_, false, _) => Some(0.0),
        (_, true, false) => Some(NO_NOISE),
        (_, true, true) => Some((band.max_abs / noise).min(NO_NOISE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_counts_by_the_noise_of_its_own_band() {
        let band = |max_abs| BandDifferences { count: 9, max_abs, ..BandDifferences::default() };
        assert_eq!(noise_ratio(&band(2.0), 4.0), Some(0.5));
        // A band without noise must be exact.
        assert_eq!((noise_ratio(&band(0.0), 0.0), noise_ratio(&band(1e-9), 0.0)), (Some(0.0), Some(NO_NOISE)));
        assert_eq!(noise_ratio(&BandDifferences::default(), 1.0), None);
    }
}
