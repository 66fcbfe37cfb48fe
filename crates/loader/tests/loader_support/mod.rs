//! Datasets for the loader's tests, in several shards. They contain arrays, labels and real JPEGs, which are
//! generated here from flat blocks of 8 × 8 pixels.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

pub mod aligned;
pub mod columns;
pub mod cubes;
pub mod fake_jobs;
pub mod fake_parts;
pub mod fake_stage;

use super::support::{ID, entry, finish, scratch};
use fake_stage::FakeStage;
use shardpack_format::*;
use shardpack_loader::{Batch, Loader, LoaderOptions, Tensor};
use shardpack_reader::Dataset;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Part size in bytes that is small enough to make most records of the tests large.
pub const SMALL_PART_BYTES: usize = 400;

/// Environment variable that selects the [`Way`] of a test process.
pub const WAY: &str = "SHARDPACK_LOADER_TESTS";

/// Way in which the loaders of a test process decode. `loader/repeats.rs` runs the tests once for each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Host,
    Staged,
    /// Treats records of two kilobytes as large, so all threads read parts of them.
    InParts,
    StagedInParts,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::Host, Self::Staged, Self::InParts, Self::StagedInParts];

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn base(self) -> LoaderOptions {
        let staged = matches!(self, Self::Staged | Self::StagedInParts);
        let in_parts = matches!(self, Self::InParts | Self::StagedInParts);
        let mut options = LoaderOptions::default();
        if in_parts {
            options.resources.part_bytes = SMALL_PART_BYTES;
        }
        options.resources.stage = staged.then(|| Arc::new(FakeStage::default()) as _);
        options
    }
}

/// Returns the options that tests start from, for the process's [`Way`]. By default, these are options for the host.
pub fn base() -> LoaderOptions {
    let Ok(name) = std::env::var(WAY) else { return Way::Host.base() };
    Way::ALL.into_iter().find(|way| way.name() == name).unwrap().base()
}

/// Reads the rows of a field, which may be on the host or on a device.
pub trait RowOf {
    fn all(&self) -> Vec<u8>;
    fn row_of(&self, i: usize) -> Vec<u8>;
}

impl RowOf for Tensor<'_> {
    fn all(&self) -> Vec<u8> {
        self.to_host().unwrap()
    }

    fn row_of(&self, i: usize) -> Vec<u8> {
        let start = self.offsets().nth(i).unwrap();
        let bytes = self.row_shape(i).unwrap().iter().product::<u64>() * self.dtype().bytes();
        self.all()[start..start + bytes as usize].to_vec()
    }
}

#[derive(Debug, Clone)]
pub struct Made {
    pub id: u64,
    pub height: u32,
    pub width: u32,
    /// Height in the index. Some tests set a wrong value.
    pub said_height: u32,
    /// True if the array is float32 stored as float16, and false if it is uint16.
    pub half: bool,
}

impl Made {
    pub fn key(&self) -> String {
        format!("sample-{:05}", self.id)
    }

    pub fn cube(&self) -> Vec<u8> {
        let elements = self.height * self.width * 3;
        (0..elements).flat_map(|i| ((i + self.id as u32 * 31) as u16).to_le_bytes()).collect()
    }

    /// Returns the grey level of the block at row `y` and column `x`, counted in blocks.
    pub fn level(&self, y: u32, x: u32) -> u8 {
        ((self.id * 13 + u64::from(y * 31 + x * 7)) % 200 + 20) as u8
    }

    pub fn jpeg(&self) -> Vec<u8> {
        jpeg(self.height, self.width, |y, x| self.level(y, x))
    }

    pub fn record_with(&self, schema: &Schema, shard: u32, cube: bool) -> (Vec<u8>, Frame, String, Vec<u8>) {
        let (bytes, frame, scalars) = self.record(schema, shard, cube);
        (bytes, frame, self.key(), scalars)
    }

    fn record(&self, schema: &Schema, shard: u32, with_cube: bool) -> (Vec<u8>, Frame, Vec<u8>) {
        let (jpeg, cube) = (self.jpeg(), self.cube());
        let shape = vec![self.height.into(), self.width.into(), 3];
        let mut descriptor = ArrayDescriptor::plain(Dtype::U16, shape);
        if self.half {
            descriptor.transform = Transform::F16;
            (descriptor.stored, descriptor.decoded) = (Dtype::F16, Dtype::F32);
        }
        let descriptor = descriptor.encode().unwrap();
        let array = (Codec::Raw, cube, descriptor, None);
        let values = [Some((Codec::Jpeg, jpeg, b"image/jpeg".to_vec(), None)), Some(array).filter(|_| with_cube)];
        let mut scalars = (self.id as i64 % 10).to_le_bytes().to_vec();
        for axis in [self.said_height, self.width, 3] {
            scalars.extend(axis.to_le_bytes());
        }
        let (bytes, frame) = record(schema, (shard, self.id), &self.key(), &scalars, &values);
        (bytes, frame, scalars)
    }
}

