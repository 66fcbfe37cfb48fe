use super::*;
use crate::{Array, ArrayDecoder, ArrayEncoder, ArraySettings, Coder, EncodedArray, Filter, ValueRule};
use crate::{ArrayLayout, Region};
use proptest::prelude::*;
use shardpack_format::{Codec, Limits};

/// Decodes the values as float64, which is exact for everything in these tests.
fn values(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    macro_rules! of {
        ($type:ty) => {
            bytes.as_chunks().0.iter().map(|bytes| <$type>::from_le_bytes(*bytes) as f64).collect()
        };
    }
    match dtype {
        Dtype::Bool | Dtype::U8 => of!(u8),
        Dtype::I8 => of!(i8),
        Dtype::U16 => of!(u16),
        Dtype::I16 => of!(i16),
        Dtype::U32 => of!(u32),
        Dtype::I32 => of!(i32),
        Dtype::U64 => of!(u64),
        Dtype::I64 => of!(i64),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f64()).collect(),
        Dtype::F32 => of!(f32),
        _ => of!(f64),
    }
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn same_values_in_every_type(encoded: &EncodedArray) -> Vec<Dtype> {
    let (limits, mut decoder) = (Limits::default(), ArrayDecoder::new());
    let EncodedArray { codec, descriptor, payload, .. } = encoded;
    let whole = decoder.decode(*codec, descriptor, payload, &limits).unwrap();
    let expected = bits(&values(whole.dtype(), whole.bytes()));
    let mut found = Vec::new();
    for &dtype in ORDER {
        let Some(other) = decoded_as(descriptor, dtype) else { continue };
        let mut out = vec![0xAA; usize::try_from(other.decoded_bytes().unwrap()).unwrap()];
        decoder.decode_into(*codec, &other, payload, &mut out, &limits).unwrap();
        assert_eq!(bits(&values(dtype, &out)), expected, "{} as {dtype}", descriptor.decoded);
        out.fill(0xAA);
        let region = Region::whole(&other).unwrap();
        decoder.decode_region(*codec, &other, payload, &region, &mut out, &limits).unwrap();
        assert_eq!(bits(&values(dtype, &out)), expected, "{} as {dtype}, as a region", descriptor.decoded);
        found.push(dtype);
    }
    found
}

fn settings(values: ValueRule, band_difference: bool, layout: ArrayLayout) -> ArraySettings {
    ArraySettings { values, coder: Coder::Blosc2Lz4, level: None, filter: Filter::Shuffle, band_difference, layout }
}

fn encode(rule: ValueRule, source: &[f32], no_data: Option<f64>) -> EncodedArray {
    let bytes = source.iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = Array::new(Dtype::F32, vec![source.len() as u64 / 6, 2, 3], bytes).unwrap();
    ArrayEncoder::new(settings(rule, false, ArrayLayout::AsShape)).unwrap().encode(&array, no_data).unwrap()
}

#[test]
fn values_that_float16_holds_can_be_returned_as_float16() {
    let halves: Vec<f32> = (0..12).map(|i| i as f32 / 8.0).collect();
    assert_eq!(same_values_in_every_type(&encode(ValueRule::F16, &halves, None)), [Dtype::F16, Dtype::F32, Dtype::F64]);
    // float16 cannot represent -9999, so no-data is stored as a reserved bit pattern. It can represent -32768.
    let mut marked = halves.clone();
    marked[3] = -9999.0;
    assert_eq!(same_values_in_every_type(&encode(ValueRule::F16, &marked, Some(-9999.0))), [Dtype::F32, Dtype::F64]);
    marked[3] = -32768.0;
    let encoded = encode(ValueRule::F16, &marked, Some(-32768.0));
    assert_eq!(same_values_in_every_type(&encoded), [Dtype::F16, Dtype::F32, Dtype::F64]);
    // Fixed-point values are computed as float32, so float32 represents them exactly.
    let fixed = encode(ValueRule::Fixed { max_error: 0.01 }, &halves.repeat(200), None);
    assert!(matches!(fixed.descriptor.transform, Transform::Fixed { .. }));
    assert_eq!(same_values_in_every_type(&fixed), [Dtype::F32, Dtype::F64]);
}

