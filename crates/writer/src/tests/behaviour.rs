//! Tests runs without failures, and runs in which the caller's code fails.

use super::said;
use super::source::{Numbers, files};
use crate::{Error, Outcome, Plan, PlanOptions, PlanSample, Progress, WriteOptions, write_dataset};
use sha2::{Digest, Sha256};
use shardpack_format::{
    Error as FormatError, FOOTER_BYTES, Footer, HEADER_BYTES, Identity, Index, Limits, Manifest, Record,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::tempdir;

pub(crate) fn options(threads: usize) -> WriteOptions<'static> {
    WriteOptions { threads, ..Default::default() }
}

fn reference() -> (Numbers, Plan, BTreeMap<String, Vec<u8>>) {
    let source = Numbers::new(200);
    let plan = source.plan(40_000);
    let dir = tempdir().unwrap();
    write_dataset(dir.path(), &plan, &source, &options(1)).unwrap();
    (source, plan, files(dir.path()))
}

#[test]
fn a_dataset_holds_the_planned_samples_and_nothing_else() {
    let (source, plan, files) = reference();
    assert!(plan.shard_count() > 5);
    let manifest = Manifest::parse(&files["manifest.json"], &Limits::default()).unwrap();
    assert_eq!((manifest.samples, manifest.dataset_id), (200, plan.dataset_id()));
    assert_eq!(files.len(), manifest.shards.len() + 1);
    assert!(files["manifest.json"].len() < 1500 + 320 * manifest.shards.len());
    let mut sum = 0.0;
    for (number, shard) in (0..).zip(&manifest.shards) {
        let bytes = &files[&shard.name];
        assert_eq!(shard.bytes, bytes.len() as u64);
        assert_eq!(shard.sha256, <[u8; 32]>::from(Sha256::digest(bytes)));
        let footer_at = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
        assert_eq!(shard.footer_crc32, crc32fast::hash(&bytes[footer_at..footer_at + 116]));
        let footer = Footer::parse(&bytes[footer_at..], shard.bytes, &Limits::default()).unwrap();
        let header = Identity::parse_header(&bytes[..usize::try_from(HEADER_BYTES).unwrap()]).unwrap();
        footer.check_header(&header).unwrap();
        assert_eq!(header, Identity::new(plan.dataset_id(), number));
        let index_at = usize::try_from(footer.index_offset).unwrap();
        let index = Index::parse(bytes[index_at..footer_at].to_vec(), &footer, &Limits::default()).unwrap();
        assert_eq!(index.len(), shard.samples);
        let mut shard_sum = 0.0;
        for (i, &sample) in (0..).zip(plan.samples(number)) {
            let row = index.row(i).unwrap();
            let record = Record::parse(&bytes[usize::try_from(row.offset).unwrap()..], &Limits::default()).unwrap();
            assert_eq!(record.frame.sample_id, u64::from(sample));
            assert_eq!(record.key, source.keys[sample as usize]);
            assert_eq!(Some(record.key), index.key(i));
            assert!(index.scalars_match(i, record.scalars));
            assert_eq!(record.fields[0].unwrap().bytes.len() as u64, Numbers::bytes(sample.into()));
            shard_sum += 0.1 * f64::from(sample);
        }
        sum += shard_sum;
    }
    assert_eq!(manifest.fidelity["image"]["mean"].as_f64(), Some(sum));
}

#[test]
fn threads_and_memory_change_no_byte() {
    let (source, plan, expected) = reference();
    for (threads, memory_bytes) in [(2, 1 << 30), (7, 1 << 30), (7, 12_000), (64, 1)] {
        let dir = tempdir().unwrap();
        let options = WriteOptions { memory_bytes, ..options(threads) };
        write_dataset(dir.path(), &plan, &source, &options).unwrap();
        assert_eq!(files(dir.path()), expected, "{threads} threads, {memory_bytes} bytes");
    }
}

#[test]
fn the_memory_budget_is_kept() {
    let (mut source, plan, _) = reference();
    source.memory_bytes = 10_000;
    write_dataset(tempdir().unwrap().path(), &plan, &source, &WriteOptions { memory_bytes: 35_000, ..options(8) })
        .unwrap();
    assert!(source.busy_peak.load(Ordering::SeqCst) <= 30_000);
    write_dataset(tempdir().unwrap().path(), &plan, &source, &WriteOptions { memory_bytes: 1, ..options(8) }).unwrap();
}

