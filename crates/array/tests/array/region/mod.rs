//! Compares each region with the same part of the whole array, which is decoded and then cut one element at a time. The
//! number of decoded blocks is compared with a count by hand.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

mod cases;
mod twin;

use proptest::prelude::*;
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, UNIT_BYTES, ValueRule,
};
use shardpack_format::{Codec, Dtype, Limits};
use twin::{Dice, check, slow};

fn coders() -> impl Strategy<Value = (Coder, Option<i32>)> {
    prop_oneof![
        3 => Just((Coder::Blosc2Lz4, None)),
        1 => Just((Coder::Blosc2Lz4hc, Some(3))),
        3 => Just((Coder::Blosc2Zstd, Some(1))),
        2 => Just((Coder::Zstd, Some(1))),
        1 => Just((Coder::Raw, None)),
    ]
}

fn settings(values: ValueRule) -> impl Strategy<Value = ArraySettings> {
    const FILTERS: [Filter; 4] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta];
    const LAYOUTS: [ArrayLayout; 2] = [ArrayLayout::AsShape, ArrayLayout::BandMajor];
    (coders(), prop::sample::select(&FILTERS[..]), prop::sample::select(&LAYOUTS[..]), any::<bool>()).prop_map(
        move |((coder, level), filter, layout, band_difference)| {
            let filter = if coder.has_filters() { filter } else { Filter::None };
            ArraySettings { values, coder, level, filter, band_difference, layout }
        },
    )
}

/// In some of these shapes, a row and a block end at the same element.
fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        6 => (1..20_u64, 1..20_u64, 1..12_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        2 => (1..40_u64, 1..60_u64).prop_map(|(h, w)| vec![h, w]),
        2 => (20..70_u64, 20..90_u64, 10..50_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        1 => (100..300_u64, 200..700_u64).prop_map(|(h, w)| vec![h, w]),
        1 => (16..80_u64).prop_map(|h| vec![h, 64, 32]),
        1 => (1..4_u64, 1..4_u64, 20_000..50_000_u64).prop_map(|(h, w, c)| vec![h, w, c]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(450))]
    #[test]
    fn regions_of_kept_values_are_those_of_the_whole_array(
        settings in prop_oneof![settings(ValueRule::Keep), settings(ValueRule::IntegerOrKeep)],
        dtype in prop::sample::select(Dtype::ALL), shape in shapes(), seed: u32, bits in 0..9_u32,
    ) {
        let mut dice = Dice(seed);
        let mask = if dtype == Dtype::Bool { 1 } else { u8::MAX.checked_shr(8 - bits).unwrap_or(0) };
        let bytes = (0..dtype.array_bytes(&shape).unwrap()).map(|_| (dice.roll() >> 16) as u8 & mask).collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        check(&mut ArrayDecoder::new(), &encoded, &mut dice, 6);
    }

    #[test]
    fn regions_of_transformed_values_are_those_of_the_whole_array(
        settings in prop_oneof![
            settings(ValueRule::F16), settings(ValueRule::IntegerOrF16), settings(ValueRule::Fixed { max_error: 1e-3 }),
            settings(ValueRule::Fixed { max_error: 1e-5 }),
        ],
        wide: bool, shape in shapes(), seed: u32, holes: bool, whole_numbers: bool,
    ) {
        let mut dice = Dice(seed);
        let fixed = matches!(settings.values, ValueRule::Fixed { .. });
        let value = |dice: &mut Dice, i: u64| match dice.below(64) {
            0 if holes => f32::NAN,
            1 if holes => -9999.0,
            2 if holes && fixed => f32::INFINITY,
            n if whole_numbers && !fixed => n as f32,
            n => (i % 97) as f32 / 300.0 + n as f32 / 1e4,
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| value(&mut dice, i)).collect();
        let array = if wide {
            Array::new(Dtype::F64, shape, values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect()).unwrap()
        } else {
            Array::new(Dtype::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap()
        };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, Some(-9999.0)).unwrap();
        check(&mut ArrayDecoder::new(), &encoded, &mut dice, 6);
    }

    #[test]
    fn damaged_payloads_are_a_region_or_an_error(
        settings in settings(ValueRule::Keep), dtype in prop::sample::select(Dtype::ALL), shape in shapes(), seed: u32,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut dice = Dice(seed);
        let mask = if dtype == Dtype::Bool { 1 } else { 15 };
        let bytes = (0..dtype.array_bytes(&shape).unwrap()).map(|_| (dice.roll() >> 16) as u8 & mask).collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        let mut encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let good = encoded.payload.clone();
        for (at, value) in changes {
            // In half of the cases, damage the first 64 bytes of the payload, which contain headers and lengths.
            let near = if dice.below(2) == 0 { good.len() } else { good.len().min(64) };
            encoded.payload[at.index(near)] = value;
        }
        if let Some(cut) = cut {
            encoded.payload.truncate(cut.index(good.len()));
        }
        let mut decoder = ArrayDecoder::new();
        for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2, Codec::Jpeg] {
            let region = dice.region(&encoded.descriptor);
            let mut out = vec![0; region.shape_of(&encoded.descriptor).unwrap().bytes as usize];
            let whole = decoder.decode(codec, &encoded.descriptor, &encoded.payload, &Limits::default());
            let part = decoder.decode_region(codec, &encoded.descriptor, &encoded.payload, &region, &mut out, &Limits::default());
            // If the whole payload is valid, the region must be valid too.
            if let Ok(whole) = whole {
                prop_assert!(part.is_ok(), "{part:?}");
                prop_assert!(out == slow(&whole, &region, &encoded.descriptor));
            }
        }
        // The decoder must retain nothing of the damaged payload.
        encoded.payload = good;
        check(&mut decoder, &encoded, &mut dice, 1);
    }
}

/// Uses a unit of zeros, which is stored as a special chunk, and a unit of noise, which is stored unchanged.
#[test]
fn regions_across_units_and_through_special_chunks() {
    let mut dice = Dice(7);
    let mut decoder = ArrayDecoder::new();
    for (dtype, shape) in [
        (Dtype::U8, vec![300_u64, 100, 400]),
        (Dtype::U16, vec![300, 100, 200]),
        (Dtype::F32, vec![1500, 2000]),
        (Dtype::F64, vec![150, 100, 100]),
    ] {
        let bytes: Vec<u8> = (0..dtype.array_bytes(&shape).unwrap() as usize)
            .map(|i| match i / UNIT_BYTES {
                0 => 0,
                1 => (dice.roll() >> 16) as u8,
                _ => (dice.roll() >> 16) as u8 & 3,
            })
            .collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        for (coder, level) in
            [(Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1)), (Coder::Zstd, Some(1)), (Coder::Raw, None)]
        {
            for (layout, band_difference) in
                [(ArrayLayout::AsShape, false), (ArrayLayout::BandMajor, false), (ArrayLayout::AsShape, true)]
            {
                let values = ValueRule::Keep;
                let filter = if coder.has_filters() { Filter::Shuffle } else { Filter::None };
                let settings = ArraySettings { values, coder, level, filter, band_difference, layout };
                let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
                check(&mut decoder, &encoded, &mut dice, 5);
            }
        }
    }
}
