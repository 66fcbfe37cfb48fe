//! Checks that masks, boxes, points and rows follow Mixup, CutMix and mosaics of their pictures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::loader_support::aligned::{Scenes, align, batches, options};
use crate::loader_support::fake_stage::{FakeStage, Trouble};
use crate::loader_support::{RowOf, said};
use shardpack_augment::{Mix, Mixed, MosaicPlan};
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::{Batch, BatchMix, Loader, LoaderOptions, Object};
use std::sync::Arc;

const SIZE: [u32; 2] = [40, 48];
const STILL: &str = "mosaic(scale=1..1,translate=0,fill=7)";

fn mixed(options: LoaderOptions, texts: &[&str]) -> LoaderOptions {
    let choices = texts.iter().map(|text| text.parse().unwrap()).collect();
    options.mix(BatchMix { choices, classes: 0 })
}

fn floats(batch: &Batch, field: &str, row: usize) -> Vec<f32> {
    let Some(Object::Array(array)) = batch.objects(field).unwrap()[row] else { panic!("{field}") };
    array.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn classes(batch: &Batch, row: usize) -> Vec<u16> {
    let Some(Object::Array(array)) = batch.objects("classes").unwrap()[row] else { panic!("classes") };
    array.bytes().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
}

fn caption(batch: &Batch, row: usize) -> String {
    let Some(Object::Text(text)) = batch.objects("caption").unwrap()[row] else { panic!("caption") };
    text.clone()
}

fn near(found: &[f32], expected: &[f64], what: &str) {
    let apart = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() > 1e-4;
    let is_far = found.len() != expected.len() || found.iter().zip(expected).any(apart);
    assert!(!is_far, "{what}: {found:?} {expected:?}");
}

/// Returns the mosaic that each row of a batch draws.
fn drawn(batch: &Batch, text: &str) -> Vec<Option<MosaicPlan>> {
    let Mix::Mosaic(mosaic) = text.parse().unwrap() else { panic!("{text}") };
    let of = |sample: &u64| mosaic.resolve(&DrawKey { seed: 11, epoch: 0, sample: *sample }.draws(), SIZE[0], SIZE[1]);
    batch.indices().iter().map(of).collect()
}

#[test]
fn mosaics_without_a_map_are_four_shifted_pictures() {
    let scenes = Scenes::new(12);
    let (mut filled, mut taken) = (0, 0);
    for (view, layout) in
        [("rrc40x48,flip=0.5", PixelLayout::HeightWidthChannels), ("resize40x48", PixelLayout::ChannelsHeightWidth)]
    {
        let of = || {
            let mut options = options(view).layout(layout);
            options.view.align[0].1 = "mask,fill=9".parse().unwrap();
            options
        };
        let still = batches(&scenes, of());
        let found = batches(&scenes, mixed(of(), &[STILL]));
        for (still, found) in still.iter().zip(&found) {
            assert_eq!(still.indices(), found.indices());
            let plans = drawn(still, STILL);
            let count = still.len();
            for (row, plan) in plans.iter().enumerate().take(count) {
                let [cx, cy] = plan.unwrap().centre().map(i64::from);
                let offsets =
                    [[cx - 48, cy - 40], [cx, cy - 40], [cx - 48, cy], [cx, cy]].map(|[x, y]| [x - 24, y - 20]);
                let source = |tile: usize| (row + 2 * count - tile) % count;
                let (image, mask) =
                    (found.field("image").unwrap().row_of(row), found.field("mask").unwrap().row_of(row));
                for (y, x) in (0..40_i64).flat_map(|y| (0..48_i64).map(move |x| (y, x))) {
                    let tile = usize::from(x + 24 >= cx) + 2 * usize::from(y + 20 >= cy);
                    let [from_x, from_y] = [x - offsets[tile][0], y - offsets[tile][1]];
                    let is_there = (0..48).contains(&from_x) && (0..40).contains(&from_y);
                    let (to, from) = ((y * 48 + x) as usize, (from_y * 48 + from_x) as usize);
                    let of = |field: &str| still.field(field).unwrap().row_of(source(tile));
                    assert_eq!(mask[to], if is_there { of("mask")[from] } else { 9 }, "{y} {x}");
                    for channel in 0..3 {
                        let at = |pixel: usize| match layout {
                            PixelLayout::HeightWidthChannels => 3 * pixel + channel,
                            PixelLayout::ChannelsHeightWidth => 1920 * channel + pixel,
                        };
                        assert_eq!(image[at(to)], if is_there { of("image")[at(from)] } else { 7 }, "{y} {x}");
                    }
                    *(if is_there { &mut taken } else { &mut filled }) += 1;
                }
                let (mut boxes, mut kinds, mut points) = (Vec::new(), Vec::new(), Vec::new());
                for (tile, offset) in offsets.iter().enumerate() {
                    let [ox, oy] = offset.map(|side| side as f64);
                    let kinds_of = classes(still, source(tile));
                    for (b, class) in floats(still, "boxes", source(tile)).chunks(4).zip(kinds_of) {
                        let b =
                            [f64::from(b[0]) + ox, f64::from(b[1]) + oy, f64::from(b[2]) + ox, f64::from(b[3]) + oy];
                        let b = [
                            b[0].clamp(0.0, 48.0),
                            b[1].clamp(0.0, 40.0),
                            b[2].clamp(0.0, 48.0),
                            b[3].clamp(0.0, 40.0),
                        ];
                        if b[2] > b[0] && b[3] > b[1] {
                            boxes.extend(b);
                            kinds.push(class);
                        }
                    }
                    for p in floats(still, "points", source(tile)).chunks(3) {
                        let [x, y] = [f64::from(p[0]) + ox, f64::from(p[1]) + oy];
                        let is_there = p[2] != 0.0 && (0.0..=48.0).contains(&x) && (0.0..=40.0).contains(&y);
                        points.extend(if is_there { [x, y, 2.0] } else { [0.0; 3] });
                    }
                }
                near(&floats(found, "boxes", row), &boxes, "boxes");
                assert_eq!(classes(found, row), kinds);
                near(&floats(found, "points", row), &points, "points");
                assert_eq!(caption(found, row), caption(still, row));
                let weights = found.weights("boxes").unwrap()[row].clone().unwrap();
                assert!(weights.len() == kinds.len() && weights.iter().all(|weight| *weight == 1.0));
            }
        }
    }
    // At this scale, the four pictures cover the whole row.
    assert!(filled == 0 && taken > 20_000, "{filled} {taken}");
}

#[test]
fn pixels_without_a_picture_are_filled() {
    let scenes = Scenes::new(6);
    let mut options = options("rrc40x48");
    options.view.align[0].1 = "mask,fill=9".parse().unwrap();
    for batch in batches(&scenes, mixed(options, &["mosaic(scale=0.3..0.3,fill=7)"])) {
        // A batch of one row is not mixed.
        let rows = if batch.len() < 2 { 0 } else { batch.len() };
        for row in 0..rows {
            let (image, mask) = (batch.field("image").unwrap().row_of(row), batch.field("mask").unwrap().row_of(row));
            let filled = mask.iter().filter(|class| **class == 9).count();
            assert!(filled > 500, "{filled}");
            for (pixel, class) in image.chunks(3).zip(mask) {
                assert_eq!(pixel == [7; 3], class == 9);
            }
        }
    }
}

#[test]
fn boxes_of_mosaics_follow_the_map_and_small_rests_are_left_out() {
    let text = "mosaic(degrees=25,scale=0.4..1.6,translate=0.2,shear=8,p=0.8)";
    let scenes = Scenes::new(30);
    // The boxes are stored as corners. Read as centres and sizes, the same numbers are different but valid boxes.
    let of = |visible: f64| {
        let boxes = format!("boxes,format=cxcywh,visible={visible}");
        options("resize40x48").align(align(&[("mask", "mask"), ("classes", "rows,of=boxes"), ("boxes", &boxes)]))
    };
    let (mut left_out, mut kept, mut whole) = (0, 0, 0);
    let still = batches(&scenes, of(0.0));
    for visible in [0.0, 0.6] {
        let found = batches(&scenes, mixed(of(visible), &[text]));
        for (still, found) in still.iter().zip(&found) {
            let plans = drawn(still, text);
            for (row, plan) in plans.iter().enumerate().take(still.len()) {
                let Some(plan) = plan else {
                    assert_eq!(floats(found, "boxes", row).len() % 4, 0);
                    whole += 1;
                    continue;
                };
                let mut boxes = Vec::new();
                for tile in 0..4 {
                    let source = (row + 2 * still.len() - tile) % still.len();
                    let map = plan.map(plan.offset(tile, [0, 0, 48, 40]));
                    for b in floats(still, "boxes", source).chunks(4) {
                        let [x, y, w, h] = [0, 1, 2, 3].map(|n| f64::from(b[n]));
                        let corners = [(-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)];
                        let corners = corners.map(|(a, b)| map.moved([x + a * w, y + b * h]));
                        let ends = |axis: usize| {
                            let all = corners.iter().map(|corner| corner[axis]);
                            (all.clone().fold(f64::INFINITY, f64::min), all.fold(f64::NEG_INFINITY, f64::max))
                        };
                        let ((x0, x1), (y0, y1)) = (ends(0), ends(1));
                        let area = (x1 - x0) * (y1 - y0);
                        let [x0, x1] = [x0, x1].map(|x| x.clamp(0.0, 48.0));
                        let [y0, y1] = [y0, y1].map(|y| y.clamp(0.0, 40.0));
                        let share = (x1 - x0) * (y1 - y0) / area;
                        if share > 0.0 && share >= visible {
                            boxes.extend([f64::midpoint(x0, x1), f64::midpoint(y0, y1), x1 - x0, y1 - y0]);
                            kept += 1;
                        } else {
                            left_out += 1;
                        }
                    }
                }
                if visible == 0.0 {
                    near(&floats(found, "boxes", row), &boxes, "boxes");
                } else {
                    // The view has already left out boxes that reach far beyond the picture.
                    assert!(floats(found, "boxes", row).len() <= boxes.len());
                }
            }
        }
    }
    assert!(left_out > 30 && kept > 100 && whole > 3, "{left_out} {kept} {whole}");
}

#[test]
fn cutmix_pastes_masks_and_cuts_boxes() {
    let scenes = Scenes::new(12);
    let choices = ["cutmix(alpha=0.7)".parse::<Mix>().unwrap()];
    let still = batches(&scenes, options("rrc40x48"));
    let found = batches(&scenes, mixed(options("rrc40x48"), &["cutmix(alpha=0.7)"]));
    for (still, found) in still.iter().zip(&found) {
        let draws = DrawKey { seed: 11, epoch: 0, sample: still.indices()[0] }.draws();
        let Some(Mixed::Rectangle { origin: [top, left], size: [rows, columns], .. }) =
            Mix::resolve(&choices, &draws, 40, 48)
        else {
            panic!("a rectangle");
        };
        let (bottom, right) = (top + rows, left + columns);
        for row in 0..still.len() {
            let other = (row + still.len() - 1) % still.len();
            for (field, bytes) in [("image", 3), ("mask", 1)] {
                let of = |batch: &Batch, row: usize| batch.field(field).unwrap().row_of(row).to_vec();
                let (own, other, found) = (of(still, row), of(still, other), of(found, row));
                for (at, level) in found.iter().enumerate() {
                    let (y, x) = (at / bytes / 48, at / bytes % 48);
                    let is_in = (top..bottom).contains(&y) && (left..right).contains(&x);
                    assert_eq!(*level, if is_in { other[at] } else { own[at] }, "{field} {y} {x}");
                }
            }
            let rectangle = [left, top, right, bottom].map(|side| side as f64);
            let area = |b: [f64; 4]| (b[2] - b[0]).max(0.0) * (b[3] - b[1]).max(0.0);
            let common = |b: [f64; 4]| {
                let [left, top, right, bottom] = rectangle;
                [b[0].max(left), b[1].max(top), b[2].min(right), b[3].min(bottom)]
            };
            let of = |row: usize| -> Vec<[f64; 4]> {
                let boxes = floats(still, "boxes", row);
                boxes.chunks(4).map(|b| [0, 1, 2, 3].map(|n| f64::from(b[n]))).collect()
            };
            let is_visible = |b: &[f64; 4]| area(*b) - area(common(*b)).max(0.0) > 1e-9;
            let (own, others) = (of(row), of(other));
            let own_count = own.iter().filter(|b| is_visible(b)).count();
            let pasted: Vec<f64> = others.iter().map(|b| common(*b)).filter(|b| area(*b) > 0.0).flatten().collect();
            let boxes = floats(found, "boxes", row);
            near(&boxes[4 * own_count..], &pasted, "pasted boxes");
            assert_eq!(classes(found, row).len() * 4, boxes.len());
            // A row's own box shrinks only if the rectangle covers a whole side of the box.
            for (found, own) in boxes.chunks(4).zip(own.iter().filter(|b| is_visible(b))) {
                let found = [0, 1, 2, 3].map(|n| f64::from(found[n]));
                assert!(found[0] >= own[0] - 1e-4 && found[2] <= own[2] + 1e-4, "{found:?} {own:?}");
                let visible = area(*own) - area(common(*own)).max(0.0);
                assert!(area(found) + 1e-3 >= visible && area(found) <= area(*own) + 1e-3, "{found:?} {own:?}");
            }
            let points = floats(found, "points", row);
            let hidden = |p: &[f32]| p[2] == 0.0;
            assert_eq!(points.len(), 2 * 5 * 3);
            for (place, point) in points.chunks(3).enumerate().filter(|(_, point)| !hidden(point)) {
                let is_in = f64::from(point[0]) >= rectangle[0]
                    && f64::from(point[0]) <= rectangle[2]
                    && f64::from(point[1]) >= rectangle[1]
                    && f64::from(point[1]) <= rectangle[3];
                assert!(is_in || place < 5, "{point:?} {rectangle:?}");
            }
        }
    }
}

#[test]
fn mixup_joins_boxes_with_the_weights_of_their_pictures() {
    let scenes = Scenes::new(12);
    let of = || {
        let mut options = options("rrc40x48").fields(["image"]);
        options.view.align.remove(0);
        options
    };
    let choices = ["mixup(alpha=8)".parse::<Mix>().unwrap()];
    let still = batches(&scenes, of());
    let found = batches(&scenes, mixed(of(), &["mixup(alpha=8)"]));
    for (still, found) in still.iter().zip(&found) {
        let draws = DrawKey { seed: 11, epoch: 0, sample: still.indices()[0] }.draws();
        let share = Mix::resolve(&choices, &draws, 40, 48).unwrap().share();
        for row in 0..still.len() {
            let other = (row + still.len() - 1) % still.len();
            let both: Vec<f64> =
                [row, other].iter().flat_map(|&row| floats(still, "boxes", row)).map(f64::from).collect();
            near(&floats(found, "boxes", row), &both, "boxes");
            assert_eq!(classes(found, row), [classes(still, row), classes(still, other)].concat());
            let weights = found.weights("classes").unwrap()[row].clone().unwrap();
            let own = classes(still, row).len();
            let expected: Vec<f64> = (0..weights.len()).map(|n| if n < own { share } else { 1.0 - share }).collect();
            near(&weights, &expected, "weights");
            assert_eq!(weights.len(), classes(found, row).len());
        }
        assert_eq!(found.weights("caption"), None);
        assert_eq!(found.weights("image"), None);
        assert!(still.weights("boxes").unwrap().iter().flatten().flatten().all(|weight| *weight == 1.0));
    }
}

#[test]
fn a_stage_mixes_as_the_host() {
    let scenes = Scenes::new(12);
    for texts in [&["mosaic"][..], &["cutmix"], &["mosaic(degrees=20,p=0.5)", "cutmix"]] {
        let host = batches(&scenes, mixed(options("rrc40x48"), texts));
        let stage = Arc::new(FakeStage::with(Trouble::None));
        let staged = batches(&scenes, mixed(options("rrc40x48").stage(Arc::clone(&stage) as _), texts));
        for (host, staged) in host.iter().zip(&staged) {
            for row in 0..host.len() {
                for field in ["image", "mask"] {
                    assert_eq!(host.field(field).unwrap().row_of(row), staged.field(field).unwrap().row_of(row));
                }
                assert_eq!(floats(host, "boxes", row), floats(staged, "boxes", row));
            }
        }
    }
}

#[test]
fn what_cannot_be_mixed_is_refused() {
    let scenes = Scenes::new(6);
    let refused = |options: LoaderOptions| said(&Loader::open(&scenes.open(), options).unwrap_err());
    let error = refused(mixed(options("rrc40x48"), &["mosaic", "mixup"]));
    assert!(error.contains("mixup cannot blend the classes of the mask `mask`\nhint: use cutmix"), "{error}");
    let mut whole = options("full").fields(["image"]);
    whole.view.align.remove(0);
    let error = refused(mixed(whole, &["mosaic"]));
    assert!(error.contains("whole pictures need the scalar fields"), "{error}");
    let mut wide = options("rrc40x48");
    wide.view.align[0].1 = "mask,fill=300".parse().unwrap();
    assert!(Loader::open(&scenes.open(), wide.clone()).is_ok(), "the value is not used");
    let error = refused(mixed(wide, &["mosaic"]));
    assert!(error.contains("mask `mask`: uint8 cannot represent the fill value 300"), "{error}");
}

/// The predicted memory must include the copy of the rows.
#[test]
fn mosaics_need_a_copy_of_the_rows() {
    let scenes = Scenes::new(12);
    let predicted = |options: LoaderOptions| Loader::open(&scenes.open(), options).unwrap().predicted_bytes();
    let plain = predicted(options("rrc40x48"));
    assert_eq!(predicted(mixed(options("rrc40x48"), &["cutmix"])), plain);
    assert_eq!(predicted(mixed(options("rrc40x48"), &["mosaic"])) - plain, 5 * 40 * 48 * 3);
}
