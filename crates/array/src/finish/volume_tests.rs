//! Tests boxes that have an affine map or a low resolution against slow reference implementations.

use super::{As, Factors, Fill, Finish};
use crate::region::Voxels;
use crate::turn::Turn;
use crate::volume_warp::{VolumeShape, VolumeWarp};
use crate::warp::{Resampling, Warp};
use proptest::prelude::*;
use shardpack_format::{Dtype, Error, Layout};

const SHAPE: VolumeShape = VolumeShape { sides: [9, 11, 13], channels: 2 };
const WITHIN: Voxels = Voxels { origin: [0; 3], size: SHAPE.sides };
const PART: Voxels = Voxels { origin: [2, 3, 4], size: [5, 6, 6] };
/// A rotation about all three axes, with scaling and shifts.
const MAP: [f64; 12] = [0.8, -0.5, 0.3, 4.25, 0.45, 0.9, -0.2, -0.5, -0.25, 0.35, 1.1, 0.75];

fn elements() -> Vec<f32> {
    let count = SHAPE.sides.iter().product::<u64>() * SHAPE.channels;
    (0..count).map(|n| ((n * 7919) % 1009) as f32 / 64.0 - 5.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn applied(finish: &Finish, part: Voxels, values: &[f32]) -> Vec<f32> {
    let mut out = vec![0; (part.size.iter().product::<u64>() * SHAPE.channels * 4) as usize];
    finish.apply_to_volume(Dtype::F32, &SHAPE, part, &bytes(values), &mut out).unwrap();
    out.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn mean(map: [f64; 12], low: Vec<Option<[u64; 3]>>) -> VolumeWarp {
    VolumeWarp { map, sampling: Resampling::Bilinear { outside: 0.5 }, within: WITHIN, low }
}

/// Returns the value of a channel at a voxel, or `None` outside the volume.
fn value(values: &[f32], at: [i64; 3], channel: usize) -> Option<f64> {
    let [depth, height, width] = SHAPE.sides.map(|side| side as i64);
    let [z, y, x] = at;
    let is_inside = (0..depth).contains(&z) && (0..height).contains(&y) && (0..width).contains(&x);
    is_inside.then(|| f64::from(values[2 * ((z * height + y) * width + x) as usize + channel]))
}

/// Returns the point of the volume that is sampled for voxel `at` of box `part`, with one coordinate per axis.
fn place(map: [f64; 12], part: Voxels, at: [u64; 3]) -> [f64; 3] {
    let [z, y, x] = [0, 1, 2].map(|axis| at[axis] as f64 + 0.5 - part.size[axis] as f64 / 2.0);
    [0, 1, 2].map(|axis| {
        let row = 8 - 4 * axis;
        let middle = part.origin[axis] as f64 + part.size[axis] as f64 / 2.0;
        map[row] * x + map[row + 1] * y + map[row + 2] * z + map[row + 3] + middle
    })
}

fn voxels(part: Voxels) -> impl Iterator<Item = [u64; 3]> {
    let [planes, rows, columns] = part.size;
    (0..planes * rows * columns).map(move |n| [n / (rows * columns), n / columns % rows, n % columns])
}

#[test]
fn voxels_are_means_of_the_eight_around_them() {
    let values = elements();
    let found = applied(&Finish { volume: Some(mean(MAP, Vec::new())), ..Finish::NOTHING }, PART, &values);
    let mut outside = 0;
    for (n, at) in voxels(PART).enumerate() {
        let place = place(MAP, PART, at).map(|at| at - 0.5);
        for channel in 0..2 {
            let (mut expected, first) = (0.0, place.map(f64::floor));
            for corner in 0..8_i64 {
                let next = [corner / 4, corner / 2 % 2, corner % 2];
                let weight = |axis: usize| {
                    let beyond = place[axis] - first[axis];
                    if next[axis] == 1 { beyond } else { 1.0 - beyond }
                };
                let from = value(&values, [0, 1, 2].map(|axis| first[axis] as i64 + next[axis]), channel);
                outside += u32::from(from.is_none());
                expected += weight(0) * weight(1) * weight(2) * from.unwrap_or(0.5);
            }
            let got = f64::from(found[2 * n + channel]);
            assert!((got - expected).abs() < 1e-5, "{at:?} {channel}: {got}, expected {expected}");
        }
    }
    assert!(outside > 50, "{outside}");
}

#[test]
fn masks_take_the_nearest_voxel() {
    let shape = VolumeShape { channels: 1, ..SHAPE };
    let count = SHAPE.sides.iter().product::<u64>();
    let classes: Vec<u8> = (0..count).map(|n| (n * 31 % 250) as u8).collect();
    let sampling = Resampling::Nearest { outside: 255.0 };
    let volume = Some(VolumeWarp { map: MAP, sampling, within: WITHIN, low: Vec::new() });
    let mut out = vec![0; 180];
    Finish { volume, ..Finish::NOTHING }.apply_to_volume(Dtype::U8, &shape, PART, &classes, &mut out).unwrap();
    let mut outside = 0;
    for (at, found) in voxels(PART).zip(out) {
        let [z, y, x] = place(MAP, PART, at);
        let is_inside = [z, y, x].iter().zip(SHAPE.sides).all(|(at, side)| *at >= 0.0 && *at < side as f64);
        let number = (z as usize * 11 + y as usize) * 13 + x as usize;
        assert_eq!(found, if is_inside { classes[number] } else { 255 }, "{at:?}");
        outside += u32::from(!is_inside);
    }
    assert!(outside > 5, "{outside}");
}

#[test]
fn a_low_resolution_takes_the_voxels_at_the_centres_and_is_linear_between_them() {
    let values = elements();
    let low = [3, 4, 2];
    let finish = Finish { volume: Some(mean(VolumeWarp::STILL, vec![None, Some(low)])), ..Finish::NOTHING };
    let found = applied(&finish, PART, &values);
    let own = |at: [u64; 3], channel| {
        let at = [0, 1, 2].map(|axis| (PART.origin[axis] + at[axis]) as i64);
        value(&values, at, channel).unwrap()
    };
    for (n, at) in voxels(PART).enumerate() {
        assert_eq!(f64::from(found[2 * n]), own(at, 0), "the first channel keeps its resolution");
        // Follow PyTorch's definitions of `nearest-exact` and `trilinear`.
        let taps = [0, 1, 2].map(|axis| {
            let (full, few) = (PART.size[axis] as f64, low[axis] as f64);
            let source = ((at[axis] as f64 + 0.5) * few / full - 0.5).max(0.0);
            let first = source.floor();
            let of = |n: f64| ((n.min(few - 1.0) + 0.5) * full / few).floor() as u64;
            [(of(first), 1.0 - (source - first)), (of(first + 1.0), source - first)]
        });
        let mut expected = 0.0;
        for corner in 0..8 {
            let [z, y, x] = [taps[0][corner / 4], taps[1][corner / 2 % 2], taps[2][corner % 2]];
            expected += z.1 * y.1 * x.1 * own([z.0, y.0, x.0], 1);
        }
        let got = f64::from(found[2 * n + 1]);
        assert!((got - expected).abs() < 1e-5, "{at:?}: {got}, expected {expected}");
    }
}

#[test]
fn the_map_comes_before_the_low_resolution() {
    let (values, low) = (elements(), vec![Some([2, 3, 3]), Some([5, 6, 5])]);
    let both = applied(&Finish { volume: Some(mean(MAP, low.clone())), ..Finish::NOTHING }, PART, &values);
    let moved = applied(&Finish { volume: Some(mean(MAP, Vec::new())), ..Finish::NOTHING }, PART, &values);
    let shape = VolumeShape { sides: PART.size, ..SHAPE };
    let alone = Voxels { origin: [0; 3], ..PART };
    let volume = Some(VolumeWarp { within: alone, ..mean(VolumeWarp::STILL, low) });
    let mut out = vec![0; bytes(&moved).len()];
    Finish { volume, ..Finish::NOTHING }.apply_to_volume(Dtype::F32, &shape, alone, &bytes(&moved), &mut out).unwrap();
    assert_eq!(out, bytes(&both));
}

proptest! {
    /// A map that stays within planes must have the same effect as the map of an array, applied plane by plane.
    /// Flips and rotations are applied after either map.
    #[test]
    fn maps_within_planes_are_those_of_arrays(
        (a, b, c, d, e, f) in (0.4..1.6, -0.9..0.9, -2.0..2.0, -0.9..0.9, 0.4..1.6, -2.0..2.0),
        (flips, transpose, is_nearest) in (0..8_u8, any::<bool>(), any::<bool>()),
        to in prop::sample::select(&[As::F32, As::F16, As::Bf16][..]),
        no_data in prop::option::of(prop::sample::select(&[-5.0, 1.5, f64::NAN][..])),
    ) {
        let values = elements();
        let sampling = match is_nearest {
            true => Resampling::Nearest { outside: 7.0 },
            false => Resampling::Bilinear { outside: 7.0 },
        };
        let turn = Turn { flip_planes: flips & 1 == 1, flip_rows: flips & 2 == 2, flip_columns: flips & 4 == 4, transpose };
        let plain = Finish {
            to,
            factors: Some(Factors::new(&[1.0, 2.0], &[0.5, 3.0]).unwrap()),
            fill: no_data.map(|no_data| Fill { no_data, with: -9.0 }),
            turn,
            ..Finish::NOTHING
        };
        let map = [a, b, 0.0, c, d, e, 0.0, f, 0.0, 0.0, 1.0, 0.0];
        let volume = Some(VolumeWarp { map, sampling, within: PART, low: Vec::new() });
        let size = to.of(Dtype::F32).unwrap().size();
        let mut found = vec![0; 5 * 6 * 6 * 2 * size];
        let moved = Finish { volume, ..plain.clone() };
        moved.apply_to_volume(Dtype::F32, &SHAPE, PART, &bytes(&values), &mut found).unwrap();
        let flat = Finish { warp: Some(Warp { map: [a, b, c, d, e, f], sampling }), ..plain };
        let mut expected = Vec::new();
        for plane in 0..5_u64 {
            let plane = if turn.flip_planes { 4 - plane } else { plane };
            let rows = (0..6).flat_map(|row| {
                let start = 2 * (((2 + plane) * 11 + 3 + row) * 13 + 4) as usize;
                bytes(&values[start..start + 12])
            });
            let mut out = vec![0; 72 * size];
            flat.apply(Dtype::F32, [6, 6, 2], Layout::AsShape, &rows.collect::<Vec<u8>>(), &mut out).unwrap();
            expected.extend(out);
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let values = bytes(&elements());
    let mut out = vec![0; 5 * 6 * 6 * 2 * 4];
    let mut refused = |volume: Option<VolumeWarp>, part: Voxels, told: &str| {
        let error = Finish { volume, ..Finish::NOTHING }.apply_to_volume(Dtype::F32, &SHAPE, part, &values, &mut out);
        match error {
            Err(Error::Usage { .. }) => assert!(format!("{error:?}").contains(told), "{error:?}"),
            other => panic!("{told}: {other:?}"),
        }
    };
    let still = || mean(VolumeWarp::STILL, Vec::new());
    refused(None, PART, "`Finish::volume` must be set");
    refused(Some(still()), Voxels { origin: [5, 0, 0], size: PART.size }, "is not within");
    refused(Some(VolumeWarp { within: Voxels { origin: [1; 3], ..WITHIN }, ..still() }), PART, "is not within");
    refused(Some(mean(MAP, vec![Some([1, 1, 1])])), PART, "low resolution");
    refused(Some(mean(MAP, vec![None, Some([6, 6, 6])])), PART, "low resolution");
    refused(Some(mean(MAP, vec![None, Some([0, 6, 6])])), PART, "low resolution");
    let nearest = Resampling::Nearest { outside: 0.0 };
    refused(Some(VolumeWarp { sampling: nearest, low: vec![None, None], ..still() }), PART, "low resolution");
    refused(Some(still()), Voxels { origin: [0; 3], size: [1; 3] }, "output buffer");
    let array = Finish { volume: Some(still()), ..Finish::NOTHING };
    let error = array.apply(Dtype::F32, [1, 1, 1], Layout::AsShape, &[0; 4], &mut [0; 4]).unwrap_err();
    assert!(error.to_string().contains("only to patches of volumes"), "{error}");
}
