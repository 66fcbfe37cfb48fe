//! Converts arrays to another element type without changing any value.

use half::f16;
use shardpack_format::{ArrayDescriptor, Codes, Dtype, Transform};

/// Returns a descriptor that makes a decoder return the array as `dtype`, or `None` if a value could change. The
/// decision depends on the values that the stored type can represent. For example, a float32 array stored as float16
/// can be returned exactly as float16, and an array stored as uint8 can be returned as any integer type except int8.
///
/// Use the result only for decoding, because it may not be valid in a file.
///
/// ```
/// use shardpack_array::decoded_as;
/// use shardpack_format::{ArrayDescriptor, Dtype};
/// let counts = ArrayDescriptor::plain(Dtype::U16, vec![4, 5, 6]);
/// assert_eq!(decoded_as(&counts, Dtype::F32).unwrap().decoded_bytes()?, 480);
/// assert_eq!(decoded_as(&counts, Dtype::F16), None, "65,535 is no float16");
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[must_use]
pub fn decoded_as(descriptor: &ArrayDescriptor, dtype: Dtype) -> Option<ArrayDescriptor> {
    let ArrayDescriptor { decoded, stored, ref transform, codes, .. } = *descriptor;
    if dtype == decoded {
        return Some(descriptor.clone());
    }
    let transform = match transform {
        Transform::Fixed { .. } => (dtype == Dtype::F64).then(|| transform.clone())?,
        Transform::None | Transform::F16 | Transform::Integer => {
            // The writer guarantees that `decoded` can represent every value of the stored elements.
            let fits = holds(stored, dtype) || holds(decoded, dtype);
            match stored {
                _ if !fits => return None,
                _ if stored == dtype => Transform::None,
                Dtype::F16 => Transform::F16,
                Dtype::F32 | Dtype::F64 => Transform::None,
                _ => Transform::Integer,
            }
        }
        _ => return None,
    };
    // Only float32 and float64 have special values, and a no-data value has the precision of its type.
    let no_data = descriptor.no_data.map(|value| round(value, decoded));
    let special = codes != Codes::default();
    let kept = |value: f64| dtype.is_float() && (value.is_nan() || round(value, dtype).to_bits() == value.to_bits());
    if special && (!dtype.is_float() || codes.no_data.is_some() && !kept(no_data.unwrap_or(f64::NAN))) {
        return None;
    }
    // A plain copy would not replace the reserved patterns with their values.
    let transform = match transform {
        Transform::None if special && stored == Dtype::F16 => Transform::F16,
        Transform::None if special => return None,
        transform => transform,
    };
    Some(ArrayDescriptor { decoded: dtype, transform, no_data, ..descriptor.clone() })
}

/// Returns a type that represents the values of all these arrays exactly. If possible, this is one of the arrays' own
/// types. If several of them are possible, it is the type that can represent most of the others. Otherwise it is the
/// smallest type that can represent all values, integers first. Returns `None` if no type can represent all values, or
/// if there are no arrays.
///
/// ```
/// use shardpack_array::common_dtype;
/// use shardpack_format::{ArrayDescriptor, Dtype};
/// let plain = |dtype| ArrayDescriptor::plain(dtype, vec![2]);
/// assert_eq!(common_dtype(&[plain(Dtype::U16), plain(Dtype::F32)]), Some(Dtype::F32));
/// assert_eq!(common_dtype(&[plain(Dtype::U8), plain(Dtype::I8)]), Some(Dtype::I16));
/// assert_eq!(common_dtype(&[plain(Dtype::U64), plain(Dtype::I8)]), None);
/// ```
#[must_use]
pub fn common_dtype(descriptors: &[ArrayDescriptor]) -> Option<Dtype> {
    let fits_all = |dtype: &&Dtype| descriptors.iter().all(|descriptor| decoded_as(descriptor, **dtype).is_some());
    let occurs = |dtype: Dtype| descriptors.iter().any(|descriptor| descriptor.decoded == dtype);
    let held =
        |dtype: Dtype| ORDER.iter().filter(|&&from| occurs(from) && (from == dtype || holds(from, dtype))).count();
    let mut best: Option<Dtype> = None;
    for &dtype in ORDER.iter().filter(|&&dtype| occurs(dtype)).filter(fits_all) {
        if best.is_none_or(|best| held(dtype) > held(best)) {
            best = Some(dtype);
        }
    }
    best.or_else(|| ORDER.iter().find(fits_all).copied().filter(|_| !descriptors.is_empty()))
}

/// All types from small to large. All integers come before all floats.
const ORDER: &[Dtype] = &[
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
];

fn holds(from: Dtype, to: Dtype) -> bool {
    /// Returns how many magnitude bits the type represents exactly, and true if the type is signed.
    const fn integer(dtype: Dtype) -> Option<(u64, bool)> {
        match dtype {
            Dtype::Bool => Some((1, false)),
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Some((8 * dtype.bytes(), false)),
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Some((8 * dtype.bytes() - 1, true)),
            _ => None,
        }
    }
    let mantissa = match to {
        Dtype::F16 => 11,
        Dtype::F32 => 24,
        Dtype::F64 => 53,
        _ => 0,
    };
    match (integer(from), integer(to)) {
        _ if from == to => true,
        (_, Some(_)) if to == Dtype::Bool => false,
        (Some((bits, signed)), Some((room, has_sign))) => bits <= room && (has_sign || !signed),
        (Some((bits, _)), None) => bits <= mantissa,
        (None, None) => from.bytes() < to.bytes(),
        _ => false,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn round(value: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => f16::from_f64(value).to_f64(),
        Dtype::F32 => f64::from(value as f32),
        _ => value,
    }
}

#[cfg(test)]
mod tests;
