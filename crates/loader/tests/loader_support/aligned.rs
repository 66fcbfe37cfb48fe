//! A dataset of pictures with four flat quadrants each, and with masks, boxes, keypoints and strings. The picture
//! itself shows where the masks, boxes and keypoints belong.

use super::super::support::scratch;
use super::{Stored, base, jpeg, record, write};
use shardpack_array::encode_bytes;
use shardpack_format::*;
use shardpack_loader::order::End;
use shardpack_loader::{Align, Batch, Loader, LoaderOptions};
use shardpack_reader::Dataset;

/// Grey levels of the stored picture's quadrants: upper left, upper right, lower left, lower right.
pub const LEVELS: [u8; 4] = [30, 90, 150, 230];

/// A picture of four flat quadrants, and the values that belong to it.
#[derive(Clone)]
pub struct Scene {
    pub id: u64,
    /// Sides of the stored picture, in blocks of 8 × 8. `cut` is the corner where the quadrants meet.
    blocks: [u32; 2],
    cut: [u32; 2],
    pub orientation: u32,
    pub has_picture: bool,
}

impl Scene {
    pub fn new(id: u64) -> Self {
        let blocks = [4 + (id * 3 % 5) as u32, 5 + (id * 7 % 6) as u32];
        let cut = [1 + (id % 3) as u32, 2 + (id % 2) as u32];
        Self { id, blocks, cut, orientation: [1, 6, 3][id as usize % 3], has_picture: true }
    }

    fn stored(&self) -> [u32; 2] {
        self.blocks.map(|side| side * 8)
    }

    pub fn upright(&self) -> [u32; 2] {
        let [height, width] = self.stored();
        if self.orientation == 6 { [width, height] } else { [height, width] }
    }

    fn quadrant(&self, y: u32, x: u32) -> u8 {
        let [height, width] = self.stored();
        // Stored corner that is at the top left of the upright picture, according to the Exif table.
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

    /// Returns the boxes. The last one is outside the picture.
    pub fn boxes(&self) -> Vec<[f32; 4]> {
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

    /// Returns the centre of each quadrant as a visible point, followed by one unlabelled point.
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

pub struct Scenes {
    dir: tempfile::TempDir,
    pub all: Vec<Scene>,
}

impl Scenes {
    pub fn new(count: u64) -> Self {
        Self::with(count, |_, _| {})
    }

    /// Writes `count` scenes. `change` may modify each scene and its values before they are written.
    pub fn with(count: u64, change: impl Fn(&mut Scene, &mut Vec<Option<Stored>>)) -> Self {
        let dir = scratch();
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

    pub fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }
}

pub fn align(all: &[(&str, &str)]) -> Vec<(String, Align)> {
    all.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap())).collect()
}

pub fn options(image: &str) -> LoaderOptions {
    let all = [("mask", "mask"), ("points", "keypoints,swap=0-1"), ("classes", "rows,of=boxes"), ("boxes", "boxes")];
    base()
        .batch_size(5)
        .threads(3)
        .seed(11)
        .end(End::Uneven)
        .image(image.parse::<shardpack_loader::ImageMode>().unwrap())
        .fields(["mask", "image"])
        .objects(["caption"])
        .align(align(&all))
}

pub fn batches(scenes: &Scenes, options: LoaderOptions) -> Vec<Batch> {
    let mut loader = Loader::open(&scenes.open(), options).unwrap();
    std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect()
}
