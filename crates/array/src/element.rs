//! Array elements as Rust numbers, loaded from and stored as little-endian bytes.

use fearless_simd::{Simd, SimdFrom, f32x8, f64x8};
use half::f16;

/// A Rust type for the elements of an array.
pub(crate) trait Element: Copy + PartialEq + PartialOrd {
    /// Fills `out` with the elements in `bytes`. Both have the same number of elements.
    fn load(bytes: &[u8], out: &mut [Self]);
    /// Writes `values` to `bytes`. Both have the same number of elements.
    fn store(values: &[Self], bytes: &mut [u8]);
}

macro_rules! elements {
    ($($type:ty),*) => {
        $(impl Element for $type {
            fn load(bytes: &[u8], out: &mut [Self]) {
                for (from, to) in bytes.as_chunks().0.iter().zip(out) {
                    *to = <$type>::from_le_bytes(*from);
                }
            }

            fn store(values: &[Self], bytes: &mut [u8]) {
                for (to, from) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *to = from.to_le_bytes();
                }
            }
        })*
    };
}

elements!(u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64);

/// Evaluates an expression with `$type` as the Rust type of an integer `Dtype`. Other arms handle the other types.
macro_rules! for_integer {
    ($dtype:expr, $type:ident => $body:expr, $($other:pat => $else:expr),+ $(,)?) => {
        match $dtype {
            ::shardpack_format::Dtype::U8 => { type $type = u8; $body }
            ::shardpack_format::Dtype::I8 => { type $type = i8; $body }
            ::shardpack_format::Dtype::U16 => { type $type = u16; $body }
            ::shardpack_format::Dtype::I16 => { type $type = i16; $body }
            ::shardpack_format::Dtype::U32 => { type $type = u32; $body }
            ::shardpack_format::Dtype::I32 => { type $type = i32; $body }
            ::shardpack_format::Dtype::U64 => { type $type = u64; $body }
            ::shardpack_format::Dtype::I64 => { type $type = i64; $body }
            $($other => $else,)+
        }
    };
}

pub(crate) use for_integer;

/// A float type that a lossy transform can read: float32 or float64. Float16 is widened first.
pub(crate) trait Float: Element + Default {
    /// Bits of the canonical quiet NaN.
    const NAN_BITS: u64;
    fn to_f64(self) -> f64;
    fn abs(self) -> Self;
    /// Rounds to the nearest value of this type. Finite numbers out of range become the largest finite value.
    fn from_f64(value: f64) -> Self;
    fn bits(self) -> u64;
    /// Compares source values with their decoded values, in the arithmetic of this type.
    fn compare(source: &[Self], decoded: &[f32], rel: f64) -> Comparison;
    fn widen<S: Simd>(simd: S, from: &[Self; 8]) -> f64x8<S>;
    /// Converts to float16 with a single rounding, ties to even.
    fn to_f16(source: &[Self], out: &mut [f16]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Number of values whose bits differ after decoding.
    pub(crate) changed: u32,
    /// Number of nonzero values with a magnitude below 2⁻¹⁴.
    pub(crate) small: u32,
    /// True if the relative error of a value with a magnitude of at least 2⁻¹⁴ may exceed the bound.
    pub(crate) worse: bool,
}

pub(crate) trait Integer: Element + Default {
    fn to_i128(self) -> i128;
    /// Converts the no-data value to this type. Returns `None` if the type cannot represent it.
    fn from_no_data(value: f64) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl Integer for $type {
            fn to_i128(self) -> i128 {
                self.into()
            }

            #[allow(clippy::cast_possible_truncation, reason = "the cast saturates and is checked by casting back")]
            fn from_no_data(value: f64) -> Option<Self> {
                let cast = value as i128;
                #[allow(clippy::cast_precision_loss, reason = "as above")]
                if cast as f64 == value { Self::try_from(cast).ok() } else { None }
            }
        })*
    };
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! compare {
    ($type:ty) => {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_lossless,
            reason = "a little below the bound is near enough"
        )]
        #[inline(always)]
        fn compare(source: &[Self], decoded: &[f32], rel: f64) -> Comparison {
            const SMALL: $type = 1.0 / 16_384.0;
            let rel = (rel * 0.999_999) as $type;
            let (mut changed, mut small, mut worse) = (0, 0, 0);
            for (&u, &v) in source.iter().zip(decoded) {
                let v = v as $type;
                let m = u.abs();
                changed += u32::from(u.to_bits() != v.to_bits());
                small += u32::from((m < SMALL) & (u != 0.0));
                worse |= u32::from((m >= SMALL) & ((v - u).abs() > rel * m));
            }
            Comparison { changed, small, worse: worse != 0 }
        }
    };
}

