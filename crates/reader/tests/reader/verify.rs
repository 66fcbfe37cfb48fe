//! Tests that `verify` names every damaged sample and continues after each, and reports no problems in an
//! intact dataset.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::{ID, OnDisk, TestSample, error_kind, index_of};
use shardpack_format::*;
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_reader::{VerifyOptions, VerifyReport, verify, verify_in};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn check(path: impl AsRef<Path>) -> VerifyReport {
    verify(path, &VerifyOptions { digest: true, ..VerifyOptions::default() }).unwrap()
}

#[test]
fn a_whole_dataset_has_no_problems() {
    let disk = OnDisk::new(&[30, 0, 7]);
    for threads in [1, 2, 7] {
        for digest in [false, true] {
            let options = VerifyOptions { digest, threads, ..VerifyOptions::default() };
            let report = verify(disk.path(), &options).unwrap();
            assert_eq!(report.problems, []);
            assert_eq!((report.shards, report.samples, report.damaged_samples), (3, 37, 0));
            let bytes: u64 = disk.manifest.shards.iter().map(|s| s.bytes).sum();
            assert_eq!(report.bytes, bytes);
            assert!(report.is_whole());
        }
    }
    assert!(check(disk.shard_path(0)).is_whole());
    assert!(check(disk.path().join("manifest.json")).is_whole());
}

#[test]
fn a_shard_with_another_name_is_found_by_its_magic() {
    let disk = OnDisk::new(&[3]);
    std::fs::rename(disk.shard_path(0), disk.path().join("first")).unwrap();
    let verified = |fault| {
        let storage = RiggedStorage::of_folder(disk.path(), Faults::new(fault));
        verify_in(Arc::new(storage), Some("first"), &VerifyOptions::default())
    };
    let report = verified(Fault::None).unwrap();
    assert_eq!((report.problems.len(), report.samples), (0, 3), "{:?}", report.problems);
    // Operation 1, after the open, reads the magic. Without it, the file is neither a shard nor a manifest.
    assert_eq!(error_kind(&verified(Fault::FailAt(1))), Some(ErrorKind::Io));
}

#[test]
fn every_flipped_bit_is_found_and_its_sample_named() {
    let disk = OnDisk::new(&[4]);
    let whole = std::fs::read(disk.shard_path(0)).unwrap();
    let (footer, index) = index_of(&whole);
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(disk.shard_path(0), &bytes).unwrap();
        let report = verify(disk.path(), &VerifyOptions { threads: 1, ..VerifyOptions::default() }).unwrap();
        assert!(!report.problems.is_empty(), "byte {at}");
        let hurt = (0..4).rev().find(|&i| index.row(i).unwrap().offset <= at as u64);
        if let (Some(hurt), true) = (hurt, (at as u64) < footer.index_offset) {
            assert_eq!(report.damaged_samples, 1, "byte {at}: {:?}", report.problems);
            assert_eq!(report.problems[0].record, Some(hurt), "byte {at}");
            assert_eq!(report.problems[0].key.as_deref(), index.key(hurt), "byte {at}");
            assert_eq!(report.samples, 4);
        }
    }
}

#[test]
fn several_damaged_records_are_all_listed() {
    let disk = OnDisk::new(&[20, 20]);
    for number in 0..2 {
        disk.edit(number, |bytes| {
            let (_, index) = index_of(bytes);
            for record in [2, 3, 19] {
                bytes[index.row(record).unwrap().offset as usize + 70] ^= 0xFF;
            }
        });
    }
    let report = check(disk.path());
    let hurt: Vec<&str> = report.problems.iter().filter_map(|p| p.key.as_deref()).collect();
    let expected: Vec<&str> = [2, 3, 19, 22, 23, 39].iter().map(|&i| disk.samples[i as usize].key.as_str()).collect();
    assert_eq!(hurt, expected);
    assert_eq!(report.damaged_samples, 6);
    assert_eq!(report.problems.len(), 8);
}

