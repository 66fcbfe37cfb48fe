//! Creates notes on folders that do not look like classes.

use crate::content::SourceKind;
use crate::listing::LabelsFrom;
use crate::words::{list, plural, verb};
use shardpack_format::{Hint, Note, Setting};
use shardpack_reader::mask_names;
use std::collections::{BTreeMap, BTreeSet};

const SPLITS: &[&str] =
    &["train", "training", "trn", "val", "valid", "validation", "dev", "test", "testing", "eval", "holdout"];

/// Common names of sample folders that have folders of masks or labels next to them.
const INPUTS: &[&str] =
    &["image", "images", "img", "imgs", "picture", "pictures", "photos", "jpegimages", "cube", "cubes", "data"];

const NAMED: usize = 8;

/// Returns true if the folder name suggests masks or labels instead of samples.
fn is_truth(name: &str) -> bool {
    // Pictures in `target` may be masks or inputs of a model, so the folder only gets a note.
    mask_names::is_whole(name) || is_one_of(&["target", "targets"], name)
}

/// Returns true if the folder has a common name of a split, such as `train`, `Val` or `test2017`.
pub(super) fn is_split(name: &str) -> bool {
    is_one_of(SPLITS, name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn is_one_of(words: &[&str], name: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(name))
}

pub(super) struct Folders<'a> {
    pub(super) kind: SourceKind,
    /// First-level folders with samples, or all first-level folders if each is a class.
    pub(super) names: &'a [String],
    pub(super) keys: &'a [&'a str],
    pub(super) labels: &'a LabelsFrom,
    /// True if the user has decided whether folders are classes.
    pub(super) chosen: bool,
    pub(super) src: &'a str,
}

