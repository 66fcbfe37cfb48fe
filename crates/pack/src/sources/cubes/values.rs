//! Little-endian elements as numbers: for metadata and label masks, not for cubes.

use half::f16;
use shardpack_format::Dtype;

/// Every element as float64; integers beyond 2⁵³ are rounded.
pub(super) fn to_f64(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            bytes.as_chunks().0.iter().map(|&element| $convert(<$type>::from_le_bytes(element))).collect()
        };
    }
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
        // One byte. These readers do not make types that a later version of the format adds.
        _ => bytes.iter().map(|&byte| f64::from(byte)).collect(),
    }
}
