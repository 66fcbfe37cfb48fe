//! Tests that nothing blocks if reads hang, fail or panic, or if callers are slow or leave early.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, base, in_the_end};
use shardpack_io::{Fault, Faults, Rig, RiggedStorage};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::{Dataset, DatasetOptions, Error};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).mode(Mode::Stored).end(End::Uneven)
}

/// A gate for reads. While it is open, reads pass. It can also block them, make them fail, or panic.
#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
    panics: AtomicBool,
    gone: AtomicBool,
    refused: AtomicU64,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

impl Rig for Gate {
    fn read(&self, _: &str, range: Range<u64>) -> io::Result<u64> {
        let closed = self.closed.lock().unwrap();
        if *closed {
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        if self.gone.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        assert!(!self.panics.load(Ordering::SeqCst), "a storage that panics");
        Ok(range.end - range.start)
    }
}

fn gated(disk: &Disk) -> (Loader, Arc<Gate>) {
    let storage = RiggedStorage::of_folder(disk.path(), Gate::default());
    let gate = Arc::clone(&storage.rig);
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    let on_corrupt = OnCorrupt::Skip { max: 100 };
    let loader = Loader::open(&dataset, options(4).mode(Mode::Full).on_corrupt(on_corrupt)).unwrap();
    (loader, gate)
}

#[test]
fn a_loader_is_dropped_though_a_read_hangs() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.set(true);
    loader.set_epoch(1).unwrap();
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    in_the_end(move || drop(loader));
    gate.set(false);
    // If no read hangs, a loader can be dropped at once, even in the middle of an epoch.
    for batches in 0..4 {
        let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
        (0..batches).for_each(|_| assert!(loader.next_batch().unwrap().is_ok()));
        drop(loader);
    }
}

#[test]
fn a_wait_with_a_limit_returns_without_a_batch() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.set(true);
    loader.set_epoch(1).unwrap();
    for _ in 0..3 {
        assert!(loader.next_batch_timeout(Duration::from_millis(1)).is_pending());
    }
    gate.set(false);
    while loader.next_batch().is_some() {}
    assert_eq!(loader.stats().batches, 1 + 10, "none was lost");
}

#[test]
fn a_panic_in_a_thread_is_an_error_not_a_hang() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.panics.store(true, Ordering::SeqCst);
    loader.set_epoch(1).unwrap();
    let text = loader.next_batch().unwrap().unwrap_err().to_string();
    // If records are decoded in parts, the decoding threads also read, so the error names the sample instead of the
    // thread.
    let whats = ["loader thread: ", "decoding sample "];
    assert!(whats.iter().any(|what| text.starts_with(&format!("internal error: {what}"))), "{text}");
}

#[test]
fn a_slow_consumer_stops_the_pool() {
    let disk = Disk::alike(&[400]);
    let dataset = disk.open();
    let record = dataset.shard(0).unwrap().footer().index_offset / 400 + 64;
    let mut loader = Loader::open(&dataset, options(4).mode(Mode::Full).slots(2)).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    let mut before = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(10));
        let now = loader.stats().read_bytes;
        if now == before {
            break;
        }
        before = now;
    }
    // With two slots, the loader reads three batches of four records: the caller's batch, the batch in the other slot,
    // and the next planned batch. The bound allows one more.
    assert!(before <= 4 * 4 * record, "{before} bytes read ahead, of records of {record}");
    drop(first);
    assert!(loader.next_batch().unwrap().is_ok());
}

/// Opens a loader on many shards, most of which are not open yet.
fn gated_shards(samples: u64, threads: usize) -> (Dataset, Loader, Arc<Gate>) {
    let disk = Disk::alike(&[samples; 520]);
    let storage = RiggedStorage::of_folder(disk.path(), Gate::default());
    let gate = Arc::clone(&storage.rig);
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    // The field has the same shape everywhere, so opening the loader reads nothing from the other shards.
    let loader = Loader::open(&dataset, options(32).threads(threads).fields(["label"])).unwrap();
    let closed = (0..520).filter(|&number| !dataset.is_open(number)).count();
    assert!(closed > 300, "{closed}");
    (dataset, loader, gate)
}

#[test]
fn shards_are_opened_side_by_side_and_the_caller_waits_for_none_of_them() {
    let (dataset, mut loader, gate) = gated_shards(1, 5);
    gate.set(true);
    assert!(loader.next_batch_timeout(Duration::from_millis(1)).is_pending());
    // No record is read before the batch is planned, so all reads so far are for opening shards.
    let seen = Arc::clone(&gate);
    in_the_end(move || {
        while seen.waiting.load(Ordering::SeqCst) < 5 {
            std::thread::yield_now();
        }
    });
    let mut loader = in_the_end(move || {
        loader.set_epoch(3).unwrap();
        loader
    });
    gate.set(false);
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect();
    let mut samples: Vec<u64> = batches.iter().flat_map(|batch| batch.indices().to_vec()).collect();
    samples.sort_unstable();
    assert_eq!(samples, (0..520).collect::<Vec<_>>());
    assert!((0..520).all(|number| dataset.is_open(number)));
}

#[test]
fn a_shard_that_cannot_be_opened_is_tried_once_a_batch() {
    let (_, mut loader, gate) = gated_shards(32, 2);
    gate.gone.store(true, Ordering::SeqCst);
    // Each batch reads from one shard, and two of three shards cannot be opened.
    let batches = 9;
    for _ in 0..batches {
        assert!(loader.next_batch().unwrap().is_err());
    }
    let refused = gate.refused.load(Ordering::SeqCst);
    assert!((1..=batches + base().resources.slots as u64 + 2).contains(&refused), "{refused}");
}

#[test]
fn a_read_that_fails_once_is_tried_again() {
    let disk = Disk::alike(&[16]);
    let mut opened = 0;
    for k in 0..40 {
        let storage = Arc::new(RiggedStorage::of_folder(disk.path(), Faults::new(Fault::FailAt(k))));
        let Ok(dataset) = DatasetOptions::new().open_in(storage) else { continue };
        let Ok(mut loader) = Loader::open(&dataset, options(4).mode(Mode::Full)) else { continue };
        opened += 1;
        let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
        assert_eq!(batches.len(), 4);
        assert!(batches.iter().all(|batch| batch.is_ok()), "operation {k}: {batches:?}");
    }
    assert!(opened > 20, "{opened}");
}

/// A lost mount is not damage: samples are not skipped, and records are not read one by one.
#[test]
fn a_storage_that_is_gone_is_an_error_of_every_batch() {
    let disk = Disk::alike(&[16]);
    let (mut loader, gate) = gated(&disk);
    gate.gone.store(true, Ordering::SeqCst);
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    assert_eq!(batches.len(), 4);
    for batch in batches {
        let error = batch.unwrap_err();
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("sample `sample-"), "{error}");
    }
    assert_eq!(loader.stats().skipped, 0);
}

#[test]
fn epochs_that_are_left_early_begin_with_their_first_batch() {
    // A thread may be about to plan the previous epoch. It must not plan this one, because another thread already does.
    let disk = Disk::alike(&[64]);
    for threads in [2, 8] {
        let mut loader = Loader::open(&disk.open(), options(2).threads(threads).slots(2)).unwrap();
        in_the_end(move || {
            for round in 0..1500_u64 {
                loader.set_epoch((round % 7 + 1) as u32).unwrap();
                for number in 0..round % 4 {
                    let batch = loader.next_batch().unwrap().unwrap();
                    assert_eq!(batch.indices(), [2 * number, 2 * number + 1], "round {round}, {threads} threads");
                }
            }
        });
    }
}
