//! Tests that masks, boxes and keypoints follow the view of their picture, and that text fields are loaded with the
//! batch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::loader_support::RowOf;
use crate::loader_support::aligned::{LEVELS, Scenes, align, batches, options};
use shardpack_format::*;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::Mode;
use shardpack_loader::{ArrayDtype, Batch, Loader, Object};

fn floats<const N: usize>(object: Option<&Object>) -> Vec<[f32; N]> {
    let Some(Object::Array(array)) = object else { panic!("{object:?}") };
    assert_eq!((array.dtype(), array.shape().last()), (Dtype::F32, Some(&(N as u64))));
    let all: Vec<f32> = array.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    all.as_chunks().0.to_vec()
}

/// Pixels, as `[y][x]`.
type Grid = Vec<Vec<u8>>;

fn grids(batch: &Batch, row: usize, layout: PixelLayout) -> (Grid, Grid) {
    let (image, mask) = (batch.field("image").unwrap(), batch.field("mask").unwrap());
    let shape = mask.row_shape(row).unwrap();
    let (height, width) = (shape[0] as usize, shape[1] as usize);
    let (pixels, values) = (image.row_of(row), mask.row_of(row));
    let step = if layout == PixelLayout::HeightWidthChannels { 3 } else { 1 };
    assert_eq!(pixels.len(), height * width * 3);
    let grid = |all: &[u8], step: usize| {
        (0..height).map(|y| (0..width).map(|x| all[(y * width + x) * step]).collect()).collect()
    };
    (grid(&pixels, step), grid(&values, 1))
}

/// Returns true if all pixels within `reach` of this one are in the view and in the same quadrant.
fn is_inside(mask: &Grid, y: usize, x: usize, reach: usize) -> bool {
    let near = |at: usize, end: usize| at - reach..(at + reach + 1).min(end);
    let is_within = |at: usize, end: usize| at >= reach && at + reach < end;
    is_within(y, mask.len())
        && is_within(x, mask[0].len())
        && near(y, mask.len()).all(|v| near(x, mask[0].len()).all(|u| mask[v][u] == mask[y][x]))
}

