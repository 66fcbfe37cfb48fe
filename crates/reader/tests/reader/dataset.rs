//! Tests typical uses of the reader: open a dataset, look at its labels, read some samples, and
//! stream all samples.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::{ID, OnDisk, TestSample, error_kind};
use shardpack_format::{ErrorKind, Limits};
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_reader::{ArrayDecoder, Dataset, DatasetOptions, RecordView, Scalar, Shard, ShardOptions};
use std::sync::Arc;

fn assert_same(view: &RecordView<'_>, index: u64, expected: &TestSample) {
    assert_eq!(view.index(), index);
    assert_eq!(view.key(), expected.key);
    assert_eq!(view.sample_id(), expected.id);
    assert_eq!(view.scalar("label").unwrap(), Scalar::Signed(expected.label));
    assert_eq!(view.scalar("height").unwrap(), Scalar::Unsigned(expected.id));
    assert_eq!(view.field("text").unwrap().unwrap().bytes, expected.text);
    assert_eq!(view.text("text").unwrap().as_bytes(), expected.text);
    let cube = view.array("cube", &mut ArrayDecoder::new()).unwrap();
    assert_eq!((cube.shape(), cube.bytes()), (&[2, 2, 3][..], expected.array_bytes().as_slice()));
    assert_eq!(error_kind(&view.array("text", &mut ArrayDecoder::new())), Some(ErrorKind::Usage));
    assert_eq!(error_kind(&view.text("cube")), Some(ErrorKind::Usage));
    match &expected.picture {
        Some(picture) => {
            let image = view.image("image").unwrap();
            assert_eq!((image.media_type, image.bytes), ("image/png", picture.as_slice()));
        }
        None => assert_eq!(view.field("image").unwrap(), None),
    }
}

#[test]
fn opens_a_folder_a_manifest_and_a_lone_shard() {
    let disk = OnDisk::new(&[3, 0, 4]);
    for path in [disk.path().to_owned(), disk.path().join("manifest.json")] {
        let dataset = Dataset::open(path).unwrap();
        assert_eq!((dataset.len(), dataset.shards().len()), (7, 3));
        assert_eq!(dataset.manifest(), Some(&disk.manifest));
        assert_eq!(dataset.dataset_id(), ID);
    }
    let lone = Dataset::open(disk.shard_path(2)).unwrap();
    assert_eq!((lone.len(), lone.dataset_id()), (4, ID));
    assert_eq!(lone.schema(), &disk.manifest.schema);
    assert_eq!(lone.classes().unwrap().len(), 3);
    assert_eq!(lone.recipe(), &disk.manifest.recipe);
    assert_same(&lone.get(1).unwrap().view(), 1, &disk.samples[4]);
}

#[test]
fn a_folder_of_files_is_refused_with_a_hint_to_pack_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("cat")).unwrap();
    let error = Dataset::open(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("no manifest.json and no shards"), "{error}");
    let hint = error.hint().unwrap().told(shardpack_format::Voice::Command);
    assert!(hint.contains("make a dataset from a folder of files with `shardpack pack`"), "{hint}");
}

#[test]
fn columns_come_from_the_indexes_alone() {
    let disk = OnDisk::new(&[3, 0, 4]);
    disk.edit(2, |bytes| bytes[64..200].fill(0xAA));
    let dataset = Dataset::open(disk.path()).unwrap();
    let expected: Vec<i64> = disk.samples.iter().map(|s| s.label).collect();
    assert_eq!(dataset.labels().unwrap(), expected);
    assert_eq!(dataset.column("height").unwrap().to_i64s().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(error_kind(&dataset.column("text")), Some(ErrorKind::Usage));
}

#[test]
fn samples_by_index_by_key_and_many_at_once() {
    let disk = OnDisk::new(&[5, 0, 1, 9]);
    let dataset = Dataset::open(disk.path()).unwrap();
    for (i, expected) in disk.samples.iter().enumerate() {
        assert_same(&dataset.get(i as u64).unwrap().view(), i as u64, expected);
        assert_eq!(dataset.by_key(&expected.key).unwrap(), Some(i as u64));
    }
    assert_eq!(dataset.by_key("class-0/none.png").unwrap(), None);
    assert_eq!(error_kind(&dataset.get(15)), Some(ErrorKind::Usage));
    assert_eq!(error_kind(&dataset.get(u64::MAX)), Some(ErrorKind::Usage));

    let wanted = [14, 0, 7, 7, 3, 5, 4, 13, 0];
    let samples = dataset.get_many(&wanted).unwrap();
    assert_eq!(samples.len(), wanted.len());
    for (sample, index) in samples.iter().zip(wanted) {
        assert_same(&sample.view(), index, &disk.samples[index as usize]);
    }
    assert!(dataset.get_many(&[]).unwrap().is_empty());
    assert_eq!(error_kind(&dataset.get_many(&[0, 15])), Some(ErrorKind::Usage));
}

#[test]
fn get_many_reads_neighbours_together() {
    let disk = OnDisk::new(&[50]);
    let storage = RiggedStorage::of_folder(disk.path(), Faults::new(Fault::None));
    let faults = Arc::clone(&storage.rig);
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    dataset.get(0).unwrap();
    let before = faults.operations.load(std::sync::atomic::Ordering::SeqCst);
    dataset.get_many(&(0..50).rev().collect::<Vec<u64>>()).unwrap();
    assert_eq!(faults.operations.load(std::sync::atomic::Ordering::SeqCst) - before, 1);
}

#[test]
fn streams_in_stored_order() {
    let disk = OnDisk::new(&[5, 0, 1, 90]);
    let dataset = Dataset::open(disk.path()).unwrap();
    let mut stream = dataset.stream().unwrap();
    let mut index = 0;
    while let Some(record) = stream.next_record() {
        assert_same(&record.unwrap(), index, &disk.samples[index as usize]);
        index += 1;
    }
    assert_eq!(index, 96);
    assert!(stream.next_record().is_none());
    for (i, sample) in dataset.iter().unwrap().enumerate() {
        assert_same(&sample.unwrap().view(), i as u64, &disk.samples[i]);
    }
}

#[test]
fn a_stream_continues_after_damage() {
    let disk = OnDisk::new(&[5, 3, 4]);
    disk.edit(0, |bytes| bytes[64 + 80] ^= 1);
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    let dataset = Dataset::open(disk.path()).unwrap();
    let results: Vec<_> = dataset.iter().unwrap().collect();
    let whole: Vec<u64> = results.iter().flatten().map(|s| s.index()).collect();
    assert_eq!(whole, [1, 2, 3, 4, 8, 9, 10, 11]);
    let errors: Vec<String> = results.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].contains("record 0") && errors[0].contains(&disk.samples[0].key), "{}", errors[0]);
    assert!(errors[0].contains("shard-00000.shard") && errors[0].contains("offset 64"), "{}", errors[0]);
    assert!(errors[1].contains("shard-00001.shard"), "{}", errors[1]);
}

