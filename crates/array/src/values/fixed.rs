//! Fixed point with an error bound: unsigned integers of 8 to 16 bits, with one offset per band.

use super::{Job, StoredValues, arrangement, is_plain};
use crate::element::{Element, Float};
use crate::elements::Elements;
use crate::error::{EncodeError, EncodeResult};
use crate::fidelity::Meter;
use crate::settings::check_max_error;
use crate::source::{BLOCK_BYTES, for_each_block};
use shardpack_base::vectorised;
use shardpack_format::{Codes, Dtype, Transform};

/// 2⁵². The low bits of x + 2⁵² are the integer nearest to x (ties to even).
const ROUND: f64 = 4_503_599_627_370_496.0;

struct Ranges {
    /// Smallest finite value of each band that is not no-data, or +∞ if there is none.
    min: Vec<f64>,
    max: Vec<f64>,
    nan: bool,
    no_data: bool,
    pos_inf: bool,
    neg_inf: bool,
}

struct Quantiser {
    scale: f32,
    offset: Vec<f32>,
    bits: u8,
    codes: Codes,
}

pub(super) fn store<T: Float>(
    job: &Job<'_, T>,
    max_error: f64,
    elements: &mut Elements<'_>,
) -> EncodeResult<StoredValues> {
    check_max_error(max_error)?;
    let bands = arrangement(job.array, Dtype::U16, job.request).bands;
    let no_data = job.decoded_no_data();
    let plan = Quantiser::new(&Ranges::of(job, bands)?, max_error, no_data)?;
    let stored = if plan.bits == 8 { Dtype::U8 } else { Dtype::U16 };
    let arrangement = arrangement(job.array, stored, job.request);
    let mut meter = Meter::new(job.no_data, job.spectrum());
    // Repeat the offsets to the length of a piece, so that the loops below run over whole pieces instead of single
    // pixels.
    let offsets = plan.offset.repeat(arrangement.piece_pixels());
    let inverse = 1.0 / f64::from(plan.scale);
    let mut decoded = Vec::new();
    let mut steps = Vec::new();
    let mut first = 0_u64;
    job.for_each_piece(&arrangement, elements, |source, out| {
        decoded.resize(source.len(), 0.0_f32);
        steps.resize(source.len(), 0_u16);
        vectorised(
            #[inline(always)]
            || {
                quantise(source, &offsets, inverse, &mut steps);
                decode(&steps, &offsets, plan.scale, &mut decoded);
            },
        );
        let plain = is_plain(source, job.no_data);
        if !plain {
            for ((&value, step), decoded) in source.iter().zip(&mut steps).zip(&mut decoded) {
                let v = value.to_f64();
                let (code, special) = if job.no_data == Some(value) {
                    (plan.codes.no_data, no_data.unwrap_or(f32::NAN))
                } else if v.is_nan() {
                    (plan.codes.nan, f32::NAN)
                } else if v == f64::INFINITY {
                    (plan.codes.pos_inf, f32::INFINITY)
                } else if v == f64::NEG_INFINITY {
                    (plan.codes.neg_inf, f32::NEG_INFINITY)
                } else {
                    continue;
                };
                let code = code.and_then(|c| u16::try_from(c).ok());
                // A value that is out of range here must have changed since the first pass.
                *step = code.ok_or_else(|| {
                    EncodeError::Source("the array's values changed while they were being read".into())
                })?;
                *decoded = special;
            }
        }
        if let Some(no_data) = no_data {
            job.check_apart(source, &decoded, first, no_data)?;
        }
        first += source.len() as u64;
        meter.add(source, &decoded, plain, false);
        if stored == Dtype::U8 {
            for (step, out) in steps.iter().zip(out) {
                *out = step.to_le_bytes()[0];
            }
        } else {
            u16::store(&steps, out);
        }
        Ok(())
    })?;
    let fidelity = meter.total;
    // Measure the error of every value as a reader will decode it. The step size was only computed from estimates.
    if fidelity.max_abs_error > max_error {
        return Err(EncodeError::ErrorBound { max_error, smallest: round_up(fidelity.max_abs_error) });
    }
    let scale = vec![plan.scale; bands];
    Ok(StoredValues {
        decoded: Dtype::F32,
        stored,
        transform: Transform::Fixed { bits: plan.bits, scale, offset: plan.offset },
        no_data: no_data.map(f64::from),
        codes: plan.codes,
        arrangement,
        fidelity,
    })
}

