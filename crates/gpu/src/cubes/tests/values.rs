//! Tests that every value equals the value from the host, bit for bit.

use super::cases;
use super::generate::{Fill, array, finish, region};
use super::harness::{Item, play};
use super::strategies::{arrays, settings};
use crate::cubes::SOURCE;
use proptest::prelude::*;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, As, Bands, Coder, Factors, Filter, Finish, Region, Turn, ValueRule,
    decoded_as,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Layout};
use shardpack_gpu_play::{MANNERS, Manner};

pub(super) const ALL: [As; 4] = [As::Decoded, As::F16, As::Bf16, As::F32];

pub(super) fn compare(items: &[Item]) {
    compare_in(items, &MANNERS);
}

/// Same as [`compare`], but the kernels run in the manner number `n` alone: for long arrays, which take seconds.
fn compare_long(items: &[Item], n: usize) {
    compare_in(items, &MANNERS[n % 2..=n % 2]);
}

fn compare_in(items: &[Item], manners: &[Manner]) {
    let expected: Vec<Vec<u8>> = items.iter().map(|item| item.on_the_host().unwrap()).collect();
    for &manner in manners {
        let found = play(items, manner);
        for ((item, expected), found) in items.iter().zip(&expected).zip(found) {
            let found = found.expect("an array that the device takes").unwrap();
            if *expected != found {
                let at = expected.iter().zip(&found).position(|(a, b)| a != b);
                panic!(
                    "{:?} {:?} {:?} {:?}: differs at {at:?} of {}",
                    item.descriptor,
                    item.region,
                    item.voxels,
                    item.finish,
                    expected.len()
                );
            }
        }
    }
}

#[test]
fn host_and_kernels_agree_on_sizes_and_constants() {
    SOURCE.assert_same();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(50)))]
    #[test]
    fn any_array_is_decoded_as_the_host_does(
        array in arrays(),
        settings in settings(),
        no_data in prop::option::of(Just(-1.0)),
        to in prop::sample::select(&ALL[..]),
        normalises: bool,
        turn: u64,
        seed: u64,
        wider in prop::option::of(prop::sample::select(Dtype::ALL)),
        staged: bool,
    ) {
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, no_data);
        prop_assume!(encoded.is_ok());
        let encoded = encoded.unwrap();
        let wider = wider.and_then(|dtype| decoded_as(&encoded.descriptor, dtype));
        let descriptor = wider.unwrap_or_else(|| encoded.descriptor.clone());
        let whole = Item { staged, descriptor, ..Item::of(&encoded) };
        let mut items = vec![whole.clone()];
        if let Some(region) = region(&whole.descriptor.shape, seed) {
            items.push(Item { region: Some(region), staged: !staged, ..whole.clone() });
        }
        for item in &mut items {
            let region = item.region.as_ref();
            let decoded = region.map_or(item.descriptor.decoded, |r| r.shape_of(&item.descriptor).unwrap().dtype);
            item.finish = finish(&item.descriptor, region, decoded, (to, normalises, turn));
        }
        compare(&items);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20)))]
    /// Decodes cubes whose pixels are read four at a time: whole or in parts, with any number of bands, flipped and
    /// turned, in all types and orders of axes.
    #[test]
    fn cubes_walked_by_four_are_decoded_as_the_host_does(
        dtype in prop::sample::select(&[Dtype::F16, Dtype::U16, Dtype::I16][..]),
        (rows, fours, bands) in (1..24_u64, 1..13_u64, prop_oneof![1..40_u64, 100..101_u64, 120..300_u64]),
        fill in prop::sample::select(&[Fill::Smooth, Fill::Constant(3), Fill::Bits(8), Fill::Bits(2)][..]),
        filter in prop::sample::select(&[Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta][..]),
        band_difference: bool,
        seed: u32,
        part in (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        some_bands in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
        by_band: bool,
        to in prop::sample::select(&ALL[..]),
        normalises: bool,
        turn: u64,
    ) {
        let columns = 4 * fours;
        let coder = if filter == Filter::None { Coder::Raw } else { Coder::Blosc2Lz4 };
        let layout = ArrayLayout::BandMajor;
        let settings = ArraySettings { values: ValueRule::Keep, coder, level: None, filter, band_difference, layout };
        let cube = array(dtype, vec![rows, columns, bands], fill, seed);
        let whole = Item::of(&ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap());
        let (y, x) = (part.0.index(rows as usize) as u64, 4 * part.1.index(fours as usize) as u64);
        let width = 4 * (1 + part.2.index((columns - x) as usize / 4) as u64);
        let mut region = Region::new(y, x, rows - y, width);
        if by_band {
            region.layout = Layout::BandMajor;
        }
        if let Some((first, last)) = some_bands {
            let (first, last) = (first.index(bands as usize) as u64, last.index(bands as usize) as u64);
            region.bands = Bands::Range(first.min(last)..first.max(last) + 1);
        }
        let mut items = vec![whole.clone(), Item { region: Some(region), staged: true, ..whole }];
        for item in &mut items {
            let region = item.region.as_ref();
            item.finish = finish(&item.descriptor, region, dtype, (to, normalises, turn));
        }
        compare(&items);
    }
}