/// A stored value: its codec, its bytes, its descriptor, and its decoded size if that differs.
pub type Stored = (Codec, Vec<u8>, Vec<u8>, Option<u64>);

pub fn record(
    schema: &Schema,
    (shard, id): (u32, u64),
    key: &str,
    scalars: &[u8],
    values: &[Option<Stored>],
) -> (Vec<u8>, Frame) {
    fn field(value: &Option<Stored>) -> Option<StoredField<'_>> {
        let (codec, bytes, descriptor, decoded) = value.as_ref()?;
        let stored_bytes = bytes.len() as u64;
        let decoded_bytes = decoded.unwrap_or(stored_bytes);
        Some(StoredField { codec: *codec, stored_bytes, decoded_bytes, descriptor })
    }
    let fields: Vec<_> = values.iter().map(field).collect();
    let mut builder = RecordBuilder::new(Vec::new(), schema, shard, id, key, scalars, &fields).unwrap();
    for (i, (_, bytes, ..)) in values.iter().enumerate().filter_map(|(i, value)| Some((i, value.as_ref()?))) {
        builder.field_mut(i).copy_from_slice(bytes);
    }
    builder.finish()
}

pub fn schema() -> Schema {
    let mut fields = vec![
        Field::stored("image", FieldKind::Image),
        Field::stored("cube", FieldKind::Array),
        Field::scalar("label", Dtype::I64),
    ];
    fields.extend(["height", "width", "channels"].map(|name| Field::scalar(name, Dtype::U32)));
    Schema::new(fields).unwrap()
}

/// A dataset on disk. The constructors take the number of samples of each shard as `counts`.
pub struct Disk {
    pub dir: tempfile::TempDir,
    pub samples: Vec<Made>,
}

impl Disk {
    pub fn alike(counts: &[u64]) -> Self {
        Self::new(counts, |id| Made { id, height: 16, width: 24, said_height: 16, half: false })
    }

    pub fn varied(counts: &[u64]) -> Self {
        Self::new(counts, |id| {
            let (height, width) = (8 + (id * 5 % 23) as u32, 8 + (id * 11 % 37) as u32);
            Made { id, height, width, said_height: height, half: false }
        })
    }

    pub fn new(counts: &[u64], make: impl Fn(u64) -> Made) -> Self {
        let dir = scratch();
        let mut samples = Vec::new();
        write(dir.path(), &schema(), counts, |schema, number, id| {
            let made = make(id);
            samples.push(made.clone());
            made.record_with(schema, number, true)
        });
        Self { dir, samples }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn open(&self) -> Dataset {
        Dataset::open(self.path()).unwrap()
    }

    /// Changes a byte in the middle of sample `id`'s record, which must be in shard 0.
    pub fn hurt(&self, id: u64) {
        let path = self.path().join(shard_name(0));
        let row = self.open().shard(0).unwrap().row(id).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(row.offset + row.length / 2) as usize] ^= 0xFF;
        std::fs::write(&path, bytes).unwrap();
    }
}

/// Writes a dataset with `counts[k]` samples in shard `k`. `make` gets the shard and the sample, and returns
/// the record, frame, key and scalars.
pub fn write(
    dir: &Path,
    schema: &Schema,
    counts: &[u64],
    make: impl FnMut(&Schema, u32, u64) -> (Vec<u8>, Frame, String, Vec<u8>),
) {
    write_classes(dir, (schema, None), counts, make);
}

