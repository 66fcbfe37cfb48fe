//! Tests output folders with unusual content, such as symlinks, damaged manifests, and shards of other datasets.

use super::behaviour::options;
use super::said;
use super::source::{Numbers, Sum, files};
use crate::{Error, Outcome, Part, WriteOptions, merge, write_dataset};
use shardpack_format::Error as FormatError;
use std::fs;
use tempfile::tempdir;

fn part(index: u32, count: u32) -> WriteOptions<'static> {
    WriteOptions { part: Some(Part::new(index, count).unwrap()), ..options(1) }
}

#[cfg(unix)]
#[test]
fn no_symlink_is_written_through_or_read() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    let names = [".shardpack-lock", ".shardpack-lock-00001-of-00002", ".shardpack-journal.jsonl", "manifest.json"];
    for name in names {
        let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
        let victim = elsewhere.path().join("victim");
        fs::write(&victim, b"mine").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(name)).unwrap();
        let options = if name.contains("-of-") { part(0, 2) } else { options(1) };
        let error = write_dataset(dir.path(), &plan, &source, &options).unwrap_err();
        let text = said(&error);
        let wanted = format!("/{name}`: expected a regular file, found a symbolic link\nhint: remove it");
        assert!(matches!(error, Error::Io { .. }) && text.contains(&wanted), "{text}");
        assert_eq!(fs::read(&victim).unwrap(), b"mine", "{name}");
        assert_eq!(files(dir.path()).into_keys().collect::<Vec<_>>(), [name]);
    }
    // Creating the target of a dangling symlink would also be a change outside the folder.
    let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let nowhere = elsewhere.path().join("nowhere");
    std::os::unix::fs::symlink(&nowhere, dir.path().join(".shardpack-lock")).unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap_err();
    assert!(!nowhere.exists());
}

#[test]
fn a_refused_run_leaves_nothing_behind() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    let foreign = tempdir().unwrap();
    fs::write(foreign.path().join("notes.txt"), b"mine").unwrap();
    let other = tempdir().unwrap();
    write_dataset(other.path(), &source.plan(3000), &source, &options(1)).unwrap();
    for dir in [foreign.path(), other.path()] {
        let before = files(dir);
        for options in [options(1), part(0, 2)] {
            for force in [false, options.part.is_some()] {
                let error = write_dataset(dir, &plan, &source, &WriteOptions { force, ..options }).unwrap_err();
                assert!(matches!(error, Error::Format(FormatError::Usage(_))), "{error}");
                assert_eq!(files(dir), before, "{options:?}");
            }
        }
    }
}

#[test]
fn parts_leave_no_lock_file() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    let dir = tempdir().unwrap();
    for i in 0..2 {
        write_dataset(dir.path(), &plan, &source, &part(i, 2)).unwrap();
        assert!(files(dir.path()).keys().all(|name| !name.contains("lock")));
    }
    merge::<Sum>(dir.path()).unwrap();
    let whole = files(dir.path());
    write_dataset(dir.path(), &plan, &source, &part(0, 2)).unwrap();
    assert_eq!(files(dir.path()), whole);
}

fn damage(manifest: &[u8], how: usize) -> Vec<u8> {
    match how {
        0 => Vec::new(),
        1 => vec![0; manifest.len()],
        2 => manifest[..manifest.len() / 2].to_vec(),
        3 => b"{\"whole\": \"JSON\"}".to_vec(),
        _ => [b"{", manifest].concat(),
    }
}

#[test]
fn a_dataset_with_a_damaged_manifest_is_kept_and_replaced_by_force_alone() {
    let source = Numbers::new(60);
    let (old, new) = (source.plan(20_000), source.plan(30_000));
    let fresh = tempdir().unwrap();
    write_dataset(fresh.path(), &new, &source, &options(1)).unwrap();
    for how in 0..5 {
        let dir = tempdir().unwrap();
        write_dataset(dir.path(), &old, &source, &options(1)).unwrap();
        let manifest = dir.path().join("manifest.json");
        let bytes = fs::read(&manifest).unwrap();
        fs::write(&manifest, damage(&bytes, how)).unwrap();
        // The folder contains an older manifest, set aside by `shardpack salvage`, and a shard with a damaged header.
        fs::write(dir.path().join("manifest.json.damaged"), b"{").unwrap();
        let shard = dir.path().join("shard-00001.shard");
        let mut hurt = fs::read(&shard).unwrap();
        hurt[if how % 2 == 0 { 30 } else { 3 }] ^= 1;
        fs::write(&shard, hurt).unwrap();
        let before = files(dir.path());
        for plan in [&old, &new] {
            for options in [options(1), part(0, 2), WriteOptions { force: true, ..part(0, 2) }] {
                let error = write_dataset(dir.path(), plan, &source, &options).unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "{error}");
                let text = said(&error);
                assert!(text.contains("manifest.json`") && text.contains("\nhint: recover "), "{text}");
                assert!(text.ends_with(", or start over with `--force` but without `--part`"), "{text}");
                assert_eq!(files(dir.path()), before);
            }
        }
        assert!(matches!(merge::<Sum>(dir.path()), Err(Error::Damaged { .. })));
        assert_eq!(files(dir.path()), before);
        let force = WriteOptions { force: true, ..options(1) };
        fs::write(dir.path().join("notes.txt"), b"mine").unwrap();
        let error = said(&write_dataset(dir.path(), &new, &source, &force).unwrap_err());
        assert!(error.contains("contains files that shardpack did not write: `notes.txt`\n"), "{error}");
        fs::remove_file(dir.path().join("notes.txt")).unwrap();
        assert_eq!(files(dir.path()), before);
        write_dataset(dir.path(), &new, &source, &force).unwrap();
        assert_eq!(files(dir.path()), files(fresh.path()), "damage {how}");
    }
}

#[test]
fn shards_without_their_manifest_are_replaced_by_force_alone() {
    let source = Numbers::new(60);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &source.plan(20_000), &source, &options(1)).unwrap();
    fs::remove_file(dir.path().join("manifest.json")).unwrap();
    let before = files(dir.path());
    let new = source.plan(30_000);
    let error = said(&write_dataset(dir.path(), &new, &source, &options(1)).unwrap_err());
    assert!(error.contains("contains shards without a manifest: `shard-00000.shard`, "), "{error}");
    assert!(error.ends_with("or start over with `--force` but without `--part`"), "{error}");
    assert_eq!(files(dir.path()), before);
    write_dataset(dir.path(), &new, &source, &WriteOptions { force: true, ..options(1) }).unwrap();
    let fresh = tempdir().unwrap();
    write_dataset(fresh.path(), &new, &source, &options(1)).unwrap();
    assert_eq!(files(dir.path()), files(fresh.path()));
}

#[test]
fn a_manifest_that_salvage_moved_aside_does_not_stop_a_run() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
    fs::write(dir.path().join("manifest.json.damaged"), b"{").unwrap();
    let before = files(dir.path());
    let again = write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
    assert_eq!((again.outcome, files(dir.path())), (Outcome::AlreadyComplete, before));
}
