//! Adds panels for cubes. They show the error in each band, spectra before and after, and the distribution of
//! the error.

use super::cubes::{CubeScorer, noise_ratio};
use super::false_colour::wavelengths;
use super::gallery::shown_candidate;
use super::measure::{Measurement, Scorer};
use super::sampled::{RecordScores, Sampled};
use crate::compare::{ArrayDifference, BandDifferences, PixelAngle};
use shardpack_array::Array;
use shardpack_array::floats_of;
use shardpack_report::data::{BandError, CubePanel, Report, SpectrumPair, Why};
use shardpack_report::stats::histogram;

const PANELS: usize = 4;
const BINS: usize = 48;

/// Adds panels for the gallery's candidate and for other candidates on the Pareto front.
pub(super) fn add(report: &mut Report, measurement: &Measurement<'_>, whole: &[Sampled]) {
    let Scorer::Cubes(mut scorer) = measurement.scorer() else { return };
    let Some(first) = shown_candidate(report) else { return };
    let others = report
        .candidates
        .iter()
        .enumerate()
        .filter(|(position, candidate)| *position != first && !candidate.lossless && candidate.on_front);
    let shown: Vec<usize> = std::iter::once(first).chain(others.map(|(position, _)| position)).take(PANELS).collect();
    let facts = facts(&mut scorer, whole);
    for candidate in shown {
        report.cubes.push(panel(&mut scorer, measurement, whole, candidate, &facts));
    }
}

#[derive(Default)]
struct Facts {
    wavelengths: Vec<f64>,
    unit: String,
}

/// Returns the wavelengths of the first sample. The other samples are assumed to have the same wavelengths.
fn facts(scorer: &mut CubeScorer<'_>, whole: &[Sampled]) -> Facts {
    let Some(first) = whole.first() else { return Facts::default() };
    scorer.begin(first.position);
    let Ok(source) = scorer.source(first.position) else { return Facts::default() };
    let bands = source.array.shape().last().and_then(|&bands| usize::try_from(bands).ok()).unwrap_or(0);
    let (wavelengths, unit) = wavelengths(&source.meta, bands).unwrap_or_default();
    Facts { wavelengths, unit }
}

/// Returns the differences of all samples for a candidate, with the positions of the samples in the report.
fn differences(whole: &[Sampled], candidate: usize) -> Vec<(usize, &ArrayDifference)> {
    measured(whole, candidate).filter_map(|(sample, found)| Some((sample, found.cube.as_ref()?))).collect()
}

fn measured(whole: &[Sampled], candidate: usize) -> impl Iterator<Item = (usize, &RecordScores)> {
    whole.iter().enumerate().filter_map(move |(sample, sampled)| Some((sample, &sampled.record(candidate)?.scores)))
}

/// Returns the noise of a band in each sample, and the largest ratio of the error to this noise.
fn noise_of(whole: &[Sampled], candidate: usize, band: usize) -> (Vec<f64>, Option<f64>) {
    let found = measured(whole, candidate).filter_map(|(_, one)| {
        let noise = one.noise.as_ref()?.get(band).copied()?;
        Some((noise, noise_ratio(one.cube.as_ref()?.bands.get(band)?, noise)))
    });
    let (mut noise, ratios): (Vec<f64>, Vec<Option<f64>>) = found.unzip();
    noise.sort_by(f64::total_cmp);
    (noise, ratios.into_iter().flatten().reduce(f64::max))
}

fn panel(
    scorer: &mut CubeScorer<'_>,
    measurement: &Measurement<'_>,
    whole: &[Sampled],
    candidate: usize,
    facts: &Facts,
) -> CubePanel {
    let all = differences(whole, candidate);
    let mut panel = CubePanel { candidate, wavelength_unit: facts.unit.clone(), ..CubePanel::default() };
    panel.bands = bands(&all, whole, candidate, facts);
    panel.errors = histogram(all.iter().flat_map(|(_, found)| found.errors.iter().copied()), BINS);
    panel.angles = histogram(all.iter().flat_map(|(_, found)| found.angles.iter().map(|pixel| pixel.degrees)), BINS);
    panel.bound = measurement.recipes.get(candidate).and_then(|recipe| recipe.options.arrays.max_error);
    let [rows, columns, bands] = [0, 1, 2].map(|axis| correlation(&all, axis));
    panel.autocorrelation_rows = rows;
    panel.autocorrelation_columns = columns;
    panel.autocorrelation_bands = bands;
    for (sample, pixel, why) in pixels(&all) {
        let Some(position) = whole.get(sample).map(|sampled| sampled.position) else { continue };
        panel.spectra.extend(spectrum(scorer, measurement, candidate, position, pixel).map(|pair| SpectrumPair {
            sample,
            why,
            ..pair
        }));
    }
    panel
}

