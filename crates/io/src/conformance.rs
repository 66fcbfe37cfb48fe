//! Tests that every implementation of this crate's traits must pass. They panic on failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, LockMode};
use crate::holder::Holder;
use crate::objects::Objects;
use crate::read_at::{Ends, ReadAt, read_exact_at, read_exact_unchecked_at, read_whole};
use crate::storage::Storage;
use std::cell::Cell;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Barrier;

/// Size of an object that needs more than one part in a multipart upload.
const LARGE_BYTES: usize = (17 << 20) + 13;

/// Returns the names and contents of the files that [`check_storage`] expects to find.
#[must_use]
pub fn files() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |count: usize| (0..count).map(|i| (i * 7 + i / 251) as u8).collect::<Vec<u8>>();
    vec![
        ("a file.json", bytes(9)),
        ("below/one.shard", bytes(300)),
        ("empty.bin", Vec::new()),
        ("large.shard", bytes(300_000)),
        ("one.shard", vec![7]),
    ]
}

/// Checks an implementation of [`Storage`] that contains the files from [`files`] and no others.
///
/// # Panics
/// If the storage violates the contract of [`Storage`].
pub fn check_storage(storage: &dyn Storage) {
    let files = files();
    match storage.names() {
        Ok(names) => assert_eq!(names, ["a file.json", "below", "empty.bin", "large.shard", "one.shard"]),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    for (name, bytes) in &files {
        storage.advise_open(name);
        let file = storage.open(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        check_file(&*file, bytes);
        assert_eq!(storage.read(name, bytes.len() as u64).unwrap(), *bytes, "{name}");
        let whole = storage.read_ends(name, u64::MAX, u64::MAX).unwrap();
        assert_eq!(whole, Ends { bytes: bytes.len() as u64, head: bytes.clone(), tail: bytes.clone() }, "{name}");
        let ends = storage.read_ends(name, 3, 2).unwrap();
        let expected = (&bytes[..bytes.len().min(3)], &bytes[bytes.len().saturating_sub(2)..]);
        assert_eq!((ends.head.as_slice(), ends.tail.as_slice()), expected, "{name}");
        if let Some(less) = (bytes.len() as u64).checked_sub(1) {
            assert_eq!(storage.read(name, less).unwrap_err().kind(), ErrorKind::FileTooLarge, "{name}");
        }
    }
    match storage.list() {
        Ok(mut listed) => {
            listed.sort_by(|a, b| a.name.cmp(&b.name));
            let found: Vec<_> = listed.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
            assert_eq!(found, files.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect::<Vec<_>>());
            for (file, (_, bytes)) in listed.iter().zip(&files) {
                check_file(&*storage.open_listed(file).unwrap(), bytes);
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    let missing = storage.open("missing.shard").unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(missing.to_string().contains("missing.shard"), "{missing}");
    assert!(storage.read("missing.shard", 7).unwrap_err().is_not_found());
    assert!(storage.read_ends("missing.shard", 7, 7).unwrap_err().is_not_found());
    for outside in ["../x.shard", "/x.shard", "below/../one.shard", "below//one.shard", "below/a/b.shard", "..", ""] {
        assert!(storage.open(outside).is_err(), "{outside:?} was opened");
    }
}

fn check_file(file: &dyn ReadAt, bytes: &[u8]) {
    let len = bytes.len() as u64;
    assert_eq!((file.len(), file.is_empty()), (len, bytes.is_empty()));
    let read = |start: usize, end: usize| {
        let mut buffer = vec![0; end - start];
        for read in [read_exact_at, read_exact_unchecked_at] {
            buffer.fill(0);
            read(file, Path::new("file"), &mut buffer, start as u64).unwrap();
            assert!(buffer == bytes[start..end], "bytes {start} to {end} of {len}");
        }
    };
    // Advice must not change the bytes that are read, even if a range is announced twice or is beyond the end of the
    // file.
    file.advise_sequential();
    file.advise_soon(0, len);
    file.advise_soon(len / 2, len);
    file.advise_soon(len + 7, 3);
    let middle = bytes.len() / 2;
    for (start, end) in [(0, bytes.len()), (middle, bytes.len()), (0, middle), (middle, middle), (0, bytes.len())] {
        read(start, end);
    }
    if len > 0 {
        let _ = file.is_cached(len - 1);
    }
    file.drop_cached();
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || read(bytes.len() * part / 4, bytes.len() * (part + 1) / 4));
        }
    });
    let mut byte = [0];
    assert_eq!(patient(|| file.read_at(&mut byte, len)), 0);
    assert_eq!(patient(|| file.read_at(&mut byte, len + 1000)), 0);
    let beyond = read_exact_at(file, Path::new("file"), &mut [0; 2], len.saturating_sub(1)).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof, "{beyond}");
}

