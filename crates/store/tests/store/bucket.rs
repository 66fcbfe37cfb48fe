//! Tests that writing a dataset to a store produces the same bytes as in a folder, despite store faults and other
//! writers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::faulty::{Fault, Faulty};
use crate::made::{Bytes, SAMPLES, assert_empty, expected, options, store_options};
use futures_util::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use shardpack_format::{Error as FormatError, Voice, told};
use shardpack_io::{Ends, Objects, ReadAt, Storage};
use shardpack_store::{Remote, StoreOptions, Upload};
use shardpack_writer::{
    Bucket, Error, Growth, Outcome, Part, Report, Reservation, Result, WriteOptions, merge, write_dataset,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn place(store: Faulty, spools: &Path) -> Bucket {
    Bucket::new(Arc::new(Upload::new(Arc::new(store), "data/train", &store_options()).unwrap()), spools)
}

fn healthy(memory: &Arc<InMemory>, spools: &Path) -> Bucket {
    place(Faulty::new(memory, Fault::None), spools)
}

fn write(place: &Bucket, source: &Bytes) -> Result<Report> {
    write_dataset(place.clone(), &source.plan(), source, &options())
}

fn objects(memory: &InMemory) -> BTreeMap<String, Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut found = BTreeMap::new();
        let mut all = memory.list(None);
        while let Some(object) = all.next().await {
            let key = object.unwrap().location;
            let bytes = memory.get(&key).await.unwrap().bytes().await.unwrap().to_vec();
            found.insert(key.to_string().strip_prefix("data/train/").unwrap().to_owned(), bytes);
        }
        found
    })
}

fn put(memory: &InMemory, name: &str, bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let key = Key::from(format!("data/train/{name}"));
    runtime.block_on(memory.put(&key, bytes.to_vec().into())).unwrap();
}

fn said(error: &Error) -> String {
    told(error, &error.hint(), Voice::Command)
}

#[test]
fn every_object_is_the_file_of_a_folder_and_nothing_else_stays() {
    let source = Bytes::new(0);
    let expected = expected(&source);
    assert!(expected.len() > 5, "{}", expected.len());
    for fault in [Fault::None, Fault::EachNth(2), Fault::EachNth(3), Fault::EachNth(7), Fault::LostNth(2)] {
        let (memory, spools) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let place = place(Faulty::new(&memory, fault), spools.path());
        let report = write(&place, &source).unwrap();
        assert_eq!((report.outcome, report.samples), (Outcome::Complete, SAMPLES), "{fault:?}");
        assert!(objects(&memory) == expected, "{fault:?}");
        assert_empty(spools.path());
        assert_eq!(write(&place, &source).unwrap().outcome, Outcome::AlreadyComplete);
        assert_empty(spools.path());
    }
}

#[test]
fn a_run_continues_after_the_store_failed_at_any_request() {
    let source = Bytes::new(0);
    let expected = expected(&source);
    let (mut died_with_claim, mut died_without) = (0, 0);
    for first in 1.. {
        let (memory, spools) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let dying = place(Faulty::new(&memory, Fault::Dead(first)), spools.path());
        let died = write(&dying, &source);
        // Removing the claim is the only step that may fail silently, because the next run removes the claim.
        let left = objects(&memory);
        let whole = left.iter().filter(|(name, _)| !name.starts_with('.'));
        assert!(whole.clone().all(|(name, bytes)| expected[name] == *bytes), "{first}");
        assert!(died.is_ok() || !left.contains_key("manifest.json") || whole.count() == expected.len(), "{first}");
        if died.is_ok() && left == expected {
            break;
        }
        *(if left.contains_key(".shardpack-lock") { &mut died_with_claim } else { &mut died_without }) += 1;
        let begun = source.encoded.load(Ordering::Relaxed);
        let report = write(&healthy(&memory, spools.path()), &source).unwrap();
        let encoded = source.encoded.load(Ordering::Relaxed) - begun;
        assert_eq!(encoded + report.samples_reused, SAMPLES, "{first}");
        assert!(objects(&memory) == expected, "{first}");
        assert_empty(spools.path());
    }
    assert!(died_with_claim > 10 && died_without > 0, "{died_with_claim} {died_without}");
}

