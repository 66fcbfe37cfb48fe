//! Tests which files compacting deletes, which it keeps, and how it recovers after being killed halfway.

use super::behaviour::options;
use super::faults::run;
use super::growth::{OUT, add, fresh, held, parse, remove, samples, sources};
use super::memory_fs::{Crash, Fault, MemoryFs};
use super::said;
use crate::target::Target;
use crate::{Compacted, Growth, Result, WriteOptions};
use shardpack_io::FileSystem as _;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns a disk with three generations: 40 samples, then 70, then 69 after a removal.
fn grown() -> MemoryFs {
    let fs = fresh();
    add(&fs, &sources().1, &options(1)).unwrap();
    remove(&fs, KEY);
    fs
}

const KEY: &str = "class0/0003.bin";

fn compact(fs: &MemoryFs) -> Result<Compacted> {
    Growth::take_on(Target::folder(fs, Path::new(OUT)))?.compact()
}

fn has_key(files: &BTreeMap<String, Vec<u8>>) -> bool {
    files.values().any(|bytes| bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()))
}

fn put(fs: &MemoryFs, name: &str, bytes: &[u8]) {
    let path = Path::new(OUT).join(name);
    let _ = fs.remove(&path);
    fs.create_new(&path).unwrap().append(bytes).unwrap();
}

#[test]
fn a_kill_at_any_moment_leaves_no_shard_that_the_next_run_does_not_find() {
    let start = grown();
    let done = start.with_fault(Fault::None, None);
    compact(&done).unwrap();
    let expected = held(&done);
    assert!(has_key(&held(&start)) && !has_key(&expected));
    for crash in [Crash::NothingSurvives, Crash::NamesSurvive, Crash::Random(1), Crash::Random(2)] {
        for k in 1.. {
            let fs = start.with_fault(Fault::CrashAt(k), None);
            let result = compact(&fs);
            if !fs.was_hit() {
                result.unwrap();
                assert!(k > 10, "{k}");
                break;
            }
            let fs = fs.after(crash);
            let files = held(&fs);
            assert_eq!(samples(&files, &parse(&files, "manifest.json")).len(), 69, "{k} {crash:?}");
            compact(&fs).unwrap();
            assert!(held(&fs) == expected, "{k} {crash:?}: {:?}", held(&fs).keys());
        }
    }
}

#[test]
fn compacting_waits_only_for_an_unfinished_generation() {
    let fs = fresh();
    let (_, mut later) = sources();
    later.fail = Some(0);
    add(&fs, &later, &options(1)).unwrap_err();
    let error = compact(&fs).unwrap_err().to_string();
    assert!(error.contains("interrupted"), "{error}");
    let fs = grown();
    put(&fs, ".shardpack-next/.DS_Store", b"of a desktop");
    compact(&fs).unwrap();
    assert!(!has_key(&held(&fs)) && fs.files().contains_key(".DS_Store"));
}

#[test]
fn an_unidentifiable_shard_is_reported_before_anything_is_deleted() {
    let fs = grown();
    let before = held(&fs);
    let newest = parse(&before, "manifest.json");
    let mut older = parse(&before, "manifest-0002.json").shards.into_iter();
    let old = older.find(|shard| !newest.shards.contains(shard)).unwrap().name;
    put(&fs, &old, &vec![0; before[&old].len()]);
    let error = compact(&fs).unwrap_err().to_string();
    assert!(error.contains(&old) && error.contains("nothing was deleted"), "{error}");
    assert_eq!(held(&fs).len(), before.len());
    for at in [0, before[&old].len() - 1] {
        let fs = grown();
        let mut bytes = before[&old].clone();
        bytes[at] ^= 1;
        put(&fs, &old, &bytes);
        assert!(compact(&fs).unwrap().shards.contains(&old));
        assert!(!has_key(&held(&fs)));
    }
    let fs = grown();
    put(&fs, "manifest-0001.json", b"{\"format\": \"shardpack\"");
    let error = said(&compact(&fs).unwrap_err());
    assert!(error.contains("manifest-0001.json") && error.contains("move this file out of the folder"), "{error}");
    assert_eq!(held(&fs).len(), before.len());
}

#[test]
fn foreign_objects_stay() {
    let other = MemoryFs::new();
    let mut source = sources().0;
    source.keys.iter_mut().for_each(|key| *key = format!("other/{key}"));
    run(&other, &source.plan(20_000), &source, &options(1)).unwrap();
    let foreign = held(&other)["shard-00000.shard"].clone();
    let fs = grown();
    let files = BTreeMap::from([
        ("shard-00077.shard", foreign.as_slice()),
        ("shard-00000-0001.shard", b"words"),
        ("notes.txt", b"words"),
        ("shard-1.shard", foreign.as_slice()),
    ]);
    files.iter().for_each(|(name, bytes)| put(&fs, name, bytes));
    compact(&fs).unwrap();
    let left = held(&fs);
    assert!(files.iter().all(|(name, bytes)| left.get(*name).is_some_and(|found| found == bytes)), "{:?}", left.keys());
    assert!(!has_key(&left.into_iter().filter(|(name, _)| !files.contains_key(name.as_str())).collect()));
}

