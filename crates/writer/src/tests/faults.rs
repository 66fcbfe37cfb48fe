//! Tests that each operation on the file system may fail once, that disks may be full, and that syncs may fail (W01,
//! W02, W07 and W15 of the fault list).

use super::behaviour::options;
use super::memory_fs::{Fault, MemoryFs};
use super::said;
use super::source::{Numbers, Sum};
use crate::merge::merge_on;
use crate::target::Target;
use crate::write::write_dataset_on;
use crate::{Error, Outcome, Part, Plan, Progress, Report, Result, WriteOptions};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

pub(crate) const OUT: &str = "/data/out";

pub(crate) fn run(fs: &MemoryFs, plan: &Plan, source: &Numbers, options: &WriteOptions<'_>) -> Result<Report> {
    write_dataset_on(&Target::folder(fs, Path::new(OUT)), plan, source, options)
}

pub(crate) fn reference(plan: &Plan, source: &Numbers) -> BTreeMap<String, Vec<u8>> {
    let fs = MemoryFs::new();
    run(&fs, plan, source, &options(1)).unwrap();
    fs.files()
}

pub(crate) fn is_final(name: &str) -> bool {
    !name.starts_with('.')
}

#[test]
fn any_operation_may_fail_once() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let expected = reference(&plan, &source);
    assert!(plan.shard_count() >= 3);
    for kind in [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        let mut errors = 0;
        for k in 1.. {
            let fs = MemoryFs::new().with_fault(Fault::FailAt(k, kind), None);
            let result = run(&fs, &plan, &source, &options(2));
            if !fs.was_hit() {
                result.unwrap();
                break;
            }
            for (name, bytes) in fs.files() {
                assert!(!is_final(&name) || Some(&bytes) == expected.get(&name), "operation {k}: {name} is partial");
                assert!(!name.ends_with(".tmp"), "operation {k}: {name} is left");
            }
            match result {
                Ok(_) => assert!(expected.iter().all(|(name, bytes)| fs.files().get(name) == Some(bytes))),
                Err(Error::Io { .. } | Error::NoSpace { .. }) => errors += 1,
                Err(other) => panic!("operation {k}: {other}"),
            }
            let healed = fs.with_fault(Fault::None, None);
            run(&healed, &plan, &source, &options(2)).unwrap();
            assert_eq!(healed.files(), expected, "operation {k}");
        }
        assert!(errors > 20, "{errors}");
    }
}

#[test]
fn a_finished_shard_without_a_journal_line_is_added_later() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let fs = MemoryFs::new().with_fault(Fault::FailJournalLine, None);
    let error = run(&fs, &plan, &source, &options(1)).unwrap_err().to_string();
    assert!(error.contains("cannot write `/data/out/.shardpack-journal.jsonl`: "), "{error}");
    assert!(error.contains("; the rest of the dataset needs about "), "{error}");
    let finished = fs.files().keys().filter(|name| is_final(name)).count();
    assert_eq!(finished, 1);
    assert_eq!(run(&fs, &plan, &source, &options(1)).unwrap().shards_reused, 1);
}

#[test]
fn a_rewritten_shard_does_not_count_as_reused() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let mut went_on = 0;
    for k in 1.. {
        let fs = MemoryFs::new().with_fault(Fault::FailAt(k, ErrorKind::Other), None);
        let seen = Cell::new(Progress::default());
        let note = |progress: &Progress| seen.set(*progress);
        let result = run(&fs, &plan, &source, &WriteOptions { on_progress: Some(&note), ..options(1) });
        assert_eq!((seen.get().samples_reused, seen.get().bytes_in_reused), (0, 0), "operation {k}");
        match result {
            Ok(report) => assert_eq!((report.samples_reused, report.bytes_in_reused), (0, Some(0)), "operation {k}"),
            Err(_) => continue,
        }
        if !fs.was_hit() {
            break;
        }
        went_on += 1;
    }
    assert!(went_on > 1, "{went_on}");
}

#[test]
fn a_merge_stopped_after_the_manifest_still_reports_skipped_samples() {
    let mut source = Numbers::new(40);
    source.skip = vec![7, 33];
    let plan = source.plan(20_000);
    let parts = MemoryFs::new();
    for i in 0..2 {
        run(&parts, &plan, &source, &WriteOptions { part: Some(Part::new(i, 2).unwrap()), ..options(2) }).unwrap();
    }
    let expected = merge_on::<Sum>(&Target::folder(&parts.with_fault(Fault::None, None), Path::new(OUT))).unwrap();
    let mut skipped: Vec<_> = expected.skipped.iter().map(|s| (s.key.as_str(), s.reason.as_str())).collect();
    skipped.sort_unstable();
    assert_eq!(skipped, [("class0/0033.bin", "planted skip"), ("class1/0007.bin", "planted skip")]);
    let mut stopped_late = 0;
    for k in 1.. {
        let fs = parts.with_fault(Fault::FailAt(k, ErrorKind::Other), None);
        let _ = merge_on::<Sum>(&Target::folder(&fs, Path::new(OUT)));
        if !fs.was_hit() {
            break;
        }
        let files = fs.files();
        if !files.contains_key("manifest.json") || files.keys().filter(|n| n.ends_with(".jsonl")).count() < 2 {
            continue;
        }
        stopped_late += 1;
        let again = merge_on::<Sum>(&Target::folder(&fs, Path::new(OUT))).unwrap();
        assert_eq!(again.outcome, Outcome::AlreadyComplete);
        assert_eq!((&again.skipped, again.bytes_in), (&expected.skipped, expected.bytes_in), "operation {k}");
    }
    assert!(stopped_late > 0);
}

