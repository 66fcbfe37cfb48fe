//! Tests that boxes of volumes equal the host's results, bit for bit.

use super::cases;
use super::generate::{Fill, array, moves};
use super::harness::{Item, upload_bytes};
use super::strategies::settings;
use super::values::{ALL, compare};
use crate::cubes::Most;
use proptest::prelude::*;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Factors, Fill as NoData, Filter, Finish, Resampling, Turn,
    ValueRule, VolumeWarp, Voxels,
};
use shardpack_format::Dtype;
use shardpack_loader::stage::ArrayPart;

fn part(sides: [u64; 3], draws: [u64; 6]) -> Voxels {
    let [a, b, c, d, e, f] = draws;
    let [depth, height, width] = sides;
    let origin = [a % depth, b % height, c % width];
    let mut size = [1 + d % (depth - origin[0]), 1 + e % (height - origin[1]), 1 + f % (width - origin[2])];
    // Some boxes have all rows or all columns, and some have square planes.
    match (a + b) % 4 {
        0 => return Voxels { origin: [origin[0], 0, origin[2]], size: [size[0], height, size[2]] },
        1 => return Voxels { origin: [origin[0], 0, 0], size: [size[0], height, width] },
        2 => {
            let side = size[1].min(size[2]);
            size = [size[0], side, side];
        }
        _ => {}
    }
    Voxels { origin, size }
}

fn finish(dtype: Dtype, voxels: Voxels, channels: u64, to: As, seed: u64) -> Finish {
    let to = if to.of(dtype).is_ok() { to } else { As::Decoded };
    let is_float = to.of(dtype).is_ok_and(|element| As::float(element).is_some());
    let [_, rows, columns] = voxels.size;
    let means: Vec<f64> = (0..channels).map(|n| 30.0 - 1.5 * n as f64).collect();
    let turn = Turn {
        flip_planes: seed & 1 == 1,
        flip_rows: seed & 2 == 2,
        flip_columns: seed & 4 == 4,
        transpose: seed & 8 == 8 && rows == columns,
    };
    let turn = if seed & 16 == 16 { Turn::NONE } else { turn };
    Finish {
        to,
        factors: (is_float && seed & 32 == 32).then(|| Factors::new(&means, &[0.3]).unwrap()),
        fill: (is_float && seed & 64 == 64).then_some(NoData { no_data: -1.0, with: -5.5 }),
        warp: moves(seed, true, is_float, [rows, columns]),
        turn,
        ..Finish::NOTHING
    }
}

/// Generates a map across the planes of a volume, a low resolution for some channels of a box, or both.
fn volume_warp(seed: u64, sides: [u64; 3], part: Voxels, channels: u64, is_float: bool) -> VolumeWarp {
    let draw = |n: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n * n * 77_003) >> 7) % 1000;
    let ranges = [(0.4, 1.6), (-0.7, 0.7), (-0.7, 0.7), (-4.0, 4.0)];
    let map = match seed % 5 {
        0 => VolumeWarp::STILL,
        // A quarter turn whose source positions are between voxels.
        1 => [0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 1.0],
        2 => [1.0, 0.0, 0.0, 1e6, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        _ => std::array::from_fn(|n| {
            let column = if n % 4 == n / 4 { 0 } else { 1 + 2 * usize::from(n % 4 == 3) };
            let (low, high): (f64, f64) = ranges[column];
            low + (high - low) * draw(n as u64) as f64 / 1000.0
        }),
    };
    let is_low = is_float && (map == VolumeWarp::STILL || seed.is_multiple_of(3));
    let low = |channel: u64| {
        let share = draw(20 + channel);
        (share % 4 != 0).then(|| part.size.map(|side| (side * share / 1000).max(1)))
    };
    let sampling = match is_float {
        true => Resampling::Bilinear { outside: 2.5 },
        false => Resampling::Nearest { outside: 1.0 },
    };
    let within = if seed.is_multiple_of(7) { part } else { Voxels { origin: [0; 3], size: sides } };
    VolumeWarp { map, sampling, within, low: if is_low { (0..channels).map(low).collect() } else { Vec::new() } }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(70)))]
    #[test]
    fn any_box_is_moved_across_planes_as_the_host_does(
        dtype in prop::sample::select(Dtype::ALL),
        sides in (1..14_u64, 1..30_u64, 1..50_u64),
        channels in prop::option::of(1..5_u64),
        fill in prop::sample::select(&[Fill::Smooth, Fill::Counts, Fill::Bits(8), Fill::Constant(3)][..]),
        settings in settings(),
        to in prop::sample::select(&ALL[..]),
        boxes in prop::collection::vec((any::<[u16; 6]>(), any::<u64>(), any::<bool>()), 1..4),
        seed: u32,
    ) {
        let sides = [sides.0, sides.1, sides.2];
        let shape = sides.into_iter().chain(channels).collect();
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array(dtype, shape, fill, seed), Some(-1.0));
        prop_assume!(encoded.is_ok());
        let encoded = encoded.unwrap();
        let items: Vec<Item> = boxes.into_iter().map(|(draws, seed, staged)| {
            let voxels = part(sides, draws.map(u64::from));
            let channels = channels.unwrap_or(1);
            let finish = finish(encoded.descriptor.decoded, voxels, channels, to, seed);
            let element = finish.to.of(encoded.descriptor.decoded).unwrap();
            // Floats may also use the nearest voxel.
            let is_mixed = As::float(element).is_some() && seed & 128 == 0;
            let volume = Some(volume_warp(seed >> 8, sides, voxels, channels, is_mixed));
            Item { voxels: Some(voxels), finish: Finish { volume, warp: None, ..finish }, staged, ..Item::of(&encoded) }
        }).collect();
        compare(&items);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(70)))]
    #[test]
    fn any_box_is_decoded_as_the_host_does(
        dtype in prop::sample::select(Dtype::ALL),
        sides in (1..14_u64, 1..40_u64, 1..70_u64),
        channels in prop::option::of(1..5_u64),
        fill in prop::sample::select(&[Fill::Smooth, Fill::Counts, Fill::Bits(8), Fill::Constant(3)][..]),
        settings in settings(),
        to in prop::sample::select(&ALL[..]),
        boxes in prop::collection::vec((any::<[u16; 6]>(), any::<u64>(), any::<bool>()), 1..4),
        seed: u32,
    ) {
        let sides = [sides.0, sides.1, sides.2];
        let shape = sides.into_iter().chain(channels).collect();
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array(dtype, shape, fill, seed), Some(-1.0));
        prop_assume!(encoded.is_ok());
        let encoded = encoded.unwrap();
        let items: Vec<Item> = boxes.into_iter().map(|(draws, seed, staged)| {
            let voxels = part(sides, draws.map(u64::from));
            let finish = finish(encoded.descriptor.decoded, voxels, channels.unwrap_or(1), to, seed);
            Item { voxels: Some(voxels), finish, staged, ..Item::of(&encoded) }
        }).collect();
        compare(&items);
    }
}