#[test]
fn another_machine_takes_over_only_on_request_and_sends_no_shard_twice() {
    let source = Bytes::new(0);
    let (memory, here, there) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let died = write(&place(Faulty::new(&memory, Fault::Dead(15)), here.path()), &source).unwrap_err();
    assert!(died.to_string().contains("data/train/"), "{died}");
    let sent = objects(&memory).keys().filter(|name| name.ends_with(".shard")).count();
    assert!(sent > 1);
    let error = write(&healthy(&memory, there.path()), &source).unwrap_err();
    assert!(matches!(&error, Error::Locked { .. }), "{error}");
    let (text, hint) = (error.to_string(), error.hint().unwrap());
    assert!(text.contains("process ") && hint.options().eq(["take_over"]), "{text}\n{hint}");
    assert_empty(there.path());
    let store = Faulty::new(&memory, Fault::None);
    let report = write(&place(store.clone(), there.path()).take_over(true), &source).unwrap();
    assert_eq!(report.samples_reused, 0, "the journal is on the other machine");
    let expected = expected(&source);
    assert!(objects(&memory) == expected);
    // In addition to the missing files, the claim is written twice: to replace the old claim, and to replace
    // the new one.
    assert_eq!(store.puts.load(Ordering::Relaxed), (expected.len() - sent) as u64 + 2);
    assert_empty(there.path());
}

#[test]
fn the_second_of_two_runs_is_refused_on_any_machine() {
    let source = Bytes::new(0);
    let (memory, here, there) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let refused = AtomicU64::new(0);
    let on_progress = |_: &shardpack_writer::Progress| {
        for spools in [&here, &there] {
            let error = write(&healthy(&memory, spools.path()), &Bytes::new(1)).unwrap_err();
            assert!(matches!(error, Error::Locked { .. }), "{error}");
            refused.fetch_add(1, Ordering::Relaxed);
        }
    };
    let watched = WriteOptions { on_progress: Some(&on_progress), ..options() };
    write_dataset(healthy(&memory, here.path()), &source.plan(), &source, &watched).unwrap();
    assert!(refused.load(Ordering::Relaxed) >= 2);
    assert!(objects(&memory) == expected(&source));
}

#[test]
fn a_run_that_is_taken_over_while_it_lives_stops_before_its_next_object() {
    let source = Bytes::new(0);
    let (memory, here, there) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = healthy(&memory, here.path());
    // The first run holds a reservation, like a program that has not added its samples yet.
    let reservation = Reservation::take(first, false).unwrap();
    write(&healthy(&memory, there.path()).take_over(true), &source).unwrap();
    let other = Bytes::new(1);
    let error = reservation.write_dataset(&other.plan(), &other, &options()).unwrap_err().to_string();
    assert!(error.contains("already contains a dataset"), "{error}");
    drop(reservation);
    assert!(objects(&memory) == expected(&source));

    let memory = Arc::new(InMemory::new());
    let reservation = Reservation::take(healthy(&memory, here.path()), false).unwrap();
    let second = Reservation::take(healthy(&memory, there.path()).take_over(true), false).unwrap();
    let error = reservation.write_dataset(&source.plan(), &source, &options()).unwrap_err().to_string();
    assert!(error.contains("another run has taken over, and its lock reads `process "), "{error}");
    assert!(!objects(&memory).keys().any(|name| !name.starts_with('.')));
    drop(reservation);
    second.write_dataset(&source.plan(), &source, &options()).unwrap();
    drop(second);
    assert!(objects(&memory) == expected(&source));
}