#[test]
fn stored_integers_decide_the_possible_types() {
    let counts: Vec<f32> = (0..12).map(|i| (i * 20) as f32).collect();
    let stored_small = encode(ValueRule::IntegerOrKeep, &counts, None);
    assert_eq!(stored_small.descriptor.stored, Dtype::U8);
    let types = same_values_in_every_type(&stored_small);
    assert!(types.contains(&Dtype::U8) && types.contains(&Dtype::F16) && !types.contains(&Dtype::I8), "{types:?}");
    let mut holes = counts;
    holes[5] = f32::NAN;
    let holes = encode(ValueRule::IntegerOrKeep, &holes, None);
    assert!(holes.descriptor.codes.nan.is_some());
    assert_eq!(same_values_in_every_type(&holes), [Dtype::F16, Dtype::F32, Dtype::F64], "no integer is NaN");
}

#[test]
fn booleans_become_numbers_and_are_checked() {
    let mut descriptor = ArrayDescriptor::plain(Dtype::Bool, vec![2, 2]);
    descriptor = decoded_as(&descriptor, Dtype::I16).unwrap();
    let mut out = [0; 8];
    let mut decode = |payload| {
        ArrayDecoder::new().decode_into(Codec::Raw, &descriptor, payload, &mut out, &Limits::default()).map(|()| out)
    };
    assert_eq!(decode(&[0, 1, 1, 0]).unwrap(), [0, 0, 1, 0, 1, 0, 0, 0]);
    assert!(decode(&[0, 1, 2, 0]).unwrap_err().to_string().contains("boolean"));
}

#[test]
fn a_common_type_does_not_depend_on_the_order() {
    let plain = |dtype| ArrayDescriptor::plain(dtype, vec![2]);
    let stored = |stored, decoded| ArrayDescriptor { stored, transform: Transform::Integer, ..plain(decoded) };
    // Three masks of one dataset: labels in int64, labels in float32, and plain bytes.
    let masks = [stored(Dtype::U8, Dtype::I64), plain(Dtype::U8), stored(Dtype::U8, Dtype::F32)];
    for turn in 0..3 {
        let mut masks = masks.clone();
        masks.rotate_left(turn);
        assert_eq!(common_dtype(&masks), Some(Dtype::I64));
    }
    for (a, b, expected) in [
        (Dtype::U16, Dtype::F32, Some(Dtype::F32)),
        (Dtype::I32, Dtype::F32, Some(Dtype::F64)),
        (Dtype::F16, Dtype::U8, Some(Dtype::F16)),
        (Dtype::F16, Dtype::U16, Some(Dtype::F32)),
        (Dtype::Bool, Dtype::I8, Some(Dtype::I8)),
        (Dtype::U32, Dtype::I32, Some(Dtype::I64)),
        (Dtype::I64, Dtype::F64, None),
    ] {
        assert_eq!(common_dtype(&[plain(a), plain(b)]), expected);
        assert_eq!(common_dtype(&[plain(b), plain(a)]), expected);
        assert_eq!(common_dtype(&[plain(a), plain(a)]), Some(a), "one type stays");
    }
    assert_eq!(common_dtype(&[]), None);
}

proptest! {
    #[test]
    fn integers_of_any_width_keep_their_values(
        raw in prop::collection::vec(any::<i16>(), 60),
        stored in prop::sample::select(vec![Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I16]),
        band_major in any::<bool>(),
        difference in any::<bool>(),
    ) {
        let width = usize::try_from(stored.bytes()).unwrap();
        let bytes = raw.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect();
        let array = Array::new(stored, vec![4, 5, 3], bytes).unwrap();
        let layout = if band_major { ArrayLayout::BandMajor } else { ArrayLayout::AsShape };
        let settings = settings(ValueRule::Keep, difference, layout);
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let types = same_values_in_every_type(&encoded);
        prop_assert!(types.contains(&Dtype::F32) && types.contains(&Dtype::I32));
    }
}
