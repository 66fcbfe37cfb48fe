//! Masks, boxes and keypoints go where the view of their picture goes; texts come with the batch.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod loader_support;
#[path = "../../reader/tests/support/mod.rs"]
mod support;

use loader_support::{RowOf, base, jpeg, record, write};
use shardpack_array::encode_bytes;
use shardpack_format::*;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Align, ArrayDtype, Batch, Loader, LoaderOptions, Object, OnCorrupt};
use shardpack_reader::{Dataset, Error};

/// Grey levels of the quadrants: upper left, upper right, lower left, lower right of the stored
/// picture.
const LEVELS: [u8; 4] = [30, 90, 150, 230];

/// A picture of four flat quadrants, and what belongs to it.
#[derive(Clone)]
struct Scene {
    id: u64,
    /// In blocks of 8 × 8: sides of the stored picture, and where it is divided.
    blocks: [u32; 2],
    cut: [u32; 2],
    orientation: u32,
    has_picture: bool,
}

impl Scene {
    fn new(id: u64) -> Self {
        let blocks = [4 + (id * 3 % 5) as u32, 5 + (id * 7 % 6) as u32];
        let cut = [1 + (id % 3) as u32, 2 + (id % 2) as u32];
        Self { id, blocks, cut, orientation: [1, 6, 3][id as usize % 3], has_picture: true }
    }

    fn stored(&self) -> [u32; 2] {
        self.blocks.map(|side| side * 8)
    }

    /// Height and width.
    fn upright(&self) -> [u32; 2] {
        let [height, width] = self.stored();
        if self.orientation == 6 { [width, height] } else { [height, width] }
    }

    /// The quadrant of a pixel of the upright picture.
    fn quadrant(&self, y: u32, x: u32) -> u8 {
        let [height, width] = self.stored();
        // By the table of Exif: what is seen at the top left of the upright picture.
        let [y, x] = match self.orientation {
            1 => [y, x],
            3 => [height - 1 - y, width - 1 - x],
            6 => [height - 1 - x, y],
            other => panic!("{other}"),
        };
        u8::from(y >= self.cut[0] * 8) * 2 + u8::from(x >= self.cut[1] * 8)
    }

    fn mask(&self) -> Vec<u8> {
        let [height, width] = self.upright();
        (0..height).flat_map(|y| (0..width).map(move |x| (y, x))).map(|(y, x)| self.quadrant(y, x)).collect()
    }

    /// Left, top, right, bottom of each quadrant, and last of all one outside the picture.
    fn boxes(&self) -> Vec<[f32; 4]> {
        let [height, width] = self.upright();
        let of = |quadrant: u8| {
            let all = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
            let all: Vec<_> = all.filter(|&(y, x)| self.quadrant(y, x) == quadrant).collect();
            let (x0, x1) = (all.iter().map(|p| p.1).min().unwrap(), all.iter().map(|p| p.1).max().unwrap() + 1);
            let (y0, y1) = (all.iter().map(|p| p.0).min().unwrap(), all.iter().map(|p| p.0).max().unwrap() + 1);
            [x0, y0, x1, y1].map(|side| side as f32)
        };
        let outside = [width as f32 + 1.0, 0.0, width as f32 + 9.0, 5.0];
        (0..4).map(of).chain([outside]).collect()
    }

    /// The centre of each quadrant, seen; and one that nobody labelled.
    fn points(&self) -> Vec<[f32; 3]> {
        let centre = |b: [f32; 4]| [f32::midpoint(b[0], b[2]), f32::midpoint(b[1], b[3]), 2.0];
        self.boxes()[..4].iter().map(|b| centre(*b)).chain([[0.0; 3]]).collect()
    }
}

fn schema() -> Schema {
    let mut fields = vec![
        Field::stored("image", FieldKind::Image),
        Field::stored("mask", FieldKind::Array),
        Field::stored("boxes", FieldKind::Array),
        Field::stored("classes", FieldKind::Array),
        Field::stored("points", FieldKind::Array),
        Field::stored("caption", FieldKind::Text),
    ];
    fields.push(Field::scalar("orientation", Dtype::U8));
    Schema::new(fields).unwrap()
}

