//! What else may stand in an output folder: links, damaged manifests, shards of other datasets.

use super::behaviour::options;
use super::source::{Numbers, Sum, files};
use crate::{Error, Part, WriteOptions, merge, write_dataset};
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
        let text = error.to_string();
        let wanted = format!("/{name}`: expected a regular file, found a symbolic link\nhint: remove it");
        assert!(matches!(error, Error::Io { .. }) && text.contains(&wanted), "{text}");
        assert_eq!(fs::read(&victim).unwrap(), b"mine", "{name}");
        assert_eq!(files(dir.path()).into_keys().collect::<Vec<_>>(), [name]);
    }
    // Nor is anything made at the end of a link that leads nowhere.
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
                assert!(matches!(error, Error::Usage { .. }), "{error}");
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