#[test]
fn an_existing_dataset_is_refused_and_replaced_by_force() {
    let (old, new, spools) = (Bytes::new(0), Bytes::new(1), tempfile::tempdir().unwrap());
    let memory = Arc::new(InMemory::new());
    let place = healthy(&memory, spools.path());
    write(&place, &old).unwrap();
    assert!(place.holds_dataset().unwrap());
    let error = write(&place, &new).unwrap_err();
    let Error::Format(FormatError::Usage(note)) = error else { panic!("{error}") };
    assert!(note.hint.unwrap().options().eq(["force"]), "{}", note.text);
    assert_eq!(new.encoded.load(Ordering::Relaxed), 0, "refused before anything is packed");
    assert!(objects(&memory) == expected(&old));
    let force = WriteOptions { force: true, ..options() };
    write_dataset(place.clone(), &new.plan(), &new, &force).unwrap();
    assert!(objects(&memory) == expected(&new));
    // Start with the shards of a dataset that has neither a manifest nor a journal, and a file of another program.
    let memory = Arc::new(InMemory::new());
    let place = healthy(&memory, spools.path());
    put(&memory, "shard-00000.shard", &expected(&old)["shard-00000.shard"]);
    let error = write(&place, &new).unwrap_err().to_string();
    assert!(error.contains("shards without a manifest"), "{error}");
    put(&memory, "notes.txt", b"mine");
    for force in [false, true] {
        let options = WriteOptions { force, ..options() };
        let error = write_dataset(place.clone(), &new.plan(), &new, &options).unwrap_err().to_string();
        assert!(error.contains("did not write: `notes.txt`"), "{error}");
    }
    assert_eq!(objects(&memory).keys().collect::<Vec<_>>(), ["notes.txt", "shard-00000.shard"]);
    assert_empty(spools.path());
}

#[test]
fn a_manifest_of_another_run_is_not_replaced() {
    let (source, spools, memory) = (Bytes::new(0), tempfile::tempdir().unwrap(), Arc::new(InMemory::new()));
    let on_progress = |_: &shardpack_writer::Progress| put(&memory, "manifest.json", b"another");
    let watched = WriteOptions { on_progress: Some(&on_progress), ..options() };
    let error = write_dataset(healthy(&memory, spools.path()), &source.plan(), &source, &watched).unwrap_err();
    assert!(error.to_string().contains("another run has written a manifest"), "{error}");
    assert_eq!(objects(&memory)["manifest.json"], b"another");
}

#[test]
fn a_missing_or_foreign_shard_is_packed_again() {
    let (source, spools, memory) = (Bytes::new(0), tempfile::tempdir().unwrap(), Arc::new(InMemory::new()));
    write(&place(Faulty::new(&memory, Fault::Dead(15)), spools.path()), &source).unwrap_err();
    let expected = expected(&source);
    let cut = &expected["shard-00000.shard"][..1000];
    put(&memory, "shard-00000.shard", cut);
    let report = write(&healthy(&memory, spools.path()), &source).unwrap();
    assert!(report.samples_reused > 0 && report.samples_reused < SAMPLES);
    assert!(objects(&memory) == expected);
}

#[test]
fn a_cancelled_run_aborts_its_uploads() {
    let (source, spools, memory) = (Bytes::new(0), tempfile::tempdir().unwrap(), Arc::new(InMemory::new()));
    let cancel = Arc::new(AtomicBool::new(true));
    // All requests fail, and the pause before a retry is an hour. Only cancelling can end the run.
    let (backoff, cancel) = (Duration::from_secs(3600), Some(cancel));
    let store_options = StoreOptions { backoff, cancel, ..StoreOptions::default() };
    let store = Faulty::new(&memory, Fault::EachNth(1));
    let upload = Upload::new(Arc::new(store), "data/train", &store_options).unwrap();
    let place = Bucket::new(Arc::new(upload), spools.path());
    let error = write(&place, &source).unwrap_err().to_string();
    assert!(error.contains("was cancelled"), "{error}");
    assert!(objects(&memory).is_empty());
}

