//! Cubes of float16 in every layout that supports reading regions. Each has a mask and a spectrum.

use super::super::support::scratch;
use super::{Seen, epoch, record, write};
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::*;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::{Array, ArrayDecoder, Bands, Dataset};

pub struct Cubes {
    pub dir: tempfile::TempDir,
}

#[derive(Clone, Copy)]
pub struct Shape {
    pub height: u64,
    pub width: u64,
    pub bands: u64,
    /// Number of rows by which the mask exceeds its cube.
    pub mask_rows: u64,
}

pub const ALIKE: Shape = Shape { height: 40, width: 30, bands: 12, mask_rows: 0 };

pub fn varied(id: u64) -> Shape {
    Shape { height: 20 + id * 7 % 30, width: 20 + id * 11 % 41, ..ALIKE }
}

/// Returns storage settings that depend on `id`. All of them support reading regions.
fn settings(id: u64) -> ArraySettings {
    ArraySettings {
        values: ValueRule::F16,
        coder: if id.is_multiple_of(2) { Coder::Blosc2Lz4 } else { Coder::Blosc2Zstd },
        level: if id.is_multiple_of(2) { None } else { Some(1) },
        filter: Filter::Shuffle,
        band_difference: id.is_multiple_of(3),
        layout: if id % 4 < 2 { ArrayLayout::AsShape } else { ArrayLayout::BandMajor },
    }
}

impl Cubes {
    pub fn new(counts: &[u64], columns: &[&str], shape: impl Fn(u64) -> Shape) -> Self {
        let mut fields = ["cube", "mask", "spectrum"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
        fields.extend(columns.iter().map(|name| Field::scalar(*name, Dtype::U32)));
        let dir = scratch();
        write(dir.path(), &Schema::new(fields).unwrap(), counts, |schema, number, id| {
            let Shape { height, width, bands, mask_rows } = shape(id);
            let value = |i: u64| ((i * 13 + id * 7) % 2000) as f32 / 16.0;
            let cube = (0..height * width * bands).flat_map(|i| value(i).to_le_bytes()).collect();
            let cube = Array::new(Dtype::F32, vec![height, width, bands], cube).unwrap();
            let cube = ArrayEncoder::new(settings(id)).unwrap().encode(&cube, None).unwrap();
            let mask: Vec<u8> = (0..(height + mask_rows) * width).map(|i| (i * 5 + id) as u8).collect();
            let spectrum: Vec<u8> = (0..bands as u8).collect();
            let plain = |shape| ArrayDescriptor::plain(Dtype::U8, shape).encode().unwrap();
            let stored_bytes = cube.descriptor.stored_bytes().unwrap();
            let values = [
                (cube.codec, cube.payload, cube.descriptor.encode().unwrap(), Some(stored_bytes)),
                (Codec::Raw, mask, plain(vec![height + mask_rows, width]), None),
                (Codec::Raw, spectrum, plain(vec![bands]), None),
            ];
            let axes = [height, width, bands].map(|axis| (axis as u32).to_le_bytes());
            let (key, scalars) = (format!("cube-{id}"), axes[..columns.len()].concat());
            let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values.map(Some));
            (bytes, frame, key, scalars)
        });
        Self { dir }
    }

    pub fn packed(counts: &[u64], shape: impl Fn(u64) -> Shape) -> Self {
        Self::new(counts, &["height", "width", "channels"], shape)
    }

    pub fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }

    pub fn load(&self, options: LoaderOptions) -> Vec<Seen> {
        let mut loader = Loader::open(&self.open(), options).unwrap();
        epoch(&mut loader)
    }

    pub fn refused(&self, options: LoaderOptions) -> String {
        super::said(&Loader::open(&self.open(), options).unwrap_err())
    }

    pub fn array(&self, id: u64, field: &str) -> Array {
        self.open().get(id).unwrap().view().array(field, &mut ArrayDecoder::new()).unwrap()
    }
}

/// Copies a crop from the whole array element by element, for comparison. `bands` are the bands of a cube. A mask has
/// one band.
pub fn crop(array: &Array, [top, left]: [u64; 2], [height, width]: [u64; 2], bands: &[u64], first: bool) -> Vec<u8> {
    let size = array.dtype().bytes();
    let (columns, channels) = (array.shape()[1], array.shape().get(2).copied().unwrap_or(1));
    let element = |y: u64, x: u64, band: u64| {
        let at = ((((top + y) * columns + left + x) * channels + band) * size) as usize;
        &array.bytes()[at..at + size as usize]
    };
    let mut out = Vec::new();
    if first {
        for &band in bands {
            (0..height * width).for_each(|i| out.extend(element(i / width, i % width, band)));
        }
    } else {
        for i in 0..height * width {
            bands.iter().for_each(|&band| out.extend(element(i / width, i % width, band)));
        }
    }
    out
}

pub fn list(bands: &Bands) -> Vec<u64> {
    match bands {
        Bands::All => (0..12).collect(),
        Bands::Range(range) => range.clone().collect(),
        Bands::List(list) => list.clone(),
    }
}
