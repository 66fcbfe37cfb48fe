//! Chooses codecs by trying them on crops of a few samples.

use super::options::PackOptions;
use crate::Context;
use rayon::prelude::*;
use shardpack_array::{
    Array, ArrayLayout, ArrayOptions, ArraySource, BandDifference, Coder, EncodeError, Filter, Trial, Values,
    crop_for_trial, trial,
};
use shardpack_sources::cubes::{CubeOptions, CubeRun, load_mask, open};
use shardpack_sources::{Listing, SourceSample};

/// Number of samples in the trial: the first, the middle and the last one.
const SAMPLES: usize = 3;

struct SampleMiddle {
    key: String,
    cube: MiddleRows,
    mask: Option<MiddleRows>,
}

struct MiddleRows {
    array: Array,
    no_data: Option<f64>,
    /// Position of the first of these rows in the complete array.
    first_row: u64,
}

impl MiddleRows {
    fn of(array: &dyn ArraySource, no_data: Option<f64>) -> crate::Result<Self> {
        let middle = crop_for_trial(array)?;
        let rows = |shape: &[u64]| shape.first().copied().unwrap_or(0);
        let first_row = rows(array.shape()).saturating_sub(rows(middle.shape())) / 2;
        Ok(Self { array: middle, no_data, first_row })
    }
}

/// Returns the trial for `cube` and, if there are masks, for `mask`. Runs on the caller's rayon pool.
pub(super) fn choose(listing: &Listing, options: &PackOptions) -> crate::Result<Vec<(String, Trial)>> {
    let run = CubeRun::within(options.source.files.clone(), options.source.cancel.clone());
    let cubes = CubeOptions { run, ..options.source.cubes.clone() };
    let positions = positions(listing.samples.len(), &options.arrays);
    let load = |entry: &SourceSample| {
        let crop = load_one(listing, entry, &cubes)?;
        if options.skips() {
            refuse_unfit(&crop, &options.arrays)?;
        }
        Ok(crop)
    };
    let crops: Vec<SampleMiddle> = positions
        .par_iter()
        .map(|&position| load_from(listing, position, options.skips(), load).context("cannot choose a codec"))
        .collect::<Result<_, _>>()?;
    let cubes: Vec<_> = crops.iter().map(|crop| (crop.key.as_str(), &crop.cube)).collect();
    let masks: Vec<_> = crops.iter().filter_map(|crop| Some((crop.key.as_str(), crop.mask.as_ref()?))).collect();
    // The loaded samples may all lack a mask. Try other samples then.
    let of_others = if masks.is_empty() { choose_for_masks(listing, options)? } else { None };
    let (cube, mask) = rayon::join(
        || try_on("cube", &cubes, &options.arrays),
        || (!masks.is_empty()).then(|| try_on("mask", &masks, &mask_options(&options.arrays))).transpose(),
    );
    let mut trials = vec![("cube".to_owned(), cube?)];
    trials.extend(mask?.or(of_others).map(|mask| ("mask".to_owned(), mask)));
    Ok(trials)
}

/// Returns the trial for masks, from samples that have one, or `None` if there are no masks. Runs on the
/// caller's rayon pool.
pub(super) fn choose_for_masks(listing: &Listing, options: &PackOptions) -> crate::Result<Option<Trial>> {
    let has_mask = |(position, entry): (usize, &SourceSample)| entry.mask.is_some().then_some(position);
    let with: Vec<usize> = listing.samples.iter().enumerate().filter_map(has_mask).collect();
    if with.is_empty() {
        return Ok(None);
    }
    let listing = &listing.subset(&with);
    let run = CubeRun::within(options.source.files.clone(), options.source.cancel.clone());
    let cubes = CubeOptions { run, ..options.source.cubes.clone() };
    let arrays = mask_options(&options.arrays);
    let load = |entry: &SourceSample| {
        let mask =
            load_mask_rows(entry, &cubes)?.with_context(|| format!("`{}` has no mask", entry.key.escape_debug()))?;
        Ok((entry.key.clone(), mask))
    };
    let parts: Vec<(String, MiddleRows)> = positions(listing.samples.len(), &arrays)
        .par_iter()
        .map(|&position| load_from(listing, position, options.skips(), load).context("cannot choose a codec"))
        .collect::<Result<_, _>>()?;
    let parts: Vec<_> = parts.iter().map(|(key, part)| (key.as_str(), part)).collect();
    try_on("mask", &parts, &arrays).map(Some)
}

/// Estimates the stored size of `bytes` bytes of values. Uses only integers, because the plan must be identical
/// on every machine.
pub(super) fn stored_bytes(bytes: u64, trial: Option<&Trial>) -> u64 {
    let best = trial.and_then(|trial| trial.table.first());
    let (stored, source) = best.map_or((1, 1), |best| (best.payload_bytes.max(1), best.source_bytes.max(1)));
    shardpack_format::saturating_u64(u128::from(bytes) * u128::from(stored) / u128::from(source))
}

/// Tries the codecs. An error names the sample and the position in the complete array.
fn try_on(field: &str, samples: &[(&str, &MiddleRows)], options: &ArrayOptions) -> crate::Result<Trial> {
    let pairs: Vec<_> = samples.iter().map(|(_, part)| (&part.array, part.no_data)).collect();
    let error = match trial(&pairs, options) {
        Ok(trial) => return Ok(trial),
        Err(error) => error,
    };
    let alone = samples.iter().find(|(_, part)| trial(&[(&part.array, part.no_data)], options).as_ref() == Err(&error));
    Err(match alone {
        Some((key, part)) => {
            let context = format!("cannot choose how to store the {field} of `{}`", key.escape_debug());
            crate::Error::from(from_row(error, part.first_row)).context(context)
        }
        None => crate::Error::from(error).context(format!("cannot choose how to store the {field}s")),
    })
}

