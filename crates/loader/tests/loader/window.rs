//! Tests where the order's window is kept. Batches must not depend on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, Seen, epoch};
use shardpack_format::{ErrorKind, Explain as _};
use shardpack_io::{Folder, Rig, RiggedStorage};
use shardpack_jpeg::View;
use shardpack_loader::order::{End, Mode, Order, OrderState, Runs};
use shardpack_loader::{ImageMode, Loader, LoaderOptions, OnCorrupt, Window};
use shardpack_reader::{Dataset, DatasetOptions, Error};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Reports a folder as cached or not cached, and counts reads and announcements.
#[derive(Debug, Default)]
struct Told {
    /// 0 if unknown, 1 if not cached, 2 if cached.
    is_cached: AtomicU8,
    asked: AtomicU64,
    reads: AtomicU64,
    announced: AtomicU64,
}

impl Rig for Told {
    fn read(&self, _: &str, range: Range<u64>) -> io::Result<u64> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(range.end - range.start)
    }

    fn announce(&self, _: &str, range: Range<u64>) {
        self.announced.fetch_add(range.end - range.start, Ordering::Relaxed);
    }

    fn is_cached(&self, _: &str, _: u64) -> Option<bool> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        [None, Some(false), Some(true)][usize::from(self.is_cached.load(Ordering::Relaxed))]
    }
}

fn told(disk: &Disk, is_cached: Option<bool>) -> (Dataset, Arc<Told>) {
    let storage = RiggedStorage::new(Folder::open(disk.path(), false).unwrap(), Told::default());
    let told = Arc::clone(&storage.rig);
    told.is_cached.store(is_cached.map_or(0, |is_cached| 1 + u8::from(is_cached)), Ordering::Relaxed);
    (DatasetOptions::new().open_in(Arc::new(storage)).unwrap(), told)
}

fn medium(counts: &[u64]) -> Disk {
    Disk::new(counts, |id| {
        let (height, width) = (64 + (id % 5) as u32, 64 + (id % 7) as u32);
        Made { id, height, width, said_height: height, half: false }
    })
}

fn options(window: Window) -> LoaderOptions {
    let order = Order::new(Runs::new(90, 6), 3).lanes(4);
    LoaderOptions::default().batch_size(8).threads(2).window(window).sampling(Arc::new(order))
}

fn load(dataset: &Dataset, options: LoaderOptions) -> Vec<Seen> {
    epoch(&mut Loader::open(dataset, options).unwrap())
}

#[test]
fn batches_do_not_depend_on_the_window() {
    let disk = medium(&[31, 0, 40, 19]);
    let crop = ImageMode::View(View::random_resized_crop(16).with_flip(0.5));
    for (mode, image, end) in [
        (None, crop, End::Pad),
        (None, ImageMode::Raw, End::Uneven),
        (Some(Mode::Full), LoaderOptions::default().view.image, End::Drop),
        (Some(Mode::Stored), crop, End::Uneven),
    ] {
        for (rank, world_size) in [(0, 1), (2, 3)] {
            let with = |window| {
                let sampling = options(window).order.sampling.filter(|_| mode.is_none());
                let mode = mode.unwrap_or_default();
                let options = {
                    let mut options =
                        options(window).mode(mode).image(image).end(end).rank(rank).world_size(world_size);
                    options.order.sampling = sampling;
                    options
                };
                load(&disk.open(), options)
            };
            let expected = with(Window::Memory);
            assert!(!expected.is_empty());
            assert!(with(Window::PageCache) == expected, "{mode:?}, {rank} of {world_size}");
            assert!(with(Window::Auto) == expected, "{mode:?}, {rank} of {world_size}");
        }
    }
}

#[test]
fn cached_records_are_read_one_by_one_and_not_held() {
    let disk = medium(&[90]);
    let (dataset, told) = told(&disk, Some(true));
    let mut loader = Loader::open(&dataset, options(Window::Auto)).unwrap();
    let asked = told.asked.load(Ordering::Relaxed);
    assert_eq!(asked, 64, "places");
    told.reads.store(0, Ordering::Relaxed);
    assert_eq!(epoch(&mut loader).len(), 11);
    // The 11 whole batches have 88 samples, and each sample is one read.
    assert_eq!(told.reads.load(Ordering::Relaxed), 88);
    assert_eq!(told.announced.load(Ordering::Relaxed), 0, "what is there need not be fetched");
    let stats = loader.stats();
    assert!(stats.window_in_page_cache);
    assert_eq!(stats.peak_run_bytes, 0);
    let other = Loader::open(&dataset, options(Window::Memory)).unwrap();
    assert!(loader.predicted_bytes() + 4 * 100_000 < other.predicted_bytes(), "a window of four runs");
}

