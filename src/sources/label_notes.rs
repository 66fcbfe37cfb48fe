//! Where labels came from, and folders whose names suggest that they are not classes.

use super::kind::Kind;
use super::words::{list, plural};
use std::fmt;
use std::path::PathBuf;

/// Where the labels of a listing came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelsFrom {
    /// There are none.
    #[default]
    Nothing,
    /// The names of the first-level folders.
    Folders,
    /// A column of the table of labels.
    Column {
        /// The table.
        table: PathBuf,
        /// The column: `label`, or `class`.
        column: String,
    },
}

impl fmt::Display for LabelsFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Folders => f.write_str("the names of the first-level folders"),
            Self::Column { table, column } => {
                let table = table.to_string_lossy();
                write!(f, "the column `{}` of `{}`", column.escape_debug(), table.escape_debug())
            }
        }
    }
}

/// Names of splits of a dataset.
const SPLITS: &[&str] =
    &["train", "training", "trn", "val", "valid", "validation", "dev", "test", "testing", "eval", "holdout"];

/// Names of parts of samples that are not samples themselves.
const TRUTHS: &[&str] = &[
    "label",
    "labels",
    "mask",
    "masks",
    "annotation",
    "annotations",
    "gt",
    "ground_truth",
    "groundtruth",
    "ground-truth",
    "segmentation",
    "segmentations",
    "target",
    "targets",
];

/// Names of folders that hold the samples next to those parts.
const INPUTS: &[&str] =
    &["image", "images", "img", "imgs", "picture", "pictures", "photos", "jpegimages", "cube", "cubes", "data"];

/// How many names are listed.
const NAMED: usize = 8;

/// What the user should know about the names of first-level `folders`, which hold samples.
pub(super) fn on_folders(kind: Kind, folders: &[String], labels: &LabelsFrom, in_folders: bool) -> Vec<String> {
    let named = |words: &[&str]| -> Vec<&str> {
        let known = |name: &&str| words.contains(&name.to_lowercase().as_str());
        folders.iter().map(String::as_str).filter(known).collect()
    };
    let (splits, truths, inputs) = (named(SPLITS), named(TRUTHS), named(INPUTS));
    let by_folder = *labels == LabelsFrom::Folders;
    let mut notes = Vec::new();
    if !splits.is_empty() && by_folder {
        notes.push(format!(
            "labels are the names of folders, and {} sound like splits of a dataset, not like classes\n\
             hint: pack each split into a dataset of its own: `SRC/{}`; or `--class-folders off`",
            list(splits.iter().copied(), NAMED),
            splits.first().copied().unwrap_or_default().escape_debug(),
        ));
    }
    if !truths.is_empty() && !inputs.is_empty() {
        let (samples, masks) = (list(inputs.iter().copied(), NAMED), list(truths.iter().copied(), NAMED));
        let next = match kind {
            Kind::Cubes => format!(
                "pack `SRC/{}` with `--masks SRC/{}`",
                inputs.first().copied().unwrap_or_default().escape_debug(),
                truths.first().copied().unwrap_or_default().escape_debug()
            ),
            Kind::Images => format!("pack `SRC/{}`", inputs.first().copied().unwrap_or_default().escape_debug()),
        };
        notes.push(format!(
            "files in {samples} and in {masks} became samples alike: those in {masks} sound like what belongs to the others\n\
             hint: {next}"
        ));
    } else if by_folder && !(inputs.is_empty() && truths.is_empty()) {
        let names = list(inputs.iter().chain(&truths).copied(), NAMED);
        notes.push(format!(
            "labels are the names of folders, and {names} sound like parts of a dataset, not like classes\n\
             hint: pack the folder with the samples, or `--class-folders off`"
        ));
    }
    if kind == Kind::Cubes && *labels == LabelsFrom::Nothing && in_folders && folders.len() > 1 && truths.is_empty() {
        notes.push(format!(
            "no labels: the cubes stand in {}, whose names are taken for classes only if you say so ({})\n\
             hint: `--class-folders on`, or `--labels FILE`",
            plural(folders.len() as u64, "folder"),
            list(folders.iter().map(String::as_str), NAMED)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{Jpeg, npy, put};
    use crate::sources::{SourceOptions, enumerate};

    fn notes(files: &[(&str, Vec<u8>)], options: &SourceOptions) -> (String, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        files.iter().for_each(|(path, bytes)| put(root.path(), path, bytes));
        let listing = enumerate(root.path(), options).unwrap();
        (listing.labels_from.to_string(), listing.notes)
    }

    fn jpeg() -> Vec<u8> {
        Jpeg::default().bytes()
    }

    #[test]
    fn splits_are_no_classes() {
        let files = [("train/a.jpg", jpeg()), ("Val/b.jpg", jpeg())];
        let (from, told) = notes(&files, &SourceOptions::default());
        assert_eq!(from, "the names of the first-level folders");
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("`Val`, `train` sound like splits of a dataset"), "{told:?}");
        let off = SourceOptions { class_folders: Some(false), ..SourceOptions::default() };
        assert_eq!(notes(&files, &off), ("none".to_owned(), Vec::new()));
        // Otherwise classes may have any name.
        assert_eq!(notes(&[("cat/a.jpg", jpeg()), ("dog/b.jpg", jpeg())], &SourceOptions::default()).1, [""; 0]);
    }

    #[test]
    fn images_and_labels_are_no_samples_alike() {
        for (kind, file) in [("npy", npy()), ("jpg", jpeg())] {
            let files = [(format!("images/a.{kind}"), file.clone()), (format!("labels/a.{kind}"), file)];
            let files: Vec<_> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
            let (_, told) = notes(&files, &SourceOptions::default());
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with("files in `images` and in `labels` became samples alike"), "{told:?}");
            assert_eq!(told[0].contains("`--masks SRC/labels`"), kind == "npy");
        }
    }

    #[test]
    fn cubes_in_folders_have_no_labels_and_that_is_told() {
        let files = [("p1/a.npy", npy()), ("p2/b.npy", npy())];
        let (from, told) = notes(&files, &SourceOptions::default());
        assert_eq!((from.as_str(), told.len()), ("none", 1));
        assert!(told[0].starts_with("no labels: the cubes stand in 2 folders"), "{told:?}");
        let on = SourceOptions { class_folders: Some(true), ..SourceOptions::default() };
        assert_eq!(notes(&files, &on), ("the names of the first-level folders".to_owned(), Vec::new()));
        assert_eq!(notes(&[("p1/a.npy", npy())], &SourceOptions::default()).1, [""; 0]);
    }

    #[test]
    fn a_table_is_named_with_its_column() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "train/a.jpg", jpeg());
        for (text, column) in [
            ("key,label\ntrain/a.jpg,x\n", "label"),
            ("key,class\ntrain/a.jpg,x\n", "class"),
            ("key,label\ntrain/a.jpg,3\n", "label"),
        ] {
            let table = root.path().join(".table.csv");
            std::fs::write(&table, text).unwrap();
            let listing =
                enumerate(root.path(), &SourceOptions { labels: Some(table.clone()), ..SourceOptions::default() })
                    .unwrap();
            assert_eq!(listing.labels_from, LabelsFrom::Column { table, column: column.to_owned() });
            assert_eq!(listing.notes, [""; 0]);
        }
    }
}
