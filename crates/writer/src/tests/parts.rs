//! Tests that several machines can write the parts of a dataset to one folder.

use super::behaviour::options;
use super::said;
use super::source::{Numbers, Sum, files};
use crate::journal::Journal;
use crate::names::journal_name;
use crate::target::Target;
use crate::{Error, Outcome, Part, Plan, PlanOptions, PlanSample, Progress, WriteOptions, merge, write_dataset};
use serde_json::{Value, json};
use shardpack_format::{Error as FormatError, shard_name};
use shardpack_io::Disk;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tempfile::tempdir;

fn part(index: u32, count: u32) -> WriteOptions<'static> {
    WriteOptions { part: Some(Part::new(index, count).unwrap()), ..options(2) }
}

/// Checks that the folder contains the same bytes as a single run of the whole plan.
fn assert_is_one_run(folder: &Path, plan: &Plan, source: &Numbers) {
    let whole = tempdir().unwrap();
    write_dataset(whole.path(), plan, source, &options(2)).unwrap();
    assert_eq!(files(folder), files(whole.path()));
}

#[test]
fn parts_cover_every_shard_once() {
    for shards in [1, 2, 7, 100, u32::MAX] {
        for count in [1, 3, 8, 101] {
            let ends: Vec<_> = (0..count).map(|i| Part::new(i, count).unwrap().shards(shards)).collect();
            assert_eq!((ends[0].start, ends[count as usize - 1].end), (0, shards));
            assert!(ends.windows(2).all(|w| w[0].end == w[1].start));
            for (part, range) in (0..).zip(&ends) {
                for number in [range.start, range.end.saturating_sub(1)] {
                    let found = Part::of_shard(number, shards, count);
                    assert!(range.is_empty() || found.index() == part, "{number} of {shards} in {count} parts");
                }
            }
        }
    }
}

#[test]
fn parts_are_shown_from_1() {
    assert_eq!([0, 3].map(|i| Part::new(i, 4).unwrap().to_string()), ["1/4", "4/4"]);
    let error = said(&Part::new(4, 4).unwrap_err().into());
    assert_eq!(
        error,
        "there is no part 5/4: the number must be from 1 to 4\nhint: count parts from 1: the last of 4 parts is 4/4"
    );
    let names = [journal_name(Some(Part::new(0, 4).unwrap())), journal_name(Some(Part::new(3, 4).unwrap()))];
    assert_eq!(names, [".shardpack-journal-00001-of-00004.jsonl", ".shardpack-journal-00004-of-00004.jsonl"]);
}

#[test]
fn parts_in_any_order_merge_into_the_bytes_of_one_run() {
    let mut source = Numbers::new(300);
    source.skip = vec![17];
    let plan = source.plan(40_000);
    let whole = tempdir().unwrap();
    let one = write_dataset(whole.path(), &plan, &source, &options(2)).unwrap();
    for count in [1, 3, 40] {
        let dir = tempdir().unwrap();
        for i in (0..count).rev() {
            let report = write_dataset(dir.path(), &plan, &source, &part(i, count)).unwrap();
            assert_eq!(report.outcome, Outcome::PartComplete);
            assert!(!dir.path().join("manifest.json").exists());
        }
        let again = write_dataset(dir.path(), &plan, &source, &part(0, count)).unwrap();
        assert_eq!(again.shards, again.shards_reused);
        let merged = merge::<Sum>(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(whole.path()));
        assert_eq!((merged.samples, &merged.skipped, merged.bytes_in), (one.samples, &one.skipped, one.bytes_in));
        assert_eq!(merge::<Sum>(dir.path()).unwrap().outcome, Outcome::AlreadyComplete);
        assert_eq!(
            write_dataset(dir.path(), &plan, &source, &part(0, count)).unwrap().outcome,
            Outcome::AlreadyComplete
        );
    }
}

#[test]
fn parts_at_the_same_time_do_not_disturb_each_other() {
    let source = Numbers::new(300);
    let plan = source.plan(40_000);
    let (whole, dir) = (tempdir().unwrap(), tempdir().unwrap());
    write_dataset(whole.path(), &plan, &source, &options(1)).unwrap();
    std::thread::scope(|scope| {
        let (dir, plan, source) = (&dir, &plan, &source);
        (0..4).for_each(|i| drop(scope.spawn(move || write_dataset(dir.path(), plan, source, &part(i, 4)).unwrap())));
    });
    merge::<Sum>(dir.path()).unwrap();
    assert_eq!(files(dir.path()), files(whole.path()));
}

