//! Stores floats as float16 after a range check. Values are rounded to the nearest, ties to even.

use super::{Job, StoredValues, arrangement, is_below};
use crate::element::{Element, Float};
use crate::elements::Elements;
use crate::error::{EncodeError, EncodeResult};
use crate::fidelity::Meter;
use half::f16;
use half::slice::HalfFloatSliceExt;
use shardpack_format::{Codes, Dtype, Transform};

/// Smallest value that rounds to infinity: 65504 plus half a unit in the last place.
const OVERFLOW: f64 = 65_520.0;
/// The bit pattern of every stored NaN. It does not depend on the processor's conversion.
const NAN: f16 = f16::from_bits(0x7E00);
/// Code of a no-data value that float16 cannot represent: an otherwise unused NaN pattern.
const NO_DATA_CODE: u16 = 0x7E01;

/// Stores the floats of a job as float16. Fails with [`EncodeError::ErrorBound`] as soon as an error exceeds
/// `max_error`.
pub(super) fn store<T: Float>(
    job: &Job<'_, T>,
    max_error: f64,
    elements: &mut Elements<'_>,
) -> EncodeResult<StoredValues> {
    let arrangement = arrangement(job.array, Dtype::F16, job.request);
    let no_data = job.decoded_no_data();
    // If float16 cannot represent the no-data value, no value can become no-data by rounding.
    let held = no_data.map(f16::from_f32).filter(|h| Some(h.to_f32()) == no_data);
    let mut meter = Meter::new(job.no_data, job.spectrum());
    let mut halves = Vec::new();
    let mut decoded = Vec::new();
    let mut first = 0_u64;
    job.for_each_piece(&arrangement, elements, |source, out| {
        halves.resize(source.len(), f16::ZERO);
        decoded.resize(source.len(), 0.0_f32);
        T::to_f16(source, &mut halves);
        let plain = is_below(source, OVERFLOW, job.no_data);
        if !plain {
            for (i, (&value, half)) in source.iter().zip(&mut halves).enumerate() {
                let v = value.to_f64();
                if job.no_data == Some(value) {
                    *half = held.unwrap_or(f16::from_bits(NO_DATA_CODE));
                } else if v.is_nan() {
                    *half = NAN;
                } else if v.is_finite() && v.abs() >= OVERFLOW {
                    let (min, max) = job.range()?.unwrap_or((v, v));
                    let position = super::position(job.array.shape(), first + i as u64);
                    return Err(EncodeError::OutOfRange { position, value: v, min, max });
                }
            }
        }
        halves.convert_to_f32_slice(&mut decoded);
        if !plain {
            for ((&value, half), decoded) in source.iter().zip(&halves).zip(&mut decoded) {
                if half.is_nan() {
                    *decoded = if job.no_data == Some(value) { no_data.unwrap_or(f32::NAN) } else { f32::NAN };
                }
            }
        }
        if let Some(held) = held {
            job.check_apart(source, &decoded, first, held.to_f32())?;
        }
        meter.add(source, &decoded, plain, true);
        if meter.total.max_abs_error > max_error {
            return Err(EncodeError::ErrorBound { max_error, smallest: f64::INFINITY });
        }
        f16::store(&halves, out);
        first += source.len() as u64;
        Ok(())
    })?;
    let fidelity = meter.total;
    let code = (held.is_none() && fidelity.no_data > 0).then_some(NO_DATA_CODE.into());
    Ok(StoredValues {
        decoded: Dtype::F32,
        stored: Dtype::F16,
        transform: Transform::F16,
        no_data: no_data.map(f64::from),
        codes: Codes { no_data: code, ..Codes::default() },
        arrangement,
        fidelity,
    })
}