#[test]
fn records_larger_than_a_write_are_written_whole() {
    struct Large(Numbers);
    impl crate::SampleSource for Large {
        type Tally = ();
        type Error = shardpack_format::Error;
        fn key(&self, sample: u64) -> std::borrow::Cow<'_, str> {
            self.0.key(sample)
        }
        fn memory_bytes(&self, _: u64) -> u64 {
            10 << 20
        }
        fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<crate::Encoded<()>, Self::Error> {
            let bytes = [10_u64, 5 << 20, (4 << 20) - 256, 9 << 20][usize::try_from(sample % 4).unwrap()];
            let field = Some(shardpack_format::StoredField::raw(bytes));
            let key = self.0.key(sample);
            let builder =
                shardpack_format::RecordBuilder::new(buffer, &self.0.schema, shard, sample, &key, &[1, 0], &[field]);
            let mut builder = builder?;
            builder.field_mut(0).fill(sample.to_le_bytes()[0] + 1);
            let (record, frame) = builder.finish();
            let scalars = vec![1, 0];
            Ok(crate::Encoded::Record(crate::EncodedSample { record, frame, scalars, source_bytes: bytes, tally: () }))
        }
    }
    let source = Large(Numbers::new(12));
    let plan = source.0.plan(6000);
    let dirs = [tempdir().unwrap(), tempdir().unwrap()];
    write_dataset(dirs[0].path(), &plan, &source, &options(1)).unwrap();
    write_dataset(dirs[1].path(), &plan, &source, &WriteOptions { memory_bytes: 20 << 20, ..options(5) }).unwrap();
    let written = files(dirs[0].path());
    assert!(written == files(dirs[1].path()));
    let manifest = Manifest::parse(&written["manifest.json"], &Limits::default()).unwrap();
    for shard in &manifest.shards {
        assert_eq!(shard.sha256, <[u8; 32]>::from(Sha256::digest(&written[&shard.name])));
    }
}

#[test]
fn skipped_samples_are_listed_in_the_order_of_the_plan() {
    let mut source = Numbers::new(200);
    source.skip = vec![3, 50, 120];
    let plan = source.plan(40_000);
    let dir = tempdir().unwrap();
    let report = write_dataset(dir.path(), &plan, &source, &options(3)).unwrap();
    let expected: Vec<&str> = (0..plan.shard_count())
        .flat_map(|n| plan.samples(n))
        .filter(|&&s| [3, 50, 120].contains(&s))
        .map(|&s| source.keys[s as usize].as_str())
        .collect();
    assert_eq!(report.skipped.iter().map(|s| s.key.as_str()).collect::<Vec<_>>(), expected);
    assert!(report.skipped.iter().all(|s| s.reason == "planted skip"));
    assert_eq!(report.samples, 197);
}

#[test]
fn a_dataset_of_skipped_samples_alone_is_empty() {
    let mut source = Numbers::new(5);
    source.skip = (0..5).collect();
    let report = write_dataset(tempdir().unwrap().path(), &source.plan(1000), &source, &options(2)).unwrap();
    assert_eq!((report.samples, report.skipped.len()), (0, 5));
}

#[test]
fn a_failing_or_panicking_sample_stops_the_run_and_is_named() {
    for panics in [false, true] {
        let mut source = Numbers::new(3000);
        let plan = source.plan(100_000);
        if panics {
            source.panic = Some(1234)
        } else {
            source.fail = Some(1234)
        }
        let dir = tempdir().unwrap();
        let started = Instant::now();
        let error = write_dataset(dir.path(), &plan, &source, &options(4)).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5));
        let expected = if panics {
            "internal error: encoding the sample failed with a panic: assertion"
        } else {
            "planted failure"
        };
        assert!(error.to_string().starts_with("sample `class1/1234.bin`: "), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(error, Error::Source { .. }));
        refuse_temporaries(dir.path());
        source = Numbers::new(3000);
        let report = write_dataset(dir.path(), &plan, &source, &options(4)).unwrap();
        assert_eq!(report.outcome, Outcome::Complete);
        assert!(source.encoded.load(Ordering::SeqCst) <= 3000);
    }
}

#[test]
fn cancelling_keeps_finished_shards_and_leaves_no_temporary_file() {
    let source = Numbers::new(3000);
    let plan = source.plan(20_000);
    let dir = tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let stop_late = |progress: &Progress| cancel.store(progress.shards >= 2, Ordering::SeqCst);
    let slow = WriteOptions { cancel: Some(&cancel), on_progress: Some(&stop_late), ..options(2) };
    let error = write_dataset(dir.path(), &plan, &source, &slow);
    // The run may end before the second progress report.
    if let Err(error) = error {
        assert!(matches!(error, Error::Cancelled), "{error}");
        refuse_temporaries(dir.path());
        assert!(!dir.path().join("manifest.json").exists());
    }
    cancel.store(true, Ordering::SeqCst);
    let other = tempdir().unwrap();
    let never = WriteOptions { cancel: Some(&cancel), ..options(2) };
    assert!(matches!(write_dataset(other.path(), &plan, &source, &never), Err(Error::Cancelled)));
    refuse_temporaries(other.path());
}

