//! Tests salvage as a library with a bad manifest, a truncated shard, and foreign and duplicate shards, and tests
//! rebuilding a manifest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use crate::making::texts::pictures;
use crate::making::{contents, run, write_cubes};
use serde_json::Value;
use shardpack_format::{FOOTER_BYTES, Limits, MANIFEST_NAME};
use shardpack_pack::pack::PackOptions;
use shardpack_pack::salvage::{SalvageOptions, Survey, restore_manifest};
use shardpack_reader::{VerifyOptions, verify};
use shardpack_sources::SourceOptions;
use shardpack_writer::{Report, WriteOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

fn packed() -> (TempDir, PathBuf, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let (dataset, out) = (scratch.path().join("packed"), scratch.path().join("saved"));
    write_cubes(&scratch.path().join("src"), 6);
    run(&scratch.path().join("src"), &dataset, &PackOptions { shard_bytes: 2500, ..PackOptions::default() }).unwrap();
    (scratch, dataset, out)
}

/// Returns options that salvage all generations. Some of these tests have no manifest, and
/// `salvage` then cannot know which generation is the newest.
fn all() -> SalvageOptions {
    SalvageOptions { all_generations: true, ..SalvageOptions::default() }
}

fn salvage(path: &Path, out: &Path) -> (Survey, Report) {
    let (limits, cancel) = (Limits::default(), AtomicBool::new(false));
    let mut survey = Survey::scan(path, &all(), &cancel).unwrap();
    let report = survey.write(out, &limits, &WriteOptions::default()).unwrap();
    assert_eq!(report.samples, survey.samples());
    let verified = verify(out, &VerifyOptions::default()).unwrap();
    assert!(verified.is_whole(), "{:?}", verified.problems);
    (survey, report)
}

fn shards(dataset: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dataset).unwrap().map(|entry| entry.unwrap().path());
    let mut shards: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "shard")).collect();
    shards.sort();
    assert!(shards.len() > 1);
    shards
}

#[test]
fn a_bad_manifest_loses_no_sample() {
    for bad in [b"{".as_slice(), b"", b"{\"format\": \"shardpack\"}", &[0xFF; 300]] {
        let (_scratch, dataset, out) = packed();
        fs::write(dataset.join(MANIFEST_NAME), bad).unwrap();
        let (survey, _) = salvage(&dataset, &out);
        assert_eq!((survey.lost.as_slice(), survey.damage.len()), ([].as_slice(), 1));
        assert!(survey.damage[0].contains(MANIFEST_NAME), "{}", survey.damage[0]);
        assert_eq!(contents(&out), contents_of_good());
    }
}

fn contents_of_good() -> Vec<(String, shardpack_array::Array)> {
    let (_scratch, dataset, _) = packed();
    contents(&dataset)
}

#[test]
fn a_single_shard_without_its_footer_gives_all_samples() {
    let (_scratch, dataset, out) = packed();
    let shard = &shards(&dataset)[0];
    let there = contents(shard);
    let bytes = fs::read(shard).unwrap();
    let cut = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
    fs::write(shard, &bytes[..cut]).unwrap();
    let (survey, report) = salvage(shard, &out);
    assert_eq!((report.samples, survey.lost.len()), (there.len() as u64, 0));
    assert!(!survey.damage.is_empty());
    assert_eq!(contents(&out), there);
}

#[test]
fn missing_samples_are_counted_by_the_manifest() {
    let (_scratch, dataset, out) = packed();
    let shards = shards(&dataset);
    let there = contents(&shards[0]).len() as u64;
    fs::write(&shards[0], &fs::read(&shards[0]).unwrap()[..200]).unwrap();
    let missing = contents(&shards[1]).len() as u64;
    fs::remove_file(&shards[1]).unwrap();
    let (survey, report) = salvage(&dataset, &out);
    assert_eq!(report.samples, 6 - there - missing);
    let lost = survey.lost.join("\n");
    assert!(lost.contains(&format!("cannot read the shard ({missing} sample")), "{lost}");
    let name = shards[0].file_name().unwrap().to_string_lossy();
    assert!(survey.lost.iter().any(|lost| lost.contains(&*name)), "{lost}");
}