/// Returns a bucket whose requests end once `cancel` is set. A failed request is repeated after an hour.
fn cancellable(store: &Faulty, spools: &Path, cancel: &Arc<AtomicBool>) -> Bucket {
    let (backoff, cancel) = (Duration::from_secs(3600), Some(Arc::clone(cancel)));
    let options = StoreOptions { backoff, cancel, ..StoreOptions::default() };
    Bucket::new(Arc::new(Upload::new(Arc::new(store.clone()), "data/train", &options).unwrap()), spools)
}

#[test]
fn a_cancelled_run_releases_its_claim() {
    let (source, memory) = (Bytes::new(0), Arc::new(InMemory::new()));
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, cancel) = (Faulty::new(&memory, Fault::None), Arc::new(AtomicBool::new(false)));
    let on_progress = |_: &shardpack_writer::Progress| cancel.store(true, Ordering::Relaxed);
    let watched = WriteOptions { on_progress: Some(&on_progress), cancel: Some(&cancel), ..options() };
    write_dataset(cancellable(&store, here.path(), &cancel), &source.plan(), &source, &watched).unwrap_err();
    assert!(!objects(&memory).contains_key(".shardpack-lock"));
    // Another machine need not take over.
    assert_eq!(write(&healthy(&memory, there.path()), &source).unwrap().outcome, Outcome::Complete);
    assert!(objects(&memory) == expected(&source));
    for before in [true, false] {
        let cancel = Arc::new(AtomicBool::new(before));
        let growth = Growth::take(cancellable(&store, there.path(), &cancel));
        assert_eq!(growth.is_ok(), !before);
        cancel.store(true, Ordering::Relaxed);
        assert!(growth.and_then(|growth| growth.compact()).is_err());
        assert!(objects(&memory) == expected(&source));
        assert_empty(there.path());
    }
}

