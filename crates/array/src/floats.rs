//! Converts elements of any type to float64.

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
pub fn floats_of(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            bytes.as_chunks().0.iter().map(|&element| $convert(<$type>::from_le_bytes(element))).collect()
        };
    }
    #[allow(clippy::cast_precision_loss, reason = "see the comment above")]
    match dtype {
        Dtype::I8 => each!(i8, f64::from),
        Dtype::U16 => each!(u16, f64::from),
        Dtype::I16 => each!(i16, f64::from),
        Dtype::U32 => each!(u32, f64::from),
        Dtype::I32 => each!(i32, f64::from),
        Dtype::U64 => each!(u64, |value| value as f64),
        Dtype::I64 => each!(i64, |value| value as f64),
        Dtype::F16 => each!(f16, f64::from),
        Dtype::F32 => each!(f32, f64::from),
        Dtype::F64 => each!(f64, |value| value),
        _ => bytes.iter().map(|&byte| f64::from(byte)).collect(),
    }
}