#[test]
fn shards_of_others_and_copies_are_left_out() {
    let (_scratch, dataset, out) = packed();
    let (other_scratch, other, _) = packed();
    // Replace the second dataset by one with a different id: the same cubes packed with different options.
    fs::remove_dir_all(&other).unwrap();
    let options = PackOptions { shuffle: None, ..PackOptions::default() };
    run(&other_scratch.path().join("src"), &other, &options).unwrap();
    fs::copy(other.join("shard-00000.shard"), dataset.join("foreign.shard")).unwrap();
    let shard = &shards(&dataset).into_iter().find(|path| path.ends_with("shard-00000.shard")).unwrap();
    fs::copy(shard, dataset.join("zz-copy.shard")).unwrap();
    let (survey, report) = salvage(&dataset, &out);
    assert_eq!(report.samples, 6);
    let count = |words: &str| survey.lost.iter().filter(|lost| lost.contains(words)).count();
    // Only the foreign shard counts as lost, not the duplicate.
    assert_eq!((count("the shard belongs to dataset"), survey.lost.len()), (1, 1), "{:?}", survey.lost);
}

#[test]
fn nothing_to_salvage_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let (limits, cancel) = (Limits::default(), AtomicBool::new(false));
    assert!(Survey::scan(&scratch.path().join("nowhere"), &all(), &cancel).is_err());
    let error = Survey::scan(scratch.path(), &all(), &cancel).unwrap_err();
    assert!(error.to_string().contains("it contains no manifest and no .shard files"), "{error}");
    fs::write(scratch.path().join("noise.shard"), [7; 5000]).unwrap();
    let mut survey = Survey::scan(scratch.path(), &all(), &cancel).unwrap();
    let out = scratch.path().join("out");
    assert!(survey.write(&out, &limits, &WriteOptions::default()).is_err());
    assert!(!out.exists());
}

#[test]
fn a_rebuilt_manifest_equals_the_lost_one() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, dataset) = (scratch.path().join("src"), scratch.path().join("packed"));
    write_cubes(&src, 6);
    // The user has columns with the names of a field's figures.
    let rows = (0..6).map(|i| format!("cube{i}.npy,{i},{}\n", i * 2));
    let table = "key,mask.nan,meta.max_abs_error\n".to_owned() + &rows.collect::<String>();
    fs::write(scratch.path().join("labels.csv"), table).unwrap();
    let source = SourceOptions { labels: Some(scratch.path().join("labels.csv")), ..SourceOptions::default() };
    run(&src, &dataset, &PackOptions { source, shard_bytes: 2500, ..PackOptions::default() }).unwrap();

    let path = dataset.join(MANIFEST_NAME);
    let manifest = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
    let before = manifest();
    assert!(before["fidelity"]["cube"]["changed"].as_u64() > Some(0));
    fs::remove_file(&path).unwrap();
    restore_manifest(&dataset, &all()).unwrap();
    assert_eq!(manifest(), before);

    // A damaged manifest is renamed to the first name that is free.
    for name in ["manifest.json.damaged", "manifest.json.damaged-1"] {
        fs::write(&path, name).unwrap();
        restore_manifest(&dataset, &all()).unwrap();
        assert_eq!((manifest(), fs::read_to_string(dataset.join(name)).unwrap()), (before.clone(), name.to_owned()));
    }
    // If a shard is damaged, rebuilding must fail and leave the existing manifest unchanged.
    fs::write(dataset.join("shard-00001.shard"), b"gone").unwrap();
    assert!(restore_manifest(&dataset, &all()).is_err());
    assert_eq!(manifest(), before);
}

/// Scans a folder in a thread with a time limit, because a bug could make the scan wait forever for a pipe or a device.
fn survey_within_a_minute(path: &Path) -> Survey {
    let (send, receive) = std::sync::mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let survey = Survey::scan(&path, &all(), &AtomicBool::new(false)).unwrap();
        let _ = send.send(survey);
    });
    receive.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits, or reads, for ever")
}

