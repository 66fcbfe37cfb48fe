//! Converts elements of any type to float32, and float32 to the element types of batches.

use crate::element::Element;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use shardpack_format::{Dtype, ElementType};

/// Number of elements in a run. The buffers for one run fit in the L1 cache together.
pub(super) const RUN: usize = 512;

/// Loads at most [`RUN`] elements as float32, rounded to the nearest, ties to even.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "rounding is intended")]
pub(super) fn load(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F32 => f32::load(bytes, out),
        Dtype::F64 => each(bytes, out, |value: f64| value as f32),
        Dtype::F16 => {
            let mut halves = [f16::ZERO; RUN];
            let (halves, _) = halves.split_at_mut(out.len().min(RUN));
            f16::load(bytes, halves);
            halves.convert_to_f32_slice(out);
        }
        Dtype::I8 => each(bytes, out, |value: i8| f32::from(value)),
        Dtype::U16 => each(bytes, out, |value: u16| f32::from(value)),
        Dtype::I16 => each(bytes, out, |value: i16| f32::from(value)),
        Dtype::U32 => each(bytes, out, |value: u32| value as f32),
        Dtype::I32 => each(bytes, out, |value: i32| value as f32),
        Dtype::U64 => each(bytes, out, |value: u64| value as f32),
        Dtype::I64 => each(bytes, out, |value: i64| value as f32),
        // Booleans are never converted to floats.
        _ => each(bytes, out, |value: u8| f32::from(value)),
    }
}

fn each<T: Element + Default>(bytes: &[u8], out: &mut [f32], float: impl Fn(T) -> f32) {
    let mut values = [T::default(); RUN];
    T::load(bytes, &mut values);
    for (value, out) in values.iter().zip(out) {
        *out = float(*value);
    }
}

/// Stores at most [`RUN`] elements of a float type of at most 32 bits.
pub(super) fn store(element: ElementType, values: &[f32], bytes: &mut [u8]) {
    match element {
        ElementType::Bf16 => {
            for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                *to = bf16::from_f32(*value).to_le_bytes();
            }
        }
        ElementType::Dtype(Dtype::F16) => {
            let mut halves = [f16::ZERO; RUN];
            let (halves, _) = halves.split_at_mut(values.len().min(RUN));
            halves.convert_from_f32_slice(values);
            f16::store(halves, bytes);
        }
        ElementType::Dtype(_) => f32::store(values, bytes),
    }
}