/// Returns the error in each band over all samples. Returns an empty list if samples have different numbers of bands.
#[allow(clippy::cast_precision_loss, reason = "means")]
fn bands(all: &[(usize, &ArrayDifference)], whole: &[Sampled], candidate: usize, facts: &Facts) -> Vec<BandError> {
    let Some((_, first)) = all.first() else { return Vec::new() };
    if all.iter().any(|(_, found)| found.bands.len() != first.bands.len()) {
        return Vec::new();
    }
    let sum = |band: usize| {
        all.iter().filter_map(|(_, found)| found.bands.get(band)).fold(BandDifferences::default(), |sum, next| {
            BandDifferences {
                count: sum.count + next.count,
                sum_square: sum.sum_square + next.sum_square,
                sum_abs: sum.sum_abs + next.sum_abs,
                max_abs: sum.max_abs.max(next.max_abs),
                sum_source: sum.sum_source + next.sum_source,
            }
        })
    };
    let of = |band: usize| {
        let sums = sum(band);
        let count = sums.count.max(1) as f64;
        let (noise, noise_ratio) = noise_of(whole, candidate, band);
        BandError {
            wavelength: facts.wavelengths.get(band).copied(),
            rmse: (sums.sum_square / count).sqrt(),
            mean_abs_error: sums.sum_abs / count,
            max_abs_error: sums.max_abs,
            mean: sums.sum_source / count,
            noise: noise.get(noise.len() / 2).copied().filter(|&noise| noise > 0.0),
            noise_ratio,
        }
    };
    (0..first.bands.len()).map(of).collect()
}

fn correlation(all: &[(usize, &ArrayDifference)], axis: usize) -> Vec<f64> {
    let sum = |of: fn(&ArrayDifference) -> &[Vec<f64>; 3], lag: usize| -> f64 {
        all.iter().filter_map(|(_, found)| of(found).get(axis)?.get(lag)).sum()
    };
    let lags = all.iter().filter_map(|(_, found)| Some(found.correlation.get(axis)?.len())).max().unwrap_or(0);
    let ratio = |lag: usize| {
        let products = sum(|found| &found.products, lag);
        (products > 0.0).then(|| sum(|found| &found.correlation, lag) / products)
    };
    (0..lags).map_while(ratio).collect()
}

/// Returns the pixel with the largest angle and the pixel with the median angle.
fn pixels(all: &[(usize, &ArrayDifference)]) -> Vec<(usize, PixelAngle, Why)> {
    let worst = all.iter().filter_map(|(sample, found)| Some((*sample, found.worst?)));
    let worst = worst.max_by(|a, b| a.1.degrees.total_cmp(&b.1.degrees));
    let mut kept: Vec<(usize, PixelAngle)> =
        all.iter().flat_map(|(sample, found)| found.angles.iter().map(|pixel| (*sample, *pixel))).collect();
    kept.sort_by(|a, b| a.1.degrees.total_cmp(&b.1.degrees));
    let median = kept.get(kept.len() / 2).copied();
    let worst = worst.map(|(sample, pixel)| (sample, pixel, Why::Worst));
    worst.into_iter().chain(median.map(|(sample, pixel)| (sample, pixel, Why::Median))).collect()
}

fn spectrum(
    scorer: &mut CubeScorer<'_>,
    measurement: &Measurement<'_>,
    candidate: usize,
    position: usize,
    pixel: PixelAngle,
) -> Option<SpectrumPair> {
    scorer.begin(position);
    let stored = scorer.decode(&measurement.again(candidate, position)?).ok()?;
    let source = scorer.source(position).ok()?;
    let of = |cube: &Array| -> Option<Vec<Option<f64>>> {
        let &[_, width, bands] = cube.shape() else { return None };
        let spectrum = usize::try_from(bands).ok()?.checked_mul(cube.dtype().size())?;
        let at =
            usize::try_from(pixel.row.checked_mul(width)?.checked_add(pixel.column)?).ok()?.checked_mul(spectrum)?;
        let values = floats_of(cube.dtype(), cube.bytes().get(at..at.checked_add(spectrum)?)?);
        Some(
            values
                .into_iter()
                .map(|value| Some(value).filter(|value| value.is_finite() && source.no_data != Some(*value)))
                .collect(),
        )
    };
    Some(SpectrumPair {
        sample: 0,
        row: pixel.row,
        column: pixel.column,
        why: Why::Worst,
        angle: pixel.degrees,
        original: of(&source.array)?,
        stored: of(&stored)?,
    })
}
