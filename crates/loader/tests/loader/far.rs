//! Tests that streams, `verify` and the loader announce reads over a network, as far ahead as the storage requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::loader_support::{Disk, epoch};
use shardpack_io::{Folder, Rig, RiggedStorage};
use shardpack_loader::order::Mode;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::{Dataset, DatasetOptions, VerifyOptions, verify_in};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Unit for counting announcements and reads, in bytes. It is the length of every record in these tests.
const UNIT: u64 = 64;

#[derive(Debug, Default)]
struct Seen {
    announced: BTreeSet<(String, u64)>,
    read: BTreeSet<(String, u64)>,
    opens_announced: BTreeSet<String>,
    /// Largest number of announced but unread units.
    most_ahead: usize,
}

#[derive(Debug)]
struct Far {
    window: u64,
    seen: Arc<Mutex<Seen>>,
}

fn units(name: &str, offset: u64, bytes: u64) -> impl Iterator<Item = (String, u64)> {
    (offset / UNIT..(offset + bytes).div_ceil(UNIT)).map(move |unit| (name.to_owned(), unit))
}

impl Rig for Far {
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<u64> {
        let bytes = range.end - range.start;
        self.seen.lock().unwrap().read.extend(units(name, range.start, bytes));
        Ok(bytes)
    }

    fn announce(&self, name: &str, range: Range<u64>) {
        let mut seen = self.seen.lock().unwrap();
        seen.announced.extend(units(name, range.start, range.end - range.start));
        let ahead = seen.announced.difference(&seen.read).count();
        seen.most_ahead = seen.most_ahead.max(ahead);
    }

    fn announce_open(&self, name: &str) {
        self.seen.lock().unwrap().opens_announced.insert(name.to_owned());
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.window
    }
}

fn far(disk: &Disk, window: u64) -> (Arc<RiggedStorage<Far>>, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::default());
    let far = Far { window, seen: Arc::clone(&seen) };
    let storage = RiggedStorage::new(Folder::open(disk.path(), false).unwrap(), far);
    (Arc::new(storage), seen)
}

fn records(dataset: &Dataset) -> BTreeSet<(String, u64)> {
    let mut all = BTreeSet::new();
    for (number, info) in dataset.shards().enumerate() {
        let shard = dataset.shard(number).unwrap();
        let rows = (0..shard.len()).map(|record| shard.row(record).unwrap());
        all.extend(rows.flat_map(|row| units(&info.name, row.offset, row.length)));
    }
    all
}

/// Asserts that all records were announced, about one window ahead of the reads.
fn check(seen: &Seen, local: &Dataset, window: u64, slack: u64, what: &str) {
    let missing: Vec<_> = records(local).difference(&seen.announced).cloned().collect();
    assert!(missing.is_empty(), "{what}: not announced: {missing:?}");
    let most = seen.most_ahead as u64 * UNIT;
    assert!(most * 2 >= window, "{what}: announced no more than {most} bytes ahead of {window}");
    assert!(most <= window + slack, "{what}: announced {most} bytes ahead of {window}");
    // The first shard is opened before anything is planned, so it is not announced.
    for shard in local.shards().skip(1) {
        assert!(seen.opens_announced.contains(&shard.name), "{what}: {shard:?}");
    }
}

#[test]
fn streams_verification_and_loaders_announce_what_they_read() {
    let disk = Disk::alike(&[99, 60, 1, 140]);
    let local = disk.open();
    let total: u64 = local.shards().map(|shard| shard.bytes).sum();
    let window = total / 4;

    let (storage, seen) = far(&disk, window);
    let dataset = DatasetOptions::new().open_in(storage).unwrap();
    assert_eq!(dataset.read_ahead_bytes(), window);
    let mut stream = dataset.stream().unwrap();
    let mut samples = 0;
    while let Some(record) = stream.next_record() {
        record.unwrap();
        samples += 1;
    }
    assert_eq!(samples, local.len());
    // Allow 24 MiB more, because the stream counts a run as read as soon as it is planned.
    check(&seen.lock().unwrap(), &local, window, 24 << 20, "stream");

    let (storage, seen) = far(&disk, window);
    let report = verify_in(storage, None, &VerifyOptions { threads: 2, ..Default::default() }).unwrap();
    assert!(report.is_whole());
    let announced = records(&local).difference(&seen.lock().unwrap().announced).count();
    assert_eq!(announced, 0, "verify");

    for mode in [Mode::Windowed, Mode::Full, Mode::Stored] {
        let (storage, seen) = far(&disk, window);
        let dataset = DatasetOptions::new().open_in(storage).unwrap();
        let options = LoaderOptions::default().batch_size(4).threads(2).mode(mode);
        let mut loader = Loader::open(&dataset, options.clone()).unwrap();
        let mut beside = Loader::open(&local, options).unwrap();
        assert!(loader.predicted_bytes() >= window);
        for number in 0..2 {
            seen.lock().unwrap().announced.clear();
            seen.lock().unwrap().read.clear();
            loader.set_epoch(number).unwrap();
            beside.set_epoch(number).unwrap();
            assert_eq!(epoch(&mut loader), epoch(&mut beside));
            check(&seen.lock().unwrap(), &local, window, total, &format!("{mode:?}, epoch {number}"));
        }
    }
}

#[test]
fn several_datasets_are_as_far_as_their_parts() {
    let (first, second) = (Disk::alike(&[30, 20]), Disk::alike(&[40]));
    let [(a, seen), (b, _)] = [far(&first, 1000), far(&second, 500)];
    let parts = [a, b].map(|storage| DatasetOptions::new().open_in(storage).unwrap());
    let both = Dataset::concat(&parts).unwrap();
    assert_eq!(both.read_ahead_bytes(), 1500);
    let mut loader = Loader::open(&both, LoaderOptions::default()).unwrap();
    assert_eq!(epoch(&mut loader).len(), 2);
    assert!(seen.lock().unwrap().opens_announced.contains("shard-00001.shard"));
}
