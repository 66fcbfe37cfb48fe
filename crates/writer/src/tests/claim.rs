//! A folder that is reserved for a program.

use super::source::Numbers;
use crate::{Claim, Error, Outcome, WriteOptions, write_dataset};
use shardpack_format::DatasetId;
use std::sync::atomic::AtomicBool;

#[test]
fn a_claim_keeps_packers_out_and_writes_itself() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("a/b");
    let numbers = Numbers::new(40);
    let plan = numbers.plan(10_000);
    let options = WriteOptions { threads: 2, ..Default::default() };
    let claim = Claim::take(&out, false).unwrap();
    assert!(matches!(write_dataset(&out, &plan, &numbers, &options), Err(Error::Locked { .. })));
    assert!(matches!(Claim::take(&out, true), Err(Error::Locked { .. })));
    assert!(!claim.has_begun(plan.dataset_id()).unwrap());
    let report = claim.write_dataset(&plan, &numbers, &options).unwrap();
    assert_eq!((report.outcome, report.samples), (Outcome::Complete, 40));
    assert!(!claim.has_begun(plan.dataset_id()).unwrap(), "it is ended");
    drop(claim);
    let error = Claim::take(&out, false).unwrap_err().to_string();
    assert!(error.contains("found a dataset of 40 samples"), "{error}");
    drop(Claim::take(&out, true).unwrap());
    assert!(out.join("manifest.json").exists(), "force replaces what is there, but not yet");
}

#[test]
fn what_was_begun_is_discarded_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let numbers = Numbers { fail: Some(30), ..Numbers::new(40) };
    let plan = numbers.plan(10_000);
    let claim = Claim::take(&out, false).unwrap();
    let options = WriteOptions { threads: 1, ..Default::default() };
    assert!(claim.write_dataset(&plan, &numbers, &options).is_err());
    assert!(claim.has_begun(plan.dataset_id()).unwrap());
    claim.discard(DatasetId([7; 16])).unwrap();
    assert!(claim.has_begun(plan.dataset_id()).unwrap(), "another dataset's name removes nothing");
    drop(claim);
    // State after the program dies here.
    let error = Claim::take(&out, false).unwrap_err().to_string();
    assert!(error.contains("found an unfinished dataset"), "{error}");
    let claim = Claim::take(&out, true).unwrap();
    claim.discard(plan.dataset_id()).unwrap();
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "only the lock is left");
    // The folder existed before this claim.
    drop(claim);
    assert!(out.exists());
}

#[test]
fn a_folder_of_others_is_refused_and_stays() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("thesis.doc"), "dear").unwrap();
    for force in [false, true] {
        let error = Claim::take(parent.path(), force).unwrap_err().to_string();
        assert!(error.contains("`thesis.doc`"), "{error}");
    }
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    let cancel = AtomicBool::new(true);
    let empty = parent.path().join("empty");
    let claim = Claim::take(&empty, false).unwrap();
    let numbers = Numbers::new(3);
    let options = WriteOptions { cancel: Some(&cancel), ..Default::default() };
    assert!(matches!(claim.write_dataset(&numbers.plan(10_000), &numbers, &options), Err(Error::Cancelled)));
    claim.discard(numbers.plan(10_000).dataset_id()).unwrap();
    drop(claim);
    assert!(!empty.exists());
}
