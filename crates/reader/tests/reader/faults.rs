//! Tests reads that arrive in pieces, are interrupted, or fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::{OnDisk, error_kind};
use shardpack_format::ErrorKind;
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_reader::{Dataset, DatasetOptions, Error, Sample};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn contents(samples: &[Sample]) -> Vec<(u64, String, Vec<u8>)> {
    samples.iter().map(|s| (s.index(), s.key().to_owned(), s.record_bytes().to_vec())).collect()
}

fn read_everything(dataset: &Dataset) -> Result<Vec<(u64, String, Vec<u8>)>, Error> {
    let labels = dataset.labels()?;
    assert_eq!(labels.len() as u64, dataset.len());
    let many = dataset.get_many(&(0..dataset.len()).step_by(3).collect::<Vec<u64>>())?;
    let one = dataset.get(dataset.len() - 1)?;
    assert_eq!(dataset.by_key(one.key())?, Some(one.index()));
    let all = dataset.iter()?.collect::<Result<Vec<Sample>, Error>>()?;
    for sample in many.iter().chain([&one]) {
        assert_eq!(contents(&all[sample.index() as usize..][..1]), contents(std::slice::from_ref(sample)));
    }
    Ok(contents(&all))
}

#[test]
fn r01_short_reads_give_the_same_bytes() {
    let disk = OnDisk::new(&[7, 0, 12]);
    let expected = read_everything(&Dataset::open(disk.path()).unwrap()).unwrap();
    assert_eq!(expected.len(), 19);
    for fault in [Fault::None, Fault::OneByte, Fault::Pieces] {
        let storage = Arc::new(RiggedStorage::of_folder(disk.path(), Faults::new(fault)));
        let dataset = DatasetOptions::new().open_in(storage).unwrap();
        assert_eq!(read_everything(&dataset).unwrap(), expected, "{fault:?}");
    }
}

#[test]
fn r02_an_error_at_every_operation() {
    let disk = OnDisk::new(&[7, 0, 12]);
    let expected = read_everything(&Dataset::open(disk.path()).unwrap()).unwrap();
    let mut failures = 0;
    for k in 0.. {
        assert!(k < 10_000, "no end");
        let storage = RiggedStorage::of_folder(disk.path(), Faults::new(Fault::FailAt(k)));
        let faults = Arc::clone(&storage.rig);
        let dataset = DatasetOptions::new().open_in(Arc::new(storage));
        let result = dataset.as_ref().map_err(|e| e.to_string()).and_then(|d| {
            let result = read_everything(d);
            // The dataset does not remember the error, so the next read must succeed.
            if result.is_err() {
                assert_eq!(read_everything(d).unwrap(), expected, "operation {k}");
            }
            result.map_err(|e| {
                assert!(matches!(e, Error::Io { .. }), "operation {k}: {e}");
                e.to_string()
            })
        });
        if faults.operations.load(Ordering::SeqCst) <= k {
            assert_eq!(result.unwrap(), expected);
            break;
        }
        failures += 1;
        let error = result.expect_err("the failed operation was needed");
        assert!(error.contains("memory/") && error.contains("os error 5"), "{error}");
        drop(dataset);
        assert_eq!(faults.open.load(Ordering::SeqCst), 0, "files left open after operation {k}");
    }
    assert!(failures > 5, "{failures}");
}

#[test]
fn r03_files_that_change_while_they_are_open() {
    let disk = OnDisk::new(&[4, 4]);
    let dataset = Dataset::open(disk.path()).unwrap();
    dataset.labels().unwrap();
    std::fs::remove_file(disk.shard_path(0)).unwrap();
    assert_eq!(dataset.get(1).unwrap().key(), disk.samples[1].key);
    disk.edit(1, |bytes| bytes[64..].fill(0x33));
    assert_eq!(error_kind(&dataset.get(5)), Some(ErrorKind::Format));
    let file = std::fs::OpenOptions::new().write(true).open(disk.shard_path(1)).unwrap();
    file.set_len(100).unwrap();
    let error = dataset.get(5).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("too early"), "{error}");
    assert!(dataset.iter().unwrap().skip(4).all(|r| r.is_err()));
}

/// The two threads may finish their runs in any order, but records and errors must arrive in stored
/// order.
#[test]
fn a_stream_keeps_its_order_and_its_errors_in_their_places() {
    let per_shard = 3;
    let disk = OnDisk::new(&[per_shard; 40]);
    std::fs::remove_file(disk.shard_path(5)).unwrap();
    std::fs::remove_file(disk.shard_path(6)).unwrap();
    // Damage the last byte of a record before its padding.
    let row = Dataset::open(disk.path()).unwrap().shard(9).unwrap().row(1).unwrap();
    disk.edit(9, |bytes| bytes[(row.offset + row.length - 1) as usize] ^= 1);
    let mut expected: Vec<Option<u64>> = Vec::new();
    for shard in 0..40 {
        match shard {
            5 | 6 => expected.push(None),
            _ => expected.extend((0..3).map(|i| (shard != 9 || i != 1).then_some(shard * 3 + i))),
        }
    }
    for round in 0..100 {
        let dataset = Dataset::open(disk.path()).unwrap();
        let mut stream = dataset.stream().unwrap();
        let mut found = Vec::new();
        while let Some(record) = stream.next_record() {
            found.push(record.ok().map(|view| view.index()));
        }
        assert_eq!(found, expected, "round {round}");
        let mut stream = dataset.stream().unwrap();
        (0..round).for_each(|_| drop(stream.next_record()));
    }
}