struct Scenes {
    dir: tempfile::TempDir,
    all: Vec<Scene>,
}

impl Scenes {
    fn new(count: u64) -> Self {
        Self::with(count, |_, _| {})
    }

    /// `change` may change stored values before they are written.
    fn with(count: u64, change: impl Fn(&mut Scene, &mut Vec<Option<loader_support::Stored>>)) -> Self {
        let dir = support::scratch();
        let mut all = Vec::new();
        write(dir.path(), &schema(), &[count / 2, count - count / 2], |schema, number, id| {
            let mut scene = Scene::new(id);
            let [height, width] = scene.stored();
            let cut = scene.cut;
            let level = |y, x| LEVELS[usize::from(y >= cut[0]) * 2 + usize::from(x >= cut[1])];
            let plain = |dtype, shape: &[u64]| ArrayDescriptor::plain(dtype, shape.to_vec()).encode().unwrap();
            let upright = scene.upright().map(u64::from);
            let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            let classes: Vec<u8> = (10_u16..15).flat_map(u16::to_le_bytes).collect();
            let caption = format!("scene {id}").into_bytes();
            let decoded = caption.len() as u64;
            let (codec, caption) = encode_bytes(&caption).unwrap();
            let mut values = vec![
                Some((Codec::Jpeg, jpeg(height, width, level), b"image/jpeg".to_vec(), None)),
                Some((Codec::Raw, scene.mask(), plain(Dtype::U8, &upright), None)),
                Some((Codec::Raw, floats(scene.boxes().as_flattened()), plain(Dtype::F32, &[5, 4]), None)),
                Some((Codec::Raw, classes, plain(Dtype::U16, &[5]), None)),
                Some((Codec::Raw, floats(scene.points().as_flattened()), plain(Dtype::F32, &[5, 3]), None)),
                Some((codec, caption, Vec::new(), Some(decoded))),
            ];
            change(&mut scene, &mut values);
            let scalars = vec![scene.orientation as u8];
            let key = format!("scene-{id}");
            let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values);
            all.push(scene);
            (bytes, frame, key, scalars)
        });
        Self { dir, all }
    }

    fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }
}

fn align(all: &[(&str, &str)]) -> Vec<(String, Align)> {
    all.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap())).collect()
}

fn options(image: &str) -> LoaderOptions {
    let all = [("mask", "mask"), ("points", "keypoints,swap=0-1"), ("classes", "rows,of=boxes"), ("boxes", "boxes")];
    LoaderOptions {
        batch_size: 5,
        threads: 3,
        seed: 11,
        end: End::Uneven,
        image: image.parse().unwrap(),
        fields: Some(vec!["mask".into(), "image".into()]),
        objects: vec!["caption".into()],
        align: align(&all),
        ..base()
    }
}

fn batches(scenes: &Scenes, options: LoaderOptions) -> Vec<Batch> {
    let mut loader = Loader::open(&scenes.open(), options).unwrap();
    std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect()
}

fn floats<const N: usize>(object: Option<&Object>) -> Vec<[f32; N]> {
    let Some(Object::Array(array)) = object else { panic!("{object:?}") };
    assert_eq!((array.dtype(), array.shape().last()), (Dtype::F32, Some(&(N as u64))));
    let all: Vec<f32> = array.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    all.as_chunks().0.to_vec()
}

/// Pixels of a picture and of its mask, as `[y][x]`.
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

/// Whether all pixels around this one are in the view, and of its quadrant.
fn is_inside(mask: &Grid, y: usize, x: usize, reach: usize) -> bool {
    let near = |at: usize, end: usize| at - reach..(at + reach + 1).min(end);
    let is_within = |at: usize, end: usize| at >= reach && at + reach < end;
    is_within(y, mask.len())
        && is_within(x, mask[0].len())
        && near(y, mask.len()).all(|v| near(x, mask[0].len()).all(|u| mask[v][u] == mask[y][x]))
}

