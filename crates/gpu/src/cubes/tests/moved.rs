//! Tests cubes of two-byte elements whose pixels are means of four pixels. These cubes have their own kernel.

use super::cases;
use super::generate::{Fill, array, region};
use super::harness::Item;
use super::values::compare;
use proptest::prelude::*;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, As, Bands, Coder, Factors, Fill as NoData, Filter, Finish, Region,
    Resampling, Turn, ValueRule, Warp,
};
use shardpack_augment::Affine;
use shardpack_format::{Dtype, Layout};

fn turned(region: &Region, affine: Affine, outside: f32) -> Warp {
    let map = affine.inverse(region.width as f64, region.height as f64);
    Warp { map, sampling: Resampling::Bilinear { outside } }
}

fn affines() -> impl Strategy<Value = Affine> {
    prop_oneof![
        (0..4_u32).prop_map(|quarters| Affine::rotation(f64::from(quarters) * 90.0)),
        (0.0..360.0, -4.0..4.0, -4.0..4.0, 0.4..2.5).prop_map(|(angle, x, y, scale)| Affine {
            angle,
            translate: [x, y],
            scale,
            ..Affine::default()
        }),
        (-9..9_i32, -9..9_i32)
            .prop_map(|(x, y)| Affine { translate: [f64::from(x), f64::from(y)], ..Affine::default() }),
    ]
}

fn settings() -> impl Strategy<Value = ArraySettings> {
    let filter = prop::sample::select(&[Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta][..]);
    let layout = prop_oneof![Just(ArrayLayout::AsShape), Just(ArrayLayout::BandMajor)];
    (filter, layout, any::<bool>()).prop_map(|(filter, layout, band_difference)| {
        let coder = if filter == Filter::None { Coder::Raw } else { Coder::Blosc2Lz4 };
        ArraySettings { values: ValueRule::Keep, coder, level: None, filter, band_difference, layout }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(30)))]
    #[test]
    fn means_of_four_pixels_are_the_hosts(
        dtype in prop::sample::select(&[Dtype::F16, Dtype::U16, Dtype::I16][..]),
        (rows, columns, bands) in (1..40_u64, 1..40_u64, prop_oneof![1..40_u64, 60..70_u64, 100..101_u64, 120..300_u64]),
        fill in prop::sample::select(&[Fill::Smooth, Fill::Constant(3), Fill::Bits(8), Fill::Bits(2)][..]),
        settings in settings(),
        affine in affines(),
        (seed, to) in (any::<u64>(), prop::sample::select(&[As::F32, As::F16, As::Bf16][..])),
        factors in prop::option::of(any::<bool>()),
        no_data in prop::option::weighted(0.2, prop::sample::select(&[-1.0, f64::NAN, 0.0][..])),
    ) {
        let cube = array(dtype, vec![rows, columns, bands], fill, seed as u32);
        let whole = Item::of(&ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap());
        let mut items = Vec::new();
        for (n, region) in [Some(Region::new(0, 0, rows, columns)), region(&[rows, columns, bands], seed)].into_iter().flatten().enumerate() {
            let count = region.shape_of(&whole.descriptor).unwrap().shape[if region.layout == Layout::AsShape { 2 } else { 0 }];
            let pairs = |of_all: bool| (0..if of_all { 1 } else { count.max(1) }).map(|n| (if n % 5 == 4 { 0.0 } else { 0.3 + n as f32 }, -1.5)).collect();
            let turn = Turn {
                flip_planes: false,
                flip_rows: seed & 1 == 1,
                flip_columns: seed & 2 == 2,
                transpose: seed & 4 == 4 && region.height == region.width,
            };
            let finish = Finish {
                to,
                factors: factors.map(|of_all| Factors::of_pairs(pairs(of_all)).unwrap()),
                fill: no_data.map(|no_data| NoData { no_data, with: -5.5 }),
                warp: Some(turned(&region, affine, if seed & 8 == 8 { 2.75 } else { 0.0 })),
                turn,
                ..Finish::NOTHING
            };
            items.push(Item { region: Some(region), finish, staged: n == 1, ..whole.clone() });
        }
        compare(&items);
    }
}

/// The blocks of these cubes end between two bands of a pixel, or within a row of a band.
#[test]
fn means_across_the_blocks_of_long_cubes() {
    let cube = array(Dtype::F16, vec![35, 65, 101], Fill::Smooth, 5);
    for (layout, band_difference) in [
        (ArrayLayout::AsShape, false),
        (ArrayLayout::AsShape, true),
        (ArrayLayout::BandMajor, false),
        (ArrayLayout::BandMajor, true),
    ] {
        let filter = if band_difference { Filter::Bitshuffle } else { Filter::Shuffle };
        let coder = Coder::Blosc2Lz4;
        let settings = ArraySettings { values: ValueRule::Keep, coder, level: None, filter, band_difference, layout };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
        let whole = Region::new(0, 0, 35, 65);
        let parts = [
            whole.clone(),
            Region { layout: Layout::BandMajor, ..whole },
            Region { bands: Bands::Range(31..69), ..Region::new(3, 5, 30, 37) },
        ];
        let items = parts.map(|region| {
            let warp = Some(turned(&region, Affine { angle: 20.0, ..Affine::default() }, 0.0));
            let finish = Finish { to: As::F32, warp, ..Finish::NOTHING };
            Item { region: Some(region), finish, ..Item::of(&encoded) }
        });
        compare(&items);
    }
}
