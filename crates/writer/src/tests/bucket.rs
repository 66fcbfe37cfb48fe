//! A place in a store, by objects in memory whose answers may be lost. What a real store does stands
//! in the tests of `shardpack-store`.

use super::behaviour::options;
use super::said;
use super::source::Numbers;
use crate::lock::LOCK_NAME;
use crate::{Bucket, Ends, Objects, Outcome, WriteOptions, write_dataset};
use shardpack_format::shard_name_of;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Each object that is sent arrives, and the answer is that there is no such upload: what some
    /// stores say when the answer to its end was lost, and the end is asked for once more.
    loses_answers: bool,
    /// While an object is sent, another run takes over.
    is_taken_over: bool,
}

impl Memory {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap()
    }
}

impl Objects for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.objects().keys().cloned().collect())
    }

    fn read(&self, name: &str, _: u64) -> io::Result<Vec<u8>> {
        self.objects().get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> io::Result<Ends> {
        let bytes = self.read(name, u64::MAX)?;
        let at_most = |n: u64| usize::try_from(n).unwrap().min(bytes.len());
        let (head, tail) = (bytes[..at_most(head)].to_vec(), bytes[bytes.len() - at_most(tail)..].to_vec());
        Ok(Ends { bytes: bytes.len() as u64, head, tail })
    }

    fn send(&self, name: &str, source: &mut dyn Read) -> io::Result<u64> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes)?;
        let count = bytes.len() as u64;
        self.objects().insert(name.to_owned(), bytes);
        if self.is_taken_over {
            self.objects().insert(LOCK_NAME.to_owned(), b"process 7 on another machine".to_vec());
        }
        if self.loses_answers { Err(ErrorKind::NotFound.into()) } else { Ok(count) }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        Ok(self.objects().entry(name.to_owned()).or_insert_with(|| bytes.to_vec()) == bytes)
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> io::Result<bool> {
        let mut objects = self.objects();
        let is_old = objects.get(name).is_none_or(|found| found == old);
        if is_old {
            objects.insert(name.to_owned(), new.to_vec());
        }
        Ok(is_old)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.objects().remove(name);
        Ok(())
    }
}

/// The files of the dataset in a folder.
fn expected(source: &Numbers) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    write_dataset(folder.path(), &source.plan(20_000), source, &options(1)).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

#[test]
fn an_object_whose_last_answer_is_lost_is_there() {
    let (source, spools) = (Numbers::new(40), tempfile::tempdir().unwrap());
    let memory = Arc::new(Memory { loses_answers: true, ..Memory::default() });
    let place = Bucket::new("s3://bucket/train", Arc::<Memory>::clone(&memory), spools.path());
    let report = write_dataset(place, &source.plan(20_000), &source, &options(1)).unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    assert!(*memory.objects() == expected(&source));
}

#[test]
fn a_run_that_is_taken_over_while_it_sends_says_what_it_sent() {
    let (source, spools) = (Numbers::new(40), tempfile::tempdir().unwrap());
    let memory = Arc::new(Memory { is_taken_over: true, ..Memory::default() });
    let place = Bucket::new("s3://bucket/train", Arc::<Memory>::clone(&memory), spools.path());
    let error = write_dataset(place, &source.plan(20_000), &source, &options(1)).unwrap_err();
    let error = said(&error);
    assert!(error.contains("another run has taken over: process 7 on another machine"), "{error}");
    assert!(error.contains("`shard-00000.shard` was on its way then"), "{error}");
    assert_eq!(memory.objects().keys().collect::<Vec<_>>(), [LOCK_NAME, "shard-00000.shard"]);
}

#[test]
fn force_leaves_nothing_of_a_dataset_that_had_grown() {
    let (old, mut new, spools) = (Numbers::new(40), Numbers::new(30), tempfile::tempdir().unwrap());
    new.keys.iter_mut().for_each(|key| *key = format!("new/{key}"));
    let mut objects = expected(&old);
    objects.insert("manifest-0001.json".into(), objects["manifest.json"].clone());
    objects.insert(shard_name_of(0, 2), objects["shard-00000.shard"].clone());
    let memory = Arc::new(Memory { objects: objects.into(), ..Memory::default() });
    let place = Bucket::new("s3://bucket/train", Arc::<Memory>::clone(&memory), spools.path());
    let force = WriteOptions { force: true, ..options(1) };
    write_dataset(place, &new.plan(20_000), &new, &force).unwrap();
    assert!(*memory.objects() == expected(&new), "{:?}", memory.objects().keys());
}
