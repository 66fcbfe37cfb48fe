//! Tests datasets with added columns, on the fixture that every reader must accept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use shardpack_format::Explain as _;
use shardpack_reader::{Dataset, Error, Scalar};
use std::path::{Path, PathBuf};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/valid/added-columns")
}

/// Returns a copy of the fixture.
fn copy() -> tempfile::TempDir {
    let dir = crate::support::scratch();
    for entry in std::fs::read_dir(fixture()).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

#[test]
fn added_fields_follow_the_fields_of_the_shards() {
    let dataset = Dataset::open(fixture()).unwrap();
    let names: Vec<&str> = dataset.schema().fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names[names.len() - 3..], ["rank", "score", "embedding"]);
    assert_eq!(dataset.manifest().unwrap().schema.fields().len() + 3, names.len());
    assert!(!dataset.recipe().contains_key("shardpack_columns"));
    assert_eq!(dataset.column("rank").unwrap().bytes(), [2, 1, 0]);
    for i in 0..3 {
        let sample = dataset.get(i).unwrap();
        let id = sample.sample_id();
        assert_eq!(sample.scalar("rank").unwrap(), Scalar::Unsigned(id));
        assert_eq!(sample.scalar("score").unwrap(), Scalar::Float(id as f64));
        let expected: Vec<u8> = (0..3).flat_map(|n| ((id * 3 + n) as f32).to_le_bytes()).collect();
        assert_eq!(sample.array("embedding").unwrap().bytes(), expected);
        assert_eq!(sample.array("cube").unwrap().shape(), [2, 3, 2]);
    }
    let shard = dataset.shard(0).unwrap();
    let (cube, embedding) = (1, shard.schema().stored_position("embedding").unwrap());
    assert_eq!((shard.stored_at(cube), shard.added_at(cube)), (Some(1), None));
    assert_eq!((shard.stored_at(embedding), shard.added_at(embedding)), (None, Some((1, 0))));
    assert_eq!(shard.file_of(embedding).unwrap().0.path().file_name().unwrap(), "columns-00000-0003.shard");
    assert!(dataset.has_columns_files() && Dataset::concat(&[dataset]).unwrap().has_columns_files());
}

#[test]
fn a_shard_without_its_columns_file_is_not_read() {
    let dir = copy();
    std::fs::remove_file(dir.path().join("columns-00001-0002.shard")).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert!(dataset.get(0).is_ok());
    let error = dataset.get(2).unwrap_err();
    assert!(matches!(&error, Error::Io { .. }) && error.to_string().contains("columns-00001-0002.shard"), "{error}");
    // The file of the other shard has other samples.
    std::fs::copy(dir.path().join("columns-00000-0002.shard"), dir.path().join("columns-00001-0002.shard")).unwrap();
    let error = Dataset::open(dir.path()).unwrap().column("rank").unwrap_err();
    assert!(error.kind().is_about_data(), "{error}");
}