#[test]
fn a_manifest_that_is_not_the_newest_deletes_nothing() {
    let fs = grown();
    let before = held(&fs);
    put(&fs, "manifest.json", &before["manifest-0001.json"]);
    let refused = |fs: &MemoryFs, words: &str, hint: &str| {
        let count = held(fs).len();
        let error = said(&compact(fs).unwrap_err());
        assert!(error.contains(words) && error.contains(hint), "{error}");
        assert_eq!(held(fs).len(), count);
    };
    refused(
        &fs,
        "manifest-0003.json` describes generation 3, but manifest.json describes only generation 1",
        "copy `manifest-0003.json` to manifest.json",
    );
    for name in ["manifest-0002.json", "manifest-0003.json"] {
        fs.remove(&Path::new(OUT).join(name)).unwrap();
    }
    refused(&fs, "belongs to a generation after 1, but no manifest lists it", "restore the newest manifest.json");
}

#[test]
fn force_drops_an_unfinished_generation() {
    // Crash the machine at each operation, before and after the manifest of the next generation is
    // ready.
    let start = fresh();
    let expected = held(&start);
    let mut ready = 0;
    for k in 1.. {
        let fs = start.with_fault(Fault::CrashAt(k), None);
        let _ = add(&fs, &sources().1, &options(1));
        if !fs.was_hit() {
            break;
        }
        let fs = fs.after(Crash::NamesSurvive);
        ready += usize::from(!fs.files_in(&Path::new(OUT).join(".shardpack-next")).is_empty());
        let (first, _) = sources();
        run(&fs, &first.plan(20_000), &first, &WriteOptions { force: true, ..options(1) }).unwrap();
        assert!(held(&fs) == expected, "{k}: {:?}", held(&fs).keys());
        assert_eq!(fs.files().len(), expected.len(), "{k}: {:?}", fs.files().keys());
    }
    assert!(ready > 5, "{ready}");
}

#[test]
fn generations_without_their_newest_manifest_are_not_packed_over() {
    let fs = grown();
    fs.remove(&Path::new(OUT).join("manifest.json")).unwrap();
    let before = held(&fs);
    let mut other = sources().0;
    other.keys.iter_mut().for_each(|key| *key = format!("other/{key}"));
    for source in [&other, &sources().0] {
        let error = said(&run(&fs, &source.plan(20_000), source, &options(1)).unwrap_err());
        assert!(error.contains("generation 3 of a dataset (69 samples)"), "{error}");
        assert!(error.contains("copy `manifest-0003.json` to manifest.json"), "{error}");
        assert!(held(&fs) == before);
    }
    let error = said(&compact(&fs).unwrap_err());
    assert!(error.contains("copy `manifest-0003.json`"), "{error}");
    run(&fs, &other.plan(20_000), &other, &WriteOptions { force: true, ..options(1) }).unwrap();
    let left = held(&fs);
    assert_eq!(left.len(), parse(&left, "manifest.json").shards.len() + 1, "{:?}", left.keys());
}

#[test]
fn a_dataset_restored_after_an_interrupted_force_is_not_removed() {
    let (start, source) = (grown(), sources().0);
    let before = held(&start);
    let force = WriteOptions { force: true, ..options(1) };
    let tries = (1..).map(|k| start.with_fault(Fault::CrashAt(k), None)).map(|fs| {
        run(&fs, &source.plan(20_000), &source, &force).unwrap_err();
        fs.after(Crash::NamesSurvive)
    });
    let fs = tries.into_iter().find(|fs| !held(fs).contains_key("manifest.json")).unwrap();
    assert!(held(&fs).contains_key(".shardpack-retired.json"));
    put(&fs, "manifest.json", &before["manifest.json"]);
    let error = run(&fs, &source.plan(20_000), &source, &options(1)).unwrap_err().to_string();
    assert!(error.contains("it is now at generation 3 and has 69 samples"), "{error}");
    let left = held(&fs);
    assert!(before.iter().all(|(name, bytes)| left.get(name) == Some(bytes)), "{:?}", left.keys());
}

#[test]
fn a_foreign_file_is_not_replaced_by_the_manifest_of_a_generation() {
    let fs = fresh();
    put(&fs, "manifest-0001.json", b"{\"a site\": 1}");
    let error = add(&fs, &sources().1, &options(1)).unwrap_err().to_string();
    assert!(
        error.contains("manifest-0001.json") && error.contains("is not the manifest of generation 1 of dataset"),
        "{error}"
    );
    assert_eq!(held(&fs)["manifest-0001.json"], b"{\"a site\": 1}");
}

#[test]
fn a_foreign_file_next_to_the_new_shards_does_not_stop_the_generation() {
    let fs = fresh();
    put(&fs, ".shardpack-next/.nfs0001", b"");
    add(&fs, &sources().1, &options(1)).unwrap();
    let files = held(&fs);
    assert_eq!(parse(&files, "manifest.json").generation(), 2);
    add(&fs, &sources().1, &options(1)).unwrap_err();
    remove(&fs, KEY);
    assert_eq!(parse(&held(&fs), "manifest.json").generation(), 3);
}