#[test]
fn a_panic_of_a_decoder_affects_only_its_sample() {
    let disk = OnDisk::new(&[20]);
    disk.edit(0, |bytes| {
        let (_, index) = index_of(bytes);
        bytes[index.row(15).unwrap().offset as usize + 70] ^= 0xFF;
    });
    let bad = disk.samples[5].picture.clone().unwrap();
    let picture = |_: &str, bytes: &[u8]| if bytes == bad { panic!("a defect of a library") } else { Ok(()) };
    let options = VerifyOptions { deep: Some(&picture), threads: 1, ..VerifyOptions::default() };
    let report = verify(disk.path(), &options).unwrap();
    assert_eq!((report.samples, report.damaged_samples), (20, 2), "{:?}", report.problems);
    let hurt: Vec<_> = report.problems.iter().map(|problem| problem.record).collect();
    assert_eq!(hurt, [Some(5), Some(15)]);
    let text = report.problems[0].to_string();
    assert!(text.contains("internal error") && text.contains("a defect of a library"), "{text}");
}

#[test]
fn large_records_are_read_in_pieces_and_checked_all_the_same() {
    let dir = crate::support::scratch();
    let mut samples: Vec<TestSample> = (0..3).map(TestSample::new).collect();
    samples[1].text = (0..2_500_001_u32).map(|i| (i % 251) as u8 & 0x7F).collect();
    let bytes = crate::support::shard(Identity::new(ID, 0), &samples);
    let path = dir.path().join("x.shard");
    std::fs::write(&path, &bytes).unwrap();
    assert!(check(&path).is_whole());
    let offset = index_of(&bytes).1.row(1).unwrap().offset as usize;
    for at in [offset + 65, offset + (1 << 20) - 1, offset + (1 << 20), offset + 2_400_000] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let report = check(&path);
        assert_eq!(report.problems.len(), 1);
        assert_eq!(report.problems[0].key.as_deref(), Some(samples[1].key.as_str()));
    }
}

#[test]
fn a_shard_without_a_whole_index_still_names_its_damaged_samples() {
    let disk = OnDisk::new(&[6]);
    disk.edit(0, |bytes| {
        let (footer, index) = index_of(bytes);
        bytes[index.row(4).unwrap().offset as usize + 300] ^= 1;
        bytes[footer.index_offset as usize + 70] ^= 1;
    });
    let report = check(disk.path());
    let whats: Vec<&str> = report.problems.iter().map(|p| p.what.as_str()).collect();
    assert!(whats.contains(&"index CRC32"), "{whats:?}");
    assert!(report.problems.iter().any(|p| p.key.as_deref() == Some(disk.samples[4].key.as_str())), "{whats:?}");
    assert_eq!((report.samples, report.damaged_samples, report.missing_samples), (6, 1, 0));
}

#[test]
fn shards_are_compared_with_the_manifest() {
    let disk = OnDisk::new(&[3, 3]);
    let kept = std::fs::read(disk.shard_path(1)).unwrap();
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    let report = check(disk.path());
    assert!(report.problems.iter().any(|p| p.file.ends_with("shard-00001.shard") && p.what == "file"), "{report:?}");
    assert_eq!((report.samples, report.damaged_samples, report.missing_samples), (3, 0, 3));
    let second = index_of(&kept).1.row(1).unwrap();
    std::fs::write(disk.shard_path(1), &kept[..(second.offset + second.length / 2) as usize]).unwrap();
    let report = check(disk.path());
    assert_eq!(report.samples + report.missing_samples, 6, "{report:?}");
    assert!(report.missing_samples >= 1 && report.damaged_samples <= 1, "{report:?}");
    std::fs::copy(disk.shard_path(0), disk.shard_path(1)).unwrap();
    let report = check(disk.path());
    assert!(report.problems.iter().any(|p| p.what == "shard number"), "{:?}", report.problems);
    assert!(
        report.problems.iter().any(|p| p.what.starts_with("the sample key is not unique")),
        "{:?}",
        report.problems
    );
    assert!(report.problems.iter().any(|p| p.what.starts_with("the sample id is not unique")), "{:?}", report.problems);
    std::fs::write(disk.shard_path(1), kept).unwrap();
    std::fs::write(disk.path().join("old.shard"), b"junk").unwrap();
    let report = check(disk.path());
    assert!(report.is_whole());
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].contains("old.shard"));
    let mut manifest = disk.manifest.clone();
    manifest.shards[0].sha256[0] ^= 1;
    disk.write_manifest(&manifest);
    assert_eq!(check(disk.path()).problems.len(), 1);
    assert!(verify(disk.path(), &VerifyOptions::default()).unwrap().is_whole());
}