#[test]
fn runs_are_read_if_the_state_of_the_cache_is_unknown() {
    let disk = medium(&[90]);
    let (dataset, told) = told(&disk, None);
    let mut loader = Loader::open(&dataset, options(Window::Auto).end(End::Uneven)).unwrap();
    told.reads.store(0, Ordering::Relaxed);
    assert_eq!(epoch(&mut loader).len(), 12);
    // The peak shows that runs of six samples are in memory as a whole. The limit is so low that some runs are read
    // twice.
    assert!(loader.stats().peak_run_bytes > 6 * 20_000);
    assert!(!loader.stats().window_in_page_cache);
    assert!(told.announced.load(Ordering::Relaxed) > 1_000_000);
    // Each epoch checks the page cache again.
    told.is_cached.store(2, Ordering::Relaxed);
    let before = loader.predicted_bytes();
    told.reads.store(0, Ordering::Relaxed);
    // Skip an epoch. Otherwise the loader would start the next one before this one ends.
    loader.set_epoch(2).unwrap();
    assert_eq!(epoch(&mut loader).len(), 12);
    assert_eq!(told.reads.load(Ordering::Relaxed), 90);
    assert!(loader.stats().window_in_page_cache);
    assert_eq!(loader.predicted_bytes(), before, "the most of all epochs");
}

#[test]
fn uncached_runs_are_fetched_whole_and_read_sample_by_sample() {
    let disk = medium(&[50, 40]);
    // With `PageCache`, the window is kept in the page cache even if nothing is cached.
    for (window, is_cached, asked) in [(Window::Auto, Some(false), 64), (Window::PageCache, None, 0)] {
        let (dataset, told) = told(&disk, is_cached);
        let mut loader = Loader::open(&dataset, options(window).end(End::Uneven)).unwrap();
        told.reads.store(0, Ordering::Relaxed);
        assert_eq!(epoch(&mut loader).len(), 12);
        assert_eq!(told.reads.load(Ordering::Relaxed), 90, "{window:?}");
        // Drop the loader first, because its threads may still announce reads.
        drop(loader);
        let stored: u64 = (0..2).map(|number| dataset.shard(number).unwrap().footer().index_offset - 64).sum();
        assert_eq!(told.announced.load(Ordering::Relaxed), stored, "{window:?}: each run once");
        assert_eq!(told.asked.load(Ordering::Relaxed), asked, "{window:?}");
    }
}

#[test]
fn records_that_are_small_or_large_are_read_run_by_run() {
    for side in [16, 420] {
        let disk = Disk::new(&[12], |id| Made { id, height: side, width: side, said_height: side, half: false });
        let (dataset, _) = told(&disk, Some(true));
        let mut loader = Loader::open(&dataset, LoaderOptions::default().batch_size(4).threads(2)).unwrap();
        assert_eq!(epoch(&mut loader).len(), 3);
        assert!(!loader.stats().window_in_page_cache, "{side} pixels");
    }
}

#[test]
fn a_damaged_record_and_a_file_that_was_cut_are_named() {
    let disk = medium(&[90]);
    disk.hurt(10);
    let shard = disk.open().shard(0).unwrap();
    let (dataset, _) = told(&disk, Some(true));
    let raw = |on_corrupt| options(Window::PageCache).end(End::Uneven).on_corrupt(on_corrupt);
    let mut loader = Loader::open(&dataset, raw(OnCorrupt::Error)).unwrap();
    let errors: Vec<Error> = std::iter::from_fn(|| loader.next_batch()).filter_map(Result::err).collect();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    let text = error.to_string();
    assert!(error.kind() == ErrorKind::Format && text.contains("record 10, sample `sample-00010`"), "{text}");
    let mut loader = Loader::open(&dataset, raw(OnCorrupt::Skip { max: 1 })).unwrap();
    assert_eq!(epoch(&mut loader).len(), 12);
    assert_eq!((loader.stats().samples, loader.stats().skipped), (89, 1));

    // The file is truncated in the middle of record 80, after the dataset was opened.
    let mut loader = Loader::open(&dataset, raw(OnCorrupt::Skip { max: 20 })).unwrap();
    let end = shard.row(80).unwrap();
    let file = std::fs::File::options().write(true).open(disk.path().join("shard-00000.shard")).unwrap();
    file.set_len(end.offset + end.length / 2).unwrap();
    epoch(&mut loader);
    assert_eq!((loader.stats().samples, loader.stats().skipped), (79, 11));
    let mut loader = Loader::open(&dataset, raw(OnCorrupt::Error)).unwrap();
    let errors: Vec<String> =
        std::iter::from_fn(|| loader.next_batch()).filter_map(|batch| Some(batch.err()?.to_string())).collect();
    assert!(
        errors.iter().any(|text| text.contains("sample `sample-000") && text.contains("the file ends")),
        "{errors:?}"
    );
}

#[test]
fn an_epoch_continues_after_the_window_moves() {
    let disk = medium(&[90]);
    let dataset = disk.open();
    for (first, then) in [(Window::Memory, Window::PageCache), (Window::PageCache, Window::Memory)] {
        let all = load(&dataset, options(first));
        let mut loader = Loader::open(&dataset, options(first)).unwrap();
        for _ in 0..4 {
            loader.next_batch().unwrap().unwrap();
        }
        let state: OrderState = loader.state();
        let mut loader = Loader::open(&dataset, options(then)).unwrap();
        loader.restore(&state).unwrap();
        assert!(epoch(&mut loader) == all[4..]);
    }
}

#[test]
fn a_window_has_the_names_that_the_command_takes() {
    for (text, window) in [("auto", Window::Auto), ("memory", Window::Memory), ("page-cache", Window::PageCache)] {
        assert_eq!(text.parse::<Window>().unwrap(), window);
    }
    let error = "disk".parse::<Window>().unwrap_err().to_string();
    assert!(error.contains("`auto`, `memory` or `page-cache`") && error.contains("`disk`"), "{error}");
}