#[test]
fn a_cancelled_run_waits_only_briefly_for_its_claim() {
    let (source, memory, spools) = (Bytes::new(0), Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    write(&healthy(&memory, spools.path()), &source).unwrap();
    let take = |store: &Faulty| {
        let cancel = Arc::new(AtomicBool::new(false));
        let growth = Growth::take(cancellable(store, spools.path(), &cancel)).unwrap();
        cancel.store(true, Ordering::Relaxed);
        growth
    };
    let store = Faulty::new(&memory, Fault::None);
    let growth = take(&store);
    let requests = store.asked.load(Ordering::SeqCst);
    drop(growth);
    assert_empty(spools.path());
    // The first request after the cancellation fails.
    let growth = take(&Faulty::new(&memory, Fault::EachNth(requests + 1)));
    let start = Instant::now();
    drop(growth);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(objects(&memory).contains_key(".shardpack-lock"));
    // The next run with this spool finds that the claim is its own.
    drop(Growth::take(healthy(&memory, spools.path())).unwrap());
    assert!(objects(&memory) == expected(&source));
    assert_empty(spools.path());
}

#[test]
fn parts_of_several_machines_are_merged_into_the_same_objects() {
    let source = Bytes::new(0);
    let memory = Arc::new(InMemory::new());
    let machines: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let merging = tempfile::tempdir().unwrap();
    let merged = || merge::<()>(healthy(&memory, merging.path()));
    let part = |i| WriteOptions { part: Some(Part::new(i, 3).unwrap()), ..options() };
    let run = |i: u32| write_dataset(healthy(&memory, machines[i as usize].path()), &source.plan(), &source, &part(i));
    assert!(said(&merged().unwrap_err()).contains("pack the parts first"));
    for i in [0, 2] {
        assert_eq!(run(i).unwrap().outcome, Outcome::PartComplete);
        assert_empty(machines[i as usize].path());
    }
    let error = merged().unwrap_err();
    assert!(matches!(&error, Error::Unfinished(unfinished) if unfinished.array() == "2"), "{error}");
    // A run without parts must not continue a run with parts, and finished parts must not be packed again.
    assert!(write(&healthy(&memory, merging.path()), &source).unwrap_err().to_string().contains("3 parts"));
    let begun = source.encoded.load(Ordering::Relaxed);
    assert_eq!(run(0).unwrap().outcome, Outcome::PartComplete);
    assert_eq!(source.encoded.load(Ordering::Relaxed), begun);
    run(1).unwrap();
    assert_eq!(merged().unwrap().outcome, Outcome::Complete);
    assert!(objects(&memory) == expected(&source));
    assert_empty(merging.path());
}

#[test]
fn the_claim_of_a_dead_part_stops_whole_runs_and_merges_until_taken_over() {
    let (source, memory) = (Bytes::new(0), Arc::new(InMemory::new()));
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let part = |i| WriteOptions { part: Some(Part::new(i, 2).unwrap()), ..options() };
    let plan = source.plan();
    write_dataset(healthy(&memory, there.path()), &plan, &source, &part(1)).unwrap();
    let dying = place(Faulty::new(&memory, Fault::Dead(12)), here.path());
    write_dataset(dying, &plan, &source, &part(0)).unwrap_err();
    assert!(objects(&memory).contains_key(".shardpack-lock-00001-of-00002"));
    let error = merge::<()>(healthy(&memory, there.path())).unwrap_err();
    assert!(matches!(&error, Error::Locked { holder, .. } if holder.contains("process")), "{error}");
    let again = healthy(&memory, there.path()).take_over(true);
    write_dataset(again, &plan, &source, &part(0)).unwrap();
    merge::<()>(healthy(&memory, there.path())).unwrap();
    assert!(objects(&memory) == expected(&source));
}

#[cfg(unix)]
#[test]
fn a_spool_of_another_user_is_refused() {
    let (source, memory, spools) = (Bytes::new(0), Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let place = healthy(&memory, spools.path());
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), place.spool()).unwrap();
    let Error::Io { source, .. } = write(&place, &source).unwrap_err() else { panic!("another error") };
    assert!(source.to_string().contains("a folder owned by this user"), "{source}");
    assert!(source.hint().unwrap().options().eq(["spool"]));
    assert!(objects(&memory).is_empty());
    assert_empty(elsewhere.path());
}

#[test]
fn parts_that_begin_at_once_share_a_spool() {
    let (source, memory, spools) = (Bytes::new(0), Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let plan = source.plan();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let place = healthy(&memory, spools.path());
            let (plan, source) = (&plan, &source);
            scope.spawn(move || {
                let options = WriteOptions { part: Some(Part::new(i, 4).unwrap()), ..options() };
                write_dataset(place, plan, source, &options).unwrap()
            });
        }
    });
    merge::<()>(healthy(&memory, spools.path())).unwrap();
    assert!(objects(&memory) == expected(&source));
    assert_empty(spools.path());
}

/// Counts the shards in the spool during each upload, and the shards that are checked in parallel.
#[derive(Debug)]
struct Watched {
    inner: Upload,
    spools: PathBuf,
    most_in_spool: AtomicU64,
    looking: AtomicU64,
    most_looking: AtomicU64,
}

impl Watched {
    fn new(memory: &Arc<InMemory>, spools: &Path) -> Arc<Self> {
        let inner = Upload::new(Arc::new(Faulty::new(memory, Fault::None)), "data/train", &store_options()).unwrap();
        let (most_in_spool, looking, most_looking) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { inner, spools: spools.into(), most_in_spool, looking, most_looking })
    }

    fn in_spool(&self) -> u64 {
        let spools = std::fs::read_dir(&self.spools).unwrap().map(|entry| entry.unwrap().path());
        let files = spools.flat_map(|spool| std::fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().file_name()));
        files.filter(|name| name.to_string_lossy().starts_with(".shard-")).count() as u64
    }
}

