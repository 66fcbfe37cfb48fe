//! Tests additions and removals in an object store: their results, failed requests, killed runs and parallel runs.

use super::behaviour::options;
use super::growth::{parse, samples, sources};
use super::said;
use super::source::{Numbers, Sum};
use crate::names::LOCK_NAME;
use crate::{Bucket, Error, Growth, Next, Output, Report, Tally as _, write_dataset};
use shardpack_format::MANIFEST_NAME;
use shardpack_io::{FailingStorage, Failure, MemoryStorage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "s3://bucket/train";
const FOREIGN: &str = "notes.txt";

type Files = BTreeMap<String, Vec<u8>>;

/// Returns the files of the first generation, written to a folder.
fn first() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = sources();
    write_dataset(folder.path(), &first.plan(20_000), &first, &options(1)).unwrap();
    files(folder.path())
}

fn files(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

/// Returns the files of a folder after the additions.
fn grown(additions: &[&Numbers]) -> Files {
    let folder = tempfile::tempdir().unwrap();
    first().iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
    additions.iter().for_each(|source| drop(add(folder.path(), source).unwrap()));
    files(folder.path())
}

fn store() -> Arc<MemoryStorage> {
    let foreign = (FOREIGN.to_owned(), b"not ours".to_vec());
    Arc::new(MemoryStorage::new(NAME, first().into_iter().chain([foreign])))
}

fn bucket(memory: &Arc<MemoryStorage>, failure: Failure, spools: &Path) -> Bucket {
    Bucket::new(FailingStorage::new(memory, failure), spools)
}

fn add(out: impl Into<Output>, source: &Numbers) -> crate::Result<Report> {
    write(&Growth::take(out)?, source)
}

/// Adds samples. As in the real caller, their keys show whether an earlier attempt has added them already.
fn write(growth: &Growth<'_>, source: &Numbers) -> crate::Result<Report> {
    let base = growth.manifest();
    if base.samples == 40 + source.keys.len() as u64 {
        return growth.unchanged();
    }
    let plan = source.plan(20_000).behind(base, base.samples)?;
    let kept = (0..).zip(&base.shards).map(|(number, _)| (number, Sum(1.0))).collect();
    growth.write(&plan, source, Next { kept, fidelity: &Sum::fidelity }, &options(1))
}

/// Returns the objects of the dataset. Checks that the foreign object is unchanged.
fn held(memory: &MemoryStorage) -> Files {
    let mut files = memory.objects().clone();
    assert_eq!(files.remove(FOREIGN).as_deref(), Some(&b"not ours"[..]));
    files
}

/// Checks that the newest generation can be read and that no object of the first one has changed.
fn check(files: &Files) {
    for (name, bytes) in first().iter().filter(|(name, _)| *name != MANIFEST_NAME) {
        assert!(files.get(name) == Some(bytes), "{name} has changed");
    }
    let newest = parse(files, MANIFEST_NAME);
    samples(files, &newest);
    assert!([1, 2, 3].contains(&newest.generation()));
    if newest.generation() == 1 {
        assert!(files[MANIFEST_NAME] == first()[MANIFEST_NAME]);
    } else {
        assert!(files[MANIFEST_NAME] == files[&format!("manifest-{:04}.json", newest.generation())]);
        assert!(files["manifest-0001.json"] == first()[MANIFEST_NAME]);
    }
}

fn requests_of_an_addition() -> u64 {
    let (memory, spools) = (store(), tempfile::tempdir().unwrap());
    let failing = FailingStorage::new(&memory, Failure::None);
    add(Bucket::new(Arc::<FailingStorage>::clone(&failing), spools.path()), &sources().1).unwrap();
    failing.requests()
}

#[test]
fn an_addition_writes_the_objects_that_it_writes_as_files() {
    let (memory, spools) = (store(), tempfile::tempdir().unwrap());
    let (_, later) = sources();
    let report = add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
    assert_eq!(report.samples, 30);
    assert!(held(&memory) == grown(&[&later]), "{:?}", held(&memory).keys());
    assert_eq!(files(spools.path()).len(), 0, "the spool is removed");
    let again = add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
    assert_eq!(again.outcome, crate::Outcome::AlreadyComplete);
    assert!(held(&memory) == grown(&[&later]));
}

#[test]
fn after_a_failure_or_a_kill_at_any_request_a_repeat_completes_the_addition() {
    let (_, later) = sources();
    let expected = grown(&[&later]);
    let requests = requests_of_an_addition();
    assert!(requests > 20, "{requests}");
    for failure in Failure::all(requests) {
        let (memory, spools) = (store(), tempfile::tempdir().unwrap());
        let _ = add(bucket(&memory, failure, spools.path()), &later);
        check(&held(&memory).into_iter().filter(|(name, _)| name != LOCK_NAME).collect());
        let again = add(bucket(&memory, Failure::None, spools.path()), &later);
        again.unwrap_or_else(|error| panic!("{failure:?}: {}", said(&error)));
        assert!(held(&memory) == expected, "{failure:?}: {:?}", held(&memory).keys());
        assert_eq!(std::fs::read_dir(spools.path()).unwrap().count(), 0, "{failure:?}: the spool is removed");
    }
}

#[test]
fn a_writer_that_is_still_alive_can_write_again_after_any_failed_request() {
    let (_, later) = sources();
    let expected = grown(&[&later]);
    for at in 0..requests_of_an_addition() {
        let (memory, spools) = (store(), tempfile::tempdir().unwrap());
        let Ok(growth) = Growth::take(bucket(&memory, Failure::Once(at), spools.path())) else { continue };
        if write(&growth, &later).is_err() {
            write(&growth, &later).unwrap_or_else(|error| panic!("{at}: {}", said(&error)));
        }
        drop(growth);
        let files: Files = held(&memory).into_iter().filter(|(name, _)| name != LOCK_NAME).collect();
        assert!(files == expected, "{at}: {:?}", files.keys());
    }
}

#[test]
fn another_machine_takes_over_after_a_kill_at_any_request() {
    let (_, later) = sources();
    for failure in Failure::kills(requests_of_an_addition()) {
        let (memory, spools, others) = (store(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _ = add(bucket(&memory, failure, spools.path()), &later);
        let before = held(&memory);
        let other = || bucket(&memory, Failure::None, others.path());
        if before.contains_key(LOCK_NAME) {
            let error = add(other(), &later).unwrap_err();
            assert!(matches!(error, Error::Locked { .. }) && said(&error).contains("--take-over"), "{}", said(&error));
        }
        add(other().take_over(true), &later).unwrap_or_else(|error| panic!("{failure:?}: {}", said(&error)));
        let after = held(&memory);
        check(&after);
        assert_eq!(parse(&after, MANIFEST_NAME).samples, 70, "{failure:?}");
        for (name, bytes) in before.iter().filter(|(name, _)| *name != MANIFEST_NAME && *name != LOCK_NAME) {
            assert!(after.get(name) == Some(bytes), "{failure:?}: {name} has changed");
        }
        // The machine whose run was killed drops its unfinished files, or has nothing left to do.
        add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
        assert!(held(&memory) == after, "{failure:?}");
        // Compacting deletes the objects that the killed run left behind.
        Growth::take(other()).unwrap().compact().unwrap();
        let compacted = held(&memory);
        let newest = parse(&compacted, MANIFEST_NAME);
        assert!(samples(&compacted, &newest) == samples(&after, &newest));
        let shards = compacted.keys().filter(|name| name.ends_with(".shard")).collect::<Vec<_>>();
        let mut listed = newest.shards.iter().map(|shard| &shard.name).collect::<Vec<_>>();
        listed.sort_unstable();
        assert_eq!(shards, listed, "{failure:?}");
    }
}

#[test]
fn compacting_continues_after_a_failure_or_a_kill_at_any_request() {
    let (_, later) = sources();
    let added = || {
        let (memory, spools) = (store(), tempfile::tempdir().unwrap());
        add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
        (memory, spools)
    };
    let compact = |out: Bucket| Growth::take(out)?.compact();
    let (memory, spools) = added();
    let failing = FailingStorage::new(&memory, Failure::None);
    let done = compact(Bucket::new(Arc::<FailingStorage>::clone(&failing), spools.path())).unwrap();
    assert_eq!((done.generations, done.shards), (vec![1], vec![]));
    let expected = held(&memory);
    assert!(!expected.contains_key("manifest-0001.json") && expected.contains_key("manifest-0002.json"));
    let requests = failing.requests();
    for failure in Failure::all(requests) {
        let (memory, spools) = added();
        let _ = compact(bucket(&memory, failure, spools.path()));
        compact(bucket(&memory, Failure::None, spools.path())).unwrap();
        assert!(held(&memory) == expected, "{failure:?}: {:?}", held(&memory).keys());
    }
}

#[test]
fn of_two_writers_at_a_time_the_second_is_refused() {
    let (memory, spools, others) = (store(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, later) = sources();
    let growth = Growth::take(bucket(&memory, Failure::None, spools.path())).unwrap();
    let error = Growth::take(bucket(&memory, Failure::None, others.path())).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{}", said(&error));
    let error = write_dataset(bucket(&memory, Failure::None, others.path()), &later.plan(20_000), &later, &options(1));
    assert!(matches!(error.unwrap_err(), Error::Locked { .. }));
    write(&growth, &later).unwrap();
    drop(growth);
    assert!(held(&memory) == grown(&[&later]));
}

#[test]
fn a_writer_whose_claim_was_taken_over_writes_no_manifest() {
    let (memory, spools, others) = (store(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, later) = sources();
    let other = super::growth::others();
    let late = Growth::take(bucket(&memory, Failure::None, spools.path())).unwrap();
    let winner = Growth::take(bucket(&memory, Failure::None, others.path()).take_over(true)).unwrap();
    let error = said(&write(&late, &later).unwrap_err());
    assert!(error.contains("another run has taken over"), "{error}");
    write(&winner, &other).unwrap();
    drop((winner, late));
    assert!(held(&memory) == grown(&[&other]));
    // Its unfinished files cannot be used behind the other run's generation. A new run packs the samples again.
    add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
    let files = held(&memory);
    check(&files);
    assert_eq!(parse(&files, MANIFEST_NAME).samples, 40 + 20 + 30);
    assert!(held(&memory) == grown(&[&other, &later]));
}

#[test]
fn a_manifest_that_changed_meanwhile_is_not_replaced() {
    let (memory, spools) = (store(), tempfile::tempdir().unwrap());
    let (_, later) = sources();
    let failing = FailingStorage::new(&memory, Failure::None);
    let growth = Growth::take(Bucket::new(Arc::<FailingStorage>::clone(&failing), spools.path())).unwrap();
    let others = grown(&[&super::growth::others()]);
    *failing.intruder.lock().unwrap() = Some((MANIFEST_NAME.to_owned(), others[MANIFEST_NAME].clone()));
    for _ in 0..2 {
        let error = said(&write(&growth, &later).unwrap_err());
        assert!(error.contains("another run has changed the dataset `s3://bucket/train` in the meantime"), "{error}");
        assert!(held(&memory)[MANIFEST_NAME] == others[MANIFEST_NAME]);
    }
}

#[test]
fn a_foreign_object_with_the_name_of_a_new_one_is_kept() {
    let (memory, spools) = (store(), tempfile::tempdir().unwrap());
    let (_, later) = sources();
    let next = grown(&[&later]).keys().find(|name| name.ends_with(".shard") && !first().contains_key(*name)).cloned();
    memory.objects().insert(next.clone().unwrap(), b"foreign".to_vec());
    add(bucket(&memory, Failure::None, spools.path()), &later).unwrap();
    let files = held(&memory);
    check(&files);
    assert_eq!(files[&next.unwrap()], b"foreign");
}
