//! Test helpers that write small cubes to disk and pack datasets from them.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod texts;

use shardpack_array::{Array, ArrayDecoder};
use shardpack_format::Dtype;
use shardpack_pack::pack::{Hooks, PackOptions, PackReport, pack};
use shardpack_reader::Dataset;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Returns a smooth float32 cube, different for each `seed`. With the default options, packing rounds its values to
/// float16.
pub fn cube(seed: u8) -> Array {
    let values = (0..6 * 5 * 4_u16).map(|i| (f32::from(i) * 0.013).sin() + f32::from(seed) * 0.37);
    Array::new(Dtype::F32, vec![6, 5, 4], values.flat_map(f32::to_le_bytes).collect()).unwrap()
}

pub fn write_npy(path: &Path, array: &Array) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, [&shardpack_pack::npy::header(array), array.bytes()].concat()).unwrap();
}

/// Writes `count` cubes: `cube0.npy` and so on.
pub fn write_cubes(folder: &Path, count: u8) {
    (0..count).for_each(|i| write_npy(&folder.join(format!("cube{i}.npy")), &cube(i)));
}

pub fn run(src: &Path, out: &Path, options: &PackOptions) -> shardpack::Result<PackReport> {
    let cancel = AtomicBool::new(false);
    pack(src, out, options, &Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel })
}

/// Returns the keys and the decoded cubes, sorted by key. The cube is the first array field, whatever its name.
pub fn contents(dataset: &Path) -> Vec<(String, Array)> {
    let mut decoder = ArrayDecoder::new();
    let dataset = Dataset::open(dataset).unwrap();
    let mut out: Vec<_> = dataset
        .iter()
        .unwrap()
        .map(|sample| {
            let sample = sample.unwrap();
            let view = sample.view();
            let field = view.schema().stored().next().unwrap().name.clone();
            (view.key().to_owned(), view.array(&field, &mut decoder).unwrap())
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}
