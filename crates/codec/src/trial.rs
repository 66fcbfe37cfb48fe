//! A trial: encodes a few samples with every candidate and chooses one (docs/adr/0002-choosing-a-codec.md).
//!
//! The choice depends on the sizes measured and on a table of constants, never on a clock.

use crate::array::Array;
use crate::cost;
use crate::encoder::ArrayEncoder;
use crate::error::{EncodeError, EncodeResult};
use crate::options::{ArrayOptions, BandDifference, Prefer};
use crate::settings::{ArrayLayout, ArraySettings, Coder, Filter};
use serde::{Deserialize, Serialize};
use shardpack_format::{Codec, Error};

/// Samples that a trial looks at; more are ignored.
pub const MAX_TRIAL_SAMPLES: usize = 4;
/// Source bytes of each that it looks at: rows from the middle.
const MAX_SAMPLE_BYTES: usize = 8 << 20;

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The choice.
    pub settings: ArraySettings,
    /// Every candidate, best first.
    pub table: Vec<Candidate>,
}

/// One row of a trial's table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The settings tried.
    pub settings: ArraySettings,
    /// Bytes of the samples' elements as the source has them.
    pub source_bytes: u64,
    /// Bytes that were stored for them.
    pub payload_bytes: u64,
    /// Bytes that a reader's coder will have to make; the others are runs, or stored as they are.
    pub coded_bytes: u64,
    /// Predicted time to read them at 2 GB/s and to decode them on 8 cores, in microseconds: for comparing rows, not for planning.
    pub predicted_us: f64,
}

impl Candidate {
    /// Source bytes for each stored byte.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn ratio(&self) -> f64 {
        self.source_bytes as f64 / self.payload_bytes.max(1) as f64
    }
}

