//! Tests hostile files of a few bytes, and folders that contain special files or symlinks. The library must handle
//! each of them within limits on memory and time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::bounded::within;
use crate::loader_support::Disk;
use crate::support::{ID, OnDisk, entry, error_kind, finish, fix_footer, scratch, small_shard};
use shardpack_format::*;
use shardpack_io::{Fault, Faults, Folder, Rig, RiggedStorage, Storage};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::{Dataset, DatasetOptions, SalvageFolder, SalvageScan, VerifyOptions, verify};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One mebibyte in KiB.
const MIB: u64 = 1 << 10;

/// Returns JSON documents of about `bytes` bytes each. Parsed to a tree, each document would take many times its
/// length.
fn bombs(bytes: usize) -> impl Iterator<Item = String> {
    let list = move |item: &str| format!("[{item}{}]", format!(",{item}").repeat(bytes / (item.len() + 1)));
    let items = ["0", "{\"a\":0}", "[]", "{}", "\"\"", "[[0]]"];
    let members = move || {
        let mut text = String::from("{\"first\":0");
        (0..bytes / 12).for_each(|i| text.push_str(&format!(",\"{i:x}\":0")));
        text + "}"
    };
    items.into_iter().map(list).chain(std::iter::once_with(members))
}

fn with_recipe(text: &[u8], value: &str) -> Vec<u8> {
    let text = std::str::from_utf8(text).unwrap();
    let (before, after) = text.split_once("\"recipe\": {").unwrap();
    assert!(after.trim_start().starts_with("\"seed\""));
    format!("{before}\"recipe\": {{\"bomb\":{value},{after}").into_bytes()
}

/// Tests that a mistyped name in `within` is noticed. Without this check, the child process would run no test and
/// succeed.
#[test]
#[should_panic(expected = "no such test")]
fn a_case_that_no_test_has_the_name_of_fails() {
    within(concat!(module_path!(), "::json_takes_memory"), 1024 * MIB, 60, || {});
}

#[test]
fn json_takes_memory_by_its_nodes() {
    within(concat!(module_path!(), "::json_takes_memory_by_its_nodes"), 1200 * MIB, 240, || {
        let disk = OnDisk::new(&[3]);
        let manifest = disk.manifest.encode().unwrap();
        let metadata = crate::support::metadata(None).encode().unwrap();
        for bomb in bombs(60 << 20).take(2) {
            let bytes = with_recipe(&manifest, &bomb);
            std::fs::write(disk.path().join(MANIFEST_NAME), &bytes).unwrap();
            let error = Dataset::open(disk.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            assert!(error.to_string().contains("max_json_nodes"), "{error}");
            let report = verify(disk.path(), &VerifyOptions::default()).unwrap();
            assert!(report.problems.iter().any(|p| p.kind == "limit"), "{:?}", report.problems);
            assert!(matches!(
                check_json(bomb.as_bytes(), &Limits::default()),
                Err(shardpack_format::Error::Limit { name: "max_json_nodes", .. })
            ));
        }
        for bomb in bombs(30 << 20) {
            let index = IndexBuilder::new(&crate::support::metadata(None).schema);
            let index = index.encode(&with_recipe(&metadata, &bomb)).unwrap();
            let identity = Identity::new(ID, 0);
            let shard = finish(identity.encode_header().to_vec(), identity, 0, &index);
            std::fs::write(disk.shard_path(7), &shard).unwrap();
            let error = Dataset::open(disk.shard_path(7)).unwrap_err();
            assert!(error.to_string().contains("max_json_nodes"), "{error}");
        }
        std::fs::remove_file(disk.shard_path(7)).unwrap();
        // A document at the limit must be accepted, within the same bounds on memory and time.
        for bomb in bombs(1 << 20) {
            std::fs::write(disk.path().join(MANIFEST_NAME), with_recipe(&manifest, &bomb)).unwrap();
            assert_eq!(Dataset::open(disk.path()).unwrap().len(), 3);
        }
    });
}

#[test]
fn shards_that_say_the_same_share_it() {
    let dir = scratch();
    let classes: Vec<String> = (0..20_000).map(|n| format!("class number {n}")).collect();
    let metadata = Metadata { classes: Some(classes), ..crate::support::metadata(Some(40)) };
    let mut manifest = Manifest::new(ID, metadata.clone());
    for number in 0..40 {
        let samples = [crate::support::TestSample::new(number)];
        let bytes = crate::support::shard_with(Identity::new(ID, number as u32), &samples, &metadata);
        let name = shard_name(number as u32);
        std::fs::write(dir.path().join(&name), &bytes).unwrap();
        manifest.push(entry(&name, &bytes));
    }
    std::fs::write(dir.path().join(MANIFEST_NAME), manifest.encode().unwrap()).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    let first = dataset.shard(0).unwrap();
    for number in 0..40 {
        let shard = dataset.shard(number).unwrap();
        assert!(shard.index().shared_metadata().is_same(first.index().shared_metadata()));
        assert_eq!(*shard.index().metadata(), metadata);
        // The metadata text alone has 600 kB, so the shards must share it.
        assert!(shard.index().memory_bytes() < 8192, "{}", shard.index().memory_bytes());
        assert_eq!(shard.index().key(0), Some(crate::support::TestSample::new(number as u64).key.as_str()));
    }
    assert!(verify(dir.path(), &VerifyOptions::default()).unwrap().is_whole());
}

/// The name of a trap, and a function that creates it: a special file, or a link that leads out of the folder.
type Trap = (&'static str, Box<dyn Fn(&Path)>);

fn traps(outside: PathBuf) -> Vec<Trap> {
    fn link(name: &'static str, to: impl Into<PathBuf>) -> Trap {
        let to = to.into();
        (name, Box::new(move |path| std::os::unix::fs::symlink(&to, path).unwrap()))
    }
    vec![
        ("FIFO", Box::new(|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()))),
        ("socket", Box::new(|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()))),
        ("folder", Box::new(|path| std::fs::create_dir(path).unwrap())),
        ("itself", Box::new(|path| std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap())),
        link("endless device", "/dev/zero"),
        link("device", "/dev/null"),
        link("file of the system", "/etc/passwd"),
        link("nothing", "nowhere"),
        link("shard outside", outside),
    ]
}