#[test]
fn merge_names_the_missing_parts() {
    let source = Numbers::new(300);
    let plan = source.plan(40_000);
    let dir = tempdir().unwrap();
    assert!(merge::<Sum>(dir.path()).unwrap_err().to_string().contains("contains no parts of a dataset"));
    assert!(files(dir.path()).is_empty());
    write_dataset(dir.path(), &plan, &source, &part(1, 3)).unwrap();
    let shards = plan.shard_count();
    let missing = shards as usize - Part::new(1, 3).unwrap().shards(shards).len();
    let error = said(&merge::<Sum>(dir.path()).unwrap_err());
    let begins = format!(
        "folder `{}`: {missing} of {shards} shards are missing: part 1/3 is missing (0 of ",
        dir.path().display()
    );
    assert!(error.starts_with(&begins), "{error}");
    assert!(error.ends_with("\nhint: pack parts 1,3 again, then merge"), "{error}");
}

/// Packing the missing, unfinished, damaged and deleted parts again makes the merge succeed.
#[test]
fn merge_lists_the_parts_to_pack_again() {
    let source = Numbers::new(300);
    let plan = source.plan(10_000);
    let dir = tempdir().unwrap();
    let range = |i: u32| Part::new(i, 8).unwrap().shards(plan.shard_count());
    assert!((0..8).all(|i| range(i).len() > 1));
    for i in [0, 2, 3, 4, 5, 7] {
        write_dataset(dir.path(), &plan, &source, &part(i, 8)).unwrap();
    }
    // Simulate that part 3 was killed before its last shard.
    let journal = dir.path().join(journal_name(part(2, 8).part));
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&journal, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    // Change a byte in the footer of a shard of part 4, and remove a shard of part 5.
    let damaged = dir.path().join(shard_name(range(3).start));
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    fs::remove_file(dir.path().join(shard_name(range(4).start + 1))).unwrap();

    let error = merge::<Sum>(dir.path()).unwrap_err();
    let Error::Unfinished(found) = &error else { panic!("{error}") };
    let states: Vec<_> =
        found.unfinished.iter().map(|p| (p.part.index() + 1, p.state(), p.shards - p.finished)).collect();
    let all = |i: u32| u32::try_from(range(i).len()).unwrap();
    let expected =
        [(2, "missing", all(1)), (3, "half done", 1), (4, "damaged", 1), (5, "damaged", 1), (7, "missing", all(6))];
    assert_eq!(states, expected);
    assert_eq!((found.array().as_str(), found.parts), ("2-5,7", Some(8)));
    assert!(error.to_string().contains(&format!("{}", damaged.display())), "{error}");
    // The merge has changed nothing, so only the listed parts need to be packed again.
    for i in [1, 2, 3, 4, 6] {
        write_dataset(dir.path(), &plan, &source, &part(i, 8)).unwrap();
    }
    merge::<Sum>(dir.path()).unwrap();
    assert_is_one_run(dir.path(), &plan, &source);
}

#[test]
fn a_whole_run_that_is_not_finished_needs_no_merge() {
    let source = Numbers::new(300);
    let plan = source.plan(10_000);
    let dir = tempdir().unwrap();
    let cancel = AtomicBool::new(true);
    let options = WriteOptions { cancel: Some(&cancel), ..options(1) };
    assert!(matches!(write_dataset(dir.path(), &plan, &source, &options), Err(Error::Cancelled)));
    let error = said(&merge::<Sum>(dir.path()).unwrap_err());
    assert!(
        error.ends_with("hint: run the same `pack` command again: it finishes the dataset, and no merge is needed"),
        "{error}"
    );
}

#[test]
fn merge_groups_the_parts_by_the_differing_option() {
    let source = Numbers::new(300);
    let dir = tempdir().unwrap();
    for i in 0..5 {
        write_dataset(dir.path(), &source.plan(20_000), &source, &part(i, 5)).unwrap();
    }
    for i in [1, 4] {
        let force = WriteOptions { force: true, ..part(i, 5) };
        write_dataset(dir.path(), &source.plan(10_000), &source, &force).unwrap();
    }
    let error = said(&merge::<Sum>(dir.path()).unwrap_err());
    let found = " do not all have the same shard size in bytes: 20000 in parts 1, 3-4 and 10000 in parts 2, 5\n\
                 hint: pack parts 2, 5 again with `--force` and the same options and sources as the other parts";
    assert!(error.ends_with(found), "{error}");
}

