//! Tests datasets with damaged records, a wrong index, missing values, or batches that exceed the limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, RowOf, base, said};
use shardpack_format::{Limits, Voice, told};
use shardpack_jpeg::View;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{CubeMode, ImageMode, Loader, LoaderOptions, OnCorrupt, PatchPlace};
use shardpack_reader::DatasetOptions;

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).mode(Mode::Stored).end(End::Uneven)
}

#[test]
fn a_damaged_record_is_named_and_the_loader_continues() {
    let disk = Disk::alike(&[32]);
    disk.hurt(10);
    disk.hurt(13);
    let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
    for number in 0..8_u64 {
        let batch = loader.next_batch().unwrap();
        if number == 2 || number == 3 {
            let text = batch.unwrap_err().to_string();
            let (record, key) = if number == 2 { (10, "sample-00010") } else { (13, "sample-00013") };
            assert!(text.contains("shard-00000.shard"), "{text}");
            assert!(text.contains(&format!("record {record}, sample `{key}`")) && text.contains("CRC32"), "{text}");
        } else {
            assert_eq!(batch.unwrap().indices(), (number * 4..number * 4 + 4).collect::<Vec<_>>());
        }
    }
    assert!(loader.next_batch().is_none());
    assert_eq!(loader.stats().skipped, 0);
}

#[test]
fn damaged_records_can_be_skipped_up_to_a_count() {
    let disk = Disk::varied(&[32]);
    for id in [3, 10, 13, 14] {
        disk.hurt(id);
    }
    let on_corrupt = OnCorrupt::Skip { max: 3 };
    let mut loader = Loader::open(&disk.open(), options(8).on_corrupt(on_corrupt)).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    assert_eq!(first.mask(), [true, true, true, false, true, true, true, true]);
    assert!(first.field("cube").unwrap().row_of(3).is_empty(), "a ragged row without a sample is empty");
    assert!(first.field("label").unwrap().row_of(3).iter().all(|&b| b == 0));
    assert_eq!(loader.stats().skipped, 1);
    let text = loader.next_batch().unwrap().unwrap_err().to_string();
    assert!(text.contains("sample-00014"), "the first one that is too much is named: {text}");
    assert_eq!(loader.next_batch().unwrap().unwrap().mask(), [true; 8]);
}

#[test]
fn an_index_that_lies_is_an_error_of_its_row() {
    let lie = |said_height| {
        Disk::new(&[12], move |id| Made {
            id,
            height: 16,
            width: 8 + id as u32,
            said_height: if id == 5 { said_height } else { 16 },
            half: false,
        })
    };
    let of = |field: &str| options(4).fields([field.to_owned()]);
    // The index states a height that is slightly too large, too small, too large for the record, or too large for any
    // row. A record of this length cannot hold a picture of this size. It could hold an array of this size, because
    // equal elements take only a few stored bytes, so arrays are checked against a different limit.
    for (said, words, options) in [
        (17, "the picture decodes to 624 bytes (16 × 13 × 3), but the index says 663 bytes", options(4)),
        (8, "the index", options(4)),
        (1 << 22, "max_expansion", of("image")),
        (1 << 23, "max_run_bytes", of("cube")),
        (u32::MAX, "max_decoded_bytes", options(4)),
    ] {
        let disk = lie(said);
        let mut loader = Loader::open(&disk.open(), options).unwrap();
        assert!(loader.next_batch().unwrap().is_ok());
        let error = loader.next_batch().unwrap().unwrap_err();
        let text = told(&error, &error.hint(), Voice::Command);
        assert!(text.contains("sample-00005") && text.contains(words), "{said}: {text}");
        assert!(loader.next_batch().unwrap().is_ok());
    }
}

#[test]
fn bytes_count_as_they_are_stored() {
    // A cube of float16, loaded as float32, is larger than its record. The limits on expansion must compare the record
    // with the stored elements instead, or they would refuse the cube.
    let limits = Limits { max_run_bytes: 1, max_expansion: 1, ..Limits::default() };
    let disk = Disk::new(&[4], |id| Made { id, height: 64, width: 64, said_height: 64, half: true });
    let dataset = DatasetOptions::new().limits(limits).open(disk.dir.path()).unwrap();
    let mut loader = Loader::open(&dataset, options(4).fields(["cube"])).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.field("cube").unwrap().row_of(0).len(), 64 * 64 * 3 * 4);
}

