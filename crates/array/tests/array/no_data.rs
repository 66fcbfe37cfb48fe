//! Tests that no-data stays distinct: after a lossy transform, the same elements equal the no-data value as before,
//! and no others.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::float_cmp
)]

use proptest::prelude::*;
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArrayOptions, ArraySettings, Coder, EncodeError, EncodeResult,
    EncodedArray, Filter, ValueRule, Values, trial,
};
use shardpack_format::{Dtype, Limits, Transform};

fn encode(rule: ValueRule, array: &Array, no_data: f64) -> EncodeResult<EncodedArray> {
    let settings = ArraySettings {
        values: rule,
        coder: Coder::Raw,
        level: None,
        filter: Filter::None,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    ArrayEncoder::new(settings)?.encode(array, Some(no_data))
}

fn cube(values: &[f64], bands: usize, dtype: Dtype) -> Array {
    let bytes = match dtype {
        Dtype::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    Array::new(dtype, vec![1, (values.len() / bands) as u64, bands as u64], bytes).unwrap()
}

fn values_of(array: &Array) -> Vec<f64> {
    match array.dtype() {
        Dtype::F32 => array.bytes().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
        _ => array.bytes().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
    }
}

fn decode(encoded: &EncodedArray) -> Array {
    ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default()).unwrap()
}

fn check(array: &Array, encoded: &EncodedArray, asked: f64) {
    let before = if array.dtype() == Dtype::F32 { f64::from(asked as f32) } else { asked };
    let after = encoded.descriptor.no_data.unwrap();
    let mut count = 0;
    for (i, (source, decoded)) in values_of(array).iter().zip(values_of(&decode(encoded))).enumerate() {
        assert_eq!(
            *source == before,
            decoded == after,
            "element {i}: {source:e} became {decoded:e}, no-data {after:e}"
        );
        if *source == before {
            count += 1;
            let lossless = encoded.descriptor.is_lossless();
            let expected = if lossless { source } else { &after };
            assert_eq!(decoded.to_bits(), expected.to_bits(), "element {i}");
        }
    }
    assert_eq!(encoded.fidelity.no_data, count);
}

#[test]
fn a_value_that_float16_would_round_to_no_data_is_not_rounded() {
    for (no_data, value) in [(-1.0, -0.99999), (-1.0, -1.0002), (0.0, 1e-8), (-0.0, -1e-8), (65504.0, 65510.0)] {
        for dtype in [Dtype::F32, Dtype::F64] {
            // The first array has no value near no-data, so the encoder handles it on a different path.
            for values in [vec![0.3, 0.7, value, 0.5], vec![no_data, 0.7, value, 0.5]] {
                let array = cube(&values, 2, dtype);
                let encoded = encode(ValueRule::IntegerOrF16, &array, no_data).unwrap();
                check(&array, &encoded, no_data);
                assert_eq!(decode(&encoded), array, "kept as it is");
                let found = values_of(&array)[2];
                let error = encode(ValueRule::F16, &array, no_data).unwrap_err();
                let expected = EncodeError::BecomesNoData { position: vec![0, 1, 0], value: found, no_data };
                assert_eq!(error, expected);
                assert!(error.hint().unwrap().options().any(|option| option == "values"), "{error}");
                let bounded = ValueRule::IntegerOrF16OrFixed { max_error: 0.01 };
                if no_data.abs() < 2.0 {
                    let encoded = encode(bounded, &array, no_data).unwrap();
                    assert!(matches!(encoded.descriptor.transform, Transform::Fixed { .. }));
                    check(&array, &encoded, no_data);
                }
            }
        }
    }
}

#[test]
fn without_such_a_value_float16_stays() {
    for (no_data, near) in [(-1.0, -0.999), (0.0, 6e-8), (-9999.0, -9999.3), (0.1, 0.100_01), (-3.4e38, -65504.0)] {
        let array = cube(&[near, 0.25, no_data, 0.3], 2, Dtype::F32);
        for rule in [ValueRule::F16, ValueRule::IntegerOrF16] {
            let encoded = encode(rule, &array, no_data).unwrap();
            assert_eq!(encoded.descriptor.transform, Transform::F16);
            check(&array, &encoded, no_data);
        }
    }
}

#[test]
fn a_trial_skips_a_rule_that_confuses_no_data() {
    let array = cube(&[-0.99999, 0.3, -1.0, 0.5], 2, Dtype::F32);
    let samples = [(&array, Some(-1.0))];
    let asked = ArrayOptions { values: Values::F16, ..ArrayOptions::default() };
    assert!(matches!(trial(&samples, &asked), Err(EncodeError::BecomesNoData { .. })));
    assert!(trial(&samples, &ArrayOptions::default()).is_ok());
}

#[test]
fn the_grid_of_fixed_point_avoids_no_data() {
    for max_error in [1.0 / 128.0, 0.007_812_6, 0.01, 1e-4] {
        for no_data in [0.0, -0.25, 0.5, 0.492_187_5] {
            for dtype in [Dtype::F32, Dtype::F64] {
                // In float64, the smallest value is just above no-data. Rounded down to float32 to become the offset,
                // it would equal no-data.
                let values: Vec<f64> = (0..4096).map(|i| f64::from(i) / 4096.0 + no_data + 1e-12).collect();
                let array = cube(&[&values[..], &[no_data; 2], &[no_data + 1.0; 2]].concat(), 2, dtype);
                let encoded = encode(ValueRule::Fixed { max_error }, &array, no_data).unwrap();
                check(&array, &encoded, no_data);
                assert!(encoded.fidelity.max_abs_error <= max_error);
            }
        }
    }
}

#[test]
fn the_grid_avoids_no_data_among_the_bands_of_a_cube() {
    // A step is about 30 times the spacing of float32 values here, so in about one of 30 bands a step coincides with
    // no-data.
    let bands = 256;
    let values: Vec<f64> = (0..bands * 64)
        .map(|i| {
            let (pixel, band) = (f64::from(i / bands), f64::from(i % bands));
            -1.01 - band * 1.7e-6 + pixel * 3.3e-4
        })
        .collect();
    let mut array = values.clone();
    array[5] = -1.0;
    // Add a value next to no-data to each band, so that the encoder has to use the step next to no-data.
    let near = values.len() - bands as usize;
    array[near..].fill(-1.0 + 4e-7);
    let array = cube(&array, bands as usize, Dtype::F64);
    let rule = ValueRule::Fixed { max_error: 2.1e-6 };
    let encoded = encode(rule, &array, -1.0).unwrap();
    assert!(matches!(encoded.descriptor.transform, Transform::Fixed { .. }));
    check(&array, &encoded, -1.0);
    assert!(encoded.fidelity.max_abs_error <= 2.1e-6);
}

#[test]
fn fixed_point_refuses_where_no_grid_avoids_no_data() {
    // The steps are finer than float32. For any offset, the float32 nearest to the first value is no-data.
    let array = cube(&[1.0 + 1e-12, 1.0 + 3e-7, 1.0 - 3e-7, 1.0 - 2e-7], 1, Dtype::F64);
    let error = encode(ValueRule::Fixed { max_error: 6.3e-8 }, &array, 1.0).unwrap_err();
    let expected = EncodeError::BecomesNoData { position: vec![0, 0, 0], value: 1.0 + 1e-12, no_data: 1.0 };
    assert_eq!(error, expected);
}

proptest! {
    #[test]
    fn no_data_is_restored(
        picks in prop::collection::vec((0..12_usize, -1.0..1.0_f64), 1..400),
        bands in 1..5_usize,
        scale in prop::sample::select(vec![1e-7, 1e-3, 1.0, 300.0]),
        no_data in prop::sample::select(vec![0.0, -0.0, -1.0, 0.5, 0.1, -9999.0, -3.4e38]),
        max_error in prop::sample::select(vec![0.25, 0.01, 0.007_812_5]),
        double: bool,
    ) {
        let special = [no_data, f64::NAN, no_data * (1.0 + 1e-6), no_data + 1e-8, no_data * (1.0 - 1e-5), -0.0];
        let values: Vec<f64> = picks.iter().map(|&(i, v)| special.get(i).copied().unwrap_or(v * scale)).collect();
        let pixels = values.len() / bands;
        let array = cube(&values[..pixels * bands], bands, if double { Dtype::F64 } else { Dtype::F32 });
        for rule in [
            ValueRule::F16,
            ValueRule::IntegerOrF16,
            ValueRule::Fixed { max_error },
            ValueRule::IntegerOrF16OrFixed { max_error },
        ] {
            match encode(rule, &array, no_data) {
                Ok(encoded) => check(&array, &encoded, no_data),
                Err(EncodeError::OutOfRange { .. } | EncodeError::ErrorBound { .. }) => {}
                Err(EncodeError::BecomesNoData { .. }) => prop_assert!(rule != ValueRule::IntegerOrF16),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
