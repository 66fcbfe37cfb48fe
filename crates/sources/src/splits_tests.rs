//! Tests which samples, shared classes and notes a source with splits has.

use super::*;
use crate::OnBadInput;
use crate::testing::{Jpeg, npy, put};
use shardpack_format::Voice;

fn told(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| note.told(Voice::Command)).collect()
}

fn jpeg() -> Vec<u8> {
    Jpeg::default().bytes()
}

fn tree(paths: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for path in paths {
        put(root.path(), path, if path.ends_with(".npy") { npy() } else { jpeg() });
    }
    root
}

fn splits(paths: &[&str]) -> Splits {
    enumerate(tree(paths).path(), &SourceOptions::default()).unwrap()
}

fn labels(split: &Split) -> Vec<(&str, Option<u32>)> {
    split.listing.samples.iter().map(|sample| (sample.key.as_str(), sample.class)).collect()
}

#[test]
fn classes_have_the_same_numbers_in_every_split() {
    let found = splits(&["train/ant/1.jpg", "train/cat/2.jpg", "train-b/bee/3.jpg", "val/cat/4.jpg"]);
    let names: Vec<_> = found.splits.iter().map(|split| split.name.as_str()).collect();
    assert_eq!(names, ["train", "train-b", "val"]);
    for split in &found.splits {
        assert_eq!(split.listing.classes, ["ant", "bee", "cat"]);
        assert_eq!(split.listing.labels_from, LabelsFrom::Folders);
        assert!(split.listing.samples.iter().all(|sample| split.listing.path(sample).is_absolute()));
        assert!(split.listing.root.ends_with(&split.name));
    }
    assert_eq!(labels(&found.splits[0]), [("ant/1.jpg", Some(0)), ("cat/2.jpg", Some(2))]);
    assert_eq!(labels(&found.splits[2]), [("cat/4.jpg", Some(2))]);
    assert_eq!(told(&found.notes), [""; 0]);
}

#[test]
fn a_flat_split_has_no_labels_but_a_note() {
    let found = splits(&["test/1.jpg", "train/ant/1.jpg", "train/bee/1.jpg"]);
    assert_eq!(labels(&found.splits[0]), [("1.jpg", None)]);
    assert!(found.splits[0].listing.classes.is_empty());
    assert_eq!(found.splits[1].listing.classes, ["ant", "bee"]);
    assert_eq!(told(&found.notes), ["`test`: no labels: the samples are not in class folders"]);
    let mixed = splits(&["test/a/1.jpg", "test/1.jpg", "train/a/1.jpg"]);
    assert_eq!(
        told(&mixed.notes),
        ["`test`: folder names are not used as labels: 1 sample is in folders, but 1 is not"]
    );
}

#[test]
fn folders_and_files_that_are_no_splits_get_a_note() {
    let root = tree(&["train/a/1.jpg", "val/a/1.jpg"]);
    put(root.path(), "annotations/train.json", "[]");
    std::fs::create_dir_all(root.path().join("train/empty")).unwrap();
    let found = enumerate(root.path(), &SourceOptions::default()).unwrap();
    let told: Vec<_> = found.notes.iter().map(|note| note.text.as_str()).collect();
    let expected = [
        "`annotations` is not packed: no samples were found there",
        "ignored 1 file that is not a sample: `annotations/train.json`",
        "1 class has no samples in any split: `empty`",
    ];
    assert_eq!(told, expected);

    put(root.path(), "beside.jpg", jpeg());
    let error = enumerate(root.path(), &SourceOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`beside.jpg`: this sample is not in any split"), "{error}");
    put(root.path(), "val/a/bad.bin", "what is this");
    let skip = SourceOptions { on_bad_input: OnBadInput::Skip, ..SourceOptions::default() };
    let found = enumerate(root.path(), &skip).unwrap();
    assert_eq!(found.bad.iter().map(|bad| bad.key.as_str()).collect::<Vec<_>>(), ["beside.jpg"]);
    assert_eq!(found.splits[0].listing.bad, []);
    assert_eq!(found.splits[1].listing.bad[0].key, "a/bad.bin");

    let classes = splits(&["ant/1.jpg", "bee/1.jpg"]);
    assert!(classes.notes[0].text.contains("none is named like a split: `ant`, `bee`"), "{:?}", classes.notes);
    let file = enumerate(&root.path().join("beside.jpg"), &SourceOptions::default()).unwrap_err().to_string();
    assert!(file.ends_with("expected a folder with a subfolder for each split, found a file"), "{file}");
}

#[test]
fn a_split_with_only_bad_input_differs_from_a_folder_without_samples() {
    let root = tree(&["train/1.jpg", "val/1.jpg"]);
    put(root.path(), "test/1.jpg", b"\xff\xd8\xff");
    std::fs::create_dir(root.path().join("empty")).unwrap();
    let skip = SourceOptions { on_bad_input: OnBadInput::Skip, ..SourceOptions::default() };
    let found = enumerate(root.path(), &skip).unwrap();
    assert_eq!(found.bad.iter().map(|bad| bad.key.as_str()).collect::<Vec<_>>(), ["test/1.jpg"]);
    let expected = [
        "`test` is not packed, because none of its files can be packed",
        "`empty` is not packed: no samples were found there",
    ];
    let notes: Vec<String> = found.notes.iter().map(|note| note.text.clone()).collect();
    assert_eq!(notes, expected);
}

#[test]
fn a_table_labels_all_splits() {
    let root = tree(&["train/1.jpg", "train/2.jpg", "val/1.jpg"]);
    let table = root.path().join("labels.csv");
    std::fs::write(&table, "key,label,age\nval/1.jpg,bee,3\ntrain/2.jpg,ant,2\ntrain/1.jpg,bee,1\n").unwrap();
    let options = SourceOptions { labels: Some(table), ..SourceOptions::default() };
    let found = enumerate(root.path(), &options).unwrap();
    assert_eq!(labels(&found.splits[0]), [("1.jpg", Some(1)), ("2.jpg", Some(0))]);
    assert_eq!(labels(&found.splits[1]), [("1.jpg", Some(1))]);
    assert_eq!(found.splits[1].listing.classes, ["ant", "bee"]);
    assert_eq!(found.splits[1].listing.columns[0].values, crate::ColumnValues::Int(vec![3]));
}

#[test]
fn notes_name_possible_masks_of_cubes() {
    let found = splits(&["train/images/1.npy", "train/labels/1.npy", "val/images/1.npy"]);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(
        told(&found.notes)[0].starts_with("`train`: files in `images` and in `labels` are all packed"),
        "{found:?}"
    );
    assert!(
        told(&found.notes)[0].ends_with("hint: pack `SRC/train/images` with `--masks SRC/train/labels`"),
        "{found:?}"
    );
}
