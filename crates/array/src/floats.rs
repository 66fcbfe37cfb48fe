//! Converts elements of any type to float64.

use crate::element::for_integer;
use half::f16;
use shardpack_format::Dtype;

/// Converts the elements in `bytes` to float64. Integers above 2⁵³ lose their last digits. An incomplete element at the
/// end is ignored.
///
/// ```
/// use shardpack_array::floats_of;
/// use shardpack_format::Dtype;
/// assert_eq!(floats_of(Dtype::I16, &[0xFF, 0xFF, 2, 0]), [-1.0, 2.0]);
/// ```
#[must_use]
#[allow(clippy::cast_precision_loss, clippy::cast_lossless, reason = "see above; one arm serves all integer types")]
pub fn floats_of(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            bytes.as_chunks().0.iter().map(|&element| $convert(<$type>::from_le_bytes(element))).collect()
        };
    }
    for_integer!(
        dtype,
        T => each!(T, |value| value as f64),
        Dtype::F16 => each!(f16, f64::from),
        Dtype::F32 => each!(f32, f64::from),
        Dtype::F64 => each!(f64, |value| value),
        _ => bytes.iter().map(|&byte| f64::from(byte)).collect(),
    )
}