/// The picture itself says where its quadrants are: mask, boxes and points must agree with it.
#[test]
fn what_belongs_to_a_picture_follows_its_view() {
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
            for batch in batches(&scenes, LoaderOptions { epoch, layout, ..options(image) }) {
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
                            // A sliver may lie between the centres of pixels.
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
                    // Where the view is mirrored, 0 and 1 have changed places.
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

/// Where a view pads, boxes end with their picture, and a point beside it is none.
#[test]
fn what_lies_beside_a_padded_picture_is_no_part_of_it() {
    let scenes = Scenes::with(4, |scene, values| {
        let [height, width] = scene.upright().map(|side| side as f32);
        let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        values[2].as_mut().unwrap().1 = floats(&[-5.0, -5.0, width + 5.0, height + 5.0].repeat(5));
        let points =
            [[-1.0, 4.0, 2.0], [4.0, -1.0, 2.0], [0.0, 0.0, 2.0], [width, height, 2.0], [width + 1.0, 4.0, 2.0]];
        values[4].as_mut().unwrap().1 = floats(points.as_flattened());
    });
    let align = align(&[("mask", "mask,fill=7"), ("points", "keypoints"), ("boxes", "boxes")]);
    for batch in batches(&scenes, LoaderOptions { align, ..options("pad96x120") }) {
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

/// The value beside a mask is one of its type.
#[test]
fn what_stands_beside_a_mask_has_its_type() {
    let scenes = Scenes::new(6);
    let open = |mask: &str, dtype: Option<Dtype>, image: &str| {
        let align = align(&[("mask", mask)]);
        let dtype = dtype.map(|dtype| ArrayDtype::Fields(vec![("mask".into(), dtype.into())])).unwrap_or_default();
        Loader::open(&scenes.open(), LoaderOptions { align, dtype, ..options(image) })
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
        assert!(error.contains("value beside the picture of field `mask`"), "{error}");
        assert!(open(mask, None, "resize8").is_ok(), "nothing stands beside it");
    }
}

/// Everything of a batch, in words.
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
fn threads_order_and_batches_change_nothing_and_a_resumed_loader_goes_on() {
    let scenes = Scenes::new(14);
    let expected = told(&batches(&scenes, LoaderOptions { mode: Mode::Stored, threads: 1, ..options("rrc32") }));
    assert_eq!(expected.len(), 14);
    for (threads, batch_size, mode) in [(4, 3, Mode::Full), (2, 14, Mode::Windowed), (3, 1, Mode::Stored)] {
        assert_eq!(told(&batches(&scenes, LoaderOptions { threads, batch_size, mode, ..options("rrc32") })), expected);
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
        let options = LoaderOptions {
            mode: Mode::Stored,
            align: align(&[("boxes", text)]),
            fields: Some(vec!["image".into()]),
            ..options("rrc32x64,flip=0.5")
        };
        let all = batches(&scenes, options);
        let rows = all
            .iter()
            .flat_map(|batch| batch.objects("boxes").unwrap().into_iter().map(|o| floats::<4>(o)).collect::<Vec<_>>());
        rows.collect::<Vec<_>>()
    };
    // The stored numbers stand for other boxes then: what is checked is that each form is its own.
    let plain = of("boxes");
    let visible = of("boxes,visible=0.6");
    let (before, after) = (plain.iter().flatten().count(), visible.iter().flatten().count());
    assert!(after < before && after > 0, "{before} {after}");
    assert!(visible.iter().zip(&plain).all(|(some, all)| some.iter().all(|b| all.contains(b))));
    // All within the view.
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
    let options = LoaderOptions {
        mode: Mode::Stored,
        align: align(&[("boxes", "boxes,format=cxcywh,unit=relative")]),
        fields: Some(vec!["image".into()]),
        ..options("rrc32x64,flip=0.5")
    };
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
fn masks_come_as_the_type_that_is_asked_for() {
    let scenes = Scenes::new(6);
    let plain = batches(&scenes, LoaderOptions { mode: Mode::Stored, ..options("rrc16") });
    let dtype = ArrayDtype::Fields(vec![("mask".into(), Dtype::I64.into())]);
    let wide = batches(&scenes, LoaderOptions { mode: Mode::Stored, dtype, ..options("rrc16") });
    for (plain, wide) in plain.iter().zip(&wide) {
        let (plain, wide) = (plain.field("mask").unwrap(), wide.field("mask").unwrap());
        assert_eq!(wide.shape(), Some(vec![plain.shape().unwrap()[0], 16, 16]));
        let wide: Vec<u8> = wide.all().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as u8).collect();
        assert_eq!(wide, plain.all());
    }
}

#[test]
fn samples_that_lack_something_and_damage() {
    let lacking = Scenes::with(8, |scene, values| {
        match scene.id {
            1 => values[0] = None,
            2 => values[1] = None,
            3 => values[2] = None,
            4 => values[5] = None,
            _ => {}
        }
        scene.has_picture = scene.id != 1;
    });
    for batch in batches(&lacking, LoaderOptions { mode: Mode::Stored, batch_size: 8, ..options("rrc16") }) {
        let mask: Vec<bool> = batch.field("mask").unwrap().mask().collect();
        assert_eq!(mask, [true, false, false, true, true, true, true, true]);
        let there = |name: &str| batch.objects(name).unwrap().iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(there("caption"), [true, true, true, true, false, true, true, true]);
        // Without a picture there is no view, and without boxes nothing that belongs to them.
        assert_eq!(there("boxes"), [true, false, true, false, true, true, true, true]);
        assert_eq!(there("classes"), there("boxes"));
        assert_eq!(there("points"), [true, false, true, true, true, true, true, true]);
        assert!(batch.objects("image").is_none() && batch.objects("nothing").is_none());
    }
    let error = |change: &dyn Fn(&mut Vec<Option<loader_support::Stored>>)| {
        let scenes = Scenes::with(4, |scene, values| {
            if scene.id == 2 {
                change(values)
            }
        });
        let options = LoaderOptions { mode: Mode::Stored, batch_size: 4, ..options("rrc16") };
        let mut loader = Loader::open(&scenes.open(), options.clone()).unwrap();
        let error = loader.next_batch().unwrap().unwrap_err().to_string();
        assert!(error.contains("scene-2"), "{error}");
        let skip = LoaderOptions { on_corrupt: OnCorrupt::Skip { max: 1 }, ..options };
        let skipped = Loader::open(&scenes.open(), skip).unwrap().next_batch().unwrap();
        (error, skipped.map(|batch| (batch.mask().to_vec(), batch.objects("boxes").unwrap()[2].cloned())))
    };
    let plain = |dtype, shape: &[u64]| ArrayDescriptor::plain(dtype, shape.to_vec()).encode().unwrap();
    let (text, skipped) = error(&|values| values[5].as_mut().unwrap().1.fill(0xFF));
    assert!(text.contains("scene-2") && text.contains("caption"), "{text}");
    assert_eq!(skipped.unwrap(), (vec![true, true, false, true], None));
    // A box that is none in any format is a matter of its sample.
    let boxes = |boxes: [[f32; 4]; 5]| boxes.into_iter().flatten().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    for (bad, said) in [([f32::NAN; 4], "finite"), ([9.0, 9.0, -3.0, 20.0], "negative length")] {
        let all = boxes([[0.0, 0.0, 4.0, 4.0], [1.0; 4], bad, [1.0; 4], [2.0; 4]]);
        let (text, skipped) = error(&|values| values[2].as_mut().unwrap().1.clone_from(&all));
        assert!(text.contains("field `boxes`: ") && text.contains(said), "{text}");
        assert_eq!(skipped.unwrap(), (vec![true, true, false, true], None));
    }
    // What is not as the caller says it is no damage: it is not skipped.
    let refused = |said: &str, change: &dyn Fn(&mut Vec<Option<loader_support::Stored>>)| {
        let (text, skipped) = error(change);
        assert!(text.contains(said) && text.ends_with(": sample 2, `scene-2`"), "{said}: {text}");
        assert!(matches!(&skipped, Err(Error::Usage(error)) if error.to_string() == text), "{said}");
        skipped.unwrap_err().hint().map_or_else(String::new, |hint| hint.to_string())
    };
    refused("field `mask`, aligned as a mask: shape: expected as high and wide as its upright picture", &|values| {
        values[1] = Some((Codec::Raw, vec![0; 12], plain(Dtype::U8, &[3, 4]), None));
    });
    refused("field `boxes`, aligned as boxes xyxy in pixels: shape: expected [boxes, 4], found [4, 5]", &|values| {
        values[2].as_mut().unwrap().2 = plain(Dtype::F32, &[4, 5]);
    });
    refused("field `classes`, aligned as rows of `boxes`: rows that belong to boxes: expected 5, one for", &|values| {
        values[3] = Some((Codec::Raw, vec![0; 8], plain(Dtype::U16, &[4]), None));
    });
    // Left, top, width, height.
    let all = boxes([[20.0, 9.0, 8.0, 12.0], [1.0; 4], [1.0, 2.0, 3.0, 4.0], [1.0; 4], [2.0; 4]]);
    let hint =
        refused("aligned as boxes xyxy in pixels: sides of a box: expected none of a negative length", &|values| {
            values[2].as_mut().unwrap().1.clone_from(&all);
        });
    assert_eq!(hint, "`format = xywh` or `format = cxcywh` fits all boxes of this sample");
    let all = boxes([[0.1, 0.2, 0.5, 0.75]; 5]);
    refused("aligned as boxes xyxy in pixels: numbers of a box in pixels: expected some above 1", &|values| {
        values[2].as_mut().unwrap().1.clone_from(&all);
    });
    refused("field `points`, aligned as keypoints in pixels: points that change places: expected below 1", &|values| {
        values[4] = Some((Codec::Raw, vec![0; 12], plain(Dtype::F32, &[1, 3]), None));
    });
}

#[test]
fn what_cannot_be_aligned_is_refused_at_open() {
    let scenes = Scenes::new(4);
    let refused = |change: &dyn Fn(&mut LoaderOptions)| {
        let mut options = options("rrc16");
        change(&mut options);
        Loader::open(&scenes.open(), options).map(|_| ()).unwrap_err().to_string()
    };
    for (change, said) in [
        (
            &(|o: &mut LoaderOptions| o.align.push(("mask".into(), "boxes".parse().unwrap()))) as &dyn Fn(&mut _),
            "each field once",
        ),
        (&|o: &mut LoaderOptions| o.align = align(&[("caption", "mask")]), "fields of arrays"),
        (&|o: &mut LoaderOptions| o.align = align(&[("nothing", "mask")]), "no field of the dataset"),
        (&|o: &mut LoaderOptions| o.align = align(&[("classes", "rows,of=points")]), "aligned as boxes"),
        (&|o: &mut LoaderOptions| o.align = align(&[("boxes", "boxes,picture=mask")]), "a field of pictures"),
        (&|o: &mut LoaderOptions| o.image = "raw".parse().unwrap(), "stored bytes"),
        (&|o: &mut LoaderOptions| o.cube = "patch4x4".parse().unwrap(), "whole arrays"),
        (
            &|o: &mut LoaderOptions| o.augment_pictures = vec!["trivial_augment_wide".parse().unwrap()],
            "moves the pixels",
        ),
        (
            &|o: &mut LoaderOptions| o.augment_pictures = vec!["random_affine(degrees=5)".parse().unwrap()],
            "moves the pixels",
        ),
        (
            &|o: &mut LoaderOptions| o.augment_pictures = vec!["random_rotation(degrees=5)".parse().unwrap()],
            "moves the pixels",
        ),
        (&|o: &mut LoaderOptions| o.objects.push("image".into()), "arrays, texts, JSON or bytes"),
        (&|o: &mut LoaderOptions| o.objects.push("mask".into()), "a tensor"),
        (&|o: &mut LoaderOptions| o.fields = Some(vec!["mask".into()]), "a field of pictures among the fields"),
    ] {
        let error = refused(change);
        assert!(error.contains(said), "{said}: {error}");
    }
    // Colours change nothing but the picture.
    let mut colours = options("rrc16");
    colours.augment_pictures = vec!["color_jitter(brightness=0.5)".parse().unwrap()];
    assert_eq!(batches(&scenes, colours).len(), 1);
}