impl Folders<'_> {
    pub(super) fn notes(&self) -> Vec<Note> {
        let known = |is_known: &dyn Fn(&str) -> bool| -> Vec<&str> {
            self.names.iter().map(String::as_str).filter(|name| is_known(name)).collect()
        };
        let (splits, truths) = (known(&is_split), known(&is_truth));
        let inputs = known(&|name| is_one_of(INPUTS, name));
        let by_folder = *self.labels == LabelsFrom::Folders;
        let mut notes = Vec::new();
        notes.extend(self.splits(&splits));
        let others = known(&|name| !is_truth(name) && !is_split(name));
        // With class folders, `mask` and `nothing` may be the names of classes. Only usual names of
        // sample folders, such as `images`, then show that the folders next to them contain masks.
        let samples = if inputs.is_empty() && !by_folder { &others } else { &inputs };
        if !truths.is_empty() && !samples.is_empty() {
            notes.push(self.parts("", samples, &truths));
        } else if by_folder && !(inputs.is_empty() && truths.is_empty()) {
            let names = list(inputs.iter().chain(&truths).copied(), NAMED);
            let look = verb(
                (inputs.len() + truths.len()) as u64,
                "looks like a part of a dataset, not a class",
                "look like parts of a dataset, not classes",
            );
            let note = format!("labels are taken from folder names, but {names} {look}");
            let hint = Hint::new("pack only the folder with the samples, or pass ").and([no_classes()]);
            notes.push(Note::new(note).with_hint(hint));
        }
        notes.extend(self.parts_within());
        if by_folder && notes.is_empty() {
            notes.extend(self.one_class());
        }
        if notes.is_empty() && truths.is_empty() {
            notes.extend(self.no_labels());
        }
        notes
    }

    fn splits(&self, splits: &[&str]) -> Option<Note> {
        let first = splits.first()?.escape_debug();
        let names = list(splits.iter().copied(), NAMED);
        let hint = Hint::new("pass ").and([Setting::on("splits")]).then(format!(
            " to pack each folder into a separate dataset (such as `OUT/{first}`), all with the same classes"
        ));
        let look = |one, several| verb(splits.len() as u64, one, several);
        match (self.labels, self.kind) {
            (LabelsFrom::Folders, _) => {
                let look = look("looks like a split, not a class", "look like splits, not classes");
                let note = format!("labels are taken from folder names, but {names} {look}");
                Some(Note::new(note).with_hint(hint.then(", or pass ").and([no_classes()])))
            }
            // Pictures without labels need no note, because the user chose to have no labels.
            (LabelsFrom::Nothing, SourceKind::Cubes) if !self.chosen => {
                let look = look(
                    "looks like a split of a dataset, but is not packed as one",
                    "look like splits of a dataset, but are packed into one dataset",
                );
                let note = format!("{names} {look}");
                Some(Note::new(note).with_hint(hint))
            }
            _ => None,
        }
    }

    /// Returns a note on folders of samples and folders of masks or labels inside the folder `under`.
    fn parts(&self, under: &str, samples: &[&str], truths: &[&str]) -> Note {
        let shown = |names: &[&str]| {
            let names: Vec<String> = names.iter().take(NAMED + 1).map(|name| format!("{under}{name}")).collect();
            list(names.iter().map(String::as_str), NAMED)
        };
        let first = |names: &[&str]| {
            let name = names.first().copied().unwrap_or_default();
            format!("{}/{}{}", self.src, under.escape_debug(), name.escape_debug())
        };
        let note = format!(
            "files in {} and in {} are all packed as samples, but those in {} look like masks or labels for the others",
            shown(samples),
            shown(truths),
            shown(truths),
        );
        let hint = Hint::new(format!("pack `{}` with ", first(samples)));
        Note::new(note).with_hint(hint.and([Setting::word("masks", first(truths))]))
    }

    /// Returns a note on the first folder with both samples and masks or labels, such as `train/images` and
    /// `train/labels`.
    fn parts_within(&self) -> Option<Note> {
        let mut within: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for key in self.keys {
            let mut parts = key.split('/');
            if let (Some(first), Some(second), Some(_)) = (parts.next(), parts.next(), parts.next()) {
                within.entry(first).or_default().insert(second);
            }
        }
        within.into_iter().find_map(|(folder, names)| {
            let (truths, samples): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_truth(name));
            let told = !truths.is_empty() && !samples.is_empty();
            told.then(|| self.parts(&format!("{folder}/"), &samples, &truths))
        })
    }

    fn one_class(&self) -> Option<Note> {
        let folder = |key: &str| key.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let mut common = folder(self.keys.first()?)?;
        for key in self.keys {
            while !key.strip_prefix(common.as_str()).is_some_and(|rest| rest.starts_with('/')) {
                common = folder(&common)?;
            }
        }
        let below = self.keys.iter().map(|key| Some(key.get(common.len() + 1..)?.split_once('/')?.0));
        let names = below.collect::<Option<BTreeSet<&str>>>()?;
        (names.len() > 1).then(|| {
            let class = common.split('/').next().unwrap_or_default();
            let (folders, named) = (plural(names.len() as u64, "folder"), list(names.iter().copied(), NAMED));
            let note = format!(
                "all samples get the class `{}`, because labels are the names of the first-level folders, but the \
                 samples are in {folders} below it ({named})",
                class.escape_debug()
            );
            Note::new(note).with_hint(format!(
                "pack `{}/{}` instead, which contains these folders",
                self.src,
                common.escape_debug()
            ))
        })
    }

    /// Returns a note if cubes are in folders whose names are not used as labels. For cubes, folder
    /// names become labels only on request.
    fn no_labels(&self) -> Option<Note> {
        let in_folders = self.keys.iter().all(|key| key.contains('/'));
        let is_told = self.kind == SourceKind::Cubes && *self.labels == LabelsFrom::Nothing && !self.chosen;
        (is_told && in_folders && self.names.len() > 1).then(|| {
            let note = format!(
                "no labels: the cubes are in {}, but by default the names of folders with cubes are not used as \
                 classes ({})",
                plural(self.names.len() as u64, "folder"),
                list(self.names.iter().map(String::as_str), NAMED)
            );
            let hint = Hint::new("pass ").and([Setting::word("class_folders", "on")]).then(" to use these names, or ");
            Note::new(note).with_hint(hint.and([Setting::any("labels", "FILE")]))
        })
    }
}