#[test]
fn any_operation_of_a_merge_may_fail_once() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let expected = reference(&plan, &source);
    let parts = MemoryFs::new();
    for i in 0..2 {
        run(&parts, &plan, &source, &WriteOptions { part: Some(Part::new(i, 2).unwrap()), ..options(2) }).unwrap();
    }
    for k in 1.. {
        let fs = parts.with_fault(Fault::FailAt(k, ErrorKind::Other), None);
        let result = merge_on::<Sum>(&Target::folder(&fs, Path::new(OUT)));
        if !fs.was_hit() {
            result.unwrap();
            break;
        }
        let healed = fs.with_fault(Fault::None, None);
        merge_on::<Sum>(&Target::folder(&healed, Path::new(OUT))).unwrap();
        assert_eq!(healed.files(), expected, "operation {k}");
    }
}

#[test]
fn a_full_disk_reports_the_missing_bytes_and_the_run_continues_later() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let expected = reference(&plan, &source);
    let total: usize = expected.values().map(Vec::len).sum();
    let mut fs = MemoryFs::new();
    // Run several times, because the timing decides how far a run gets before it fails.
    for capacity in (0..20).map(|i| if i % 2 == 0 { 30_000 } else { 60_000 }) {
        fs = fs.with_fault(Fault::Capacity(capacity), None);
        let error = run(&fs, &plan, &source, &options(2)).unwrap_err();
        let Error::NoSpace { needed_bytes, free_bytes, .. } = &error else { panic!("{error}") };
        assert!(*needed_bytes > free_bytes.unwrap() && *needed_bytes < total as u64, "{error}");
        assert!(said(&error).ends_with("finished shards are kept"));
        assert!(fs.files().keys().all(|name| !name.ends_with(".tmp")));
    }
    let reused = fs.files().keys().filter(|n| is_final(n)).count();
    assert!(reused > 0);
    let full = fs.with_fault(Fault::Capacity(0), None);
    let error = run(&full, &plan, &source, &options(2)).unwrap_err();
    assert!(matches!(error, Error::NoSpace { free_bytes: Some(0), .. }), "{error}");
    fs = fs.with_fault(Fault::Capacity(2 * total as u64), None);
    assert_eq!(run(&fs, &plan, &source, &options(2)).unwrap().shards_reused as usize, reused);
    assert_eq!(fs.files(), expected);
}

#[test]
fn a_shard_that_cannot_be_synced_is_rewritten_once_and_no_sync_is_retried() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let expected = reference(&plan, &source);
    let before = source.encoded.load(Ordering::SeqCst);
    let fs = MemoryFs::new().with_fault(Fault::FailShardSyncs(1), None);
    assert_eq!(run(&fs, &plan, &source, &options(2)).unwrap().outcome, Outcome::Complete);
    assert_eq!(fs.files(), expected);
    assert!(source.encoded.load(Ordering::SeqCst) - before > 40);
    // All syncs fail. The first shard fails twice, then the run ends.
    let fs = MemoryFs::new().with_fault(Fault::FailShardSyncs(1000), None);
    let error = run(&fs, &plan, &source, &options(2)).unwrap_err().to_string();
    assert_eq!(error, "cannot sync `/data/out/.shard-00000.tmp`: planted");
    assert_eq!(fs.shard_syncs(), 2);
    assert!(fs.files().keys().all(|name| !is_final(name) && !name.ends_with(".tmp")));
}

#[test]
fn a_file_system_without_locks_and_folder_syncs_works_and_is_reported() {
    let source = Numbers::new(40);
    let plan = source.plan(20_000);
    let expected = reference(&plan, &source);
    let fs = MemoryFs::new().with_fault(Fault::Poor, None);
    let report = run(&fs, &plan, &source, &options(2)).unwrap();
    assert_eq!((report.outcome, fs.files()), (Outcome::Complete, expected.clone()));
    let [locks, syncs] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    assert!(locks.contains("no locks") && syncs.contains("cannot sync folders"), "{locks} {syncs}");
    assert_eq!(run(&fs, &plan, &source, &options(2)).unwrap().outcome, Outcome::AlreadyComplete);
    let parts = MemoryFs::new().with_fault(Fault::Poor, None);
    for i in 0..2 {
        run(&parts, &plan, &source, &WriteOptions { part: Some(Part::new(i, 2).unwrap()), ..options(2) }).unwrap();
    }
    assert_eq!(merge_on::<Sum>(&Target::folder(&parts, Path::new(OUT))).unwrap().notes.len(), 2);
    assert_eq!(parts.files(), expected);
    assert_eq!(run(&MemoryFs::new(), &plan, &source, &options(2)).unwrap().notes, [""; 0]);
}
