//! Tests reserving a folder for a program.

use super::source::Numbers;
use crate::{Error, Outcome, Reservation, WriteOptions, write_dataset};
use shardpack_format::DatasetId;
use std::sync::atomic::AtomicBool;

#[test]
fn a_reservation_keeps_packers_out_and_writes_itself() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("a/b");
    let numbers = Numbers::new(40);
    let plan = numbers.plan(10_000);
    let options = WriteOptions { threads: 2, ..Default::default() };
    let reservation = Reservation::take(&out, false).unwrap();
    assert!(matches!(write_dataset(&out, &plan, &numbers, &options), Err(Error::Locked { .. })));
    assert!(matches!(Reservation::take(&out, true), Err(Error::Locked { .. })));
    assert!(!reservation.has_begun(plan.dataset_id()).unwrap());
    let report = reservation.write_dataset(&plan, &numbers, &options).unwrap();
    assert_eq!((report.outcome, report.samples), (Outcome::Complete, 40));
    assert!(!reservation.has_begun(plan.dataset_id()).unwrap(), "the dataset is complete");
    drop(reservation);
    let error = Reservation::take(&out, false).unwrap_err().to_string();
    assert!(error.contains("already contains a dataset of 40 samples"), "{error}");
    drop(Reservation::take(&out, true).unwrap());
    assert!(out.join("manifest.json").exists(), "`force` replaces the dataset only on commit");
}

#[test]
fn only_the_unfinished_dataset_is_discarded() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let numbers = Numbers { fail: Some(30), ..Numbers::new(40) };
    let plan = numbers.plan(10_000);
    let reservation = Reservation::take(&out, false).unwrap();
    let options = WriteOptions { threads: 1, ..Default::default() };
    assert!(reservation.write_dataset(&plan, &numbers, &options).is_err());
    assert!(reservation.has_begun(plan.dataset_id()).unwrap());
    reservation.discard(DatasetId([7; 16])).unwrap();
    assert!(reservation.has_begun(plan.dataset_id()).unwrap(), "the id of another dataset removes nothing");
    drop(reservation);
    // From here on, the folder looks as if the program had been killed.
    let error = Reservation::take(&out, false).unwrap_err().to_string();
    assert!(error.contains("contains an unfinished dataset"), "{error}");
    let reservation = Reservation::take(&out, true).unwrap();
    reservation.discard(plan.dataset_id()).unwrap();
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "only the lock is left");
    drop(reservation);
    assert!(out.exists());
}

#[test]
fn a_folder_with_foreign_files_is_refused_and_unchanged() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("thesis.doc"), "dear").unwrap();
    for force in [false, true] {
        let error = Reservation::take(parent.path(), force).unwrap_err().to_string();
        assert!(error.contains("`thesis.doc`"), "{error}");
    }
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    let cancel = AtomicBool::new(true);
    let empty = parent.path().join("empty");
    let reservation = Reservation::take(&empty, false).unwrap();
    let numbers = Numbers::new(3);
    let options = WriteOptions { cancel: Some(&cancel), ..Default::default() };
    assert!(matches!(reservation.write_dataset(&numbers.plan(10_000), &numbers, &options), Err(Error::Cancelled)));
    reservation.discard(numbers.plan(10_000).dataset_id()).unwrap();
    drop(reservation);
    assert!(!empty.exists());
}