fn patient(mut read: impl FnMut() -> Result<usize, Cause>) -> usize {
    loop {
        match read() {
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            other => return other.unwrap(),
        }
    }
}

/// Checks an implementation of [`Objects`] that does not contain any objects yet.
///
/// # Panics
/// If the storage violates the contract of [`Objects`].
pub fn check_objects(objects: &dyn Objects) {
    let read = |name: &str| objects.read(name, u64::MAX).unwrap();
    assert_eq!(objects.names().unwrap(), [""; 0]);

    assert!(objects.create("claim", b"first").unwrap());
    assert!(objects.create("claim", b"first").unwrap(), "the object holds these bytes already");
    assert!(!objects.create("claim", b"other").unwrap());
    assert_eq!(read("claim"), b"first");

    assert!(!objects.exchange("claim", b"wrong", b"second").unwrap());
    assert!(!objects.exchange("claim", b"of another length", b"second").unwrap());
    assert_eq!(read("claim"), b"first");
    assert!(objects.exchange("claim", b"first", b"second").unwrap());
    assert_eq!(read("claim"), b"second");
    assert!(objects.exchange("free", b"old", b"new").unwrap(), "the name is free");
    assert_eq!(read("free"), b"new");

    for count in [0, 1, 1000, LARGE_BYTES] {
        let bytes = vec![count as u8; count];
        let sent = Cell::new(0);
        let on_sent = |part: u64| sent.set(sent.get() + part);
        assert_eq!(objects.send("a.shard", &mut bytes.as_slice(), &on_sent).unwrap(), count as u64);
        assert_eq!(sent.get(), count as u64, "the bytes of all parts");
        assert!(read("a.shard") == bytes, "{count} bytes");
    }
    for count in [3, LARGE_BYTES] {
        let mut torn = io::Cursor::new(vec![9; count]).chain(Torn);
        let error = objects.send("a.shard", &mut torn, &|_| {}).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(read("a.shard") == vec![LARGE_BYTES as u8; LARGE_BYTES], "the old object stays");
    }
    assert_eq!(objects.names().unwrap(), ["a.shard", "claim", "free"]);
    for other in [&b"wrong!"[..], b"of another length", b"", b"never there"] {
        objects.release("claim", other).unwrap();
        assert_eq!(read("claim"), b"second");
    }
    for name in ["claim", "claim", "never.there"] {
        objects.release(name, b"second").unwrap();
    }
    assert_eq!(objects.names().unwrap(), ["a.shard", "free"]);
    for name in ["a.shard", "free", "free", "never.there"] {
        objects.remove(name).unwrap();
    }
    assert_eq!(objects.names().unwrap(), [""; 0]);
    assert!(objects.read("claim", 7).unwrap_err().is_not_found());

    let start = Barrier::new(4);
    let winners = std::thread::scope(|scope| {
        let tries: [_; 4] = std::array::from_fn(|i| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                objects.create("race", &[i as u8; 9]).unwrap()
            })
        });
        tries.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!(winners, 1, "exactly one of the concurrent creators wins");
    objects.remove("race").unwrap();
}

struct Torn;

impl Read for Torn {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("torn"))
    }
}

