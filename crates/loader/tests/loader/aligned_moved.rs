//! Tests that masks, boxes, keypoints and polygons follow augmentations that move the pixels of their picture.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::loader_support::aligned::{Scenes, align, batches, options};
use crate::loader_support::fake_stage::{FakeStage, Trouble};
use crate::loader_support::{RowOf, Stored};
use shardpack_array::Array;
use shardpack_augment::{Affine, Augmentation, Operation};
use shardpack_format::*;
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::{Batch, LoaderOptions, Object};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SIZE: [u32; 2] = [40, 48];

/// Returns a stored mask of this height and width, with a different class in every pixel.
fn numbered(height: u64, width: u64) -> Stored {
    let classes: Vec<u8> = (0..height * width).flat_map(|n| (n as u16).to_le_bytes()).collect();
    (Codec::Raw, classes, ArrayDescriptor::plain(Dtype::U16, vec![height, width]).encode().unwrap(), None)
}

fn scenes() -> Scenes {
    Scenes::with(12, |scene, values| {
        let [height, width] = scene.upright().map(u64::from);
        values[1] = Some(numbered(height, width));
    })
}

fn augmented(options: LoaderOptions, all: &[&str]) -> LoaderOptions {
    options.augment_pictures(all.iter().map(|text| text.parse().unwrap()).collect())
}

fn masks(batch: &Batch, row: usize) -> Vec<u16> {
    batch.field("mask").unwrap().row_of(row).as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
}

fn floats(object: Option<&Object>) -> Vec<f64> {
    let Some(Object::Array(array)) = object else { panic!("{object:?}") };
    array.bytes().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
}

/// Returns the maps of a sample, as the augmentations define them.
fn maps(all: &[&str], sample: u64) -> Vec<Affine> {
    let draws = DrawKey { seed: 11, epoch: 0, sample }.draws();
    let all = (0..).zip(all).map(|(place, text)| (place, text.parse::<Augmentation>().unwrap()));
    let operations = all.flat_map(|(place, of)| of.resolve(&draws, place, SIZE[0] as usize, SIZE[1] as usize));
    operations.filter_map(|o| if let Operation::Affine(affine) = o { Some(affine) } else { None }).collect()
}

/// Moves a mask step by step, like its picture.
fn moved(mask: Vec<u16>, maps: &[Affine], outside: u16) -> Vec<u16> {
    maps.iter().fold(mask, |mask, affine| {
        let map = affine.of_size(SIZE[0], SIZE[1]);
        let all = (0..SIZE[0]).flat_map(|y| (0..SIZE[1]).map(move |x| [y, x]));
        let at = |[y, x]: [u32; 2]| mask[(y * SIZE[1] + x) as usize];
        all.map(|place| map.source(place).map_or(outside, at)).collect()
    })
}

const MOVES: [&[&str]; 4] = [
    &["random_affine(degrees=40,translate=0.2:0.1,scale=0.6..1.5,shear=12,shear_y=-5..8,mask_fill=9999)"],
    &["random_rotation(degrees=180,mask_fill=9999)", "random_affine(degrees=0,translate=0.3:0.3,p=0.6,mask_fill=9999)"],
    &["color_jitter(brightness=0.4)", "trivial_augment_wide", "random_erasing(p=1)"],
    &["rand_augment(num_ops=5,magnitude=20)"],
];