const CODERS: [(Coder, Filter); 7] = [
    (Coder::Raw, Filter::None),
    (Coder::Blosc2Lz4, Filter::None),
    (Coder::Blosc2Lz4, Filter::Shuffle),
    (Coder::Blosc2Lz4, Filter::Bitshuffle),
    (Coder::Blosc2Lz4, Filter::Bytedelta),
    (Coder::Blosc2Zstd, Filter::Shuffle),
    (Coder::Zstd, Filter::None),
];

/// Storage orders of the values. The flag is true if the bands are stored as differences.
const ARRANGEMENTS: [(ArrayLayout, bool); 4] = [
    (ArrayLayout::AsShape, false),
    (ArrayLayout::AsShape, true),
    (ArrayLayout::BandMajor, false),
    (ArrayLayout::BandMajor, true),
];

/// Only the needed blocks are uploaded. Each codec and filter is tested in one arrangement of the values.
#[test]
fn parts_of_long_cubes_without_the_other_blocks() {
    let uploaded_less = (0..).zip(CODERS).map(|(n, coder)| part_uploads_less(coder, ARRANGEMENTS[n % 4]));
    assert!(uploaded_less.filter(|less| *less).count() >= 3);
}

#[test]
#[ignore = "minutes: the long campaign"]
fn parts_of_long_cubes_in_every_arrangement() {
    let all = CODERS.into_iter().flat_map(|coder| ARRANGEMENTS.map(|arrangement| (coder, arrangement)));
    let less = all.filter(|(coder, arrangement)| part_uploads_less(*coder, *arrangement)).count();
    // In shape order, the first part needs fewer blocks than the array, so less is uploaded with every codec except
    // plain zstd. In band-major order, the part has rows of every band and needs every block.
    assert!(less >= 12, "{less} of 28");
}

fn part_uploads_less((coder, filter): (Coder, Filter), (layout, band_difference): (ArrayLayout, bool)) -> bool {
    let cube = array(Dtype::U16, vec![71, 90, 40], Fill::Counts, 7);
    let whole = Region::new(0, 0, 71, 90);
    let parts = [
        Region::new(3, 70, 9, 8),
        Region { bands: Bands::Range(7..9), ..Region::new(62, 0, 9, 90) },
        Region { bands: Bands::List(vec![39, 0, 20]), layout: Layout::BandMajor, ..Region::new(30, 41, 1, 1) },
        Region { bands: Bands::Range(39..40), ..whole },
    ];
    let level = coder.default_level();
    let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference, layout };
    let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
    let item = |(n, region): (usize, &Region)| {
        let to = [As::Decoded, As::F32, As::F16, As::Bf16][n];
        Item { region: Some(region.clone()), finish: to.into(), staged: n % 2 == 1, ..Item::of(&encoded) }
    };
    let items: Vec<Item> = parts.iter().enumerate().map(item).collect();
    compare(&items);
    super::harness::upload_bytes(&items[..1]) < encoded.payload.len() / 2
}