/// A journal without the number of shards could make the dataset count as complete too early. No version of this crate
/// writes such a journal.
#[test]
fn a_journal_without_the_number_of_shards_is_refused() {
    let source = Numbers::new(300);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &source.plan(40_000), &source, &part(1, 3)).unwrap();
    let target = Target::folder(&Disk, dir.path());
    let name = journal_name(Some(Part::new(1, 3).unwrap()));
    let mut journal = Journal::read(&target, &name).unwrap().unwrap();
    journal.head.metadata.shards = None;
    drop(journal.begin(&target).unwrap());
    let error = said(&merge::<Sum>(dir.path()).unwrap_err());
    assert!(error.contains("journal: expected the number of shards, found none"), "{error}");
}

#[test]
fn parts_of_different_plans_do_not_mix() {
    let source = Numbers::new(300);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &source.plan(40_000), &source, &part(1, 3)).unwrap();
    let text = |options| write_dataset(dir.path(), &source.plan(40_000), &source, &options).unwrap_err().to_string();
    let error = write_dataset(dir.path(), &source.plan(30_000), &source, &part(0, 3)).unwrap_err().to_string();
    assert!(error.contains("a different shard size in bytes: 40000 before, 30000 now"), "{error}");
    assert!(
        text(part(0, 4))
            .contains("contains an unfinished dataset that was started with 3 parts, but this run uses 4 parts")
    );
    assert!(
        text(options(1))
            .contains("contains an unfinished dataset that was started with 3 parts, but this run uses none")
    );
    write_dataset(dir.path(), &source.plan(30_000), &source, &WriteOptions { force: true, ..options(1) }).unwrap();
    assert_is_one_run(dir.path(), &source.plan(30_000), &source);
    // A part with `force` must not replace a dataset.
    let force = WriteOptions { force: true, ..part(0, 3) };
    let refused = write_dataset(dir.path(), &source.plan(40_000), &source, &force);
    assert!(matches!(refused, Err(Error::Format(FormatError::Usage(_)))));
}

fn plan_of_copy(source: &Numbers, mtime_ns: i64, shard_bytes: u64) -> Plan {
    let samples = source.samples().map(|s| PlanSample { mtime_ns, ..s });
    Plan::new(samples, source.metadata(), PlanOptions { shard_bytes, shuffle: Some(7) }).unwrap()
}

#[test]
fn parts_made_from_copies_with_other_times_merge() {
    let source = Numbers::new(300);
    let dir = tempdir().unwrap();
    for i in 0..3 {
        let plan = plan_of_copy(&source, i64::from(i) * 1000, 40_000);
        write_dataset(dir.path(), &plan, &source, &part(i, 3)).unwrap();
    }
    // A part must be refused if its sources have been modified since the other parts were packed.
    let touched = plan_of_copy(&source, 77, 40_000);
    let error = said(&write_dataset(dir.path(), &touched, &source, &part(1, 3)).unwrap_err());
    assert!(error.contains("modification times of the sources have changed") && error.contains("--force"), "{error}");
    merge::<Sum>(dir.path()).unwrap();
    assert_is_one_run(dir.path(), &source.plan(40_000), &source);
}

#[test]
fn parts_start_over_by_force_with_other_options_in_any_order() {
    let source = Numbers::new(300);
    for (old, new) in [(20_000, 40_000), (40_000, 20_000), (40_000, 40_000)] {
        let (old_plan, plan) = (plan_of_copy(&source, 1, old), plan_of_copy(&source, 2, new));
        let whole = tempdir().unwrap();
        write_dataset(whole.path(), &plan, &source, &options(2)).unwrap();
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let dir = tempdir().unwrap();
            for i in 0..3 {
                write_dataset(dir.path(), &old_plan, &source, &part(i, 3)).unwrap();
            }
            let refusal = said(&write_dataset(dir.path(), &plan, &source, &part(0, 3)).unwrap_err());
            assert!(refusal.contains("--force"), "{refusal}");
            for i in order {
                if old != new && i == order[2] {
                    let error = said(&merge::<Sum>(dir.path()).unwrap_err());
                    assert!(error.contains("do not all have the same shard size in bytes: "), "{error}");
                }
                let force = WriteOptions { force: true, ..part(i, 3) };
                let report = write_dataset(dir.path(), &plan, &source, &force).unwrap();
                assert_eq!((report.outcome, report.shards_reused), (Outcome::PartComplete, 0));
            }
            for i in 0..3 {
                let report = write_dataset(dir.path(), &plan, &source, &part(i, 3)).unwrap();
                assert_eq!(report.shards, report.shards_reused);
            }
            merge::<Sum>(dir.path()).unwrap();
            assert_eq!(files(dir.path()), files(whole.path()), "{old} to {new}, {order:?}");
        }
    }
}