#[allow(clippy::cast_possible_truncation, reason = "only the low 16 bits are needed")]
#[inline(always)]
fn quantise<T: Float>(source: &[T], offsets: &[f32], inverse: f64, steps: &mut [u16]) {
    for ((value, offset), step) in source.iter().zip(offsets).zip(steps) {
        *step = ((value.to_f64() - f64::from(*offset)) * inverse + ROUND).to_bits() as u16;
    }
}

/// Decodes with the formula of spec §4.3 and rounds each operation to float32.
#[inline(always)]
pub(super) fn decode(steps: &[u16], offsets: &[f32], scale: f32, out: &mut [f32]) {
    for ((step, offset), out) in steps.iter().zip(offsets).zip(out) {
        *out = offset + f32::from(*step) * scale;
    }
}

impl Ranges {
    fn of<T: Float>(job: &Job<'_, T>, bands: usize) -> EncodeResult<Self> {
        let mut out = Self {
            min: vec![f64::INFINITY; bands],
            max: vec![f64::NEG_INFINITY; bands],
            nan: false,
            no_data: false,
            pos_inf: false,
            neg_inf: false,
        };
        let mut values = vec![T::default(); bands];
        let pixel_bytes = bands * job.width;
        for_each_block(job.array, (BLOCK_BYTES / pixel_bytes).max(1) * pixel_bytes, |block| {
            for bytes in block.chunks(pixel_bytes) {
                (job.load)(bytes, &mut values);
                let plain = is_plain(&values, job.no_data);
                for ((value, min), max) in values.iter().zip(&mut out.min).zip(&mut out.max) {
                    let v = value.to_f64();
                    if plain || (v.is_finite() && job.no_data != Some(*value)) {
                        *min = if v < *min { v } else { *min };
                        *max = if v > *max { v } else { *max };
                    }
                }
                if !plain {
                    for &value in &values {
                        let v = value.to_f64();
                        if job.no_data == Some(value) {
                            out.no_data = true;
                        } else {
                            out.nan |= v.is_nan();
                            out.pos_inf |= v == f64::INFINITY;
                            out.neg_inf |= v == f64::NEG_INFINITY;
                        }
                    }
                }
            }
            Ok(true)
        })?;
        Ok(out)
    }
}

