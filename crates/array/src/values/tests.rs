//! Tests the value transforms.

use crate::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, EncodeError, EncodeResult, EncodedArray,
    Filter, ValueRule,
};
use half::f16;
use proptest::prelude::*;
use shardpack_format::{ArrayDescriptor, Dtype, Limits, Transform};

fn encode(rule: ValueRule, array: &Array, no_data: Option<f64>) -> EncodeResult<EncodedArray> {
    let settings = ArraySettings {
        values: rule,
        coder: Coder::Blosc2Lz4,
        level: None,
        filter: Filter::Shuffle,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    let encoded = ArrayEncoder::new(settings)?.encode(array, no_data)?;
    // The parser of descriptors must accept every descriptor that the encoder produces.
    let bytes = encoded.descriptor.encode()?;
    assert_eq!(ArrayDescriptor::parse(&bytes, &Limits::default())?.encode()?, bytes);
    Ok(encoded)
}

fn decode(encoded: &EncodedArray) -> Array {
    ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default()).unwrap()
}

fn f32s(values: &[f32]) -> Array {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::new(Dtype::F32, vec![1, 1, values.len() as u64], bytes).unwrap()
}

fn f64s(values: &[f64]) -> Array {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::new(Dtype::F64, vec![1, values.len() as u64, 1], bytes).unwrap()
}

