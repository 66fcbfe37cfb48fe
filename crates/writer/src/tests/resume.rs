//! Tests runs that are continued, started over or refused.

use super::behaviour::options;
use super::said;
use super::source::{Numbers, files};
use crate::names::journal_name;
use crate::{Error, Outcome, Plan, PlanOptions, PlanSample, Progress, WriteOptions, write_dataset};
use shardpack_format::Error as FormatError;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use tempfile::{TempDir, tempdir};

/// Returns the folder and the plan of a run of 200 samples that failed halfway.
fn interrupted() -> (TempDir, Plan) {
    let mut source = Numbers::new(200);
    let plan = source.plan(40_000);
    let middle = plan.shard_count() / 2;
    source.fail = Some(u64::from(plan.samples(middle)[3]));
    // On a busy machine, the run may fail before two shards are committed. Repeat it until two are.
    let tries = std::iter::repeat_with(|| {
        let dir = tempdir().unwrap();
        write_dataset(dir.path(), &plan, &source, &options(1)).unwrap_err();
        dir
    });
    let dir = tries.take(100).find(|dir| dir.path().join("shard-00001.shard").exists()).unwrap();
    (dir, plan)
}

fn reference(plan: &Plan) -> std::collections::BTreeMap<String, Vec<u8>> {
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), plan, &Numbers::new(plan.sample_count()), &options(1)).unwrap();
    files(dir.path())
}

fn refused(dir: &Path, plan: &Plan, source: &Numbers) -> String {
    let before = files(dir);
    let error = write_dataset(dir, plan, source, &options(1)).unwrap_err();
    assert!(matches!(error, Error::Format(FormatError::Usage(_))), "{error}");
    assert_eq!(files(dir), before);
    said(&error)
}

#[test]
fn a_second_run_reuses_finished_shards_and_writes_the_same_bytes() {
    let (dir, plan) = interrupted();
    assert!(dir.path().join(journal_name(None)).exists());
    let finished = files(dir.path()).into_keys().filter(|n| n.ends_with(".shard")).count();
    assert!(finished > 0);
    let source = Numbers::new(200);
    let seen = std::cell::Cell::new(Progress::default());
    let note = |p: &Progress| seen.set(*p);
    let again = WriteOptions { on_progress: Some(&note), ..options(2) };
    let report = write_dataset(dir.path(), &plan, &source, &again).unwrap();
    assert_eq!(report.shards_reused as usize, finished);
    assert!(seen.get().samples_reused > 0);
    assert_eq!(seen.get().samples, 200);
    let (samples, bytes) = (seen.get().samples_reused, seen.get().bytes_in_reused);
    assert_eq!((report.samples_reused, report.bytes_in_reused), (samples, Some(bytes)));
    let noted: u64 = (0..plan.shard_count()).take(finished).map(|n| plan.source_bytes(n)).sum();
    assert_eq!(bytes, noted);
    assert_eq!(source.encoded.load(Ordering::SeqCst), 200 - seen.get().samples_reused);
    assert_eq!(files(dir.path()), reference(&plan));
    let third = write_dataset(dir.path(), &plan, &source, &options(2)).unwrap();
    assert_eq!((third.outcome, third.samples), (Outcome::AlreadyComplete, 200));
    assert_eq!(files(dir.path()), reference(&plan));
}

#[test]
fn a_torn_or_edited_journal_costs_time_and_nothing_else() {
    let (kept, plan) = interrupted();
    let journal = fs::read(kept.path().join(journal_name(None))).unwrap();
    let mut variants: Vec<Vec<u8>> = (0..journal.len()).step_by(97).map(|n| journal[..n].to_vec()).collect();
    variants.extend((0..journal.len()).step_by(131).map(|n| {
        let mut edited = journal.clone();
        edited[n] ^= 1;
        edited
    }));
    variants.push([&journal[..], b"{\"crc32\":\"00000000\",\"number\":9"].concat());
    for variant in variants {
        let dir = tempdir().unwrap();
        for (name, bytes) in files(kept.path()) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        fs::write(dir.path().join(journal_name(None)), variant).unwrap();
        write_dataset(dir.path(), &plan, &Numbers::new(200), &options(1)).unwrap();
        assert_eq!(files(dir.path()), reference(&plan));
    }
}