/// Fails if the options cannot store the values, so that the trial continues with another sample.
fn refuse_unfit(crop: &SampleMiddle, options: &ArrayOptions) -> crate::Result<()> {
    let one = ArrayOptions {
        coder: Some(Coder::Raw),
        level: None,
        filter: Some(Filter::None),
        layout: Some(options.layout.unwrap_or(ArrayLayout::AsShape)),
        band_difference: BandDifference::Off,
        ..*options
    };
    try_on("cube", &[(crop.key.as_str(), &crop.cube)], &one).map(drop)
}

/// Returns the error with its position in the complete array instead of the crop.
fn from_row(mut error: EncodeError, first_row: u64) -> EncodeError {
    if let EncodeError::OutOfRange { position, .. } | EncodeError::BecomesNoData { position, .. } = &mut error
        && let Some(row) = position.first_mut()
    {
        *row += first_row;
    }
    error
}

pub(super) fn mask_options(cubes: &ArrayOptions) -> ArrayOptions {
    ArrayOptions { values: Values::Auto, max_error: None, lossless: true, layout: None, ..*cubes }
}

/// Returns the options for reading mask files. A mask file contains one array, so the options for variable and
/// shape do not apply.
pub(super) fn mask_file_options(cubes: &CubeOptions) -> CubeOptions {
    CubeOptions { variable: Vec::new(), ..cubes.clone() }
}

/// Returns the positions of the samples for the trial. If the options leave no choice, one sample
/// suffices to estimate sizes.
fn positions(samples: usize, options: &ArrayOptions) -> Vec<usize> {
    let last = samples.saturating_sub(1);
    let settled = options.coder.is_some()
        && options.filter.is_some()
        && options.layout.is_some()
        && options.band_difference != BandDifference::Auto;
    let mut positions: Vec<usize> = match settled {
        true => vec![last / 2],
        false => (0..SAMPLES).map(|i| last * i / (SAMPLES - 1)).collect(),
    };
    positions.dedup();
    positions
}

/// Loads the sample at `position`, or the next undamaged one if damaged samples are skipped.
fn load_from<T>(
    listing: &Listing,
    position: usize,
    skips: bool,
    load: impl Fn(&SourceSample) -> crate::Result<T>,
) -> crate::Result<T> {
    let mut first_error = None;
    let samples = listing.samples.iter().cycle().skip(position).take(listing.samples.len());
    for entry in samples {
        let loaded = load(entry);
        if loaded.is_err() {
            listing.files.failure()?;
        }
        match loaded {
            Ok(loaded) => return Ok(loaded),
            Err(error) if skips => first_error = first_error.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(first_error.unwrap_or_else(|| "the source has no samples".into()))
}

fn load_one(listing: &Listing, entry: &SourceSample, options: &CubeOptions) -> crate::Result<SampleMiddle> {
    let cube = open(&listing.path(entry), options, Vec::new())?;
    let cube = MiddleRows::of(&cube.values, cube.no_data)?;
    Ok(SampleMiddle { key: entry.key.clone(), cube, mask: load_mask_rows(entry, options)? })
}

fn load_mask_rows(entry: &SourceSample, options: &CubeOptions) -> crate::Result<Option<MiddleRows>> {
    let Some(file) = &entry.mask else { return Ok(None) };
    let mask = load_mask(&file.path, &mask_file_options(options))?;
    MiddleRows::of(&mask.array, mask.no_data).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_samples_are_tried_where_there_is_a_choice_and_one_where_there_is_none() {
        let open = ArrayOptions::default();
        assert_eq!(positions(1, &open), [0]);
        assert_eq!(positions(2, &open), [0, 1]);
        assert_eq!(positions(11, &open), [0, 5, 10]);
        let settled = ArrayOptions {
            coder: Some(Coder::Blosc2Lz4),
            filter: Some(Filter::Shuffle),
            layout: Some(ArrayLayout::AsShape),
            band_difference: BandDifference::Off,
            ..open
        };
        assert_eq!(positions(11, &settled), [5]);
    }

    #[test]
    fn an_error_names_the_sample_that_has_it_and_the_place_in_its_file() {
        let part = |values: &[f32], first_row| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let array = Array::new(shardpack_format::Dtype::F32, vec![values.len() as u64, 1, 1], bytes).unwrap();
            MiddleRows { array, no_data: None, first_row }
        };
        let (fine, large) = (part(&[0.5, 0.25], 0), part(&[0.5, 1e6], 7));
        let samples = [("a.npy", &fine), ("b.npy", &fine), ("c.npy", &large)];
        let options = ArrayOptions { values: Values::F16, ..ArrayOptions::default() };
        let error = try_on("cube", &samples, &options).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot choose how to store the cube of `c.npy`: the value 1000000 at [8, 0, 0] is"),
            "{error}"
        );
        assert!(try_on("cube", &samples[..2], &options).is_ok());
    }

    #[test]
    fn masks_are_lossless_whatever_is_asked_of_the_cubes() {
        let cubes = ArrayOptions { values: Values::Fixed, max_error: Some(1.0), ..ArrayOptions::default() };
        let masks = mask_options(&cubes);
        assert!(masks.lossless && masks.max_error.is_none());
        assert!(masks.check().is_ok());
    }
}