/// The array has two frames of plain zstd. Each frame is longer than its window.
#[test]
fn an_array_of_several_frames() {
    let array = array(Dtype::U16, vec![1100, 2000], Fill::Counts, 3);
    // Frames are decoded in the same way in both layouts. One is uploaded from staging memory and cast, the other not,
    // because the emulated kernels take seconds for an array.
    for (n, layout) in [ArrayLayout::AsShape, ArrayLayout::BandMajor].into_iter().enumerate() {
        let (values, coder, filter) = (ValueRule::Keep, Coder::Zstd, Filter::None);
        let settings = ArraySettings { values, coder, level: Some(1), filter, band_difference: false, layout };
        let whole = Item::of(&ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap());
        let part = Item { region: Some(Region::new(1000, 1900, 100, 50)), ..whole.clone() };
        let whole = match layout {
            ArrayLayout::AsShape => Item { staged: true, finish: As::F32.into(), ..whole },
            ArrayLayout::BandMajor => whole,
        };
        let items = [whole, part];
        compare_long(&items, n);
        // If a part of plain zstd is requested, the host decodes the whole array.
        let uploaded = [0, 1].map(|n| super::harness::upload_bytes(&items[n..=n]));
        assert!(uploaded[0] < items[0].payload.len() + (64 << 10) && uploaded[1] > 4_400_000, "{uploaded:?}");
    }
}

/// The arrays have two-byte elements that fill several blocks and a short block.
#[test]
fn long_cubes_of_each_arrangement() {
    let cube = array(Dtype::F16, vec![33, 65, 100], Fill::Smooth, 5);
    let mut turns = 0_u8;
    let filters = [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta];
    for (n, filter) in filters.into_iter().enumerate() {
        let mut items = Vec::new();
        for (layout, band_difference) in ARRANGEMENTS {
            let coder = Coder::Blosc2Lz4;
            let settings =
                ArraySettings { values: ValueRule::Keep, coder, level: None, filter, band_difference, layout };
            let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
            assert_eq!(encoded.codec, Codec::Blosc2);
            let region = Region { layout: Layout::BandMajor, ..Region::new(1, 2, 31, 60) };
            let to = if band_difference { As::F32 } else { As::Bf16 };
            items.push(Item { finish: to.into(), ..Item::of(&encoded) });
            let layout = if turns.is_multiple_of(3) { Layout::BandMajor } else { Layout::AsShape };
            let square = Region { width: 31, layout, ..region.clone() };
            let factors = Factors::new(&[1.0, -20.0], &[0.5, 3.0]).unwrap().of_bands((0..100).map(|b| b % 2)).unwrap();
            let turn = Turn::new(turns & 1 == 1, turns & 2 == 2, turns / 4);
            let finish = Finish { to, factors: (turns % 5 < 3).then_some(factors), turn, ..Finish::NOTHING };
            items.push(Item { region: Some(square), finish, ..Item::of(&encoded) });
            turns += 1;
            items.push(Item { region: Some(region), staged: true, ..Item::of(&encoded) });
        }
        compare_long(&items, n);
    }
}

/// Tests compressible values that fill more than one block of 65,536 elements. LZ4 and zstd alternate.
#[test]
fn long_arrays_of_each_type() {
    long_arrays(|n| if n % 2 == 0 { &[Coder::Blosc2Lz4] } else { &[Coder::Blosc2Zstd] });
}

#[test]
#[ignore = "minutes: the long campaign"]
fn long_arrays_of_each_type_and_codec() {
    long_arrays(|_| &[Coder::Blosc2Lz4, Coder::Blosc2Zstd]);
}