/// Compares masks, boxes and points with the quadrants that are visible in the picture itself.
#[test]
fn aligned_fields_follow_the_view_of_their_picture() {
    let scenes = Scenes::new(23);
    let (mut compared, mut dropped, mut mirrored) = (0_u32, 0_u32, 0_u32);
    let mut beside = 0_u32;
    for (image, epochs) in [
        ("rrc48", 4),
        ("rrc40x56,scale=0.3..1,flip=1", 2),
        ("center32", 1),
        ("resize24x40,flip=0.5", 2),
        ("pad49x96,flip=0.5,fill=99", 2),
        ("pad81x48,flip=0.5,fill=99", 1),
    ] {
        for (epoch, layout) in (0..epochs).flat_map(|epoch| {
            [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth].map(|layout| (epoch, layout))
        }) {
            for batch in batches(&scenes, options(image).epoch(epoch).layout(layout)) {
                let shown = batch.shown("image");
                assert!(shown.is_err(), "the index has no sizes");
                let [boxes, classes, points, captions] =
                    ["boxes", "classes", "points", "caption"].map(|name| batch.objects(name).unwrap());
                for row in 0..batch.len() {
                    let scene = &scenes.all[batch.indices()[row] as usize];
                    let (pixels, mask) = grids(&batch, row, layout);
                    let (height, width) = (mask.len(), mask[0].len());
                    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                        if mask[y][x] == 255 {
                            assert_eq!(pixels[y][x], 99, "{image} {} at {y}, {x}", scene.id);
                            beside += 1;
                        } else if is_inside(&mask, y, x, 4) {
                            let level = LEVELS[usize::from(mask[y][x])];
                            assert!(pixels[y][x].abs_diff(level) <= 1, "{image} {} at {y}, {x}", scene.id);
                            compared += 1;
                        }
                    }
                    let boxes: Vec<[f32; 4]> = floats(boxes[row]);
                    let Some(Object::Array(classes)) = classes[row] else { panic!() };
                    assert_eq!(classes.shape(), [boxes.len() as u64]);
                    let classes: Vec<u16> =
                        classes.bytes().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
                    dropped += 5 - classes.len() as u32;
                    for quadrant in 0..4 {
                        let seen: Vec<_> = (0..height)
                            .flat_map(|y| (0..width).map(move |x| (y, x)))
                            .filter(|&(y, x)| mask[y][x] == quadrant)
                            .collect();
                        let at = classes.iter().position(|&class| class == 10 + u16::from(quadrant));
                        if seen.is_empty() {
                            // A narrow box may contain no pixel centre, so the mask need not show its quadrant.
                            let sliver = |b: &[f32; 4]| (b[2] - b[0]).min(b[3] - b[1]) <= 1.0;
                            assert!(at.is_none_or(|at| sliver(&boxes[at])), "{image} {} {quadrant}", scene.id);
                            continue;
                        }
                        let [x0, y0, x1, y1] = boxes[at.unwrap()];
                        let near = |side: f32, pixel: Option<usize>| (side - pixel.unwrap() as f32).abs() <= 1.0;
                        assert!(near(x0, seen.iter().map(|p| p.1).min()) && near(y0, seen.iter().map(|p| p.0).min()));
                        assert!(near(x1, seen.iter().map(|p| p.1 + 1).max()));
                        assert!(near(y1, seen.iter().map(|p| p.0 + 1).max()));
                    }
                    assert!(!classes.contains(&14), "outside of the picture");
                    let mut points: Vec<[f32; 3]> = floats(points[row]);
                    assert_eq!((points.len(), points[4]), (5, [0.0; 3]));
                    // Mirroring swaps points 0 and 1, so each point may be in the quadrant of the other point.
                    let lies_in = |point: [f32; 3], quadrant: u8| {
                        let [x, y] = [point[0] as usize, point[1] as usize];
                        point[2] == 0.0 || mask[y.min(height - 1)][x.min(width - 1)] == quadrant
                    };
                    if !(lies_in(points[0], 0) && lies_in(points[1], 1)) {
                        points.swap(0, 1);
                        mirrored += 1;
                    }
                    assert!((0..4).all(|quadrant| lies_in(points[quadrant], quadrant as u8)), "{image} {points:?}");
                    assert_eq!(captions[row], Some(&Object::Text(format!("scene {}", scene.id))));
                }
            }
        }
    }
    assert!(compared > 50_000 && dropped > 300 && mirrored > 50, "{compared} {dropped} {mirrored}");
    assert!(beside > 20_000, "{beside}");
}

#[test]
fn padding_is_not_part_of_a_picture() {
    let scenes = Scenes::with(4, |scene, values| {
        let [height, width] = scene.upright().map(|side| side as f32);
        let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        values[2].as_mut().unwrap().1 = floats(&[-5.0, -5.0, width + 5.0, height + 5.0].repeat(5));
        let points =
            [[-1.0, 4.0, 2.0], [4.0, -1.0, 2.0], [0.0, 0.0, 2.0], [width, height, 2.0], [width + 1.0, 4.0, 2.0]];
        values[4].as_mut().unwrap().1 = floats(points.as_flattened());
    });
    let align = align(&[("mask", "mask,fill=7"), ("points", "keypoints"), ("boxes", "boxes")]);
    for batch in batches(&scenes, options("pad96x120").align(align)) {
        for row in 0..batch.len() {
            let (_, mask) = grids(&batch, row, PixelLayout::HeightWidthChannels);
            let rows: Vec<usize> = (0..96).filter(|&y| mask[y].iter().any(|&class| class != 7)).collect();
            let columns: Vec<usize> = (0..120).filter(|&x| mask.iter().any(|row| row[x] != 7)).collect();
            let [left, top] = [columns[0] as f32, rows[0] as f32];
            let [right, bottom] = [columns[columns.len() - 1] as f32 + 1.0, rows[rows.len() - 1] as f32 + 1.0];
            assert!(rows.len() == 96 || columns.len() == 120);
            assert_eq!(floats::<4>(batch.objects("boxes").unwrap()[row]), [[left, top, right, bottom]; 5]);
            let points: Vec<[f32; 3]> = floats(batch.objects("points").unwrap()[row]);
            assert_eq!(points, [[0.0; 3], [0.0; 3], [left, top, 2.0], [right, bottom, 2.0], [0.0; 3]]);
        }
    }
}

