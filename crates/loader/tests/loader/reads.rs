//! Tests which reads the loader makes, and what happens if parts of a file are unreadable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, base};
use shardpack_format::{ErrorKind, Explain as _};
use shardpack_io::{Rig, RiggedStorage};
use shardpack_loader::order::{End, Mode, Order, Runs};
use shardpack_loader::{CubeMode, ImageMode, Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::{Dataset, DatasetOptions, Error, Limits};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Records every read. Reads that overlap the range `bad` of the first shard fail with EIO.
#[derive(Debug, Default)]
struct Watch {
    seen: Arc<Mutex<Vec<Range<u64>>>>,
    bad: Arc<Mutex<Option<Range<u64>>>>,
}

impl Rig for Watch {
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<u64> {
        self.seen.lock().unwrap().push(range.clone());
        let bad = self.bad.lock().unwrap().clone().filter(|_| name.contains("00000"));
        if bad.is_some_and(|bad| range.start < bad.end && bad.start < range.end) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(range.end - range.start)
    }
}

struct Opened {
    dataset: Dataset,
    seen: Arc<Mutex<Vec<Range<u64>>>>,
    bad: Arc<Mutex<Option<Range<u64>>>>,
}

fn watch(disk: &Disk) -> Opened {
    let watch = Watch::default();
    let (seen, bad) = (Arc::clone(&watch.seen), Arc::clone(&watch.bad));
    let storage = RiggedStorage::of_folder(disk.path(), watch);
    Opened { dataset: DatasetOptions::new().open_in(Arc::new(storage)).unwrap(), seen, bad }
}

fn raw(batch_size: u32) -> LoaderOptions {
    let (image, cube) = (ImageMode::Raw, CubeMode::Raw);
    base().batch_size(batch_size).threads(2).image(image).cube(cube).end(End::Uneven)
}

#[test]
fn reads_are_about_four_mebibytes_for_all_sizes_of_records() {
    // Runs have 40 samples. Some runs have 60 kB in total, some have 14 MB, and some contain
    // records of 6.7 MB.
    let disk = Disk::new(&[100, 100], |id| {
        let side = [16, 240, 1055][usize::from(id >= 80) + usize::from(id >= 80 && id % 25 == 24)];
        Made { id, height: side, width: side, said_height: side, half: false }
    });
    let opened = watch(&disk);
    let order = Order::new(Runs::new(200, 40), 7).lanes(3);
    for (mode, sampling) in [(Mode::Stored, None), (Mode::Windowed, Some(Arc::new(order) as Arc<_>))] {
        // Turn off decoding in parts, which other tests cover.
        let part_bytes = usize::MAX;
        let options = {
            let mut options = raw(8).mode(mode).part_bytes(part_bytes);
            options.order.sampling = sampling;
            options
        };
        let mut loader = Loader::open(&opened.dataset, options).unwrap();
        opened.seen.lock().unwrap().clear();
        let mut samples = Vec::new();
        while let Some(batch) = loader.next_batch() {
            samples.extend(batch.unwrap().indices().to_vec());
        }
        samples.sort_unstable();
        assert_eq!(samples, (0..200).collect::<Vec<_>>());
        let reads = opened.seen.lock().unwrap().clone();
        let largest = reads.iter().map(|read| read.end - read.start).max().unwrap();
        assert!(largest < 7_000_000, "{mode:?}: {largest} bytes in one read: the largest record alone is the most");
        assert!(reads.len() < 40, "{mode:?}: {} reads of 46 MB", reads.len());
        let mut stored = 0;
        for number in 0..2 {
            stored += opened.dataset.shard(number).unwrap().footer().index_offset - 64;
        }
        assert_eq!(loader.stats().read_bytes, stored, "{mode:?}: every byte is read once");
    }
}

/// Opens a dataset in which the middle of sample 10's record is unreadable.
fn with_a_bad_sector(disk: &Disk) -> Opened {
    let opened = watch(disk);
    let row = opened.dataset.shard(0).unwrap().row(10).unwrap();
    let middle = row.offset + row.length / 2;
    *opened.bad.lock().unwrap() = Some(middle..middle + 1);
    opened
}

#[test]
fn a_bad_sector_costs_one_sample_and_is_named() {
    let disk = Disk::alike(&[32]);
    for mode in [Mode::Stored, Mode::Full, Mode::Windowed] {
        let opened = with_a_bad_sector(&disk);
        let mut loader = Loader::open(&opened.dataset, raw(4).mode(mode)).unwrap();
        let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
        let errors: Vec<&Error> = batches.iter().filter_map(|batch| batch.as_ref().err()).collect();
        let [error] = errors[..] else { panic!("{mode:?}: {errors:?}") };
        let text = error.to_string();
        assert!(matches!(error, Error::Io { .. }), "{text}");
        assert!(text.contains("shard-00000.shard") && text.contains("record 10, sample `sample-00010`"), "{text}");

        let skip = raw(4).mode(mode).on_corrupt(OnCorrupt::Skip { max: 1 });
        let mut loader = Loader::open(&opened.dataset, skip).unwrap();
        let mut there = 0;
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            for (&index, &mask) in batch.indices().iter().zip(batch.mask()) {
                assert_eq!(mask, index != 10, "{mode:?}, sample {index}");
                there += u64::from(mask);
            }
        }
        assert_eq!((there, loader.stats().skipped), (31, 1), "{mode:?}");
    }
}

#[test]
fn a_record_over_the_limit_costs_one_sample_and_is_named() {
    let disk = Disk::new(&[32], |id| {
        let side = if id == 10 { 64 } else { 16 };
        Made { id, height: side, width: side, said_height: side, half: false }
    });
    let limits = Limits { max_record_bytes: 10_000, ..Default::default() };
    let dataset = DatasetOptions::new().limits(limits).open(disk.path()).unwrap();
    for mode in [Mode::Stored, Mode::Full] {
        let options = raw(4).mode(mode).image(LoaderOptions::default().view.image).fields(["label", "image"]);
        let mut loader = Loader::open(&dataset, options.clone()).unwrap();
        let errors: Vec<_> = std::iter::from_fn(|| loader.next_batch()).filter_map(std::result::Result::err).collect();
        let [error] = &errors[..] else { panic!("{errors:?}") };
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Limit && text.contains("sample `sample-00010`"), "{text}");
        let skip = options.on_corrupt(OnCorrupt::Skip { max: 1 });
        let mut loader = Loader::open(&dataset, skip).unwrap();
        while let Some(batch) = loader.next_batch() {
            batch.unwrap();
        }
        assert_eq!((loader.stats().samples, loader.stats().skipped), (31, 1));
    }
}

#[test]
fn a_small_set_is_read_by_runs() {
    let disk = Disk::alike(&[400, 300]);
    let opened = watch(&disk);
    let mut loader = Loader::open(&opened.dataset, raw(32)).unwrap();
    opened.seen.lock().unwrap().clear();
    for epoch in 0..3 {
        loader.set_epoch(epoch).unwrap();
        let mut samples = Vec::new();
        while let Some(batch) = loader.next_batch() {
            samples.extend(batch.unwrap().indices().to_vec());
        }
        assert_ne!(samples, (0..700).collect::<Vec<_>>());
        samples.sort_unstable();
        assert_eq!(samples, (0..700).collect::<Vec<_>>());
    }
    let reads = opened.seen.lock().unwrap().len();
    assert!(reads <= 3 * 4, "{reads} reads of two shards of a megabyte, in three epochs");
}