fn long_arrays(coders: impl Fn(usize) -> &'static [Coder]) {
    let all = Dtype::ALL.iter().enumerate().flat_map(|(n, dtype)| coders(n).iter().map(|coder| (*dtype, *coder)));
    for (n, (dtype, coder)) in (0..).zip(all) {
        let arrays = [
            array(dtype, vec![10, 10, 700], Fill::Smooth, n),
            array(dtype, vec![70_001], Fill::Bits(3), n),
            array(dtype, vec![66_000], Fill::Constant(7), n),
        ];
        let mut items = Vec::new();
        let all = [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta];
        for (array, filters) in arrays.iter().zip([&all[..], &all[1..2], &all[2..]]) {
            for &filter in filters {
                let layout = if n / 2 % 2 == 0 { ArrayLayout::AsShape } else { ArrayLayout::BandMajor };
                let settings = ArraySettings {
                    values: ValueRule::Keep,
                    coder,
                    level: coder.default_level(),
                    filter,
                    band_difference: true,
                    layout,
                };
                let encoded = ArrayEncoder::new(settings).unwrap().encode(array, None).unwrap();
                items.push(Item::of(&encoded));
            }
        }
        compare_long(&items, n as usize / 2);
    }
}

#[test]
fn every_float16_is_cast_as_the_host_does() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let descriptor = ArrayDescriptor::plain(Dtype::F16, vec![256, 256]);
    let items = ALL.map(|to| Item {
        codec: Codec::Raw,
        descriptor: descriptor.clone(),
        payload: halves.clone(),
        region: None,
        voxels: None,
        finish: to.into(),
        staged: false,
    });
    let mut all = items.to_vec();
    // The second factors have a scale of 0, so they replace every value, even NaN.
    for factors in [Factors::new(&[0.1], &[3.3]).unwrap(), Factors::of_pairs(vec![(0.0, 7.25)]).unwrap()] {
        let finish = |item: &Item| Finish { factors: Some(factors.clone()), ..item.finish.clone() };
        all.extend(items.iter().map(|item| Item { finish: finish(item), ..item.clone() }));
    }
    compare(&all);
}

/// Tests floats near all values that need special rounding, and integers of all magnitudes.
#[test]
fn odd_floats_and_integers_are_cast_as_the_host_does() {
    let singles: Vec<u32> = (0..=u16::MAX)
        .step_by(7)
        .flat_map(|h| {
            [u32::from(h) << 16, u32::from(h) << 16 | 0x8000, u32::from(h) << 16 | 0x7FFF, u32::from(h) * 0x1_0001]
        })
        .chain((0..=u16::MAX).step_by(3).map(|n| half::f16::from_bits(n).to_f32().to_bits() ^ 0x1000))
        .collect();
    let mut items = Vec::new();
    for to in ALL {
        let doubles = singles.iter().flat_map(|&bits| {
            let exact = f64::from(f32::from_bits(bits)).to_bits();
            [exact, exact ^ 1, exact ^ 1 << 28]
        });
        let integers = (0..1 << 14).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (n % 64));
        let mut item = |dtype: Dtype, payload: Vec<u8>| {
            let count = payload.len() as u64 / dtype.bytes();
            let descriptor = ArrayDescriptor::plain(dtype, vec![count]);
            items.push(Item {
                codec: Codec::Raw,
                descriptor,
                payload,
                region: None,
                voxels: None,
                finish: to.into(),
                staged: true,
            });
        };
        item(Dtype::F32, singles.iter().flat_map(|bits| bits.to_le_bytes()).collect());
        item(Dtype::F64, doubles.flat_map(u64::to_le_bytes).collect());
        for dtype in [Dtype::U64, Dtype::I64, Dtype::U32, Dtype::I32, Dtype::U16, Dtype::I16, Dtype::U8, Dtype::I8] {
            item(dtype, integers.clone().flat_map(u64::to_le_bytes).collect());
        }
    }
    compare(&items);
}
