//! Tests writing to an in-memory object store that may lose responses. The tests of `shardpack-store` use a real
//! store.

use super::behaviour::options;
use super::said;
use super::source::Numbers;
use crate::names::LOCK_NAME;
use crate::{Bucket, Outcome, Progress, WriteOptions, write_dataset};
use shardpack_format::shard_name_of;
use shardpack_io::{Error, MemoryStorage, Objects, ReadAt, Result, Storage};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "s3://bucket/train";

#[derive(Debug)]
struct Unsure {
    memory: MemoryStorage,
    /// Each upload succeeds but is answered with "no such upload". Some stores do this if a response is lost and the
    /// client sends the last request of the upload again.
    loses_answers: bool,
    /// Another run takes over while an object is being uploaded.
    is_taken_over: bool,
}

impl Unsure {
    fn new(loses_answers: bool, is_taken_over: bool) -> Arc<Self> {
        Arc::new(Self { memory: MemoryStorage::new(NAME, []), loses_answers, is_taken_over })
    }
}

impl Storage for Unsure {
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

impl Objects for Unsure {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64> {
        let count = match self.loses_answers {
            true => self.memory.send(name, source, &|_| {})?,
            false => self.memory.send(name, source, on_sent)?,
        };
        if self.is_taken_over {
            self.memory.objects().insert(LOCK_NAME.to_owned(), b"process 7 on another machine".to_vec());
        }
        if self.loses_answers { Err(Error::io(NAME, "write", ErrorKind::NotFound)) } else { Ok(count) }
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

#[test]
fn they_are_objects() {
    shardpack_io::conformance::check_objects(&*Unsure::new(false, false));
}

fn expected(source: &Numbers) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    write_dataset(folder.path(), &source.plan(20_000), source, &options(1)).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

#[test]
fn an_object_whose_last_answer_is_lost_exists() {
    let (source, spools) = (Numbers::new(40), tempfile::tempdir().unwrap());
    let unsure = Unsure::new(true, false);
    let place = Bucket::new(Arc::<Unsure>::clone(&unsure), spools.path());
    let last = Cell::new(Progress::default());
    let note = |progress: &Progress| last.set(*progress);
    let options = WriteOptions { on_progress: Some(&note), ..options(1) };
    let report = write_dataset(place, &source.plan(20_000), &source, &options).unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    assert_eq!((last.get().bytes_sent, last.get().bytes_to_send), (report.bytes_out, report.bytes_out));
    assert!(*unsure.memory.objects() == expected(&source));
}

#[test]
fn a_run_taken_over_during_an_upload_names_the_object() {
    let (source, spools) = (Numbers::new(40), tempfile::tempdir().unwrap());
    let unsure = Unsure::new(false, true);
    let place = Bucket::new(Arc::<Unsure>::clone(&unsure), spools.path());
    let error = write_dataset(place, &source.plan(20_000), &source, &options(1)).unwrap_err();
    let error = said(&error);
    assert!(error.contains("another run has taken over, and its lock reads `process 7 on another machine"), "{error}");
    assert!(error.contains("this run was uploading `shard-00000.shard`"), "{error}");
    assert_eq!(unsure.memory.objects().keys().collect::<Vec<_>>(), [LOCK_NAME, "shard-00000.shard"]);
}

#[test]
fn force_removes_all_generations() {
    let (old, mut new, spools) = (Numbers::new(40), Numbers::new(30), tempfile::tempdir().unwrap());
    new.keys.iter_mut().for_each(|key| *key = format!("new/{key}"));
    let mut objects = expected(&old);
    objects.insert("manifest-0001.json".into(), objects["manifest.json"].clone());
    objects.insert(shard_name_of(0, 2), objects["shard-00000.shard"].clone());
    let memory = Arc::new(MemoryStorage::new(NAME, objects));
    let place = Bucket::new(Arc::<MemoryStorage>::clone(&memory), spools.path());
    let force = WriteOptions { force: true, ..options(1) };
    write_dataset(place, &new.plan(20_000), &new, &force).unwrap();
    assert!(*memory.objects() == expected(&new), "{:?}", memory.objects().keys());
}
