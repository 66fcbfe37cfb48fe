//! Runs a trial: encodes a few samples with every candidate and chooses the best (docs/adr/0002-choosing-a-codec.md).
//!
//! The choice depends on measured sizes and a table of constants, never on a clock. The work runs on the caller's rayon
//! pool, and the number of threads does not affect the result.

use crate::arrange::Arrangement;
use crate::array::Array;
use crate::codecs::Coder;
use crate::cost;
use crate::elements::{ElementScratch, Elements};
use crate::encoder::ArrayEncoder;
use crate::error::{EncodeError, EncodeResult};
use crate::filter::Filter;
use crate::options::{ArrayOptions, BandDifference, Prefer};
use crate::settings::{ArrayLayout, ArraySettings, ValueRule};
use crate::source::ArraySource;
use crate::values::{self, Request};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shardpack_format::{Codec, Error, Layout, bug};

/// Number of samples that a trial uses. Additional samples are ignored.
pub const MAX_TRIAL_SAMPLES: usize = 4;
/// Maximum number of bytes used per sample. They are taken from the rows in the middle.
const MAX_SAMPLE_BYTES: usize = 8 << 20;

/// The settings that a trial chose, and the results of all candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The chosen settings.
    pub settings: ArraySettings,
    /// All candidates, best first.
    pub table: Vec<Candidate>,
}

/// One candidate of a trial, with its measured sizes and its predicted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The settings that were tried.
    pub settings: ArraySettings,
    /// Size of the samples' elements in the source, in bytes.
    pub source_bytes: u64,
    /// Size of the stored samples, in bytes.
    pub payload_bytes: u64,
    /// Number of bytes that the coder will output when a reader decodes them. All other bytes are
    /// runs or are stored unchanged.
    pub coded_bytes: u64,
    /// Predicted time in microseconds to read the samples at 2 GB/s and to decode them on 8 cores. For
    /// [`Prefer::Device`], it is the time to move the samples to a GPU and to decode them there. Use it only to
    /// compare candidates, because real times differ.
    pub predicted_us: f64,
}

impl Candidate {
    /// Returns the compression ratio: source bytes per stored byte.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "only displayed")]
    pub fn ratio(&self) -> f64 {
        self.source_bytes as f64 / self.payload_bytes.max(1) as f64
    }
}