fn to_f32s(array: &Array) -> Vec<f32> {
    assert_eq!(array.dtype(), Dtype::F32);
    array.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn v01_values_up_to_65520_fit_float16_and_those_from_there_stop_the_run() {
    for (value, stored) in [(65504.0, 65504.0), (65519.99, 65504.0), (-65519.99, -65504.0)] {
        let encoded = encode(ValueRule::F16, &f32s(&[value, 0.5]), None).unwrap();
        assert_eq!(to_f32s(&decode(&encoded)), [stored, 0.5]);
        assert_eq!(encoded.fidelity.infinite, 0);
    }
    for value in [65520.0_f32, 65536.0, 1e38, -65520.0, -1e38] {
        let mut values = [0.5; 12];
        values[7] = value;
        let bytes = values.iter().flat_map(|v: &f32| v.to_le_bytes()).collect();
        let array = Array::new(Dtype::F32, vec![2, 2, 3], bytes).unwrap();
        for rule in [ValueRule::F16, ValueRule::IntegerOrF16] {
            let error = encode(rule, &array, None).unwrap_err();
            let EncodeError::OutOfRange { ref position, value: found, min, max } = error else { panic!("{error}") };
            assert_eq!((position.as_slice(), found), ([1, 0, 1].as_slice(), f64::from(value)));
            assert_eq!((min, max), (f64::from(value).min(0.5), f64::from(value).max(0.5)));
            assert!(error.hint().is_some_and(|hint| hint.options().any(|option| option == "max_error")));
        }
    }
    let encoded = encode(ValueRule::F16, &f32s(&[f32::INFINITY, f32::NEG_INFINITY, 0.1]), None).unwrap();
    assert_eq!(to_f32s(&decode(&encoded))[..2], [f32::INFINITY, f32::NEG_INFINITY]);
    assert_eq!(encoded.fidelity.infinite, 2);
    // float16 cannot represent this no-data value, so it is stored as a reserved pattern.
    let encoded = encode(ValueRule::IntegerOrF16, &f32s(&[-3.4e38, 0.1, -3.4e38]), Some(-3.4e38)).unwrap();
    let back = to_f32s(&decode(&encoded));
    assert_eq!((back[0], back[2], encoded.fidelity.no_data), (-3.4e38, -3.4e38, 2));
    assert_eq!(encoded.descriptor.codes.no_data, Some(0x7E01));
}

#[test]
fn v02_subnormals_are_counted_and_zero_keeps_its_sign() {
    let tiny = [2_f32.powi(-14), 2_f32.powi(-15), 2_f32.powi(-25), 1e-30, 0.0, -0.0, 0.3];
    let encoded = encode(ValueRule::IntegerOrF16, &f32s(&tiny), None).unwrap();
    assert_eq!(encoded.fidelity.subnormal, 3);
    let back = to_f32s(&decode(&encoded));
    let bits: Vec<u32> = back.iter().map(|v| v.to_bits()).collect();
    assert_eq!(bits[..6], [2_f32.powi(-14).to_bits(), 2_f32.powi(-15).to_bits(), 0, 0, 0, 0x8000_0000]);
    assert_eq!(encoded.fidelity.changed, 3);
}

#[test]
fn v03_nan_and_infinities_survive_every_rule() {
    let odd_nan = f32::from_bits(0xFFC0_1234);
    let values = [f32::NAN, odd_nan, f32::INFINITY, f32::NEG_INFINITY, 0.25, 0.3, -9999.0];
    for rule in [ValueRule::F16, ValueRule::Fixed { max_error: 1e-3 }, ValueRule::IntegerOrF16] {
        let encoded = encode(rule, &f32s(&values), Some(-9999.0)).unwrap();
        let back = to_f32s(&decode(&encoded));
        assert!(back[0].is_nan() && back[1].is_nan());
        assert_eq!(back[0].to_bits(), 0x7FC0_0000);
        assert_eq!((back[2], back[3], back[6]), (f32::INFINITY, f32::NEG_INFINITY, -9999.0));
        let f = encoded.fidelity;
        assert_eq!((f.nan, f.infinite, f.no_data, f.values, f.measured), (2, 2, 1, 7, 2), "{rule}");
    }
    let kept = encode(ValueRule::Keep, &f32s(&values), Some(-9999.0)).unwrap();
    assert_eq!(decode(&kept), f32s(&values));
    assert_eq!((kept.fidelity.nan, kept.fidelity.infinite, kept.fidelity.no_data), (2, 2, 1));
}

#[test]
fn v04_integers_held_as_floats_become_the_smallest_exact_type() {
    for (values, no_data, stored) in [
        (vec![0.0, 255.0], None, Dtype::U8),
        (vec![-128.0, 127.0], None, Dtype::I8),
        (vec![0.0, 256.0], None, Dtype::U16),
        (vec![-1.0, 2049.0], None, Dtype::I16),
        (vec![-1.0, 65535.0], None, Dtype::I32),
        (vec![0.0, 16_777_216.0, 4_294_967_040.0], None, Dtype::U32),
        // NaN needs an unused pattern. In a uint8, 255 is already used by a value in the second case.
        (vec![0.0, 254.0, f32::NAN], None, Dtype::U8),
        (vec![0.0, 255.0, f32::NAN], None, Dtype::U16),
        (vec![f32::NAN, f32::NAN], None, Dtype::U8),
        // A no-data value that the type can represent is stored like any other integer. Otherwise it is stored as a
        // reserved pattern.
        (vec![-32768.0, 0.0, 8000.0], Some(-32768.0), Dtype::U16),
        (vec![-32768.0, -5.0, 8000.0], Some(-32768.0), Dtype::I16),
        (vec![-3.4e38, f32::NAN, 0.0, 253.0], Some(-3.4e38), Dtype::U8),
        (vec![-3.4e38, f32::NAN, 0.0, 254.0], Some(-3.4e38), Dtype::U16),
        (vec![-3.4e38, f32::NAN, 2.0, 255.0], Some(-3.4e38), Dtype::U8),
    ] {
        let array = f32s(&values);
        let encoded = encode(ValueRule::IntegerOrF16, &array, no_data).unwrap();
        assert_eq!(
            (encoded.descriptor.stored, &encoded.descriptor.transform),
            (stored, &Transform::Integer),
            "{values:?}"
        );
        assert_eq!(decode(&encoded), array, "{values:?}");
        assert_eq!((encoded.fidelity.changed, encoded.fidelity.max_abs_error), (0, 0.0));
    }
    // Integers are stored unchanged if no 32-bit type can restore them bit for bit.
    for values in [vec![1.0, -0.0], vec![1.0, f32::from_bits(0x7FC0_0001)], vec![1.0, f32::INFINITY], vec![1.0, 8.6e9]]
    {
        let array = f32s(&values);
        let encoded = encode(ValueRule::IntegerOrF16, &array, None).unwrap();
        assert_eq!(encoded.descriptor.transform, Transform::None, "{values:?}");
        assert_eq!(decode(&encoded), array);
    }
    // If the no-data value is 0, the negative zero is no-data too.
    let array = f32s(&[0.0, -0.0, 3.0]);
    assert_eq!(decode(&encode(ValueRule::IntegerOrF16, &array, Some(0.0)).unwrap()), array);
    assert_eq!(decode(&encode(ValueRule::IntegerOrF16, &array, Some(-0.0)).unwrap()), array);
    assert_eq!(decode(&encode(ValueRule::IntegerOrF16, &f32s(&[0.0, 3.0]), Some(-0.0)).unwrap()), f32s(&[0.0, 3.0]));
    let array = f64s(&[0.0, 1e6, -9999.0, f64::NAN]);
    let encoded = encode(ValueRule::IntegerOrKeep, &array, Some(-9999.0)).unwrap();
    assert_eq!(encoded.descriptor.stored, Dtype::U32);
    assert_eq!(decode(&encoded), array);
}

#[test]
fn v04_wider_integers_are_narrowed_and_none_is_lost() {
    let of = |dtype, bytes: Vec<u8>| {
        let n = bytes.len() as u64 / Dtype::bytes(dtype);
        Array::new(dtype, vec![n, 1], bytes).unwrap()
    };
    let i64s = |v: &[i64]| of(Dtype::I64, v.iter().flat_map(|v| v.to_le_bytes()).collect());
    let u16s = |v: &[u16]| of(Dtype::U16, v.iter().flat_map(|v| v.to_le_bytes()).collect());
    for (array, stored) in [
        (i64s(&[0, 200]), Dtype::U8),
        (i64s(&[-1, 200]), Dtype::I16),
        (i64s(&[-1, 1 << 31]), Dtype::I64),
        (i64s(&[0, (1 << 32) - 1]), Dtype::U32),
        (i64s(&[i64::MIN, i64::MAX]), Dtype::I64),
        (u16s(&[0, 255]), Dtype::U8),
        (u16s(&[0, 256]), Dtype::U16),
        (of(Dtype::U64, u64::MAX.to_le_bytes().to_vec()), Dtype::U64),
        (of(Dtype::Bool, vec![0, 1, 1]), Dtype::Bool),
    ] {
        for rule in [ValueRule::IntegerOrF16, ValueRule::IntegerOrKeep, ValueRule::F16] {
            let encoded = encode(rule, &array, None).unwrap();
            assert_eq!(encoded.descriptor.stored, stored);
            assert_eq!(decode(&encoded), array);
        }
        assert_eq!(encode(ValueRule::Keep, &array, None).unwrap().descriptor.transform, Transform::None);
    }
}

proptest! {
    /// Draws only a few different values, so that they often occur together.
    #[test]
    fn lossless_rules_restore_every_value(
        picks in prop::collection::vec(0..10_usize, 1..9000),
        kinds in prop::collection::vec(0..10_usize, 1..4),
        no_data in prop::option::of(prop::sample::select(vec![0.0, -0.0, 7.0, -9999.0, -3.4e38, f64::NAN, f64::INFINITY, 0.5])),
    ) {
        let odd = f32::from_bits(0x7FC0_0001);
        let all = [0.0_f32, -0.0, 7.0, -9999.0, -3.4e38, f32::NAN, f32::INFINITY, odd, 255.0, 70_000.0];
        // Use few kinds of values in each array. Otherwise every array would be stored unchanged.
        let values: Vec<f32> = picks.iter().map(|p| all[kinds[p % kinds.len()]]).collect();
        let array = f32s(&values);
        let encoded = encode(ValueRule::IntegerOrKeep, &array, no_data).unwrap();
        prop_assert_eq!(decode(&encoded), array);
        let f = encoded.fidelity;
        let is_no_data = |v: &f32| no_data.map(|n| n as f32) == Some(*v);
        prop_assert_eq!(f.no_data, values.iter().filter(|v| is_no_data(v)).count() as u64);
        prop_assert_eq!(f.nan, values.iter().filter(|v| v.is_nan()).count() as u64);
        prop_assert_eq!(f.infinite, values.iter().filter(|v| v.is_infinite() && !is_no_data(v)).count() as u64);
    }
}

#[test]
fn float16_sources_are_kept_or_become_bytes() {
    let of = |v: &[f32]| {
        let bytes = v.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        Array::new(Dtype::F16, vec![1, 1, v.len() as u64], bytes).unwrap()
    };
    for (array, stored) in
        [(of(&[0.0, 3.0]), Dtype::U8), (of(&[0.0, 300.0]), Dtype::F16), (of(&[0.5, -0.0]), Dtype::F16)]
    {
        for rule in [ValueRule::IntegerOrF16, ValueRule::IntegerOrKeep] {
            let encoded = encode(rule, &array, None).unwrap();
            assert_eq!(encoded.descriptor.stored, stored);
            assert_eq!(decode(&encoded), array);
        }
    }
}

#[test]
fn fixed_point_keeps_its_bound_with_the_fewest_bits() {
    let values: Vec<f64> = (0..6000).map(|i| (f64::from(i) * 0.37).sin() * 2.0 + f64::from(i % 3) * 100.0).collect();
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let array = Array::new(Dtype::F64, vec![20, 100, 3], bytes).unwrap();
    for (max_error, bits, stored) in [(0.02, 8, Dtype::U8), (0.004, 9, Dtype::U16), (0.0006, 12, Dtype::U16)] {
        let encoded = encode(ValueRule::Fixed { max_error }, &array, None).unwrap();
        let Transform::Fixed { bits: got, scale, .. } = &encoded.descriptor.transform else { panic!() };
        assert_eq!((*got, encoded.descriptor.stored), (bits, stored));
        assert!(f64::from(scale[0]) <= 2.0 * max_error && f64::from(scale[0]) > 1.9 * max_error);
        let back = to_f32s(&decode(&encoded));
        let worst = values.iter().zip(&back).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
        assert!(worst <= max_error && worst > 0.9 * max_error, "{worst}");
        assert_eq!(encoded.fidelity.max_abs_error, worst);
        assert_eq!(encoded.fidelity.spectra, 2000);
    }
}

#[test]
fn a_bound_that_is_too_small_names_one_that_is_not() {
    for (values, max_error) in [
        // With this error bound, these values need more than 16 bits.
        (vec![0.0, 1.3, 1000.0], 1e-3),
        (vec![0.0, 1.3, 1000.0, f64::NAN], 1e-9),
        // Here float32 itself is coarser than the error bound.
        (vec![1e9, 1e9 + 1.0], 1e-3),
        (vec![-12_345.678, 7.0], 1e-300),
    ] {
        let error = encode(ValueRule::Fixed { max_error }, &f64s(&values), None).unwrap_err();
        let EncodeError::ErrorBound { smallest, .. } = error else { panic!("{error}") };
        assert!(smallest > max_error);
        let encoded = encode(ValueRule::Fixed { max_error: smallest }, &f64s(&values), None).unwrap();
        assert!(encoded.fidelity.max_abs_error <= smallest);
        assert!(error.hint().unwrap().options().any(|option| option == "max_error"));
    }
    for max_error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(encode(ValueRule::Fixed { max_error }, &f64s(&[0.5]), None).is_err());
    }
}