#[test]
fn pipes_devices_and_links_are_named_and_never_opened() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    pictures(&outside.path().join("other"), &[("secret", b"of another folder")], 1 << 20);
    let secret = outside.path().join("other/shard-00000.shard");
    let make_pipe = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let zero = |path: &Path| symlink("/dev/zero", path).unwrap();
    let elsewhere = |path: &Path| symlink(&secret, path).unwrap();
    for trap in [&make_pipe as &dyn Fn(&Path), &zero, &elsewhere] {
        let (_scratch, dataset, _) = packed();
        let shard = shards(&dataset).remove(0);
        let there = contents(&shard).len() as u64;
        for path in [&dataset.join(MANIFEST_NAME), &shard] {
            fs::remove_file(path).unwrap();
            trap(path);
        }
        let survey = survey_within_a_minute(&dataset);
        assert_eq!(survey.samples(), 6 - there);
        assert!(survey.damage.iter().any(|damage| damage.contains(MANIFEST_NAME)), "{:?}", survey.damage);
        let name = shard.file_name().unwrap().to_str().unwrap();
        assert!(survey.lost.iter().any(|lost| lost.contains(name)), "{:?}", survey.lost);
        // Rebuilding a manifest replaces neither a link nor its target.
        fs::remove_file(&shard).unwrap();
        assert!(restore_manifest(&dataset, &all()).is_err(), "a shard is missing");
    }
    let (_scratch, dataset, _) = packed();
    let target = outside.path().join("target");
    fs::write(&target, "of the user").unwrap();
    fs::remove_file(dataset.join(MANIFEST_NAME)).unwrap();
    symlink(&target, dataset.join(MANIFEST_NAME)).unwrap();
    restore_manifest(&dataset, &all()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "of the user");
    assert_eq!(fs::read_link(dataset.join("manifest.json.damaged")).unwrap(), target);
    assert_eq!(contents(&dataset), contents_of_good());
}

#[test]
fn another_dataset_of_the_same_names_and_sizes_is_another_dataset() {
    let scratch = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a", "b", "out"].map(|name| scratch.path().join(name));
    pictures(&a, &[("one", b"11111"), ("two", b"22222"), ("three", b"33333")], 300);
    pictures(&b, &[("one", b"11111"), ("two", b"22x22"), ("three", b"33333")], 300);
    let (limits, cancel) = (Limits::default(), AtomicBool::new(true));
    let into_out = |from: &Path, cancel: Option<&AtomicBool>| {
        let mut survey = Survey::scan(from, &SalvageOptions::default(), &AtomicBool::new(false)).unwrap();
        let options = WriteOptions { cancel, threads: 1, ..WriteOptions::default() };
        survey.write(&out, &limits, &options)
    };
    // Salvaging another dataset starts from scratch instead of continuing an interrupted salvage.
    assert!(into_out(&a, Some(&cancel)).is_err());
    assert_eq!(into_out(&b, None).unwrap().samples_reused, 0);
    assert!(into_out(&b, None).is_ok(), "the same again: nothing to do");
    let error = into_out(&a, None).unwrap_err().to_string();
    assert!(error.contains("` already contains a dataset of 3 samples"), "{error}");
}

#[test]
fn a_flipped_bit_in_fidelity_figures_is_found() {
    let (_scratch, dataset, _) = packed();
    let path = dataset.join(MANIFEST_NAME);
    let good = fs::read(&path).unwrap();
    let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    let check = || {
        let cancel = AtomicBool::new(false);
        let checks = shardpack::Checks { digest: true, threads: 1, ..Default::default() };
        shardpack::check(&dataset, &[], &checks, &|_| {}, &cancel).unwrap().report
    };
    let report = check();
    assert!(report.is_whole() && report.notes.is_empty(), "{:?} {:?}", report.problems, report.notes);
    let text = String::from_utf8(good.clone()).unwrap();
    let start = text.find("\"fidelity\"").unwrap();
    let end = start + text[start..].find("\"shards\"").unwrap();
    let mut flips = 0;
    for at in start..end {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 3);
        // Skip a flip that does not change the parsed value, for example in white space, because it
        // damages nothing. Also skip a flip after which the file is no longer a manifest, because
        // `verify` always reports it.
        if parsed(&bad).is_none_or(|value| Some(value) == parsed(&good)) {
            continue;
        }
        flips += 1;
        fs::write(&path, &bad).unwrap();
        assert!(!check().is_whole(), "byte {at}: {}", String::from_utf8_lossy(&bad[start..end]));
    }
    assert!(flips > 100, "{flips}");
}
