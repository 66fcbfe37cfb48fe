//! Crashes the machine at each operation (W04, W05 and W15 of the fault list). Also checks that these tests would
//! notice a missing sync (W06).

use super::behaviour::options;
use super::faults::{is_final, reference, run};
use super::memory_fs::{Crash, Fault, LIES, Lie, MemoryFs};
use super::source::Numbers;
use crate::{Plan, Progress, WriteOptions};
use shardpack_format::{Limits, Manifest};
use std::cell::Cell;
use std::collections::BTreeMap;

const CRASHES: [Crash; 5] =
    [Crash::NothingSurvives, Crash::NamesSurvive, Crash::Random(1), Crash::Random(2), Crash::Random(3)];

struct Case {
    source: Numbers,
    plan: Plan,
    other: Plan,
    expected: BTreeMap<String, Vec<u8>>,
}

impl Case {
    fn new() -> Self {
        let source = Numbers::new(40);
        let plan = source.plan(20_000);
        let expected = reference(&plan, &source);
        Self { source, plan, other: Numbers::new(1).plan(1), expected }
    }

    fn half(&self) -> MemoryFs {
        let mut source = Numbers::new(40);
        source.fail = self.plan.samples(self.plan.shard_count() / 2).last().map(|&s| s.into());
        // On a busy machine, the run may fail before the first shard is committed. Repeat it until one is.
        let tries = std::iter::repeat_with(|| {
            let fs = MemoryFs::new();
            run(&fs, &self.plan, &source, &options(1)).unwrap_err();
            fs
        });
        tries.take(1000).find(|fs| fs.files().keys().any(|name| is_final(name))).unwrap()
    }

    /// Crashes the machine at operation `k`. Returns `None` if the run ends before that operation, and an error if the
    /// crash breaks a promise.
    fn promise_holds(
        &self,
        start: &MemoryFs,
        had: u32,
        k: u64,
        crash: Crash,
        lie: Option<Lie>,
    ) -> Option<Result<(), String>> {
        let fs = start.with_fault(Fault::CrashAt(k), lie);
        let reported = Cell::new(had);
        let note = |progress: &Progress| reported.set(reported.get().max(progress.shards));
        let result = run(&fs, &self.plan, &self.source, &WriteOptions { on_progress: Some(&note), ..options(2) });
        let over = !fs.was_hit();
        let verdict = self.check(&fs.after(crash), reported.get(), result.is_ok());
        let verdict = verdict.map_err(|e| format!("operation {k}, {crash:?}: {e}"));
        (!over || verdict.is_err()).then_some(verdict)
    }

    fn check(&self, fs: &MemoryFs, reported: u32, ended_well: bool) -> Result<(), String> {
        let files = fs.files();
        for (name, bytes) in files.iter().filter(|(name, _)| is_final(name)) {
            if self.expected.get(name) != Some(bytes) {
                return Err(format!("{name} is there and not whole"));
            }
        }
        let complete = files.contains_key("manifest.json");
        if complete && !self.expected.keys().all(|name| files.contains_key(name)) {
            return Err("the manifest names a shard that is not there".into());
        }
        if ended_well && !complete {
            return Err("the run said that it was complete, and it is gone".into());
        }
        // If there are shards, there must also be a journal or a manifest.
        let told = run(&fs.with_fault(Fault::None, None), &self.other, &Numbers::new(1), &options(1));
        if let Err(e) = told
            && e.to_string().contains("shards without a manifest")
        {
            return Err(format!("neither journal nor manifest: {e}"));
        }
        // Every file in the folder must be recognised as ours, so that `force` can replace it.
        let other = fs.with_fault(Fault::None, None);
        let force = WriteOptions { force: true, ..options(1) };
        run(&other, &self.other, &Numbers::new(1), &force).map_err(|e| format!("cannot start over: {e}"))?;
        let report = run(fs, &self.plan, &self.source, &options(2)).map_err(|e| format!("cannot continue: {e}"))?;
        if report.shards_reused < reported {
            return Err(format!("{reported} shards were finished, {} are left", report.shards_reused));
        }
        if fs.files() != self.expected { Err("other bytes in the end".into()) } else { Ok(()) }
    }

    fn first_violation(&self, lie: Option<Lie>) -> Option<String> {
        let half = self.half();
        let had = u32::try_from(half.files().keys().filter(|n| is_final(n)).count()).unwrap();
        assert!(had > 0);
        for (start, had) in [(MemoryFs::new(), 0), (half, had)] {
            for crash in CRASHES {
                for k in 1.. {
                    match self.promise_holds(&start, had, k, crash, lie) {
                        Some(Ok(())) => {}
                        Some(Err(violation)) => return Some(violation),
                        None => break,
                    }
                }
            }
        }
        None
    }
}

#[test]
fn every_promise_holds_whenever_the_machine_dies() {
    assert_eq!(Case::new().first_violation(None), None);
}

#[test]
fn a_sync_that_is_missing_is_noticed() {
    let case = Case::new();
    for lie in LIES {
        // The timing of the threads decides at which operation the machine crashes, so one round can miss a moment that
        // another hits.
        let noticed = (0..100).any(|_| case.first_violation(Some(lie)).is_some());
        assert!(noticed, "{lie:?} could be left out without a failing test");
    }
}

#[test]
fn a_crash_while_force_replaces_a_dataset_leaves_the_old_one_or_none() {
    let case = Case::new();
    let healthy = MemoryFs::new();
    run(&healthy, &case.source.plan(30_000), &case.source, &options(1)).unwrap();
    let old_files = healthy.files();
    let hurt = healthy.with_fault(Fault::None, None);
    hurt.cut("manifest.json", 100);
    let force = WriteOptions { force: true, ..options(2) };
    for (old, crash) in CRASHES.into_iter().flat_map(|crash| [(&healthy, crash), (&hurt, crash)]) {
        for k in 1.. {
            let fs = old.with_fault(Fault::CrashAt(k), None);
            let result = run(&fs, &case.plan, &case.source, &force);
            if !fs.was_hit() {
                result.unwrap();
                break;
            }
            let after = fs.after(crash);
            let files = after.files();
            if let Some(bytes) = files.get("manifest.json").filter(|bytes| bytes.len() > 100) {
                let manifest = Manifest::parse(bytes, &Limits::default()).unwrap();
                let whole = if manifest.dataset_id == case.plan.dataset_id() { &case.expected } else { &old_files };
                assert!(
                    manifest.shards.iter().all(|s| files.get(&s.name) == whole.get(&s.name)),
                    "operation {k}, {crash:?}"
                );
            }
            run(&after, &case.plan, &case.source, &force).unwrap_or_else(|e| panic!("operation {k}, {crash:?}: {e}"));
            assert_eq!(after.files(), case.expected, "operation {k}, {crash:?}");
        }
    }
}