#[test]
fn a_missing_or_truncated_finished_shard_is_rewritten() {
    for damage in [0, 1, 2] {
        let (dir, plan) = interrupted();
        let path = dir.path().join("shard-00001.shard");
        let bytes = fs::read(&path).unwrap();
        match damage {
            0 => fs::remove_file(&path).unwrap(),
            1 => fs::write(&path, &bytes[..bytes.len() - 64]).unwrap(),
            _ => fs::write(&path, [&bytes[..bytes.len() - 30], &[0; 30]].concat()).unwrap(),
        }
        write_dataset(dir.path(), &plan, &Numbers::new(200), &options(1)).unwrap();
        assert_eq!(files(dir.path()), reference(&plan));
    }
}

#[test]
fn other_options_or_inputs_are_refused_by_name() {
    let (dir, _) = interrupted();
    let source = Numbers::new(200);
    let text = refused(dir.path(), &source.plan(40_001), &source);
    assert!(
        text.contains(
            "` contains an unfinished dataset with a different shard size in bytes: 40000 before, 40001 now\nhint: "
        ),
        "{text}"
    );

    let options = PlanOptions { shard_bytes: 40_000, shuffle: None };
    let plan = Plan::new(source.samples(), source.metadata(), options).unwrap();
    assert!(refused(dir.path(), &plan, &source).contains("shuffle seed: 7 before, none now"));

    let mut metadata = source.metadata();
    metadata.recipe.insert("jpeg".into(), "tile".into());
    let options = PlanOptions { shard_bytes: 40_000, shuffle: Some(7) };
    let plan = Plan::new(source.samples(), metadata, options).unwrap();
    let text = refused(dir.path(), &plan, &source);
    assert!(text.contains("setting of `jpeg`: \"keep\" before, \"tile\" now"), "{text}");

    let fewer = Numbers::new(199);
    assert!(refused(dir.path(), &fewer.plan(40_000), &fewer).contains("number of samples: 200 before, 199 now"));

    let touched = source.samples().map(|s| PlanSample { mtime_ns: 6, ..s });
    let plan = Plan::new(touched, source.metadata(), options).unwrap();
    let text = refused(dir.path(), &plan, &source);
    assert!(
        text.contains("unfinished dataset, and the modification times of the sources have changed since"),
        "{text}"
    );
    assert!(text.ends_with(", or add `--force` to start over"), "{text}");

    let mut renamed = Numbers::new(200);
    renamed.keys[7] = "class1/other.bin".into();
    let text = refused(dir.path(), &renamed.plan(40_000), &renamed);
    assert!(text.contains("the names, sizes or labels in the sources have changed since\nhint: "), "{text}");

    // Use the same files, but give one of them a different label.
    let relabelled = (0..).zip(source.samples()).map(|(n, s)| PlanSample { extra_digest: [u8::from(n == 7); 16], ..s });
    let plan = Plan::new(relabelled, source.metadata(), options).unwrap();
    assert_ne!(plan.dataset_id(), source.plan(40_000).dataset_id());
    assert!(refused(dir.path(), &plan, &source).contains("names, sizes or labels in the sources have changed"));
}

#[test]
fn a_run_without_a_finished_shard_may_start_over_with_other_options() {
    let mut source = Numbers::new(200);
    let plan = source.plan(40_000);
    source.fail = Some(u64::from(plan.samples(0)[0]));
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap_err();
    assert!(dir.path().join(journal_name(None)).exists() && !dir.path().join("shard-00000.shard").exists());
    source.fail = None;
    let mut metadata = source.metadata();
    metadata.recipe.insert("on_bad_input".into(), "skip".into());
    let options_of_plan = PlanOptions { shard_bytes: 40_000, shuffle: Some(7) };
    let other = Plan::new(source.samples(), metadata, options_of_plan).unwrap();
    write_dataset(dir.path(), &other, &source, &options(1)).unwrap();
    assert_eq!(files(dir.path()), reference(&other));
}