/// A volume has several blocks, and only the blocks of the box are uploaded.
#[test]
fn boxes_of_long_volumes_without_the_other_blocks() {
    let part = Voxels { origin: [11, 20, 9], size: [7, 12, 30] };
    for (n, (layout, channels)) in [
        (ArrayLayout::AsShape, None),
        (ArrayLayout::AsShape, Some(3)),
        (ArrayLayout::BandMajor, None),
        (ArrayLayout::BandMajor, Some(2)),
    ]
    .into_iter()
    .enumerate()
    {
        for (coder, filter) in [
            (Coder::Blosc2Lz4, Filter::Shuffle),
            (Coder::Blosc2Lz4, Filter::Bitshuffle),
            (Coder::Blosc2Zstd, Filter::Bytedelta),
            (Coder::Raw, Filter::None),
        ] {
            let shape: Vec<u64> = [60, 90, 70].into_iter().chain(channels).collect();
            let volume = array(Dtype::I16, shape, Fill::Counts, n as u32);
            let (level, band_difference) = (coder.default_level(), n % 2 == 1);
            let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference, layout };
            let encoded = ArrayEncoder::new(settings).unwrap().encode(&volume, None).unwrap();
            let turn = Turn { flip_planes: true, ..Turn::new(true, false, 0) };
            let finish = Finish { to: As::F32, turn, ..Finish::NOTHING };
            let plain = Item { voxels: Some(part), ..Item::of(&encoded) };
            let items = [plain.clone(), Item { finish, staged: true, ..plain }];
            compare(&items);
            // If a volume is stored column by column, the elements of a box are spread over the
            // whole volume.
            let is_near = layout == ArrayLayout::AsShape || channels.is_some();
            let most = Most::of(&encoded.descriptor, Some(ArrayPart::Voxels(&part)));
            assert_eq!(most.is_small(), is_near, "{:?}", encoded.descriptor);
            assert!(!is_near || upload_bytes(&items[..1]) < encoded.payload.len() / 2, "{:?}", encoded.descriptor);
        }
    }
}

/// A moved box needs blocks beyond its own, but not all.
#[test]
fn the_reach_of_a_moved_box_is_uploaded() {
    let part = Voxels { origin: [21, 40, 29], size: [7, 12, 16] };
    let volume = array(Dtype::I16, vec![60, 90, 70], Fill::Counts, 3);
    let coder = Coder::Blosc2Lz4;
    let settings = ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: coder.default_level(),
        filter: Filter::Shuffle,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    let encoded = ArrayEncoder::new(settings).unwrap().encode(&volume, None).unwrap();
    let item = |map: [f64; 12]| {
        let sampling = Resampling::Bilinear { outside: 0.0 };
        let within = Voxels { origin: [0; 3], size: [60, 90, 70] };
        let volume = Some(VolumeWarp { map, sampling, within, low: Vec::new() });
        let finish = Finish { to: As::F32, volume, ..Finish::NOTHING };
        Item { voxels: Some(part), finish, ..Item::of(&encoded) }
    };
    // A quarter turn about the width axis.
    let turned = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.6, 0.0, 0.0];
    let items = [item(VolumeWarp::STILL), item(turned)];
    compare(&items);
    let [still, moved] = [&items[..1], &items[1..]].map(upload_bytes);
    assert!(still < moved && moved < encoded.payload.len(), "{still} {moved} of {}", encoded.payload.len());
}