impl Storage for Watched {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open(&self, name: &str) -> shardpack_io::Result<Arc<dyn ReadAt>> {
        self.inner.open(name)
    }

    fn names(&self) -> shardpack_io::Result<Vec<String>> {
        self.inner.names()
    }

    fn read(&self, name: &str, max_bytes: u64) -> shardpack_io::Result<Vec<u8>> {
        self.inner.read(name, max_bytes)
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> shardpack_io::Result<Ends> {
        let now = self.looking.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_looking.fetch_max(now, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(30));
        self.looking.fetch_sub(1, Ordering::Relaxed);
        self.inner.read_ends(name, head, tail)
    }
}

impl Objects for Watched {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> shardpack_io::Result<u64> {
        // Give the packer time to run ahead of the store.
        std::thread::sleep(Duration::from_millis(30));
        self.most_in_spool.fetch_max(self.in_spool(), Ordering::Relaxed);
        self.inner.send(name, source, on_sent)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> shardpack_io::Result<bool> {
        self.inner.create(name, bytes)
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> shardpack_io::Result<bool> {
        self.inner.exchange(name, old, new)
    }

    fn remove(&self, name: &str) -> shardpack_io::Result<()> {
        self.inner.remove(name)
    }
}

/// A folder in a store must fulfil the contracts of `Objects` and `Storage`.
#[test]
fn folders_in_a_store_are_storages() {
    let empty = || Arc::new(InMemory::new());
    for fault in [Fault::None, Fault::EachNth(3)] {
        let store = Arc::new(Faulty::new(&empty(), fault));
        shardpack_io::conformance::check_objects(&Upload::new(store, "some/folder", &store_options()).unwrap());
    }
    let spools = tempfile::tempdir().unwrap();
    shardpack_io::conformance::check_objects(&*Watched::new(&empty(), spools.path()));
    let memory = empty();
    let upload = Upload::new(Arc::clone(&memory), "data", &store_options()).unwrap();
    for (name, bytes) in shardpack_io::conformance::files() {
        upload.send(name, &mut bytes.as_slice(), &|_| {}).unwrap();
    }
    shardpack_io::conformance::check_storage(&upload);
    shardpack_io::conformance::check_storage(&Remote::new(memory, "data", &store_options()).unwrap());
}

#[test]
fn listing_a_folder_is_counted_and_repeated() {
    let memory = Arc::new(InMemory::new());
    put(&memory, "a.shard", b"bytes");
    let store = Arc::new(Faulty::new(&memory, Fault::EachNth(2)));
    let remote = Remote::new(store, "data/train", &store_options()).unwrap();
    for _ in 0..2 {
        assert_eq!(remote.names().unwrap(), ["a.shard"]);
    }
    assert_eq!((remote.traffic().requests, remote.traffic().retries), (3, 1));
}

#[test]
fn the_spool_holds_three_shards_and_shards_are_checked_in_parallel() {
    let (source, memory, spools) = (Bytes::new(0), Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let watched = Watched::new(&memory, spools.path());
    let place = Bucket::new(Arc::<Watched>::clone(&watched), spools.path());
    for index in 0..2 {
        let part = WriteOptions { part: Some(Part::new(index, 2).unwrap()), ..options() };
        write_dataset(place.clone(), &source.plan(), &source, &part).unwrap();
    }
    let most = watched.most_in_spool.load(Ordering::Relaxed);
    assert!((1..=3).contains(&most), "{most} shards were in the spool");
    // The shards were uploaded one at a time, so they were also checked one at a time.
    assert_eq!(watched.most_looking.swap(0, Ordering::Relaxed), 1);
    merge::<()>(place.clone()).unwrap();
    assert!(watched.most_looking.swap(0, Ordering::Relaxed) > 1);
    assert!(objects(&memory) == expected(&source));
    assert_eq!(write(&place, &source).unwrap().outcome, Outcome::AlreadyComplete);
    assert!(watched.most_looking.load(Ordering::Relaxed) > 1);
}