#[test]
fn the_fill_of_a_mask_has_its_type() {
    let scenes = Scenes::new(6);
    let open = |mask: &str, dtype: Option<Dtype>, image: &str| {
        let align = align(&[("mask", mask)]);
        let dtype = dtype.map(|dtype| ArrayDtype::Fields(vec![("mask".into(), dtype.into())])).unwrap_or_default();
        Loader::open(&scenes.open(), options(image).align(align).dtype(dtype))
    };
    let corner = |mask, dtype| open(mask, dtype, "pad8x200").unwrap().next_batch().unwrap().unwrap();
    for (mask, dtype, bytes) in [
        ("mask", None, vec![255]),
        ("mask", Some(Dtype::I64), 255_i64.to_le_bytes().to_vec()),
        ("mask,fill=-1", Some(Dtype::I16), (-1_i16).to_le_bytes().to_vec()),
        ("mask,fill=0.5", Some(Dtype::F32), 0.5_f32.to_le_bytes().to_vec()),
        ("mask,fill=nan", Some(Dtype::F64), f64::NAN.to_le_bytes().to_vec()),
    ] {
        let batch = corner(mask, dtype);
        let row = batch.field("mask").unwrap().row_of(0);
        assert!(row.starts_with(&bytes) && row.ends_with(&bytes), "{mask}");
    }
    for (mask, dtype) in [("mask,fill=-1", None), ("mask,fill=256", None), ("mask,fill=nan", None)] {
        let error = open(mask, dtype, "pad8").err().unwrap().to_string();
        assert!(error.contains("mask `mask`: uint8 cannot represent the fill value"), "{error}");
        assert!(open(mask, None, "resize8").is_ok(), "no border to fill");
    }
}