#[test]
fn a_batch_over_the_limit_is_refused_before_memory_is_taken() {
    let disk = Disk::alike(&[16]);
    let with = |fields: &[&str], batch_size| options(batch_size).max_batch_bytes(3_000).fields(fields.iter().copied());
    // Sizes that are known in advance are checked when the loader opens: here 8 cubes of 16 × 24 × 3 uint16.
    let text = said(&Loader::open(&disk.open(), with(&["cube"], 8)).unwrap_err());
    assert!(
        text.contains("max_batch_bytes") && text.contains("a batch of 8 rows needs 18432 bytes, but the limit is 3000"),
        "{text}"
    );
    // Sizes that depend on the samples are checked with the batch: here whole pictures of 1,152 bytes.
    let mut loader = Loader::open(&disk.open(), with(&["image"], 8)).unwrap();
    for _ in 0..2 {
        let text = said(&loader.next_batch().unwrap().unwrap_err());
        assert!(text.contains("max_batch_bytes"), "{text}");
    }
    assert!(loader.next_batch().is_none());
    assert!(Loader::open(&disk.open(), with(&["cube"], 1)).unwrap().next_batch().unwrap().is_ok());
}

#[test]
fn absurd_batch_sizes_are_refused_or_take_no_extra_memory() {
    let disk = Disk::alike(&[16]);
    let view = ImageMode::View(View::center_crop(1 << 20, 1 << 15));
    for end in [End::Drop, End::Uneven, End::Pad] {
        let options = options(u32::MAX).image(view).end(end);
        let text = said(&Loader::open(&disk.open(), options).unwrap_err());
        assert!(text.contains("max_batch_bytes"), "{text}");
    }
    let mut loader = Loader::open(&disk.open(), options(u32::MAX)).unwrap();
    assert!(loader.predicted_bytes() < 64 << 20, "{}", loader.predicted_bytes());
    assert_eq!(loader.next_batch().unwrap().unwrap().len(), 16);
}

#[test]
fn batches_that_no_epoch_fills_are_refused_where_the_rest_is_dropped() {
    let disk = Disk::alike(&[10, 6]);
    let dataset = disk.open();
    let drop = |batch_size, world_size| options(batch_size).end(End::Drop).world_size(world_size);
    for (batch_size, world_size, found) in
        [(17, 1, "needs 17 samples"), (5000, 1, "needs 5000 samples"), (9, 2, "needs 9 samples on each of 2 ranks")]
    {
        let error = Loader::open(&dataset, drop(batch_size, world_size)).unwrap_err();
        let text = told(&error, &error.hint(), Voice::Python);
        assert!(text.contains("but an epoch has only 16\nhint: ") && text.contains(found), "{text}");
        assert!(
            text.starts_with("every batch would be dropped: ")
                && text.contains("\nhint: keep incomplete batches with end=\"pad\""),
            "{text}"
        );
    }
    assert_eq!(Loader::open(&dataset, drop(16, 1)).unwrap().len(), 1);
    assert_eq!(Loader::open(&dataset, drop(8, 2)).unwrap().len(), 1);
    for end in [End::Pad, End::Uneven] {
        assert_eq!(Loader::open(&dataset, options(5000).end(end)).unwrap().len(), 1);
    }
}

#[test]
fn missing_values_are_zero_and_masked() {
    let disk = Disk::varied(&[12]);
    let other = crate::support::scratch();
    crate::loader_support::write(other.path(), &crate::loader_support::schema(), &[12], |schema, shard, id| {
        disk.samples[id as usize].record_with(schema, shard, id % 3 != 1)
    });
    let dataset = DatasetOptions::new().open(other.path()).unwrap();
    let mut loader = Loader::open(&dataset, options(12)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.mask(), [true; 12], "no sample is skipped");
    let cube = batch.field("cube").unwrap();
    assert_eq!(cube.mask().collect::<Vec<_>>(), (0..12).map(|id| id % 3 != 1).collect::<Vec<_>>());
    assert!(batch.field("image").unwrap().mask().all(|there| there));
    for (row, made) in disk.samples.iter().enumerate() {
        let expected = if row % 3 == 1 { Vec::new() } else { made.cube() };
        assert_eq!(cube.row_of(row), expected, "row {row}");
    }
    let cube = CubeMode::Patch { height: 4, width: 4, place: PatchPlace::Center };
    let mut loader = Loader::open(&dataset, options(12).cube(cube)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let cube = batch.field("cube").unwrap();
    assert_eq!(cube.mask().filter(|&there| there).count(), 8);
    assert_eq!(cube.row_of(4), [0; 96]);
}

#[test]
fn a_first_sample_that_is_damaged_can_be_skipped() {
    let disk = Disk::alike(&[32]);
    disk.hurt(0);
    let skip = options(4).on_corrupt(OnCorrupt::Skip { max: 5 });
    let mut loader = Loader::open(&disk.open(), skip).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    assert_eq!(first.mask(), [false, true, true, true]);
}