/// Tries the candidates that `options` allow on `samples` and chooses the best. Each sample is an array and its no-data
/// value. Only the first [`MAX_TRIAL_SAMPLES`] samples are used, and 8 MiB from the middle of each. Without samples, or
/// with a single candidate, the first candidate is chosen.
///
/// The trial runs on the current rayon pool, or else on the global one, and uses up to about 50 MiB per thread. The
/// number of threads does not affect the result.
///
/// # Errors
/// `Usage` if the options contradict each other; [`EncodeError::OutOfRange`] and [`EncodeError::ErrorBound`] if no
/// candidate can represent the values of the samples.
pub fn trial(samples: &[(&Array, Option<f64>)], options: &ArrayOptions) -> EncodeResult<Trial> {
    options.check()?;
    let crops: Vec<(Array, Option<f64>)> = samples
        .iter()
        .take(MAX_TRIAL_SAMPLES)
        .map(|(array, no_data)| Ok((crop_for_trial(*array)?, *no_data)))
        .collect::<EncodeResult<_>>()?;
    let candidates = candidates(options);
    let (mut table, mut refused) = (Vec::new(), None);
    for group in candidates.chunk_by(|a, b| a.values == b.values) {
        match measure(&crops, group, options.prefer) {
            Ok(rows) => table.extend(rows),
            // Skip a rule that cannot represent these values, for example because they exceed the range of float16.
            Err(
                error @ (EncodeError::OutOfRange { .. }
                | EncodeError::ErrorBound { .. }
                | EncodeError::BecomesNoData { .. }),
            ) => refused = refused.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    let key = |c: &Candidate| match options.prefer {
        Prefer::Speed | Prefer::Device => c.predicted_us,
        #[allow(clippy::cast_precision_loss, reason = "sizes of a few samples")]
        Prefer::Size => c.payload_bytes as f64,
    };
    // The sort is stable, so among equally good candidates the earlier and simpler one wins.
    table.sort_by(|a, b| key(a).total_cmp(&key(b)));
    match (table.first().map(|best| best.settings), refused) {
        (Some(settings), _) => Ok(Trial { settings, table }),
        (None, Some(error)) => Err(error),
        (None, None) => {
            Err(Error::usage("the options allow no combination of `codec` and `values` that can store the array")
                .into())
        }
    }
}

fn measure(
    crops: &[(Array, Option<f64>)],
    candidates: &[ArraySettings],
    prefer: Prefer,
) -> EncodeResult<Vec<Candidate>> {
    let predicted_us = match prefer {
        Prefer::Speed | Prefer::Size => cost::host_us,
        Prefer::Device => cost::device_us,
    };
    let empty =
        |&settings| Candidate { settings, source_bytes: 0, payload_bytes: 0, coded_bytes: 0, predicted_us: 0.0 };
    let mut rows: Vec<Candidate> = candidates.iter().map(empty).collect();
    let measured: Vec<_> = crops.par_iter().map(|(crop, no_data)| measure_crop(crop, *no_data, candidates)).collect();
    // Add in the order of the samples, because sums of floats depend on it.
    for ((crop, _), measured) in crops.iter().zip(measured) {
        for (row, coded) in rows.iter_mut().zip(measured?) {
            row.source_bytes += crop.bytes().len() as u64;
            row.payload_bytes += coded.work.payload_bytes;
            row.coded_bytes += coded.work.coded_bytes;
            row.predicted_us += predicted_us(&coded.settings, &coded.work);
        }
    }
    Ok(rows)
}

#[derive(Clone, Copy)]
struct Measured {
    settings: ArraySettings,
    work: cost::Work,
}

/// Measures all candidates on one crop. To save time, transforms the values only once, and arranges them only once
/// for all candidates with the same arrangement.
fn measure_crop(crop: &Array, no_data: Option<f64>, candidates: &[ArraySettings]) -> EncodeResult<Vec<Measured>> {
    let Some(rule) = candidates.first().map(|settings| settings.values) else { return Ok(Vec::new()) };
    let plain = Request { rule, layout: Layout::AsShape, difference: false, no_data };
    let mut elements = Vec::new();
    let stored = values::store(crop, &plain, &mut Elements::new(&mut elements, &mut ElementScratch::default()))?;
    let elements = elements.as_slice();
    let arrangement = |settings: &ArraySettings| {
        let request = Request { layout: settings.layout.into(), difference: settings.band_difference, ..plain };
        values::arrangement(crop, stored.stored, &request)
    };
    let coded: Vec<Vec<_>> = distinct(candidates.iter().map(arrangement))
        .into_par_iter()
        .map(|way| {
            let mut arranged = Vec::new();
            if !way.is_identity() {
                way.place_all(elements, &mut arranged)?;
            }
            let elements = if way.is_identity() { elements } else { &arranged };
            let here = candidates.iter().filter(|settings| arrangement(settings) == way);
            let coders = distinct(here.map(|settings| (settings.coder, settings.level, settings.filter)));
            let code = |&how: &(Coder, Option<i32>, Filter)| {
                code(elements, way, how.0, how.1, how.2).map(|(codec, work)| (way, how, codec, work))
            };
            coders.par_iter().map(code).collect::<EncodeResult<_>>()
        })
        .collect::<EncodeResult<_>>()?;
    let of = |settings: &ArraySettings| {
        let (way, coder) = (arrangement(settings), (settings.coder, settings.level, settings.filter));
        let row = coded.iter().flatten().find(|row| (row.0, row.1) == (way, coder));
        let Some(&(way, _, codec, work)) = row else { bug("a candidate was not tried") };
        // Compute the cost of what an encoder would actually store: four-byte elements without differences, and raw
        // bytes if the coder does not shrink them.
        let settings = ArraySettings { band_difference: way.difference, ..*settings };
        let raw = ArraySettings { coder: Coder::Raw, level: None, filter: Filter::None, ..settings };
        Measured { settings: if codec == Codec::Raw { raw } else { settings }, work }
    };
    Ok(candidates.iter().map(of).collect())
}

fn code(
    elements: &[u8],
    arrangement: Arrangement,
    coder: Coder,
    level: Option<i32>,
    filter: Filter,
) -> EncodeResult<(Codec, cost::Work)> {
    // The value transform, difference and layout have already been applied.
    let (values, layout) = (ValueRule::Keep, ArrayLayout::AsShape);
    let settings = ArraySettings { values, coder, level, filter, band_difference: false, layout };
    let mut payload = Vec::new();
    let (codec, coded_bytes) = ArrayEncoder::new(settings)?.code(elements, arrangement.width, &mut payload)?;
    let work = cost::Work {
        payload_bytes: payload.len() as u64,
        stored_bytes: elements.len() as u64,
        coded_bytes,
        elements: (elements.len() / arrangement.width) as u64,
    };
    Ok((codec, work))
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

/// Returns 8 MiB of rows from the middle of `array`, which is all that a trial uses. To save memory, crop each array
/// before you load the next sample.
///
/// # Errors
/// `Format` if the shape overflows.
pub fn crop_for_trial(array: &dyn ArraySource) -> EncodeResult<Array> {
    let (shape, dtype) = (array.shape(), array.dtype());
    let (rows, rest) = shape.split_first().map_or((1, shape), |(&rows, rest)| (rows, rest));
    let row_bytes = dtype.array_bytes(rest)?;
    let wanted = (MAX_SAMPLE_BYTES as u64 / row_bytes.max(1)).clamp(1, rows.max(1)).min(rows);
    let first = (rows - wanted) / 2;
    let shape: Vec<u64> = shape.first().map(|_| wanted).into_iter().chain(rest.iter().copied()).collect();
    let bytes = dtype.array_bytes(&shape)?;
    let mut middle = vec![
        0;
        usize::try_from(bytes)
            .map_err(|_| Error::usage(format!("an array of {bytes} bytes does not fit in memory")))?
    ];
    array.read_at(first.saturating_mul(row_bytes), &mut middle)?;
    Ok(Array::new(dtype, shape, middle)?)
}

/// Coders, levels and filters that a trial tries if the user leaves the choice open: one table per preference.
const SPEED: [(Coder, i32, Filter); 6] = [
    (Coder::Blosc2Lz4, 0, Filter::Shuffle),
    (Coder::Blosc2Lz4, 0, Filter::Bitshuffle),
    (Coder::Blosc2Lz4, 0, Filter::None),
    (Coder::Blosc2Zstd, 1, Filter::Shuffle),
    (Coder::Blosc2Zstd, 1, Filter::Bytedelta),
    (Coder::Raw, 0, Filter::None),
];
const DEVICE: [(Coder, i32, Filter); 9] = [
    (Coder::Blosc2Lz4, 0, Filter::Bitshuffle),
    (Coder::Blosc2Lz4, 0, Filter::Shuffle),
    (Coder::Blosc2Lz4, 0, Filter::None),
    (Coder::Blosc2Lz4hc, 9, Filter::Bitshuffle),
    (Coder::Blosc2Lz4hc, 9, Filter::Shuffle),
    (Coder::Blosc2Lz4hc, 9, Filter::None),
    (Coder::Raw, 0, Filter::None),
    (Coder::Blosc2Zstd, 1, Filter::Shuffle),
    (Coder::Blosc2Zstd, 1, Filter::None),
];
// Unlike the other tables, this one includes level 1, whose output is sometimes smaller for data with few different
// values.
const SIZE: [(Coder, i32, Filter); 8] = [
    (Coder::Blosc2Zstd, 9, Filter::Shuffle),
    (Coder::Blosc2Zstd, 9, Filter::Bytedelta),
    (Coder::Blosc2Zstd, 9, Filter::Bitshuffle),
    (Coder::Blosc2Zstd, 9, Filter::None),
    (Coder::Blosc2Zstd, 1, Filter::Shuffle),
    (Coder::Blosc2Zstd, 1, Filter::Bytedelta),
    (Coder::Blosc2Zstd, 1, Filter::Bitshuffle),
    (Coder::Blosc2Zstd, 1, Filter::None),
];

fn candidates(options: &ArrayOptions) -> Vec<ArraySettings> {
    let auto: &[(Coder, i32, Filter)] = match options.prefer {
        Prefer::Speed => &SPEED,
        Prefer::Device => &DEVICE,
        Prefer::Size => &SIZE,
    };
    let filters = match options.prefer {
        Prefer::Speed | Prefer::Device => [Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta, Filter::None],
        Prefer::Size => [Filter::Bytedelta, Filter::Shuffle, Filter::Bitshuffle, Filter::None],
    };
    let coders: Vec<(Coder, Option<i32>, Filter)> = match options.coder {
        Some(coder) => {
            let level = options.level.or(coder.default_level());
            let filters = if coder.has_filters() { filters.as_slice() } else { &[Filter::None] };
            filters.iter().map(|&filter| (coder, level, filter)).collect()
        }
        None => auto.iter().map(|&(coder, level, filter)| (coder, (level > 0).then_some(level), filter)).collect(),
    };
    let coders: Vec<_> = match options.filter {
        Some(asked) if asked != Filter::None || options.coder.is_none_or(Coder::has_filters) => {
            let mut seen: Vec<(Coder, Option<i32>, Filter)> = Vec::new();
            for (coder, level, _) in coders {
                if coder.has_filters() && !seen.contains(&(coder, level, asked)) {
                    seen.push((coder, level, asked));
                }
            }
            seen
        }
        _ => coders,
    };
    let differences = match options.band_difference {
        BandDifference::Auto => [false, true].as_slice(),
        BandDifference::On => &[true],
        BandDifference::Off => &[false],
    };
    let layouts = match &options.layout {
        Some(layout) => std::slice::from_ref(layout),
        None => &[ArrayLayout::AsShape, ArrayLayout::BandMajor],
    };
    let mut out = Vec::new();
    for values in options.rules() {
        for &band_difference in differences {
            for &layout in layouts {
                for &(coder, level, filter) in &coders {
                    out.push(ArraySettings { values, coder, level, filter, band_difference, layout });
                }
            }
        }
    }
    out
}