/// Tries the candidates that `options` leave on `samples`, each with its no-data value, and chooses. Looks at the first
/// [`MAX_TRIAL_SAMPLES`] and at 8 MiB in the middle of each. With no samples, or nothing to choose, it takes the first candidate.
///
/// # Errors
/// `Usage` if the options contradict each other; [`EncodeError::OutOfRange`] and [`EncodeError::ErrorBound`] if no candidate can hold the
/// samples' values.
pub fn trial(samples: &[(&Array, Option<f64>)], options: &ArrayOptions) -> EncodeResult<Trial> {
    options.check()?;
    let crops: Vec<(Array, Option<f64>)> = samples
        .iter()
        .take(MAX_TRIAL_SAMPLES)
        .map(|(array, no_data)| Ok((crop_for_trial(array)?, *no_data)))
        .collect::<EncodeResult<_>>()?;
    let mut table = Vec::new();
    let mut refused = None;
    for settings in candidates(options) {
        match measure(&crops, settings) {
            Ok(candidate) => table.push(candidate),
            // A rule that cannot hold these values (float16 out of range) leaves the field to the others.
            Err(
                error @ (EncodeError::OutOfRange { .. }
                | EncodeError::ErrorBound { .. }
                | EncodeError::BecomesNoData { .. }),
            ) => refused = refused.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    let key = |c: &Candidate| match options.prefer {
        Prefer::Speed => c.predicted_us,
        #[allow(clippy::cast_precision_loss, reason = "sizes of a few samples")]
        Prefer::Size => c.payload_bytes as f64,
    };
    // Stable: among equals the earlier, simpler candidate wins.
    table.sort_by(|a, b| key(a).total_cmp(&key(b)));
    match (table.first().map(|best| best.settings), refused) {
        (Some(settings), _) => Ok(Trial { settings, table }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::usage("array options", "a candidate that fits them", "none").into()),
    }
}

fn measure(crops: &[(Array, Option<f64>)], settings: ArraySettings) -> EncodeResult<Candidate> {
    let mut encoder = ArrayEncoder::new(settings)?;
    let mut out = Candidate { settings, source_bytes: 0, payload_bytes: 0, coded_bytes: 0, predicted_us: 0.0 };
    let mut buffer = Vec::new();
    for (array, no_data) in crops {
        let (encoded, coded_bytes) = encoder.encode_counting(array, *no_data, buffer)?;
        let descriptor = &encoded.descriptor;
        // Costs as it was stored, which may be raw.
        let stored_as = match encoded.codec {
            Codec::Raw => ArraySettings { coder: Coder::Raw, level: None, filter: Filter::None, ..settings },
            _ => settings,
        };
        let stored_as = ArraySettings { band_difference: descriptor.band_difference, ..stored_as };
        let work = cost::Work {
            payload_bytes: encoded.payload.len() as u64,
            stored_bytes: descriptor.stored_bytes()?,
            coded_bytes,
            elements: descriptor.elements()?,
        };
        out.source_bytes += array.bytes().len() as u64;
        out.payload_bytes += work.payload_bytes;
        out.coded_bytes += coded_bytes;
        out.predicted_us += cost::predicted_us(&stored_as, &work);
        buffer = encoded.payload;
    }
    Ok(out)
}

/// The middle rows of `array`, 8 MiB of them: all that a trial looks at. To crop before the next sample is loaded saves memory.
///
/// # Errors
/// `Format` if the shape overflows.
pub fn crop_for_trial(array: &Array) -> EncodeResult<Array> {
    let Some((&rows, rest)) = array.shape().split_first() else { return Ok(array.clone()) };
    let row_bytes = array.dtype().array_bytes(rest)?;
    let wanted = (MAX_SAMPLE_BYTES as u64 / row_bytes.max(1)).clamp(1, rows.max(1));
    let first = (rows - wanted.min(rows)) / 2;
    let bytes = |rows: u64| usize::try_from(rows * row_bytes).unwrap_or(usize::MAX);
    match array.bytes().get(bytes(first)..bytes(first + wanted)) {
        Some(middle) if wanted < rows => {
            let shape = std::iter::once(wanted).chain(rest.iter().copied()).collect();
            Ok(Array::new(array.dtype(), shape, middle.to_vec())?)
        }
        _ => Ok(array.clone()),
    }
}

/// Coders, levels and filters that auto tries for either preference.
const SPEED: [(Coder, i32, Filter); 6] = [
    (Coder::Blosc2Lz4, 0, Filter::Shuffle),
    (Coder::Blosc2Lz4, 0, Filter::Bitshuffle),
    (Coder::Blosc2Lz4, 0, Filter::None),
    (Coder::Blosc2Zstd, 1, Filter::Shuffle),
    (Coder::Blosc2Zstd, 1, Filter::Bytedelta),
    (Coder::Raw, 0, Filter::None),
];
// Level 1 too: on data of few values it is at times the smaller.
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

/// Every combination that the options leave open.
fn candidates(options: &ArrayOptions) -> Vec<ArraySettings> {
    let auto: &[(Coder, i32, Filter)] = match options.prefer {
        Prefer::Speed => &SPEED,
        Prefer::Size => &SIZE,
    };
    let filters = match options.prefer {
        Prefer::Speed => [Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta, Filter::None],
        Prefer::Size => [Filter::Bytedelta, Filter::Shuffle, Filter::Bitshuffle, Filter::None],
    };
    let coders: Vec<(Coder, Option<i32>, Filter)> = match options.coder {
        Some(coder) => {
            let level = options.level.or(coder.default_level());
            let filters = if coder.is_blosc2() { filters.as_slice() } else { &[Filter::None] };
            filters.iter().map(|&filter| (coder, level, filter)).collect()
        }
        None => auto.iter().map(|&(coder, level, filter)| (coder, (level > 0).then_some(level), filter)).collect(),
    };
    let coders: Vec<_> = match options.filter {
        // The coders of the table, each once, with the filter asked for.
        Some(asked) if asked != Filter::None || options.coder.is_none_or(Coder::is_blosc2) => {
            let mut seen: Vec<(Coder, Option<i32>, Filter)> = Vec::new();
            for (coder, level, _) in coders {
                if coder.is_blosc2() && !seen.contains(&(coder, level, asked)) {
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