/// Checks an implementation of [`FileSystem`] in `folder`, which must not exist yet.
///
/// # Panics
/// If the file system violates the contract of [`FileSystem`].
pub fn check_file_system(files: &dyn FileSystem, folder: &Path) {
    files.create_dir_all(folder).unwrap();
    files.create_dir_all(folder).unwrap();
    let path = |name: &str| folder.join(name);
    let read = |name: &str| read_whole(&*files.open(&path(name)).unwrap(), &path(name), u64::MAX).unwrap();
    let kind = |result: Result<(), Cause>| result.unwrap_err().kind();

    let file = files.create_new(&path("b")).unwrap();
    file.append(b"one").unwrap();
    file.append(b" two").unwrap();
    file.sync().unwrap();
    files.sync_dir(folder).unwrap();
    assert_eq!(kind(files.create_new(&path("b")).map(drop)), ErrorKind::AlreadyExists);
    drop(file);
    let again = files.append(&path("b")).unwrap();
    again.append(b" three").unwrap();
    again.sync().unwrap();
    check_file(&*files.open(&path("b")).unwrap(), b"one two three");

    files.create_new(&path("a")).unwrap().append(b"old").unwrap();
    assert_eq!(files.names(folder).unwrap(), ["a", "b"]);
    files.rename(&path("b"), &path("a")).unwrap();
    assert_eq!((files.names(folder).unwrap(), read("a")), (vec!["a".to_owned()], b"one two three".to_vec()));
    assert_eq!(kind(files.rename(&path("b"), &path("a"))), ErrorKind::NotFound);
    assert_eq!(kind(files.open(&path("b")).map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(files.append(&path("b")).map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(files.remove(&path("b"))), ErrorKind::NotFound);
    assert_eq!(kind(files.remove_dir(folder)), ErrorKind::DirectoryNotEmpty);
    files.remove(&path("a")).unwrap();

    let holder = Holder { process: std::process::id(), host: "here".into(), since: "today".into() };
    let lock = |mode| files.lock(&path("lock"), mode, &holder).unwrap();
    let alone = lock(LockMode::Exclusive).unwrap();
    assert!(lock(LockMode::Exclusive).is_none() && lock(LockMode::Shared).is_none());
    drop(alone);
    let (one, other) = (lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap());
    assert!(lock(LockMode::Exclusive).is_none());
    drop(one);
    assert!(lock(LockMode::Exclusive).is_none());
    drop(other);
    drop(lock(LockMode::Exclusive).unwrap());
    assert_eq!(files.names(folder).unwrap(), [""; 0], "a released lock leaves no file");
    files.remove_dir(folder).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, FailingStorage, Failure, Fault, Faults, Folder, MemoryStorage, RiggedStorage};
    use std::sync::Arc;

    #[test]
    fn a_folder_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files() {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        for follow_symlinks in [false, true] {
            check_storage(&Folder::open(folder.path(), follow_symlinks).unwrap());
        }
    }

    #[test]
    fn memory() {
        check_storage(&with_files());
        check_objects(&MemoryStorage::new("memory", []));
    }

    #[test]
    fn a_storage_without_failures() {
        check_storage(&*FailingStorage::new(&Arc::new(with_files()), Failure::None));
        check_objects(&*FailingStorage::new(&Arc::new(MemoryStorage::new("memory", [])), Failure::None));
    }

    #[test]
    fn a_rigged_storage_with_temporary_faults() {
        for fault in [Fault::None, Fault::OneByte, Fault::Pieces] {
            let rigged = RiggedStorage::new(with_files(), Faults::new(fault));
            check_storage(&rigged);
            assert_eq!(rigged.rig.open.load(std::sync::atomic::Ordering::SeqCst), 0, "all files are closed");
        }
    }

    fn with_files() -> MemoryStorage {
        MemoryStorage::new("memory", files().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)))
    }

    #[test]
    fn the_file_system_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        check_file_system(&Disk, &folder.path().join("not/yet/there"));
    }
}
