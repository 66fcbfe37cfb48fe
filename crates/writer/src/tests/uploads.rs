//! Tests that a run reports the bytes that it sends to a store.

use super::behaviour::options;
use super::growth::sources;
use super::source::{Numbers, Sum};
use crate::{Bucket, Error, Growth, Next, Outcome, Progress, Tally as _, WriteOptions, write_dataset};
use shardpack_io::{Error as IoError, FailingStorage, Failure, MemoryStorage, Objects, ReadAt, Result, Storage};
use std::cell::RefCell;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const NAME: &str = "s3://bucket/train";
const PARTS: usize = 3;

/// A store that receives an object in parts. It accepts the next part only once the run has reported the last one.
#[derive(Debug)]
struct Slow {
    memory: Arc<MemoryStorage>,
    sent: Mutex<u64>,
    reported: Mutex<u64>,
    changed: Condvar,
    is_cancelled: AtomicBool,
}

impl Slow {
    fn new(memory: &Arc<MemoryStorage>) -> Arc<Self> {
        let memory = Arc::clone(memory);
        let (sent, reported, is_cancelled) = (Mutex::new(0), Mutex::new(0), AtomicBool::new(false));
        Arc::new(Self { memory, sent, reported, changed: Condvar::new(), is_cancelled })
    }

    fn report(&self, progress: &Progress) {
        *self.reported.lock().unwrap() = progress.bytes_sent;
        self.changed.notify_all();
    }

    fn wait(&self, sent: u64) -> Result<()> {
        let is_waiting = |reported: &mut u64| *reported < sent && !self.is_cancelled.load(Ordering::SeqCst);
        let reported = self.reported.lock().unwrap();
        let (reported, waited) =
            self.changed.wait_timeout_while(reported, Duration::from_secs(30), is_waiting).unwrap();
        drop(reported);
        if waited.timed_out() { Err(IoError::io(NAME, "write", ErrorKind::TimedOut)) } else { Ok(()) }
    }
}

impl Storage for Slow {
    fn path(&self) -> &Path {
        self.memory.path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.memory.open(name)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.memory.names()
    }
}

impl Objects for Slow {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).unwrap();
        for part in bytes.chunks(bytes.len().div_ceil(PARTS)) {
            on_sent(part.len() as u64);
            let mut sent = self.sent.lock().unwrap();
            *sent += part.len() as u64;
            self.wait(*sent)?;
        }
        self.memory.send(name, &mut bytes.as_slice(), &|_| {})
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.memory.create(name, bytes)
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool> {
        self.memory.exchange(name, old, new)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.memory.remove(name)
    }
}

fn memory() -> Arc<MemoryStorage> {
    Arc::new(MemoryStorage::new(NAME, []))
}

/// Checks the reports of a run, and returns the last one.
fn last(seen: &[Progress]) -> Progress {
    for progress in seen {
        assert!(progress.bytes_sent <= progress.bytes_to_send, "{progress:?}");
    }
    assert!(seen.is_sorted_by_key(|progress| progress.bytes_sent));
    let last = *seen.last().unwrap();
    assert_eq!(last.bytes_sent, last.bytes_to_send);
    last
}

#[test]
fn each_part_of_a_shard_is_reported_while_packing_waits_for_the_store() {
    let (source, spools, memory) = (Numbers::new(60), tempfile::tempdir().unwrap(), memory());
    let slow = Slow::new(&memory);
    let seen = RefCell::new(Vec::new());
    let note = |progress: &Progress| {
        seen.borrow_mut().push(*progress);
        slow.report(progress);
    };
    let bucket = Bucket::new(Arc::<Slow>::clone(&slow), spools.path());
    let plan = source.plan(10_000);
    let report =
        write_dataset(bucket, &plan, &source, &WriteOptions { on_progress: Some(&note), ..options(1) }).unwrap();
    let (seen, shards) = (seen.into_inner(), plan.shard_count());
    assert!(shards > 4 && report.outcome == Outcome::Complete);
    assert_eq!(last(&seen).bytes_sent, report.bytes_out);
    let waiting = |progress: &&Progress| {
        progress.samples < progress.samples_total && progress.bytes_sent < progress.bytes_to_send
    };
    assert!(seen.iter().filter(waiting).count() > PARTS, "the writer waits for the store");
    let sent: std::collections::BTreeSet<u64> = seen.iter().map(|progress| progress.bytes_sent).collect();
    assert!(sent.len() >= PARTS * shards as usize, "{sent:?}");
}

