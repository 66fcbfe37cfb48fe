//! Tests that a warmed-up loader allocates once per batch, not once per sample.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::counting::CALLS;
use crate::loader_support::Disk;
use shardpack_loader::order::Mode;
use shardpack_loader::{CubeMode, ImageMode, Loader, LoaderOptions, PatchPlace};
use shardpack_reader::Bands;
use std::sync::atomic::Ordering;

fn per_sample(disk: &Disk, options: LoaderOptions) -> f64 {
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    let mut samples = 0;
    let mut before = 0;
    for epoch in 0..20 {
        if epoch == 12 {
            before = CALLS.load(Ordering::Relaxed);
            samples = 0;
        }
        loader.set_epoch(epoch).unwrap();
        while let Some(batch) = loader.next_batch() {
            samples += batch.unwrap().len();
        }
    }
    (CALLS.load(Ordering::Relaxed) - before) as f64 / samples as f64
}

/// This file has only one test, because the count covers the whole process.
#[test]
fn batches_allocate_and_samples_do_not() {
    let _alone = crate::alone();
    let disk = Disk::varied(&[512, 512]);
    let options = |batch_size, mode| LoaderOptions::default().batch_size(batch_size).threads(2).mode(mode);
    for mode in [Mode::Stored, Mode::Windowed] {
        let raw = options(256, mode).image(ImageMode::Raw).cube(CubeMode::Raw);
        let count = per_sample(&disk, raw);
        assert!(count < 0.2, "{mode:?}, stored bytes: {count} allocations a sample");
    }
    // These arrays are stored without a codec. Their shapes differ, so the loader parses each descriptor, which takes
    // two allocations.
    let cubes = options(256, Mode::Stored).fields(["cube", "label"]);
    let count = per_sample(&disk, cubes);
    assert!(count < 3.0, "cubes: {count} allocations a sample");
    let disk = Disk::alike(&[1024]);
    let cubes = options(256, Mode::Stored).fields(["cube", "label"]);
    let count = per_sample(&disk, cubes);
    assert!(count < 0.2, "cubes of one shape: {count} allocations a sample");
    let cube = CubeMode::Patch { height: 7, width: 9, place: PatchPlace::Random };
    let patches = options(256, Mode::Stored).cube(cube).bands(Bands::List(vec![2, 0])).fields(["cube"]);
    let count = per_sample(&disk, patches);
    assert!(count < 0.2, "patches: {count} allocations a sample");
}