#[test]
fn a_part_that_starts_over_removes_shards_missing_in_its_journal() {
    let source = Numbers::new(300);
    let dir = tempdir().unwrap();
    let plan = source.plan(20_000);
    write_dataset(dir.path(), &plan, &source, &part(0, 2)).unwrap();
    // Simulate a crash after the last shard was renamed and before its line was written to the journal.
    let path = dir.path().join(journal_name(part(0, 2).part));
    let journal = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    fs::write(&path, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let new = source.plan(100_000);
    assert!(new.shard_count() < plan.shard_count() / 2);
    for i in 0..2 {
        write_dataset(dir.path(), &new, &source, &WriteOptions { force: true, ..part(i, 2) }).unwrap();
    }
    merge::<Sum>(dir.path()).unwrap();
    assert_is_one_run(dir.path(), &new, &source);
}

#[test]
fn a_running_part_excludes_whole_runs_merges_and_itself() {
    let source = Numbers::new(20_000);
    let plan = source.plan(1 << 20);
    let dir = tempdir().unwrap();
    let seen = std::cell::Cell::new(0);
    let others = |_: &Progress| {
        seen.set(seen.get() + 1);
        let locked = |e| assert!(matches!(e, Error::Locked { .. }), "{e}");
        locked(write_dataset(dir.path(), &plan, &source, &options(1)).unwrap_err());
        locked(write_dataset(dir.path(), &plan, &source, &part(0, 2)).unwrap_err());
        let error = merge::<Sum>(dir.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        locked(error);
    };
    write_dataset(dir.path(), &plan, &source, &WriteOptions { on_progress: Some(&others), ..part(0, 2) }).unwrap();
    assert!(seen.get() > 0);
}

/// Changes a line and updates its checksum.
fn put_line(journal: &Path, line: usize, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut value: Value = serde_json::from_str(&lines[line]).unwrap();
    value.as_object_mut().unwrap().remove("crc32");
    change(&mut value);
    let json = value.to_string();
    let rest = &json[1..];
    lines[line] = format!("{{\"crc32\":\"{:08x}\",{rest}", crc32fast::hash(rest.as_bytes()));
    fs::write(journal, lines.join("\n") + "\n").unwrap();
}

#[test]
fn journals_beyond_the_limits_are_refused() {
    let source = Numbers::new(60);
    let plan = source.plan(40_000);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &plan, &source, &part(0, 2)).unwrap();
    let journal = dir.path().join(journal_name(Some(Part::new(0, 2).unwrap())));
    let begun = fs::read(&journal).unwrap();
    let error = || said(&merge::<Sum>(dir.path()).unwrap_err());

    // Claim the maximum number of shards in a dataset, and the maximum number of parts.
    put_line(&journal, 0, |head| {
        head["metadata"]["shards"] = json!(1_000_000);
        head["part"] = json!({ "index": 0, "count": u32::MAX });
    });
    let found = error();
    assert!(found.contains("999999 of 1000000 shards are missing") && found.contains(" more parts\nhint: "), "{found}");

    fs::write(&journal, &begun).unwrap();
    put_line(&journal, 0, |head| head["metadata"]["shards"] = json!(u32::MAX));
    let found = error();
    assert!(found.contains("shards: 4294967295 exceeds the limit of 1000000"), "{found}");

    fs::write(&journal, &begun).unwrap();
    put_line(&journal, 1, |entry| entry["tally"] = json!(vec![json!({ "": 0 }); 500_000]));
    let found = error();
    assert!(found.contains("`: too many JSON values in one line: "), "{found}");
    let again = write_dataset(dir.path(), &plan, &source, &part(0, 2));
    assert!(matches!(again, Err(Error::Limit { .. })));

    fs::write(&journal, &begun).unwrap();
    let long = fs::File::options().append(true).open(&journal).unwrap();
    long.set_len(1 << 30).unwrap();
    let found = error();
    assert!(found.contains("journal `"), "{found}");
    assert!(found.contains("`: too many bytes in one line: 134217729 exceeds the limit of 134217728"), "{found}");
}
