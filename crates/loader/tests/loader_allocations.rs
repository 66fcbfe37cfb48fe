//! After warm-up, the loader allocates by the batch, not by the sample.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(unsafe_code, reason = "an allocator that counts")]

mod loader_support;
#[path = "../../reader/tests/support/mod.rs"]
mod support;

use loader_support::Disk;
use shardpack_loader::order::Mode;
use shardpack_loader::{CubeMode, ImageMode, Loader, LoaderOptions, Place};
use shardpack_reader::Bands;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations for each sample of the later epochs.
fn per_sample(disk: &Disk, options: LoaderOptions) -> f64 {
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    let mut samples = 0;
    let mut before = 0;
    for epoch in 0..20 {
        if epoch == 12 {
            before = COUNT.load(Ordering::Relaxed);
            samples = 0;
        }
        loader.set_epoch(epoch).unwrap();
        while let Some(batch) = loader.next_batch() {
            samples += batch.unwrap().len();
        }
    }
    (COUNT.load(Ordering::Relaxed) - before) as f64 / samples as f64
}

/// One test: the count is that of the whole process.
#[test]
fn batches_allocate_and_samples_do_not() {
    let disk = Disk::varied(&[512, 512]);
    let options = |batch_size, mode| LoaderOptions { batch_size, threads: 2, mode, ..Default::default() };
    for mode in [Mode::Stored, Mode::Windowed] {
        let raw = LoaderOptions { image: ImageMode::Raw, cube: CubeMode::Raw, ..options(256, mode) };
        let count = per_sample(&disk, raw);
        assert!(count < 0.2, "{mode:?}, stored bytes: {count} allocations a sample");
    }
    // Arrays that are stored as they are. The shapes differ from one to the next, so that each
    // descriptor is parsed, which takes two.
    let cubes = LoaderOptions { fields: Some(vec!["cube".into(), "label".into()]), ..options(256, Mode::Stored) };
    let count = per_sample(&disk, cubes);
    assert!(count < 3.0, "cubes: {count} allocations a sample");
    let disk = Disk::alike(&[1024]);
    let cubes = LoaderOptions { fields: Some(vec!["cube".into(), "label".into()]), ..options(256, Mode::Stored) };
    let count = per_sample(&disk, cubes);
    assert!(count < 0.2, "cubes of one shape: {count} allocations a sample");
    let cube = CubeMode::Patch { height: 7, width: 9, place: Place::Random };
    let fields = Some(vec!["cube".into()]);
    let patches = LoaderOptions { fields, cube, bands: Bands::List(vec![2, 0]), ..options(256, Mode::Stored) };
    let count = per_sample(&disk, patches);
    assert!(count < 0.2, "patches: {count} allocations a sample");
}