#[test]
fn progress_ends_with_everything_done() {
    let (source, plan, _) = reference();
    let seen = RefCell::new(Vec::new());
    let note = |progress: &Progress| seen.borrow_mut().push(*progress);
    let dir = tempdir().unwrap();
    let report =
        write_dataset(dir.path(), &plan, &source, &WriteOptions { on_progress: Some(&note), ..options(2) }).unwrap();
    let last = *seen.borrow().last().unwrap();
    assert_eq!((last.samples, last.samples_total, last.samples_reused), (200, 200, 0));
    assert_eq!((last.shards, last.shards_total), (plan.shard_count(), plan.shard_count()));
    assert_eq!((last.bytes_in, last.bytes_out), (last.bytes_in_total, report.bytes_out));
    assert_eq!(Some(last.bytes_in), report.bytes_in);
}

#[test]
fn a_panic_in_the_progress_function_ends_all_threads() {
    let source = Numbers::new(20_000);
    let plan = source.plan(1 << 20);
    let dir = tempdir().unwrap();
    let fail = |_: &Progress| panic!("planted");
    let options = WriteOptions { on_progress: Some(&fail), ..options(2) };
    let run = std::panic::AssertUnwindSafe(|| write_dataset(dir.path(), &plan, &source, &options));
    assert!(std::panic::catch_unwind(run).is_err());
}

#[test]
fn a_record_of_a_different_sample_is_refused() {
    struct Wrong(Numbers);
    impl crate::SampleSource for Wrong {
        type Tally = super::source::Sum;
        type Error = shardpack_io::Cause;
        fn key(&self, sample: u64) -> std::borrow::Cow<'_, str> {
            self.0.key(sample)
        }
        fn memory_bytes(&self, _: u64) -> u64 {
            1
        }
        fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<crate::Encoded<Self::Tally>, Self::Error> {
            self.0.encode(sample ^ 1, shard, buffer)
        }
    }
    let source = Wrong(Numbers::new(10));
    let dir = tempdir().unwrap();
    let error = write_dataset(dir.path(), &source.0.plan(4000), &source, &options(1)).unwrap_err();
    let Error::Format(FormatError::Usage(note)) = error else { panic!("{error}") };
    assert!(note.text.contains("record for sample `"), "{note:?}");
    refuse_temporaries(dir.path());
}

#[test]
fn a_plan_is_a_pure_function() {
    let source = Numbers::new(100);
    let plan = source.plan(10_000);
    assert_eq!(plan, source.plan(10_000));
    let total: usize = (0..plan.shard_count()).map(|n| plan.samples(n).len()).sum();
    assert_eq!(total, 100);
    for n in 0..plan.shard_count() {
        assert!(!plan.samples(n).is_empty());
        assert!(plan.stored_bytes(n) <= 10_000);
    }
    assert!(plan.samples(plan.shard_count()).is_empty());
    assert_ne!(plan.dataset_id(), source.plan(10_001).dataset_id());
    assert_eq!(source.plan(1).shard_count(), 100);
}

#[test]
fn a_plan_refuses_no_samples_bad_keys_and_keys_that_occur_twice() {
    let sample = |key| PlanSample { key, source_bytes: 1, stored_bytes: 1, ..Default::default() };
    let plan = |keys: &[&'static str]| {
        Plan::new(keys.iter().map(|k| sample(k)), Default::default(), PlanOptions::default()).map_err(|e| e.to_string())
    };
    assert!(plan(&["a", "b"]).is_ok());
    assert_eq!(plan(&[]).unwrap_err(), "there are no samples to pack");
    assert_eq!(plan(&["a", "b", "c", "b"]).unwrap_err(), "sample key `b` occurs twice: samples 1 and 3");
    assert!(plan(&["../a"]).unwrap_err().starts_with("sample key: "));
    let none = PlanOptions { shard_bytes: 0, shuffle: None };
    assert!(Plan::new([sample("a")], Default::default(), none).is_err());
    // The plan has more shards than a manifest can list. It must be refused before anything is written.
    let keys: Vec<String> = (0..300_000).map(|n| n.to_string()).collect();
    let tiny = PlanOptions { shard_bytes: 1, shuffle: None };
    let error =
        Plan::new(keys.iter().map(|key| PlanSample { key, ..sample("") }), Default::default(), tiny).unwrap_err();
    assert!(matches!(error, Error::Limit { found: 300_000, .. }), "{error}");
    assert!(said(&error).ends_with("\nhint: choose larger shards"), "{error}");
}

/// The dataset id must never change, because a run continues only a dataset with the same id.
#[test]
fn the_dataset_id_never_changes() {
    let sample = |key| PlanSample { key, source_bytes: 3, stored_bytes: 192, mtime_ns: 9, extra_digest: [0; 16] };
    let plan = Plan::new([sample("a"), sample("b")], Default::default(), PlanOptions::default()).unwrap();
    assert_eq!(plan.dataset_id().to_string(), "e598ca589fdb9b573253dc23d7267fe0");
}

pub(crate) fn refuse_temporaries(dir: &Path) {
    let names: Vec<String> = files(dir).into_keys().filter(|n| n.ends_with(".tmp") || n.contains("lock")).collect();
    assert!(names.is_empty(), "{names:?}");
}