impl Quantiser {
    /// A reader computes `fl(offset + fl(q × scale))`. `q` is off by at most half a step, and the two roundings by at
    /// most 2⁻²⁴ of the range and of the magnitude. Therefore the step is twice the bound minus these losses, rounded
    /// down to float32.
    ///
    /// No value that a band can represent may equal `no_data`. If one does, the offset of the band is lowered by part
    /// of a step. The band may then need one more step. The additional rounding error fits in the margin that the
    /// scale leaves.
    fn new(ranges: &Ranges, max_error: f64, no_data: Option<f32>) -> EncodeResult<Self> {
        // Add one percent for the products of these small terms.
        let rounding = 1.01 * 2_f64.powi(-24);
        let (mut offset, mut range, mut slack) = (Vec::with_capacity(ranges.min.len()), 0.0_f64, 0.0_f64);
        for (&min, &max) in ranges.min.iter().zip(&ranges.max) {
            let low = if min <= max { below(min) } else { 0.0 };
            if min <= max {
                range = range.max(max - f64::from(low));
                slack = slack.max((max - f64::from(low) + min.abs().max(max.abs())) * rounding);
            }
            offset.push(low);
        }
        let reserved =
            [ranges.nan, ranges.no_data, ranges.pos_inf, ranges.neg_inf].map(usize::from).iter().sum::<usize>();
        #[allow(clippy::cast_precision_loss, reason = "at most 4")]
        let top = 65_535.0 - reserved as f64;
        let spare_steps = if no_data.is_some() { 1.5 } else { 0.5 };
        let refused = || {
            let smallest = round_up((range / (2.0 * (top - spare_steps)) + slack) * (1.0 + 32.0 * rounding));
            EncodeError::ErrorBound { max_error, smallest: smallest.max(round_up(slack * 1.25)) }
        };
        let scale = below((2.0 * (max_error * (1.0 - 8.0 * rounding) - slack)).min(f64::from(f32::MAX)));
        let sound = scale > 0.0 && scale.is_normal() && offset.iter().all(|o| o.is_finite());
        if !sound {
            return Err(refused());
        }
        let mut steps = (range / f64::from(scale)).round_ties_even() + 1.0;
        if let Some(no_data) = no_data {
            for ((&min, &max), offset) in ranges.min.iter().zip(&ranges.max).zip(&mut offset) {
                if min <= max {
                    *offset = apart(*offset, scale, max, no_data);
                    steps = steps.max(((max - f64::from(*offset)) / f64::from(scale)).round_ties_even() + 1.0);
                }
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "at most 65536")]
        let bits = (8..=16_u8).find(|bits| steps + reserved as f64 <= f64::from(1_u32 << bits)).ok_or_else(refused)?;
        let mut next = 1_u32 << bits;
        let mut code = |used: bool| {
            used.then(|| {
                next -= 1;
                next
            })
        };
        let codes = Codes {
            nan: code(ranges.nan),
            no_data: code(ranges.no_data),
            pos_inf: code(ranges.pos_inf),
            neg_inf: code(ranges.neg_inf),
        };
        Ok(Self { scale, offset, bits, codes })
    }
}

/// Returns `offset`, or a slightly lower offset if one of the values from `offset` to `max` that fixed point can
/// represent equals `no_data`. The lower offset differs by part of a step, so that `no_data` lies between two values.
///
/// If float32 is as coarse as the steps, no offset may separate them. [`Job::check_apart`] makes the final decision.
fn apart(offset: f32, scale: f32, max: f64, no_data: f32) -> f32 {
    let hits = |offset: f32| {
        let near = ((f64::from(no_data) - f64::from(offset)) / f64::from(scale)).round();
        let last = ((max - f64::from(offset)) / f64::from(scale)).round() + 1.0;
        // Check two more steps on each side to allow for rounding in the division and in the reader's formula.
        (-2..=2).map(|i| near + f64::from(i)).filter(|q| (0.0..=last).contains(q)).any(|q| {
            let mut decoded = [0.0];
            decode(&[low_16(q)], &[offset], scale, &mut decoded);
            decoded == [no_data]
        })
    };
    if !hits(offset) {
        return offset;
    }
    let lower = [0.5, 0.25, 0.75].map(|part| offset - part * scale);
    lower.into_iter().find(|lower| lower.is_finite() && !hits(*lower)).unwrap_or(offset)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn low_16(step: f64) -> u16 {
    step as u16
}

/// Returns the largest float32 that is at most `value`. Never returns −0.
#[allow(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn below(value: f64) -> f32 {
    let near = value as f32;
    (if f64::from(near) > value { near.next_down() } else { near }) + 0.0
}

/// Rounds `value` up, to three significant digits, for messages.
fn round_up(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return value;
    }
    let unit = 10_f64.powi(exponent10(value) - 2);
    let up = (value / unit).ceil() * unit;
    // Multiplying by a power of ten may produce a number like 0.30000000000000004. Formatting it with this number of
    // digits and parsing the text returns the clean number.
    format!("{up:.2e}").parse().ok().filter(|v| *v >= value).unwrap_or(up)
}

#[allow(clippy::cast_possible_truncation, reason = "the exponent of a double is small")]
fn exponent10(value: f64) -> i32 {
    libm::floor(libm::log10(value)) as i32
}