fn no_classes() -> Setting {
    Setting::word("class_folders", "off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Jpeg, npy, put};
    use crate::{SourceOptions, enumerate};
    use shardpack_format::Voice;

    fn notes(files: &[(&str, Vec<u8>)], options: &SourceOptions) -> (String, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        files.iter().for_each(|(path, bytes)| put(root.path(), path, bytes));
        let listing = enumerate(root.path(), options).unwrap();
        (listing.labels_from.to_string(), listing.notes.iter().map(|note| note.told(Voice::Command)).collect())
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
        assert!(told[0].contains("`Val`, `train` look like splits, not classes"), "{told:?}");
        let off = SourceOptions { class_folders: Some(false), ..SourceOptions::default() };
        assert_eq!(notes(&files, &off), ("none".to_owned(), Vec::new()));
        // Without other evidence, classes may have any name.
        assert_eq!(notes(&[("cat/a.jpg", jpeg()), ("dog/b.jpg", jpeg())], &SourceOptions::default()).1, [""; 0]);
    }

    #[test]
    fn images_and_labels_are_no_samples_alike() {
        for (kind, file) in [("npy", npy()), ("jpg", jpeg())] {
            let files = [(format!("images/a.{kind}"), file.clone()), (format!("labels/a.{kind}"), file)];
            let files: Vec<_> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
            let (_, told) = notes(&files, &SourceOptions::default());
            assert_eq!(told.len(), 1, "{told:?}");
            let text = "files in `images` and in `labels` are all packed as samples, but those in `labels` \
                        look like masks or labels";
            assert!(told[0].starts_with(text), "{told:?}");
            assert!(told[0].ends_with("hint: pack `SRC/images` with `--masks SRC/labels`"), "{told:?}");
        }
    }

    fn of_cubes(paths: &[&str], options: &SourceOptions) -> Vec<String> {
        notes(&paths.iter().map(|path| (*path, npy())).collect::<Vec<_>>(), options).1
    }

    #[test]
    fn splits_of_cubes_get_a_note_and_are_not_offered_as_classes() {
        let paths = ["train/a.npy", "val/b.npy"];
        let told = of_cubes(&paths, &SourceOptions::default());
        let text = "`train`, `val` look like splits of a dataset, but are packed into one dataset\nhint: pass \
                    `--splits` to pack each folder into a separate dataset (such as `OUT/train`), all with the same \
                    classes";
        assert_eq!(told, [text]);
        for class_folders in [false, true] {
            let options = SourceOptions { class_folders: Some(class_folders), ..SourceOptions::default() };
            assert_eq!(of_cubes(&paths, &options).len(), usize::from(class_folders));
        }
    }

    #[test]
    fn labels_next_to_folders_of_any_name_get_a_note() {
        let told = of_cubes(&["labels/a.npy", "scans/a.npy"], &SourceOptions::default());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("files in `scans` and in `labels` are all packed as samples"), "{told:?}");
        assert!(told[0].ends_with("hint: pack `SRC/scans` with `--masks SRC/labels`"), "{told:?}");
        // A class folder whose name suggests masks gets a note.
        let classes = notes(&[("mask/a.jpg", jpeg()), ("bare/b.jpg", jpeg())], &SourceOptions::default()).1;
        assert!(classes[0].contains("`mask` looks like a part of a dataset, not a class"), "{classes:?}");
    }

    #[test]
    fn labels_within_folders_get_a_note() {
        let paths = ["train/images/a.npy", "train/labels/a.npy", "val/images/b.npy", "val/labels/b.npy"];
        let told = of_cubes(&paths, &SourceOptions::default());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("splits of a dataset"), "{told:?}");
        assert!(told[1].starts_with("files in `train/images` and in `train/labels` are all packed"), "{told:?}");
        assert!(told[1].ends_with("hint: pack `SRC/train/images` with `--masks SRC/train/labels`"), "{told:?}");
        let told = of_cubes(&["land/scenes/a.npy", "land/label_maps/a.npy"], &SourceOptions::default());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told.iter().all(|note| !note.contains("--class-folders on")), "{told:?}");
        // Neither folder is named like a folder of masks, so there is no note.
        assert_eq!(of_cubes(&["land/a/a.npy", "land/b/a.npy"], &SourceOptions::default()), [""; 0]);
    }

    #[test]
    fn cubes_in_folders_have_no_labels_but_a_note() {
        let files = [("p1/a.npy", npy()), ("p2/b.npy", npy())];
        let (from, told) = notes(&files, &SourceOptions::default());
        assert_eq!((from.as_str(), told.len()), ("none", 1));
        assert!(told[0].starts_with("no labels: the cubes are in 2 folders"), "{told:?}");
        let on = SourceOptions { class_folders: Some(true), ..SourceOptions::default() };
        assert_eq!(notes(&files, &on), ("the names of the first-level folders".to_owned(), Vec::new()));
        assert_eq!(notes(&[("p1/a.npy", npy())], &SourceOptions::default()).1, [""; 0]);
    }

    #[test]
    fn one_class_above_the_folders_gets_a_note() {
        let told = |paths: &[&str]| {
            let files: Vec<_> = paths.iter().map(|path| (*path, jpeg())).collect();
            notes(&files, &SourceOptions::default()).1
        };
        assert_eq!(
            told(&["x/y/cat/1.jpg", "x/y/dog/1.jpg", "x/y/dog/deep/2.jpg"]),
            ["all samples get the class `x`, because labels are the names of the first-level folders, but the \
                 samples are in 2 folders below it (`cat`, `dog`)\n\
                 hint: pack `SRC/x/y` instead, which contains these folders"]
        );
        // These sources get no note. Each has a single class folder, and its samples are not all in
        // several subfolders.
        for paths in [&["x/1.jpg", "x/2.jpg"][..], &["x/y/1.jpg"], &["x/1.jpg", "x/y/2.jpg", "x/z/2.jpg"]] {
            assert_eq!(told(paths), [""; 0], "{paths:?}");
        }
        assert_eq!(told(&["x/cat/1.jpg", "y/dog/1.jpg"]), [""; 0]);
    }

    #[test]
    fn a_picture_outside_the_class_folders_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        for path in ["cat/1.jpg", "dog/1.jpg", "stray.jpg"] {
            put(root.path(), path, jpeg());
        }
        let list = |options: &SourceOptions| enumerate(root.path(), options);
        let Err(crate::SourceError::BadInputs(bad)) = list(&SourceOptions::default()) else { panic!() };
        assert!(bad.to_string().contains("`stray.jpg`: this sample is not in any class folder"), "{bad}");
        let hints: Vec<_> = bad.hints().iter().map(|hint| hint.told(Voice::Command)).collect();
        let off = "move the sample into the folder for its class, or pass `--class-folders off` to pack all samples \
             without labels";
        assert_eq!(hints, [off, "pass `--on-bad-input skip` to skip these files and pack the others"]);
        let skip = SourceOptions { on_bad_input: crate::OnBadInput::Skip, ..SourceOptions::default() };
        assert_eq!(list(&skip).unwrap().classes, ["cat", "dog"]);
        let off = SourceOptions { class_folders: Some(false), ..SourceOptions::default() };
        assert_eq!(list(&off).unwrap().samples.len(), 3);
        // With a picture next to the folders, the folders are classes only if the user says so.
        put(root.path(), "other.jpg", jpeg());
        assert_eq!(list(&SourceOptions::default()).unwrap().classes, [""; 0]);
        let on = SourceOptions { class_folders: Some(true), ..SourceOptions::default() };
        assert!(list(&on).unwrap_err().to_string().contains("not in a class folder: 2"));
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
            assert_eq!(listing.notes, []);
        }
    }
}