#[test]
fn links_and_devices_are_not_opened_as_shards() {
    within(concat!(module_path!(), "::links_and_devices_are_not_opened_as_shards"), 1024 * MIB, 60, || {
        let limits = Limits::default();
        let outside = OnDisk::new(&[5]);
        for (what, trap) in traps(outside.shard_path(0)) {
            let disk = OnDisk::new(&[3, 4]);
            let manifest = disk.path().join(MANIFEST_NAME);
            std::fs::remove_file(&manifest).unwrap();
            trap(&manifest);
            let error = Dataset::open(disk.path()).unwrap_err();
            assert!(error.to_string().contains("manifest.json"), "{what}: {error}");
            assert!(!verify(disk.path(), &VerifyOptions::default()).unwrap().is_whole(), "{what}");
            let folder = SalvageFolder::open(disk.path()).unwrap();
            let newest = folder.newest(&limits).unwrap();
            assert!(newest.manifest.is_none() && newest.damage.len() == 1, "{what}: {:?}", newest.damage);
            // Without its index, a shard looks for the schema in its folder.
            disk.edit(0, |bytes| {
                let end = bytes.len();
                bytes[end - 128..].fill(0);
            });
            assert_eq!(folder.scan(&shard_name(0), &limits).unwrap().count(), 3, "{what}");
            assert_eq!(SalvageScan::open(disk.shard_path(0), &limits).unwrap().count(), 3, "{what}");
            let disk = OnDisk::new(&[3, 4]);
            std::fs::remove_file(disk.shard_path(1)).unwrap();
            trap(&disk.shard_path(1));
            let dataset = Dataset::open(disk.path()).unwrap();
            assert!(dataset.get(0).is_ok());
            let error = dataset.get(3).unwrap_err();
            assert!(error.to_string().contains("shard-00001.shard"), "{what}: {error}");
            let report = verify(disk.path(), &VerifyOptions::default()).unwrap();
            assert_eq!((report.samples, report.missing_samples), (3, 4), "{what}: {:?}", report.problems);
            let folder = SalvageFolder::open(disk.path()).unwrap();
            let error = folder.scan(&shard_name(1), &limits).unwrap_err();
            assert!(error.to_string().contains("shard-00001.shard"), "{what}: {error}");
            assert_eq!(folder.scan(&shard_name(0), &limits).unwrap().count(), 3, "{what}");
        }
    });
}

#[derive(Debug, Default)]
struct Panics(AtomicBool);

impl Rig for Panics {
    fn open(&self, _: &str) -> io::Result<()> {
        assert!(!self.0.load(Ordering::SeqCst), "an open that panics");
        Ok(())
    }

    fn read(&self, _: &str, range: Range<u64>) -> io::Result<u64> {
        assert!(!self.0.load(Ordering::SeqCst), "a read that panics");
        Ok(range.end - range.start)
    }
}