#[test]
fn force_starts_over_from_any_of_our_files() {
    let source = Numbers::new(200);
    let new = source.plan(30_000);
    let expected = reference(&new);
    let force = WriteOptions { force: true, ..options(2) };

    let (unfinished, plan) = interrupted();
    fs::write(unfinished.path().join(".shard-00003.tmp"), b"left by a kill").unwrap();
    write_dataset(unfinished.path(), &new, &source, &force).unwrap();
    assert_eq!(files(unfinished.path()), expected);

    let finished = tempdir().unwrap();
    write_dataset(finished.path(), &plan, &source, &options(2)).unwrap();
    let text = refused(finished.path(), &new, &source);
    assert!(
        text.contains("` already contains a dataset of 200 samples, packed from files with different names"),
        "{text}"
    );
    let report = write_dataset(finished.path(), &new, &source, &force).unwrap();
    assert_eq!((report.outcome, report.shards_reused), (Outcome::Complete, 0));
    assert_eq!(files(finished.path()), expected);
}

#[test]
fn foreign_files_are_never_touched() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    for name in ["notes.txt", "shard-00000.shard", "shard-0.shard"] {
        for force in [false, true] {
            let dir = tempdir().unwrap();
            fs::write(dir.path().join(name), b"mine").unwrap();
            let error = write_dataset(dir.path(), &plan, &source, &WriteOptions { force, ..options(1) }).unwrap_err();
            assert!(
                said(&error).contains(&format!("contains files that shardpack did not write: `{name}`\nhint: ")),
                "{error}"
            );
            assert_eq!(files(dir.path()), [(name.to_owned(), b"mine".to_vec())].into_iter().collect());
        }
    }
    // Files that desktops and file systems create must not stop a run.
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(".DS_Store"), b"").unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
    assert!(dir.path().join(".DS_Store").exists());
    // A manifest of another program must not be mistaken for ours.
    for force in [false, true] {
        let dir = tempdir().unwrap();
        fs::write(dir.path().join("manifest.json"), b"{\"name\": \"web app\"}").unwrap();
        let error = write_dataset(dir.path(), &plan, &source, &WriteOptions { force, ..options(1) }).unwrap_err();
        assert!(
            said(&error).contains("contains files that shardpack did not write: `manifest.json`\nhint: "),
            "{error}"
        );
        assert_eq!(files(dir.path()).len(), 1);
    }
    // A symlink with the name of a temporary file must be replaced, not followed.
    #[cfg(unix)]
    {
        let (dir, target) = (tempdir().unwrap(), tempdir().unwrap());
        let target = target.path().join("precious");
        fs::write(&target, b"mine").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(".shard-00000.tmp")).unwrap();
        write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }
}

#[test]
fn a_complete_dataset_with_a_lost_shard_is_an_error() {
    let source = Numbers::new(20);
    let plan = source.plan(4000);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
    fs::remove_file(dir.path().join("shard-00002.shard")).unwrap();
    let error = write_dataset(dir.path(), &plan, &source, &options(1)).unwrap_err().to_string();
    assert!(error.contains("shard-00002.shard`: the shard is missing"), "{error}");
}

#[test]
fn the_second_packer_learns_the_holder_of_the_folder() {
    let source = Numbers::new(20_000);
    let plan = source.plan(1 << 20);
    let dir = tempdir().unwrap();
    let told = std::cell::RefCell::new(None);
    let second = |_: &Progress| {
        let other = write_dataset(dir.path(), &plan, &source, &options(1));
        told.borrow_mut().get_or_insert(other.unwrap_err());
    };
    write_dataset(dir.path(), &plan, &source, &WriteOptions { on_progress: Some(&second), ..options(1) }).unwrap();
    let error = told.into_inner().unwrap();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {} on ", std::process::id())), "{error}");
    assert_eq!(files(dir.path()), reference(&plan));
}

#[test]
fn sixteen_packers_at_once_make_one_dataset() {
    let source = Numbers::new(500);
    let plan = source.plan(40_000);
    let dir = tempdir().unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = || write_dataset(dir.path(), &plan, &source, &options(1));
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let complete = outcomes.iter().flatten().filter(|r| r.outcome == Outcome::Complete).count();
    assert_eq!(complete, 1);
    assert!(outcomes.iter().all(|r| matches!(r, Ok(_) | Err(Error::Locked { .. }))));
    assert_eq!(files(dir.path()), reference(&plan));
}