#[test]
fn auto_with_a_bound_uses_fixed_point_if_float16_cannot_keep_it() {
    let rule = ValueRule::IntegerOrF16OrFixed { max_error: 0.01 };
    let small = encode(rule, &f32s(&[0.1, 0.2]), None).unwrap();
    assert_eq!(small.descriptor.transform, Transform::F16);
    for values in [[900.1, 901.2], [70_000.5, 70_001.2]] {
        let large = encode(rule, &f32s(&values), None).unwrap();
        assert!(matches!(large.descriptor.transform, Transform::Fixed { .. }));
        assert!(large.fidelity.max_abs_error <= 0.01);
    }
}

#[test]
fn v06_constant_empty_and_random_arrays() {
    let noise: Vec<f32> =
        (0..5000_u32).map(|i| f32::from_bits(0x3F80_0000 | (i.wrapping_mul(2_654_435_761) >> 9))).collect();
    let empty = Array::new(Dtype::F32, vec![3, 0, 5], vec![]).unwrap();
    for rule in [ValueRule::Keep, ValueRule::IntegerOrF16, ValueRule::F16, ValueRule::Fixed { max_error: 0.1 }] {
        for array in [f32s(&[7.5; 4096]), f32s(&[0.0; 4096]), f32s(&[f32::NAN; 4096]), f32s(&noise), empty.clone()] {
            let encoded = encode(rule, &array, None).unwrap();
            assert!(encoded.payload.len() as u64 <= encoded.descriptor.stored_bytes().unwrap());
            assert_eq!(decode(&encoded).shape(), array.shape());
            if encoded.descriptor.is_lossless() {
                assert_eq!(decode(&encoded), array);
            }
        }
        assert!(encode(rule, &empty, None).unwrap().payload.is_empty());
    }
    let encoded =
        encode(ValueRule::Keep, &Array::new(Dtype::U8, vec![5], vec![9, 200, 3, 77, 1]).unwrap(), None).unwrap();
    assert_eq!(encoded.codec, shardpack_format::Codec::Raw);
}