#[test]
fn masks_boxes_and_points_are_moved_like_their_picture() {
    let scenes = scenes();
    let (mut moves, mut gone, mut left_out) = (0, 0, 0);
    for (view, all) in
        ["rrc40x48", "pad40x48,flip=0.5", "resize40x48"].into_iter().flat_map(|v| MOVES.map(|all| (v, all)))
    {
        let outside = if all.len() == 2 || all[0].contains("mask_fill") { 9999 } else { 7 };
        let of = |masks: &str| {
            let all =
                [("mask", masks), ("points", "keypoints,swap=0-1"), ("classes", "rows,of=boxes"), ("boxes", "boxes")];
            options(view).seed(11).align(align(&all))
        };
        let still = batches(&scenes, of("mask,fill=7"));
        let found = batches(&scenes, augmented(of("mask,fill=7"), all));
        for (still, found) in still.iter().zip(&found) {
            assert_eq!(still.indices(), found.indices());
            for row in 0..still.len() {
                let sample = found.indices()[row];
                let maps = maps(all, sample);
                moves += maps.len();
                assert_eq!(masks(found, row), moved(masks(still, row), &maps, outside), "{view} {all:?} {sample}");
                let [before, after] = [still, found].map(|batch| floats(batch.objects("boxes").unwrap()[row]));
                let classes = |batch: &Batch| match batch.objects("classes").unwrap()[row] {
                    Some(Object::Array(array)) => array.bytes().to_vec(),
                    other => panic!("{other:?}"),
                };
                let (of_before, of_after) = (classes(still), classes(found));
                let expected: Vec<_> = before
                    .chunks(4)
                    .zip(of_before.chunks(2))
                    .filter_map(|(b, class)| Some((hull(b.try_into().unwrap(), &maps)?, class)))
                    .collect();
                gone += before.len() / 4 - expected.len();
                assert_eq!(after.len(), expected.len() * 4, "{view} {all:?} {sample}");
                for ((expected, class), (after, of_after)) in
                    expected.iter().zip(after.chunks(4).zip(of_after.chunks(2)))
                {
                    assert_eq!(*class, of_after);
                    assert!(expected.iter().zip(after).all(|(a, b)| (a - b).abs() < 1e-4), "{expected:?} {after:?}");
                }
                let [before, after] = [still, found].map(|batch| floats(batch.objects("points").unwrap()[row]));
                for (before, after) in before.chunks(3).zip(after.chunks(3)) {
                    let mut at = (before[2] != 0.0).then_some([before[0], before[1]]);
                    for affine in &maps {
                        at = at.map(|at| affine.of_size(SIZE[0], SIZE[1]).moved(at)).filter(|at| is_inside(*at));
                    }
                    left_out += usize::from(before[2] != 0.0 && at.is_none());
                    let expected = at.map_or([0.0; 3], |[x, y]| [x, y, 2.0]);
                    assert!(expected.iter().zip(after).all(|(a, b)| (a - b).abs() < 1e-4), "{expected:?} {after:?}");
                }
            }
        }
    }
    assert!(moves > 100 && gone > 3 && left_out > 20, "{moves} {gone} {left_out}");
}

fn is_inside([x, y]: [f64; 2]) -> bool {
    (0.0..=f64::from(SIZE[1])).contains(&x) && (0.0..=f64::from(SIZE[0])).contains(&y)
}

/// Returns the upright box around the moved corners of a box, clipped after each map, as in torchvision.
fn hull(mut at: [f64; 4], maps: &[Affine]) -> Option<[f64; 4]> {
    for affine in maps {
        let map = affine.of_size(SIZE[0], SIZE[1]);
        let corners = [[at[0], at[1]], [at[2], at[1]], [at[2], at[3]], [at[0], at[3]]].map(|corner| map.moved(corner));
        let ends = |axis: usize, side: u32| {
            let low = corners.iter().map(|c| c[axis]).fold(f64::INFINITY, f64::min).clamp(0.0, side.into());
            (low, corners.iter().map(|c| c[axis]).fold(f64::NEG_INFINITY, f64::max).clamp(0.0, side.into()))
        };
        let ((x0, x1), (y0, y1)) = (ends(0, SIZE[1]), ends(1, SIZE[0]));
        at = [x0, y0, x1, y1];
        if x1 <= x0 || y1 <= y0 {
            return None;
        }
    }
    Some(at)
}

#[test]
fn masks_of_objects_polygons_and_planes_are_moved_too() {
    let all = ["random_affine(degrees=30,translate=0.2:0.2,scale=0.7..1.2)"];
    let scenes = Scenes::with(8, |scene, values| {
        let [height, width] = scene.upright().map(u64::from);
        let plain = |dtype, shape: Vec<u64>| ArrayDescriptor::plain(dtype, shape).encode().unwrap();
        let pixels = height * width;
        let planes: Vec<u8> = (0..2 * pixels).flat_map(|n| (n as u16).to_le_bytes()).collect();
        values[1] = Some((Codec::Raw, planes, plain(Dtype::U16, vec![height, width, 2]), None));
        let objects: Vec<u8> = (0..5 * pixels).flat_map(|n| (1 + n as u16).to_le_bytes()).collect();
        values[3] = Some((Codec::Raw, objects, plain(Dtype::U16, vec![5, height, width]), None));
        let polygon: Vec<u8> = [1.0, 2.0, 9.0, 4.0, 5.0, 20.0_f32].iter().flat_map(|v| v.to_le_bytes()).collect();
        values[4] = Some((Codec::Raw, polygon, plain(Dtype::F32, vec![3, 2]), None));
    });
    let fields = [("mask", "mask"), ("classes", "instances"), ("points", "polygons")];
    for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
        let of = || options("rrc40x48").layout(layout).align(align(&fields));
        let (still, found) = (batches(&scenes, of()), batches(&scenes, augmented(of(), &all)));
        for (still, found) in still.iter().zip(&found) {
            for row in 0..still.len() {
                let maps = maps(&all, found.indices()[row]);
                let (before, after) = (masks(still, row), masks(found, row));
                let channel = |values: &[u16], channel: usize| -> Vec<u16> {
                    match layout {
                        PixelLayout::HeightWidthChannels => values.iter().skip(channel).step_by(2).copied().collect(),
                        PixelLayout::ChannelsHeightWidth => values[channel * 1920..(channel + 1) * 1920].to_vec(),
                    }
                };
                for n in 0..2 {
                    assert_eq!(channel(&after, n), moved(channel(&before, n), &maps, 255), "{layout:?} {n}");
                }
                let objects = |batch: &Batch| -> Array {
                    let Some(Object::Array(array)) = batch.objects("classes").unwrap()[row] else { panic!() };
                    assert_eq!(array.shape(), [5, 40, 48]);
                    array.clone()
                };
                let planes = |array: &Array| -> Vec<u16> {
                    array.bytes().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
                };
                let (before, after) = (planes(&objects(still)), planes(&objects(found)));
                for n in 0..5 {
                    let plane = |all: &[u16]| all[n * 1920..(n + 1) * 1920].to_vec();
                    assert_eq!(plane(&after), moved(plane(&before), &maps, 0));
                }
                let [before, after] = [still, found].map(|batch| floats(batch.objects("points").unwrap()[row]));
                for (before, after) in before.chunks(2).zip(after.chunks(2)) {
                    let [x, y] = maps[0].of_size(SIZE[0], SIZE[1]).moved([before[0], before[1]]);
                    assert!((x - after[0]).abs() < 1e-3 && (y - after[1]).abs() < 1e-3);
                }
            }
        }
    }
}