pub fn write_classes(
    dir: &Path,
    (schema, classes): (&Schema, Option<&[&str]>),
    counts: &[u64],
    mut make: impl FnMut(&Schema, u32, u64) -> (Vec<u8>, Frame, String, Vec<u8>),
) {
    let classes = classes.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let shards = Some(counts.len() as u32);
    let metadata = Metadata { schema: schema.clone(), classes, shards, ..Default::default() };
    let mut manifest = Manifest::new(ID, metadata.clone());
    let mut ids = 0..;
    for (number, &count) in (0..).zip(counts) {
        let identity = Identity::new(ID, number);
        let mut out = identity.encode_header().to_vec();
        let mut index = IndexBuilder::new(&metadata.schema);
        for id in ids.by_ref().take(count as usize) {
            let (bytes, frame, key, scalars) = make(schema, number, id);
            index.push(&frame, &key, &scalars).unwrap();
            out.extend(bytes);
        }
        let index = index.encode(&metadata.encode().unwrap()).unwrap();
        let bytes = finish(out, identity, count, &index);
        std::fs::write(dir.join(shard_name(number)), &bytes).unwrap();
        manifest.push(entry(&shard_name(number), &bytes));
    }
    std::fs::write(dir.join(MANIFEST_NAME), manifest.encode().unwrap()).unwrap();
}

pub type Seen = (Vec<u64>, Vec<bool>, Vec<(String, Vec<Vec<u64>>, Vec<Vec<u8>>)>);

pub fn seen(batch: &Batch) -> Seen {
    let fields = batch.fields().map(|field| {
        let shapes = (0..batch.len()).map(|i| field.row_shape(i).unwrap().to_vec()).collect();
        let rows = (0..batch.len()).map(|i| field.row_of(i)).collect();
        (field.name().to_owned(), shapes, rows)
    });
    (batch.indices().to_vec(), batch.mask().to_vec(), fields.collect())
}

pub fn epoch(loader: &mut Loader) -> Vec<Seen> {
    std::iter::from_fn(|| loader.next_batch()).map(|batch| seen(&batch.unwrap())).collect()
}

/// Returns a grey baseline JPEG of flat blocks, which has only DC coefficients. Their Huffman table has twelve codes
/// of four bits. The AC table has a single code for "end of block".
pub fn jpeg(height: u32, width: u32, level: impl Fn(u32, u32) -> u8) -> Vec<u8> {
    let mut out = vec![0xFF, 0xD8];
    let segment = |out: &mut Vec<u8>, marker: u8, body: &[u8]| {
        out.extend([0xFF, marker]);
        out.extend(((body.len() + 2) as u16).to_be_bytes());
        out.extend(body);
    };
    // A flat block of level v has the DC coefficient 8 (v - 128), which the quantiser divides by 8.
    segment(&mut out, 0xDB, &[&[0][..], &[8; 64]].concat());
    let size = [(height as u16).to_be_bytes(), (width as u16).to_be_bytes()].concat();
    segment(&mut out, 0xC0, &[&[8][..], &size, &[1, 1, 0x11, 0]].concat());
    let counts = |length: usize, n: u8| (1..=16).map(move |l| if l == length { n } else { 0 }).collect::<Vec<u8>>();
    segment(&mut out, 0xC4, &[&[0x00][..], &counts(4, 12), &(0..12).collect::<Vec<u8>>()].concat());
    segment(&mut out, 0xC4, &[&[0x10][..], &counts(1, 1), &[0]].concat());
    segment(&mut out, 0xDA, &[1, 1, 0, 0, 63, 0]);
    let (mut bits, mut count) = (0_u64, 0);
    let mut put = |out: &mut Vec<u8>, value: u32, length: u32| {
        bits = bits << length | u64::from(value);
        count += length;
        while count >= 8 {
            count -= 8;
            let byte = (bits >> count) as u8;
            out.push(byte);
            if byte == 0xFF {
                out.push(0);
            }
        }
    };
    let mut before = 0_i32;
    for y in 0..height.div_ceil(8) {
        for x in 0..width.div_ceil(8) {
            let value = i32::from(level(y, x)) - 128;
            let difference = value - std::mem::replace(&mut before, value);
            let category = 32 - difference.unsigned_abs().leading_zeros();
            put(&mut out, category, 4);
            let code = if difference < 0 { difference - 1 } else { difference };
            put(&mut out, code as u32 & ((1 << category) - 1), category);
            put(&mut out, 0, 1);
        }
    }
    put(&mut out, 0x7F, 7);
    out.extend([0xFF, 0xD9]);
    out
}

pub fn said(error: &shardpack_loader::Error) -> String {
    shardpack_format::told(error, &error.hint(), shardpack_format::Voice::Rust)
}

/// Fails a test whose loader hangs, instead of blocking. The limit of ten minutes is not a test of speed.
pub fn in_the_end<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(Duration::from_secs(600)).expect("an end")
}