fn told(batches: &[Batch]) -> Vec<String> {
    let rows = batches.iter().flat_map(|batch| (0..batch.len()).map(move |row| (batch, row)));
    let mut rows: Vec<_> = rows
        .map(|(batch, row)| {
            let objects =
                ["boxes", "classes", "points", "caption"].map(|name| batch.objects(name).unwrap()[row].cloned());
            let tensors = ["image", "mask"].map(|name| batch.field(name).unwrap().row_of(row));
            format!("{} {objects:?} {tensors:?}", batch.indices()[row])
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn threads_order_batches_and_resuming_change_nothing() {
    let scenes = Scenes::new(14);
    let expected = told(&batches(&scenes, options("rrc32").mode(Mode::Stored).threads(1)));
    assert_eq!(expected.len(), 14);
    for (threads, batch_size, mode) in [(4, 3, Mode::Full), (2, 14, Mode::Windowed), (3, 1, Mode::Stored)] {
        assert_eq!(
            told(&batches(&scenes, options("rrc32").threads(threads).batch_size(batch_size).mode(mode))),
            expected
        );
    }
    let mut first = Loader::open(&scenes.open(), options("rrc32")).unwrap();
    let mut all = vec![first.next_batch().unwrap().unwrap()];
    let mut second = Loader::open(&scenes.open(), options("rrc32")).unwrap();
    second.restore(&first.state()).unwrap();
    all.extend(std::iter::from_fn(|| second.next_batch()).map(Result::unwrap));
    assert_eq!(told(&all), expected);
}

#[test]
fn formats_units_and_shares_of_boxes() {
    let scenes = Scenes::new(12);
    let of = |text: &str| {
        let options =
            options("rrc32x64,flip=0.5").mode(Mode::Stored).align(align(&[("boxes", text)])).fields(["image"]);
        let all = batches(&scenes, options);
        let rows = all
            .iter()
            .flat_map(|batch| batch.objects("boxes").unwrap().into_iter().map(|o| floats::<4>(o)).collect::<Vec<_>>());
        rows.collect::<Vec<_>>()
    };
    let plain = of("boxes");
    let visible = of("boxes,visible=0.6");
    let (before, after) = (plain.iter().flatten().count(), visible.iter().flatten().count());
    assert!(after < before && after > 0, "{before} {after}");
    assert!(visible.iter().zip(&plain).all(|(some, all)| some.iter().all(|b| all.contains(b))));
    let inside =
        |b: &[f32; 4], [width, height]: [f32; 2]| b[0] >= 0.0 && b[1] >= 0.0 && b[2] <= width && b[3] <= height;
    assert!(plain.iter().flatten().all(|b| inside(b, [64.0, 32.0])));
    let relative = Scenes::with(12, |scene, values| {
        let [height, width] = scene.upright().map(|side| side as f32);
        let boxes = scene.boxes();
        let cxcywh = boxes.iter().flat_map(|&[x0, y0, x1, y1]| {
            [f32::midpoint(x0, x1) / width, f32::midpoint(y0, y1) / height, (x1 - x0) / width, (y1 - y0) / height]
        });
        values[2].as_mut().unwrap().1 = cxcywh.flat_map(f32::to_le_bytes).collect();
    });
    let options = options("rrc32x64,flip=0.5")
        .mode(Mode::Stored)
        .align(align(&[("boxes", "boxes,format=cxcywh,unit=relative")]))
        .fields(["image"]);
    let mut rows = plain.iter();
    for batch in batches(&relative, options) {
        for found in batch.objects("boxes").unwrap() {
            let expected = rows.next().unwrap();
            let found = floats::<4>(found);
            assert_eq!(found.len(), expected.len());
            for ([x, y, w, h], expected) in found.into_iter().zip(expected) {
                let corners = [(x - w / 2.0) * 64.0, (y - h / 2.0) * 32.0, (x + w / 2.0) * 64.0, (y + h / 2.0) * 32.0];
                let near = corners.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-2);
                assert!(near, "{corners:?} {expected:?}");
            }
        }
    }
}

#[test]
fn masks_are_loaded_as_the_requested_type() {
    let scenes = Scenes::new(6);
    let plain = batches(&scenes, options("rrc16").mode(Mode::Stored));
    let dtype = ArrayDtype::Fields(vec![("mask".into(), Dtype::I64.into())]);
    let wide = batches(&scenes, options("rrc16").mode(Mode::Stored).dtype(dtype));
    for (plain, wide) in plain.iter().zip(&wide) {
        let (plain, wide) = (plain.field("mask").unwrap(), wide.field("mask").unwrap());
        assert_eq!(wide.shape(), Some(vec![plain.shape().unwrap()[0], 16, 16]));
        let wide: Vec<u8> = wide.all().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as u8).collect();
        assert_eq!(wide, plain.all());
    }
}

/// Polygons around the quadrants must move like the boxes, but unclipped. The mask of each quadrant must equal the part
/// of the common mask with its class.
#[test]
fn polygons_and_masks_of_objects_follow_the_boxes_that_are_left() {
    let plain = |dtype, shape: &[u64]| ArrayDescriptor::plain(dtype, shape.to_vec()).encode().unwrap();
    let scenes = Scenes::with(17, |scene, values| {
        let corners = scene.boxes().into_iter().flat_map(|[x0, y0, x1, y1]| [x0, y0, x1, y0, x1, y1, x0, y1]);
        let polygons: Vec<u8> = corners.flat_map(f32::to_le_bytes).collect();
        values[4] = Some((Codec::Raw, polygons, plain(Dtype::F32, &[5, 4, 2]), None));
        let mask = values[1].as_ref().unwrap().1.clone();
        let of_each = (0..5).flat_map(|quadrant| mask.iter().map(move |&value| u8::from(value == quadrant)));
        let [height, width] = scene.upright().map(u64::from);
        values[3] = Some((Codec::Raw, of_each.collect(), plain(Dtype::Bool, &[5, height, width]), None));
        if scene.id == 3 {
            values[2] = Some((Codec::Raw, Vec::new(), plain(Dtype::F32, &[0, 4]), None));
            values[3] = Some((Codec::Raw, Vec::new(), plain(Dtype::Bool, &[0, height, width]), None));
            values[4] = Some((Codec::Raw, Vec::new(), plain(Dtype::F32, &[0, 4, 2]), None));
        }
    });
    let (mut beyond, mut shown, mut left_out, mut beside) = (0, 0, 0, 0);
    for (image, rows) in [
        ("rrc48", true),
        ("rrc40x56,scale=0.3..1,flip=1", true),
        ("pad49x96,flip=0.5", true),
        ("resize24x40,flip=0.5", false),
    ] {
        let rows = if rows { ",rows=boxes" } else { "" };
        let align = align(&[
            ("classes", &format!("instances{rows}")),
            ("points", &format!("polygons{rows}")),
            ("mask", "mask"),
            ("boxes", "boxes"),
        ]);
        for batch in batches(&scenes, options(image).align(align)) {
            let [boxes, classes, points] = ["boxes", "classes", "points"].map(|name| batch.objects(name).unwrap());
            for row in 0..batch.len() {
                let (_, mask) = grids(&batch, row, PixelLayout::HeightWidthChannels);
                let (height, width) = (mask.len(), mask[0].len());
                let boxes: Vec<[f32; 4]> = floats(boxes[row]);
                let Some(Object::Array(masks)) = classes[row] else { panic!() };
                let polygons: Vec<[f32; 2]> = floats(points[row]);
                let stored = if batch.indices()[row] == 3 { 0 } else { 5 };
                let count = if rows.is_empty() { stored } else { boxes.len() };
                assert_eq!(
                    (masks.dtype(), masks.shape()),
                    (Dtype::Bool, &[count, height, width].map(|n| n as u64)[..])
                );
                assert_eq!(polygons.len(), count * 4);
                left_out += stored - count;
                let [right, bottom] = [width as f32, height as f32];
                for (number, (polygon, of)) in
                    polygons.chunks(4).zip(masks.bytes().chunks_exact(height * width)).enumerate()
                {
                    let sides = |axis: usize| polygon.iter().map(move |point| point[axis]);
                    let low = |axis| sides(axis).fold(f32::INFINITY, f32::min);
                    let high = |axis| sides(axis).fold(f32::NEG_INFINITY, f32::max);
                    let is_beyond = low(0) < 0.0 || low(1) < 0.0 || high(0) > right || high(1) > bottom;
                    beyond += u32::from(is_beyond);
                    if !rows.is_empty() {
                        let clipped = [low(0).max(0.0), low(1).max(0.0), high(0).min(right), high(1).min(bottom)];
                        let near = clipped.iter().zip(boxes[number]).all(|(a, b)| (a - b).abs() < 1e-3);
                        assert!(near, "{image}: {clipped:?} {:?}", boxes[number]);
                    }
                    for (at, value) in of.iter().enumerate() {
                        let (y, x) = (at / width, at % width);
                        if *value == 1 {
                            let first = of.iter().position(|value| *value == 1).unwrap();
                            assert!(mask[y][x] == mask[first / width][first % width] && mask[y][x] < 4);
                            let [x, y] = [x as f32 + 0.5, y as f32 + 0.5];
                            assert!(low(0) <= x && x <= high(0) && low(1) <= y && y <= high(1), "{image}");
                            shown += 1;
                        }
                        beside += u32::from(mask[y][x] == 255);
                    }
                }
                let all: usize = masks.bytes().iter().map(|value| usize::from(*value)).sum();
                if rows.is_empty() && stored > 0 {
                    assert_eq!(all, mask.iter().flatten().filter(|value| **value < 4).count());
                }
            }
        }
    }
    assert!(beyond > 50 && shown > 50_000 && left_out > 50 && beside > 1_000, "{beyond} {shown} {left_out} {beside}");
}