/// A box is kept if the visible share of its area is large enough: the share that the view leaves, multiplied by the
/// share that the map leaves.
#[test]
fn boxes_that_are_moved_out_are_left_out() {
    let scenes = Scenes::with(4, |scene, values| {
        let [height, width] = scene.upright().map(|side| side as f32);
        let boxes = [
            // The whole picture, its left half, and its right quarter.
            [0.0, 0.0, width, height],
            [0.0, 0.0, width / 2.0, height],
            [width * 0.75, 0.0, width, height],
            [0.0; 4],
            [0.0; 4],
        ];
        values[2].as_mut().unwrap().1 = boxes.as_flattened().iter().flat_map(|v| v.to_le_bytes()).collect();
    });
    // Translates by up to half of the width. The translation determines how much of each box is visible.
    let all = ["random_affine(degrees=0,translate=0.5:0)"];
    for visible in [0.0, 0.3, 0.6, 0.9] {
        let boxes = format!("boxes,visible={visible}");
        let fields = [("boxes", &*boxes), ("classes", "rows,of=boxes")];
        for batch in batches(&scenes, augmented(options("resize40x48").fields(["image"]).align(align(&fields)), &all)) {
            for row in 0..batch.len() {
                let shift = maps(&all, batch.indices()[row])[0].translate[0];
                let sides = [[0.0, 48.0], [0.0, 24.0], [36.0, 48.0]];
                let share = |[left, right]: [f64; 2]| {
                    let shown = (right + shift).clamp(0.0, 48.0) - (left + shift).clamp(0.0, 48.0);
                    (shown > 0.0 && shown / (right - left) >= visible - 1e-9)
                        .then(|| [(left + shift).clamp(0.0, 48.0), 0.0, (right + shift).clamp(0.0, 48.0), 40.0])
                };
                let expected: Vec<f64> = sides.into_iter().filter_map(share).flatten().collect();
                assert_eq!(floats(batch.objects("boxes").unwrap()[row]), expected, "{visible} {shift}");
            }
        }
    }
}

/// A stage receives the region's pixels and the maps, and must produce the same masks as the host.
#[test]
fn a_stage_gets_masks_with_their_views() {
    let scenes = scenes();
    for (view, all, layout) in ["rrc40x48", "pad40x48,flip=0.5"]
        .into_iter()
        .flat_map(|view| MOVES.map(|all| (view, all)))
        .flat_map(|(view, all)| {
            [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth].map(|layout| (view, all, layout))
        })
    {
        let host = augmented(options(view).layout(layout), all).fields(["image", "mask"]);
        let stage = Arc::new(FakeStage::with(Trouble::None));
        let found = batches(&scenes, host.clone().stage(Arc::clone(&stage) as _));
        let expected = batches(&scenes, host);
        assert!(stage.counts().submitted.load(Ordering::Relaxed) > 0);
        for (found, expected) in found.iter().zip(&expected) {
            for row in 0..expected.len() {
                for name in ["image", "mask"] {
                    let of = |batch: &Batch| batch.field(name).unwrap().row_of(row);
                    assert!(of(found) == of(expected), "{view} {all:?} {layout:?} {name}");
                }
                assert_eq!(found.objects("boxes").unwrap()[row], expected.objects("boxes").unwrap()[row]);
            }
        }
    }
}
