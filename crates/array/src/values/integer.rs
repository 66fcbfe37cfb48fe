//! Narrows values to the smallest integer type that can represent them exactly.

use super::scan::{ROUND, Scan};
use super::{Job, Request, StoredValues, arrangement, is_plain, keep};
use crate::element::{Float, Integer, for_integer};
use crate::elements::Elements;
use crate::error::EncodeResult;
use crate::fidelity::Fidelity;
use crate::settings::ValueRule;
use crate::source::{ArraySource, BLOCK_BYTES, element_count, for_each_block};
use shardpack_base::parts::{part, part_mut};
use shardpack_base::vectorised;
use shardpack_format::{Codes, Dtype, Transform};

const TYPES: [(Dtype, i64, i64); 6] = [
    (Dtype::U8, 0, 0xFF),
    (Dtype::I8, -0x80, 0x7F),
    (Dtype::U16, 0, 0xFFFF),
    (Dtype::I16, -0x8000, 0x7FFF),
    (Dtype::U32, 0, 0xFFFF_FFFF),
    (Dtype::I32, -0x8000_0000, 0x7FFF_FFFF),
];

/// Stores floats that are all integers. Returns `None` if no integer type restores every bit.
pub(super) fn store_float<T: Float>(
    job: &Job<'_, T>,
    scan: &Scan,
    elements: &mut Elements<'_>,
) -> EncodeResult<Option<StoredValues>> {
    let no_data = job.no_data.filter(|_| scan.no_data > 0);
    let Some((stored, codes)) = choose(scan, no_data.map(T::to_f64), job.array.dtype()) else { return Ok(None) };
    let arrangement = arrangement(job.array, stored, job.request);
    let special = codes != Codes::default();
    let width = arrangement.width;
    job.for_each_piece(&arrangement, elements, |source, out| {
        vectorised(
            #[inline(always)]
            || store_low_bits(source, width, out),
        );
        if !special || is_plain(source, no_data) {
            return Ok(());
        }
        for (&value, out) in source.iter().zip(out.chunks_exact_mut(width)) {
            let code = if no_data == Some(value) {
                codes.no_data
            } else if value.to_f64().is_nan() {
                codes.nan
            } else {
                None
            };
            if let Some(code) = code {
                out.copy_from_slice(part(&code.to_le_bytes(), 0..width, "pattern for a special value")?);
            }
        }
        Ok(())
    })?;
    let fidelity = Fidelity {
        values: job.elements() as u64,
        nan: scan.nan,
        no_data: scan.no_data,
        infinite: scan.infinite,
        ..Fidelity::default()
    };
    Ok(Some(StoredValues {
        decoded: job.array.dtype(),
        stored,
        transform: Transform::Integer,
        no_data: job.no_data.map(T::to_f64),
        codes,
        arrangement,
        fidelity,
    }))
}

/// Chooses the integer type. If there are NaNs, the type must have an unused bit pattern for them. If it cannot
/// represent the no-data value, it must have another unused pattern for no-data.
fn choose(scan: &Scan, no_data: Option<f64>, source: Dtype) -> Option<(Dtype, Codes)> {
    if !scan.exact {
        return None;
    }
    let empty = scan.min > scan.max;
    for (dtype, low, high) in TYPES {
        #[allow(clippy::cast_precision_loss, reason = "32-bit integers are exact in f64")]
        let (low_f, high_f) = (low as f64, high as f64);
        // Two-byte integers save nothing compared with float16.
        let worth = dtype.bytes() < source.bytes() || (source == Dtype::F32 && dtype.bytes() == 4);
        if !worth || !(empty || (scan.min >= low_f && scan.max <= high_f)) {
            continue;
        }
        let held =
            no_data.filter(|v| v.trunc() == *v && (low_f..=high_f).contains(v) && v.to_bits() != (-0.0_f64).to_bits());
        // Search from the top down, then from the bottom up. Three steps each are enough to find two unused patterns.
        let is_free = |x: &f64| (empty || *x > scan.max || *x < scan.min) && held != Some(*x);
        let from_top = (0..3).map(|i| high_f - f64::from(i));
        let from_bottom = (0..3).map(|i| low_f + f64::from(i));
        let mut free = from_top.chain(from_bottom).filter(is_free);
        let mut codes = Codes::default();
        if scan.nan > 0 {
            let Some(code) = free.next() else { continue };
            codes.nan = Some(pattern(code, dtype));
        }
        if no_data.is_some() && held.is_none() {
            let Some(code) = free.next() else { continue };
            codes.no_data = Some(pattern(code, dtype));
        }
        return Some((dtype, codes));
    }
    None
}