#[test]
fn a_lost_manifest_is_one_problem_and_the_shards_are_verified_without_it() {
    let disk = OnDisk::new(&[3, 3]);
    std::fs::remove_file(disk.path().join("manifest.json")).unwrap();
    let report = check(disk.path());
    assert_eq!((report.problems.len(), report.samples), (1, 6), "{:?}", report.problems);
    std::fs::remove_file(disk.shard_path(0)).unwrap();
    let report = check(disk.path());
    assert!(report.problems.iter().any(|p| p.what == "number of shards") || report.shards == 1, "{report:?}");
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    assert!(verify(disk.path(), &VerifyOptions::default()).is_err());
    assert!(verify(disk.path().join("none"), &VerifyOptions::default()).is_err());
}

#[test]
fn labels_must_be_classes() {
    let dir = crate::support::scratch();
    for (label, whole) in [(2, true), (3, false), (-1, false)] {
        let mut samples: Vec<TestSample> = (0..3).map(TestSample::new).collect();
        samples[1].label = label;
        let path = dir.path().join("x.shard");
        std::fs::write(&path, crate::support::shard(Identity::new(ID, 0), &samples)).unwrap();
        let report = check(&path);
        assert_eq!(report.is_whole(), whole, "{label}: {:?}", report.problems);
        assert!(whole || report.problems[0].to_string().contains("label"));
    }
}

#[test]
fn pictures_go_to_the_callers_decoder() {
    let disk = OnDisk::new(&[8]);
    let seen = Mutex::new(Vec::new());
    let decode = |media_type: &str, bytes: &[u8]| {
        seen.lock().unwrap().push((media_type.to_owned(), bytes.len()));
        if bytes.len() == 91 { Err("too blue".to_owned()) } else { Ok(()) }
    };
    let report = verify(disk.path(), &VerifyOptions { deep: Some(&decode), ..VerifyOptions::default() }).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 6);
    assert_eq!(report.problems.len(), 1);
    let text = report.problems[0].to_string();
    assert!(text.contains("too blue") && text.contains(&disk.samples[1].key) && text.contains("`image`"), "{text}");
}

#[test]
fn progress_ends_at_the_total_and_cancelling_stops() {
    let disk = OnDisk::new(&[40, 40]);
    let last = Mutex::new(shardpack_reader::Progress::default());
    let on_progress = |p: shardpack_reader::Progress| {
        let mut last = last.lock().unwrap();
        if p.bytes_done >= last.bytes_done {
            *last = p;
        }
    };
    let options = VerifyOptions { on_progress: Some(&on_progress), ..VerifyOptions::default() };
    let report = verify(disk.path(), &options).unwrap();
    let last = *last.lock().unwrap();
    assert_eq!((last.bytes_done, last.samples_done), (last.bytes_total, 80));
    assert_eq!(last.samples_total, Some(80));
    assert_eq!(report.bytes, last.bytes_total);

    let cancel = AtomicBool::new(false);
    let stop = |_| cancel.store(true, Ordering::SeqCst);
    let options = VerifyOptions { on_progress: Some(&stop), cancel: Some(&cancel), threads: 1, ..options };
    let report = verify(disk.path(), &options).unwrap();
    assert!(report.cancelled && !report.is_whole() && report.samples < 80);
}
