//! The value of a scalar field: a single number from a record's head or from a column of the index.

use shardpack_format::Dtype;

/// The value of a scalar field.
///
/// ```
/// use shardpack_reader::Scalar;
/// assert_eq!(Scalar::Signed(3).as_i64(), Some(3));
/// assert_eq!(Scalar::Unsigned(u64::MAX).as_i64(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A value of type `bool`.
    Bool(bool),
    /// A value of any unsigned integer type.
    Unsigned(u64),
    /// A value of any signed integer type.
    Signed(i64),
    /// A value of any floating-point type, without rounding.
    Float(f64),
}

impl Scalar {
    /// Reads one packed little-endian element. Returns `None` if the length of `bytes` is not the size of the type.
    #[must_use]
    pub fn from_bytes(dtype: Dtype, bytes: &[u8]) -> Option<Self> {
        let n = dtype.size();
        if bytes.len() != n {
            return None;
        }
        let mut wide = [0; 8];
        wide.get_mut(..n)?.copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        let shift = 64 - 8 * u32::try_from(n).ok()?;
        let signed = (unsigned << shift).cast_signed() >> shift;
        Some(match dtype {
            Dtype::Bool => Self::Bool(unsigned != 0),
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Self::Unsigned(unsigned),
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Self::Signed(signed),
            Dtype::F16 => Self::Float(half::f16::from_bits(u16::try_from(unsigned).ok()?).to_f64()),
            Dtype::F32 => Self::Float(f64::from(f32::from_bits(u32::try_from(unsigned).ok()?))),
            Dtype::F64 => Self::Float(f64::from_bits(unsigned)),
            _ => return None,
        })
    }

    /// Returns the value as a signed integer, or `None` if it is a floating-point number or does not fit.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Bool(v) => Some(i64::from(v)),
            Self::Unsigned(v) => i64::try_from(v).ok(),
            Self::Signed(v) => Some(v),
            Self::Float(_) => None,
        }
    }

    /// Returns the value as a floating-point number. Integers beyond 2⁵³ are rounded.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Bool(v) => f64::from(u8::from(v)),
            Self::Unsigned(v) => v as f64,
            Self::Signed(v) => v as f64,
            Self::Float(v) => v,
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(v) => v.fmt(f),
            Self::Unsigned(v) => v.fmt(f),
            Self::Signed(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_keeps_its_sign() {
        assert_eq!(Scalar::from_bytes(Dtype::I8, &[0xFF]), Some(Scalar::Signed(-1)));
        assert_eq!(Scalar::from_bytes(Dtype::I16, &[0xFE, 0xFF]), Some(Scalar::Signed(-2)));
        assert_eq!(Scalar::from_bytes(Dtype::I64, &i64::MIN.to_le_bytes()), Some(Scalar::Signed(i64::MIN)));
        assert_eq!(Scalar::from_bytes(Dtype::U64, &u64::MAX.to_le_bytes()), Some(Scalar::Unsigned(u64::MAX)));
        assert_eq!(Scalar::from_bytes(Dtype::F16, &[0x00, 0x3C]), Some(Scalar::Float(1.0)));
        assert_eq!(Scalar::from_bytes(Dtype::F32, &(-0.5_f32).to_le_bytes()), Some(Scalar::Float(-0.5)));
        assert_eq!(Scalar::from_bytes(Dtype::U16, &[1]), None);
    }
}