#[test]
fn a_panic_in_a_thread_that_reads_is_an_error_of_the_stream() {
    within(
        concat!(module_path!(), "::a_panic_in_a_thread_that_reads_is_an_error_of_the_stream"),
        1024 * MIB,
        60,
        || {
            let disk = OnDisk::new(&[40, 40, 40]);
            for opened_before in [false, true] {
                let storage = RiggedStorage::of_folder(disk.path(), Panics::default());
                let panics = Arc::clone(&storage.rig);
                let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
                if opened_before {
                    (0..3).for_each(|number| drop(dataset.shard(number).unwrap()));
                }
                panics.0.store(true, Ordering::SeqCst);
                let mut errors = 0;
                for sample in dataset.iter().unwrap() {
                    let error = sample.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
                    assert!(error.hint().unwrap().to_string().contains("please report it"), "{error}");
                    errors += 1;
                }
                assert_eq!(errors, if opened_before { 3 } else { 1 });
                panics.0.store(false, Ordering::SeqCst);
                assert_eq!(dataset.iter().unwrap().filter(std::result::Result::is_ok).count(), 120);
            }
        },
    );
}

#[test]
fn a_panic_in_a_check_is_an_error_and_not_a_hang() {
    within(concat!(module_path!(), "::a_panic_in_a_check_is_an_error_and_not_a_hang"), 1024 * MIB, 60, || {
        let disk = OnDisk::new(&[4, 4, 4]);
        let decode = |_: &str, _: &[u8]| -> std::result::Result<(), String> { panic!("planted") };
        for threads in [1, 4] {
            let options = VerifyOptions { deep: Some(&decode), threads, ..VerifyOptions::default() };
            let report = verify(disk.path(), &options).unwrap();
            // After a panic the check continues with the next picture, so each picture is one problem. One sample of
            // each shard has no picture, which leaves 9.
            let internal = report.problems.iter().filter(|p| p.kind == "internal").count();
            assert_eq!(internal, 9, "{:?}", report.problems);
            assert!(report.problems.iter().all(|p| p.what.contains("planted")), "{:?}", report.problems);
        }
    });
}

fn hurt_index(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() - 128 - 70;
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_index_costs_its_own_shard_and_is_read_once() {
    let disk = Disk::alike(&[16, 12, 20]);
    hurt_index(&disk.path().join(shard_name(1)));
    for mode in [Mode::Stored, Mode::Full] {
        let storage = Arc::new(RiggedStorage::of_folder(disk.path(), Faults::new(Fault::None)));
        let dataset = DatasetOptions::new().open_in(Arc::clone(&storage) as Arc<dyn Storage>).unwrap();
        let (batch_size, threads) = (4, 2);
        let base = LoaderOptions::default().mode(mode).end(End::Uneven).batch_size(batch_size).threads(threads);
        let skip = base.clone().on_corrupt(OnCorrupt::Skip { max: 12 });
        let mut loader = Loader::open(&dataset, skip).unwrap();
        let mut keys = Vec::new();
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            let there = (0..batch.len()).filter(|&row| batch.mask()[row]);
            keys.extend(there.map(|row| batch.indices()[row]));
        }
        keys.sort_unstable();
        assert_eq!(keys, (0..16).chain(28..48).collect::<Vec<u64>>());
        assert_eq!(loader.stats().skipped, 12);
        let mut loader = Loader::open(&dataset, base).unwrap();
        let results = std::iter::from_fn(|| loader.next_batch());
        let (good, bad): (Vec<_>, Vec<_>) = results.partition(|batch| batch.is_ok());
        assert!(bad.iter().all(|e| error_kind(e) == Some(ErrorKind::Format)) && good.len() + bad.len() == 12);
        assert!(!bad.is_empty() && (mode == Mode::Full || bad.len() == 3));
        let before = storage.rig.operations.load(Ordering::SeqCst);
        for sample in 16..28 {
            assert!(dataset.get(sample).unwrap_err().to_string().contains("index CRC32"));
        }
        assert_eq!(storage.rig.operations.load(Ordering::SeqCst), before, "it is read anew");
    }
}

#[test]
fn a_length_that_memory_cannot_hold_is_an_error() {
    // A sparse file of the correct length, with an index that matches the footer.
    within(concat!(module_path!(), "::a_length_that_memory_cannot_hold_is_an_error"), 512 * MIB, 30, || {
        let dir = scratch();
        let path = dir.path().join("x.shard");
        let mut bytes = small_shard(0..1);
        let at = bytes.len() - 128;
        let index_bytes: u64 = 1 << 30;
        let offset = u64::from_le_bytes(bytes[at + 80..at + 88].try_into().unwrap());
        let mut footer = bytes.split_off(at);
        footer[64..72].copy_from_slice(&(offset + index_bytes + 128).to_le_bytes());
        footer[88..96].copy_from_slice(&index_bytes.to_le_bytes());
        fix_footer(&mut footer);
        let file = std::fs::File::create(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &footer, offset + index_bytes).unwrap();
        let error = Dataset::open(&path).unwrap_err();
        assert!(error.to_string().contains("cannot allocate a buffer of 1073741824 bytes"), "{error}");
        let folder = Folder::open(dir.path(), false).unwrap();
        assert_eq!(folder.names().unwrap(), ["x.shard"]);
    });
}