#[test]
fn a_cancelled_run_does_not_wait_for_the_store() {
    let (source, spools, memory) = (Numbers::new(60), tempfile::tempdir().unwrap(), memory());
    let slow = Slow::new(&memory);
    // The store gets no report, so it never accepts the second part.
    let note = |progress: &Progress| {
        if progress.bytes_sent > 0 {
            slow.is_cancelled.store(true, Ordering::SeqCst);
            slow.changed.notify_all();
        }
    };
    let options = WriteOptions { on_progress: Some(&note), cancel: Some(&slow.is_cancelled), ..options(1) };
    let bucket = Bucket::new(Arc::<Slow>::clone(&slow), spools.path());
    let error = write_dataset(bucket.clone(), &source.plan(10_000), &source, &options).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let left: Vec<_> = std::fs::read_dir(bucket.spool()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".shard-")), "{left:?}");
}

#[test]
fn an_addition_reports_its_uploads_after_all_samples_are_written() {
    let ((first, more), spools, memory) = (sources(), tempfile::tempdir().unwrap(), memory());
    let plain = Bucket::new(Arc::<MemoryStorage>::clone(&memory), spools.path());
    write_dataset(plain, &first.plan(20_000), &first, &options(1)).unwrap();
    let slow = Slow::new(&memory);
    let growth = Growth::take(Bucket::new(Arc::<Slow>::clone(&slow), spools.path())).unwrap();
    let plan = more.plan(10_000).behind(growth.manifest(), first.count).unwrap();
    let kept = (0..).zip(&growth.manifest().shards).map(|(number, _)| (number, Sum(1.0))).collect();
    let seen = RefCell::new(Vec::new());
    let note = |progress: &Progress| {
        seen.borrow_mut().push(*progress);
        slow.report(progress);
    };
    let options = WriteOptions { on_progress: Some(&note), ..options(1) };
    let report = growth.write(&plan, &more, Next { kept, fidelity: &Sum::fidelity }, &options).unwrap();
    let seen = seen.into_inner();
    assert_eq!((last(&seen).bytes_sent, report.outcome), (report.bytes_out, Outcome::Complete));
    let uploads: Vec<&Progress> = seen.iter().filter(|progress| progress.bytes_to_send > 0).collect();
    for progress in &uploads {
        assert_eq!(progress.bytes_to_send, report.bytes_out);
        assert_eq!((progress.samples, progress.shards), (progress.samples_total, progress.shards_total));
        assert_eq!(progress.bytes_out, report.bytes_out);
    }
    assert!(uploads.len() >= PARTS * report.shards as usize, "{}", uploads.len());
}

#[test]
fn only_bytes_that_this_run_sends_count() {
    let (source, memory) = (Numbers::new(60), memory());
    let plan = source.plan(10_000);
    let run = |bucket: Bucket| {
        let seen = RefCell::new(Vec::new());
        let note = |progress: &Progress| seen.borrow_mut().push(*progress);
        let written = write_dataset(bucket, &plan, &source, &WriteOptions { on_progress: Some(&note), ..options(1) });
        (written, seen.into_inner())
    };
    let (dead, spools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(Bucket::new(FailingStorage::new(&memory, Failure::KilledBefore(25)), dead.path())).0.unwrap_err();
    let objects = memory.objects().clone();
    let there: Vec<u64> =
        objects.iter().filter(|(name, _)| name.ends_with(".shard")).map(|(_, bytes)| bytes.len() as u64).collect();
    assert!(there.len() > 1 && there.len() < plan.shard_count() as usize, "{:?}", objects.keys());
    // Without the spool, all shards are packed again, but those in the store are not sent again.
    let bucket = Bucket::new(Arc::<MemoryStorage>::clone(&memory), spools.path()).take_over(true);
    let (report, seen) = run(bucket);
    assert_eq!(last(&seen).bytes_sent + there.iter().sum::<u64>(), report.unwrap().bytes_out);
    // A folder sends nothing.
    let folder = tempfile::tempdir().unwrap();
    let seen = RefCell::new(Vec::new());
    let note = |progress: &Progress| seen.borrow_mut().push(*progress);
    write_dataset(folder.path(), &plan, &source, &WriteOptions { on_progress: Some(&note), ..options(1) }).unwrap();
    assert!(seen.into_inner().iter().all(|progress| (progress.bytes_sent, progress.bytes_to_send) == (0, 0)));
}