#[test]
fn records_over_the_limit_are_refused_before_they_are_read() {
    let disk = OnDisk::new(&[3]);
    let limits = Limits { max_record_bytes: 300, ..Limits::default() };
    let dataset = DatasetOptions::new().limits(limits.clone()).open(disk.path()).unwrap();
    assert_eq!(error_kind(&dataset.get(0)), Some(ErrorKind::Limit));
    assert_eq!(error_kind(&dataset.get_many(&[0, 1])), Some(ErrorKind::Limit));
    assert_eq!(error_kind(&dataset.iter().unwrap().next().unwrap()), Some(ErrorKind::Limit));
    let limits = Limits { max_index_bytes: 64, ..limits };
    let options = ShardOptions { limits, ..ShardOptions::default() };
    assert_eq!(error_kind(&Shard::open(disk.shard_path(0), options)), Some(ErrorKind::Limit));
}

#[test]
fn crc_checks_can_be_turned_off() {
    let disk = OnDisk::new(&[1]);
    let text_at = 64 + disk.samples[0].key.len();
    // Change the last byte of the record's array. Only the CRC32 covers it.
    disk.edit(0, |bytes| {
        let (_, index) = crate::support::index_of(bytes);
        let row = index.row(0).unwrap();
        bytes[(row.offset + row.length - 1) as usize] ^= 1;
    });
    assert!(text_at > 64);
    assert_eq!(error_kind(&Dataset::open(disk.path()).unwrap().get(0)), Some(ErrorKind::Format));
    let trusting = DatasetOptions::new().verify_crc(false).open(disk.path()).unwrap();
    assert_eq!(trusting.get(0).unwrap().key(), disk.samples[0].key);
}

#[test]
fn r09_more_shards_than_open_files() {
    let disk = OnDisk::new(&[2; 40]);
    let storage = RiggedStorage::of_folder(disk.path(), Faults { max_open: 8, ..Faults::new(Fault::None) });
    let faults = Arc::clone(&storage.rig);
    // The reader expects to open 256 files, but the storage allows only 8.
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    for round in 0..3 {
        for i in (0..80).rev() {
            let i = (i * 7 + round) % 80;
            assert_same(&dataset.get(i).unwrap().view(), i, &disk.samples[i as usize]);
        }
    }
    assert!(faults.open.load(std::sync::atomic::Ordering::SeqCst) <= 8);
}

#[test]
fn duplicate_keys_are_an_error_of_the_key_table() {
    let disk = OnDisk::new(&[2, 2]);
    let mut samples: Vec<TestSample> = (2..4).map(TestSample::new).collect();
    samples[1].key = disk.samples[0].key.clone();
    let bytes = crate::support::shard_with(
        shardpack_format::Identity::new(ID, 1),
        &samples,
        &crate::support::metadata(Some(2)),
    );
    std::fs::write(disk.shard_path(1), &bytes).unwrap();
    let mut manifest = disk.manifest.clone();
    manifest.shards[1] = crate::support::entry("shard-00001.shard", &bytes);
    disk.write_manifest(&manifest);
    let error = Dataset::open(disk.path()).unwrap().by_key("x").unwrap_err();
    assert!(error.to_string().contains(&disk.samples[0].key), "{error}");
}