impl Float for f32 {
    compare!(f32);

    const NAN_BITS: u64 = 0x7FC0_0000;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    #[allow(clippy::cast_possible_truncation, reason = "rounding is intended")]
    fn from_f64(value: f64) -> Self {
        if value.is_finite() { (value as Self).clamp(Self::MIN, Self::MAX) } else { value as Self }
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    #[inline(always)]
    fn widen<S: Simd>(simd: S, from: &[Self; 8]) -> f64x8<S> {
        let (low, high) = simd.widen_f32x8(f32x8::simd_from(simd, *from));
        simd.combine_f64x4(low, high)
    }

    fn to_f16(source: &[Self], out: &mut [f16]) {
        half::slice::HalfFloatSliceExt::convert_from_f32_slice(out, source);
    }
}

impl Float for f64 {
    compare!(f64);

    const NAN_BITS: u64 = 0x7FF8_0000_0000_0000;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn widen<S: Simd>(simd: S, from: &[Self; 8]) -> f64x8<S> {
        f64x8::simd_from(simd, *from)
    }

    fn to_f16(source: &[Self], out: &mut [f16]) {
        // `half` converts through float32, so it rounds twice if the processor has F16C. Rounding to odd first avoids
        // the double rounding (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008, theorem 3).
        let mut odd = [0.0_f32; 256];
        for (from, to) in source.chunks(odd.len()).zip(out.chunks_mut(256)) {
            for (from, to) in from.iter().zip(&mut odd) {
                *to = round_to_odd(*from);
            }
            f32::to_f16(odd.split_at(from.len()).0, to);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    if back == value || near.is_nan() || bits & 1 == 1 {
        return near;
    }
    f32::from_bits(if back.abs() > value.abs() { bits - 1 } else { bits + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn half_of(value: f64) -> u16 {
        let mut out = [f16::ZERO];
        f64::to_f16(&[value], &mut out);
        out[0].to_bits()
    }

    #[test]
    fn double_rounding_is_avoided() {
        // If this value were first rounded to float32, the result would be the tie itself, which
        // would then round to even.
        let tie = 1.0 + 2_f64.powi(-11);
        assert_eq!(half_of(tie), 0x3C00);
        assert_eq!(half_of(tie + 2_f64.powi(-40)), 0x3C01);
        assert_eq!(half_of(tie - 2_f64.powi(-40)), 0x3C00);
    }

    #[test]
    fn v02_subnormals_round_to_even_and_zero_keeps_its_sign() {
        for (value, bits) in [
            (2_f64.powi(-14), 0x0400),
            (2_f64.powi(-24), 0x0001),
            (2_f64.powi(-25), 0x0000),
            (2_f64.powi(-25) * (1.0 + f64::EPSILON), 0x0001),
            (-0.0, 0x8000),
            (1e-300, 0x0000),
            (-1e-300, 0x8000),
            // h5py once lost the carry into the exponent for this value (h5py issue 819).
            (0.499_999_99, 0x3800),
            (-0.499_999_99, 0xB800),
        ] {
            assert_eq!(half_of(value), bits, "{value:e}");
        }
        let mut out = [f16::ZERO];
        f32::to_f16(&[0.499_999_97_f32], &mut out);
        assert_eq!(out[0].to_bits(), 0x3800);
    }

    fn slow_half_of(value: f64) -> u16 {
        let mut best = (f64::INFINITY, 0_u16);
        for bits in 0..0x7C00_u16 {
            let gap = (f16::from_bits(bits).to_f64() - value.abs()).abs();
            if gap < best.0 || (gap == best.0 && bits & 1 == 0) {
                best = (gap, bits);
            }
        }
        best.1 | if value.is_sign_negative() { 0x8000 } else { 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn conversion_agrees_with_a_search(mantissa in -1.0..1.0_f64, exponent in -30..15_i32) {
            let value = mantissa * 2_f64.powi(exponent);
            prop_assert_eq!(half_of(value), slow_half_of(value));
        }
    }
}