fn pattern(value: f64, dtype: Dtype) -> u32 {
    let bits = low_bits(value);
    match dtype.bytes() {
        1 => bits & 0xFF,
        2 => bits & 0xFFFF,
        _ => bits,
    }
}

/// Returns the integer `value` modulo 2³².
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "only the low bits are needed")]
fn low_bits(value: f64) -> u32 {
    (value + ROUND).to_bits() as u32
}

#[allow(clippy::cast_possible_truncation, reason = "only the low bits are needed")]
#[inline(always)]
fn store_low_bits<T: Float>(source: &[T], width: usize, out: &mut [u8]) {
    match width {
        1 => {
            for (value, out) in source.iter().zip(out) {
                *out = low_bits(value.to_f64()) as u8;
            }
        }
        2 => {
            for (value, out) in source.iter().zip(out.as_chunks_mut().0) {
                *out = (low_bits(value.to_f64()) as u16).to_le_bytes();
            }
        }
        _ => {
            for (value, out) in source.iter().zip(out.as_chunks_mut().0) {
                *out = low_bits(value.to_f64()).to_le_bytes();
            }
        }
    }
}

/// Stores an array of integers or booleans, narrowed if the rule allows it.
pub(super) fn store(
    array: &dyn ArraySource,
    request: &Request,
    elements: &mut Elements<'_>,
) -> EncodeResult<StoredValues> {
    for_integer!(array.dtype(), T => narrow::<T>(array, request, elements), _ => narrow::<u8>(array, request, elements))
}

fn narrow<T: Integer>(
    array: &dyn ArraySource,
    request: &Request,
    elements: &mut Elements<'_>,
) -> EncodeResult<StoredValues> {
    let dtype = array.dtype();
    let no_data = request.no_data.and_then(T::from_no_data);
    let mut fidelity = Fidelity { values: element_count(array) as u64, ..Fidelity::default() };
    let mut range: Option<(T, T)> = None;
    let mut run = [T::default(); 4096];
    for_each_block(array, BLOCK_BYTES, |block| {
        for bytes in block.chunks(4096 * size_of::<T>()) {
            let run = part_mut(&mut run, 0..bytes.len() / size_of::<T>(), "values in a run")?;
            T::load(bytes, run);
            let Some(&first) = run.first() else { continue };
            let (mut min, mut max) = range.unwrap_or((first, first));
            for &value in run.iter() {
                min = if value < min { value } else { min };
                max = if value > max { value } else { max };
            }
            range = Some((min, max));
            if let Some(no_data) = no_data {
                fidelity.no_data += run.iter().map(|v| u64::from(*v == no_data)).sum::<u64>();
            }
        }
        Ok(true)
    })?;
    let (min, max) = range.map_or((0, 0), |(min, max)| (min.to_i128(), max.to_i128()));
    let smaller = TYPES.into_iter().find(|&(d, low, high)| {
        d.bytes() < dtype.bytes()
            && min >= i128::from(low)
            && max <= i128::from(high)
            && request.rule != ValueRule::Keep
    });
    let (Some((stored, ..)), true) = (smaller, dtype != Dtype::Bool) else {
        let arrangement = keep(array, request, elements, |_| Ok(()))?;
        let (transform, no_data, codes) = (Transform::None, request.no_data, Codes::default());
        return Ok(StoredValues { decoded: dtype, stored: dtype, transform, no_data, codes, arrangement, fidelity });
    };
    let arrangement = arrangement(array, stored, request);
    let width = arrangement.width;
    super::for_each_piece(array, size_of::<T>(), &arrangement, elements, |source, out| {
        for (value, out) in source.chunks_exact(size_of::<T>()).zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(part(value, 0..width, "low bytes of an integer")?);
        }
        Ok(())
    })?;
    let codes = Codes::default();
    Ok(StoredValues {
        decoded: dtype,
        stored,
        transform: Transform::Integer,
        no_data: request.no_data,
        codes,
        arrangement,
        fidelity,
    })
}
