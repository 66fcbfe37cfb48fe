//! Tests additions and removals by reading the resulting datasets.

mod columns;
mod known;
mod salvaged;
mod store_failures;
mod stores;

use super::*;
use crate::pack::{Hooks, PackOptions, pack};
use shardpack_format::{Explain, Voice};
use shardpack_reader::{VerifyOptions, verify};
use shardpack_sources::{OnBadInput, SourceKind, SourceOptions};
use shardpack_writer::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

struct Place {
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a real photo with a unique comment, to make every record different.
    fn photo(&self, path: &str, number: u8) {
        let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../jpeg/testdata/tiles.jpg")).unwrap();
        let comment = [&[0xFF, 0xFE, 0, 6], format!("n{number:03}").as_bytes()].concat();
        let bytes = [&bytes[..2], &comment, &bytes[2..]].concat();
        self.write(path, bytes);
    }

    fn photos(&self, first: u8, paths: &[&str]) {
        (first..).zip(paths).for_each(|(number, path)| self.photo(path, number));
    }

    fn cube(&self, path: &str, shape: [usize; 3], seed: f32) {
        let count: usize = shape.iter().product();
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape:?}, }}");
        let header = header.replace('[', "(").replace(']', ")");
        let mut bytes = b"\x93NUMPY\x01\0\x76\0".to_vec();
        bytes.extend(format!("{header:<117}\n").bytes());
        bytes.extend((0..count).flat_map(|i| (seed + (i as f32 * 0.013).sin()).to_le_bytes()));
        self.write(path, bytes);
    }

    fn touch(&self, path: &str, time: SystemTime) {
        fs::File::options().write(true).open(self.path(path)).unwrap().set_modified(time).unwrap();
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn pack(&self, options: &PackOptions) {
        hooked(|hooks| pack(&self.path("src"), &self.path("out"), options, hooks)).unwrap();
    }

    fn add(&self, src: &str, options: &AddOptions) -> crate::Result<AddReport> {
        hooked(|hooks| add(&self.path("out"), &self.path(src), options, hooks))
    }

    fn open(&self, generation: Option<u32>) -> Dataset {
        DatasetOptions::new().generation(generation).open(self.path("out")).unwrap()
    }

    fn verify(&self, newest: u32) {
        for generation in (1..=newest).map(Some).chain([None]) {
            let options = VerifyOptions { digest: true, generation, ..Default::default() };
            let report = verify(self.path("out"), &options).unwrap();
            assert!(report.is_whole(), "{generation:?}: {:?}", report.problems);
        }
    }
}

fn hooked<T>(work: impl FnOnce(&Hooks<'_>) -> T) -> T {
    let cancel = AtomicBool::new(false);
    work(&Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel })
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

fn labels(dataset: &Dataset) -> BTreeMap<String, i64> {
    let labels = dataset.labels().unwrap();
    (0..dataset.len()).map(|i| dataset.key(i).unwrap()).zip(labels).collect()
}

fn small() -> PackOptions {
    PackOptions { shard_bytes: 4096, threads: 2, ..PackOptions::default() }
}

fn kept() -> PackOptions {
    let pictures = shardpack_recipe::PictureOptions::Keep { segment_index: false };
    PackOptions { pictures, ..small() }
}

fn labelled(table: PathBuf) -> PackOptions {
    PackOptions { source: SourceOptions { labels: Some(table), ..SourceOptions::default() }, ..small() }
}

fn add_labelled(table: PathBuf) -> AddOptions {
    AddOptions { labels: Some(table), ..AddOptions::default() }
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn classes_keep_their_numbers_and_new_ones_come_behind() {
    let place = Place::new();
    place.photos(0, &["src/cat/1.jpg", "src/cat/2.jpg", "src/dog/1.jpg"]);
    place.pack(&small());
    let first = labels(&place.open(None));
    place.photos(10, &["week/ant/1.jpg", "week/dog/9.jpg"]);
    fs::create_dir_all(place.path("week/empty")).unwrap();
    let added = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((added.generation, added.samples, added.packed.report.samples), (2, 5, 2));
    assert_eq!(added.new_classes, ["ant"]);
    let newest = place.open(None);
    assert_eq!(newest.classes().unwrap(), ["cat", "dog", "ant"]);
    let all = labels(&newest);
    assert!(first.iter().all(|(key, label)| all.get(key) == Some(label)));
    assert_eq!((all["ant/1.jpg"], all["dog/9.jpg"]), (2, 1));
    assert_eq!(place.open(Some(1)).classes().unwrap(), ["cat", "dog"]);
    assert_eq!(labels(&place.open(Some(1))), first);
    assert_ne!(place.open(Some(1)).version_id(), newest.version_id());
    assert_eq!(place.open(Some(1)).version_id(), place.open(Some(1)).dataset_id());
    place.verify(2);
    let error = DatasetOptions::new().generation(Some(3)).open(place.path("out")).unwrap_err().to_string();
    assert!(error.ends_with("has no generation 3: the newest is 2"), "{error}");
    assert_eq!(newest.fidelity().unwrap()["image"]["samples"], 5);
    assert_eq!(newest.fidelity().unwrap()["image"]["source_bytes"], {
        let folders = ["src", "week"].map(|name| place.path(name));
        let files = folders.iter().flat_map(|folder| walk(folder));
        files.map(|file| fs::metadata(file).unwrap().len()).sum::<u64>()
    });
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn cubes_are_stored_by_the_settings_that_the_first_ones_were() {
    let place = Place::new();
    (0..4).for_each(|n| place.cube(&format!("src/{n}.npy"), [6, 5, 4], f32::from(n as u8)));
    place.pack(&small());
    let recipe = place.open(None).recipe().clone();
    // The new cubes must get the dataset's settings. A codec trial on these larger cubes alone
    // might choose different ones.
    (0..2).for_each(|n| place.cube(&format!("week/w{n}.npy"), [40, 30, 20], 0.5));
    let added = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((added.packed.kind, added.samples), (SourceKind::Cubes, 6));
    let newest = place.open(None);
    assert_eq!(newest.manifest().unwrap().shard_recipe(), recipe);
    let number = newest.shards().len() - 1;
    assert_eq!(newest.shard(number).unwrap().index().metadata().recipe, recipe);
    assert_eq!(newest.fidelity().unwrap()["cube"]["samples"], 6);
    place.verify(2);
}

#[test]
fn what_the_dataset_has_no_place_for_is_refused() {
    let place = Place::new();
    place.photo("src/cat/1.jpg", 1);
    place.pack(&labelled(place.write("labels.csv", "key,label,age\ncat/1.jpg,cat,1.5\n")));
    place.photo("week/cat/2.jpg", 2);
    let with = |table: &str| {
        place.add("week", &add_labelled(place.write("week.csv", table))).map_err(|error| error.to_string())
    };
    let error = place.add("week", &AddOptions::default()).unwrap_err();
    let error = error.hints()[0].told(Voice::Command);
    assert!(error.contains("--labels FILE") && error.contains("age"), "{error}");
    for (table, words) in [
        ("key,label\ncat/2.jpg,cat\n", "has no column `age`"),
        ("key,label,age,size\ncat/2.jpg,cat,1,3\n", "the table has a column `size`"),
        ("key,label,age\ncat/2.jpg,cat,old\n", "the dataset stores float64, but the new values are text"),
        ("key,age\ncat/2.jpg,2\n", "the new samples have none"),
    ] {
        let error = with(table).unwrap_err();
        assert!(error.contains(words), "{table}: {error}");
        assert_eq!(place.open(None).generation(), 1);
    }
    // The columns of the table are in a different order, and `age` contains integers.
    with("key,age,label\ncat/2.jpg,2,cat\n").unwrap();
    assert_eq!(place.open(None).column("age").unwrap().len(), 2);
    place.verify(2);
}

#[test]
fn lists_and_objects_of_a_table_come_along() {
    let place = Place::new();
    let row = |key: &str, boxes: &str| format!("{{\"key\": \"{key}\", \"boxes\": {boxes}, \"who\": {{\"n\": 1}}}}\n");
    place.photo("src/a.jpg", 1);
    place.pack(&labelled(place.write("labels.jsonl", row("a.jpg", "[[1, 2, 3, 4]]"))));
    let with = |week: &str, table: String| place.add(week, &add_labelled(place.write(&format!("{week}.jsonl"), table)));
    for (number, week, boxes) in [(2, "week-1", "[]"), (3, "week-2", "[[5, 6, 7, 8]]")] {
        let key = format!("{number}.jpg");
        place.photo(&format!("{week}/{key}"), number);
        let added = with(week, row(&key, boxes)).unwrap();
        assert_eq!(added.generation, u32::from(number));
        let newest = place.open(None);
        let sample = newest.get(newest.by_key(&key).unwrap().unwrap()).unwrap();
        assert_eq!(sample.field("boxes").unwrap().unwrap().bytes, boxes.as_bytes());
    }
    place.photo("week-3/d.jpg", 4);
    let error = with("week-3", row("d.jpg", "\"none\"")).unwrap_err().to_string();
    assert_eq!(error, "column `boxes`: the dataset stores lists or objects, but the new values are text");
    place.verify(3);
}

#[test]
fn a_column_of_text_stays_text_whatever_a_week_looks_like() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg"]);
    place.pack(&labelled(place.write("labels.csv", "key,label,code\na.jpg,7,A1\nb.jpg,none,007\n")));
    place.photos(3, &["week/c.jpg", "week/d.jpg"]);
    // All labels and codes in these tables look like numbers, but the dataset's labels are class
    // names and its codes are text. One cell has spaces, and one is empty.
    let tables = [("week", "key,label,code\nc.jpg,7,12\nd.jpg,9, 1.50 \n"), ("next", "key,label,code\ne.jpg,7,\n")];
    place.photo("next/e.jpg", 5);
    for (week, table) in tables {
        place.add(week, &add_labelled(place.write("week.csv", table))).unwrap();
    }
    place.photo("last/f.jpg", 6);
    let last = place.write("last.jsonl", "{\"key\": \"f.jpg\", \"label\": \"7\", \"code\": \"NaN\"}\n");
    place.add("last", &add_labelled(last)).unwrap();
    let newest = place.open(None);
    assert_eq!(newest.classes().unwrap(), ["7", "none", "9"]);
    for (key, class, code) in
        [("a", 0, "A1"), ("b", 1, "007"), ("c", 0, "12"), ("d", 2, " 1.50 "), ("e", 0, ""), ("f", 0, "NaN")]
    {
        let key = format!("{key}.jpg");
        let sample = newest.get(newest.by_key(&key).unwrap().unwrap()).unwrap();
        assert_eq!(sample.field("code").unwrap().unwrap().bytes, code.as_bytes(), "{key}");
        assert_eq!(labels(&newest)[&key], class, "{key}");
    }
    place.verify(4);
}

#[test]
fn the_column_of_keys_is_the_one_of_packing_or_another() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    let mut options = labelled(place.write("labels.csv", "photo,id\na.jpg,11\n"));
    options.source.key_column = Some("photo".to_owned());
    place.pack(&options);
    assert_eq!(place.open(None).recipe()["labels"]["key_column"], "photo");
    place.photos(2, &["week/b.jpg", "next/c.jpg"]);
    // Packing used another key column, so `id` is an ordinary column here, although `add` would
    // accept it as a key column.
    place.add("week", &add_labelled(place.write("week.csv", "id,photo\n12,b.jpg\n"))).unwrap();
    let next = add_labelled(place.write("next.csv", "id,picture\n13,c.jpg\n"));
    let error = place.add("next", &next).unwrap_err();
    let hints = error.hints();
    assert!(error.to_string().contains("the table has no column `photo` for the keys"), "{error}");
    assert_eq!(hints[0].told(Voice::Command), "pass `--key-column NAME` to select another column");
    place.add("next", &AddOptions { key_column: Some("picture".into()), ..next }).unwrap();
    assert_eq!(place.open(None).column("id").unwrap().to_i64s().unwrap().len(), 3);
    let alone = AddOptions { key_column: Some("photo".into()), ..AddOptions::default() };
    let error = place.add("next", &alone).unwrap_err().to_string();
    assert!(error.contains("the option has no effect without a table of labels"), "{error}");
    place.verify(3);
}

#[test]
fn links_are_followed_if_that_is_asked_for() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&small());
    place.photo("elsewhere/b.jpg", 2);
    fs::create_dir(place.path("week")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere/b.jpg"), place.path("week/b.jpg")).unwrap();
    let error = place.add("week", &AddOptions::default()).unwrap_err();
    let hints = error.hints();
    assert!(hints.iter().any(|hint| hint.told(Voice::Command) == "pass `--follow-links` to follow it"), "{hints:?}");
    let added = place.add("week", &AddOptions { follow_links: true, ..AddOptions::default() }).unwrap();
    assert_eq!(added.samples, 2);
}

#[test]
fn notes_of_adding_name_options_of_adding() {
    let place = Place::new();
    for name in ["src/a.npy", "week/b.npy"] {
        place.cube(name, [6, 5, 4], 0.5);
    }
    place.pack(&small());
    // For these folders, `pack` suggests `class_folders` to make them classes. `add` has no such
    // option and must not suggest it.
    for (number, name) in (1..).zip(["week/train/c.npy", "week/test/d.npy"]) {
        place.cube(name, [6, 5, 4], f32::from(number as u8));
    }
    place.write("week/table.csv", "key,age\n");
    let added = place.add("week", &AddOptions::default()).unwrap();
    let hints: Vec<String> =
        added.packed.notes.iter().filter_map(|note| Some(note.hint.as_ref()?.told(Voice::Command))).collect();
    assert_eq!(hints, ["pass `--labels FILE` to read labels from a table"], "{:?}", added.packed.notes);
}

#[test]
fn a_dataset_without_classes_gets_none() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&small());
    place.photo("week/2/b.jpg", 2);
    let added = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!(added.samples, 2);
    assert!(place.open(None).classes().is_none());
    place.verify(2);
}

#[test]
fn bad_files_are_treated_as_when_the_dataset_was_packed() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&small());
    place.photo("week/b.jpg", 2);
    place.write("week/c.jpg", b"\xFF\xD8 no picture");
    let error = place.add("week", &AddOptions::default()).unwrap_err().to_string();
    assert!(error.contains("c.jpg"), "{error}");
    let skip = AddOptions { on_bad_input: Some(OnBadInput::Skip), ..AddOptions::default() };
    let added = place.add("week", &skip).unwrap();
    assert_eq!((added.samples, added.packed.bad.len()), (2, 1));
}

#[test]
fn what_is_removed_is_in_no_file_after_compacting() {
    let place = Place::new();
    for number in 0..12 {
        place.photo(&format!("src/{number:02}.jpg"), number);
    }
    place.pack(&PackOptions { shard_bytes: 1500, ..kept() });
    let before = place.open(None);
    assert!(before.shards().len() > 2);
    // Search for the comment in the removed picture, and for the end of its key.
    let needles = [b"n007".as_slice(), b"07.jpg"];
    let found = || {
        let files = walk(&place.path("out")).into_iter().map(|file| fs::read(file).unwrap());
        let has = |bytes: &[u8], needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        files.map(|bytes| needles.iter().filter(|needle| has(&bytes, needle)).count()).sum::<usize>()
    };
    assert!(found() >= 2);
    let out = place.path("out");
    let error = remove(&out, &keys(&["07.jpg", "7.jpg", "x"]), &RewriteOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("2 of 3 keys") && error.contains("`7.jpg`, `x`"), "{error}");
    assert_eq!(place.open(None).generation(), 1);
    let removed = remove(&out, &keys(&["07.jpg"]), &RewriteOptions::default()).unwrap();
    assert_eq!((removed.removed, removed.samples, removed.generation, removed.shards), (1, 11, 2, 1));
    assert!(found() >= 2, "the older generation has it");
    let after = place.open(None);
    assert!(after.by_key("07.jpg").unwrap().is_none());
    for index in 0..before.len() {
        let key = before.key(index).unwrap();
        if key != "07.jpg" {
            let again = after.by_key(&key).unwrap().unwrap();
            let bytes =
                |dataset: &Dataset, index| dataset.get(index).unwrap().field("image").unwrap().unwrap().bytes.to_vec();
            assert_eq!(bytes(&before, index), bytes(&after, again), "{key}");
        }
    }
    place.verify(2);
    drop((before, after));
    let gone = compact(&out).unwrap();
    assert_eq!((gone.generations, gone.shards.len()), (vec![1], 1));
    assert_eq!(found(), 0);
    let report = verify(&out, &VerifyOptions { digest: true, ..Default::default() }).unwrap();
    assert!(report.is_whole() && report.notes.is_empty(), "{:?} {:?}", report.problems, report.notes);
    let error = DatasetOptions::new().generation(Some(1)).open(&out).unwrap_err();
    let hint = error.hint().map(|hint| hint.to_string()).unwrap_or_default();
    assert!(hint.contains("compact"), "{error}: {hint}");
    place.photo("week/new.jpg", 99);
    let added = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((added.generation, added.samples), (3, 12));
}

/// Restores the state that an interrupted run leaves just before the last rename for the second
/// generation.
fn unsettle(out: &Path) {
    fs::create_dir_all(out.join(".shardpack-next")).unwrap();
    fs::rename(out.join("manifest.json"), out.join(".shardpack-next/manifest.json")).unwrap();
    fs::remove_file(out.join("manifest-0002.json")).unwrap();
    fs::copy(out.join("manifest-0001.json"), out.join("manifest.json")).unwrap();
}

#[test]
fn an_interrupted_removal_makes_no_other_command_a_success() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg", "src/c.jpg"]);
    place.pack(&small());
    let out = place.path("out");
    let remove = |names: &[&str]| remove(&out, &keys(names), &RewriteOptions::default());
    remove(&["a.jpg"]).unwrap();
    unsettle(&out);
    let error = remove(&["x.jpg"]).unwrap_err().to_string();
    assert!(error.starts_with("1 of 1 keys are not in the dataset"), "{error}");
    assert_eq!(place.open(None).len(), 2, "what was ready is in place all the same");
    unsettle(&out);
    assert_eq!(remove(&["a.jpg", "x.jpg"]).unwrap_err().to_string().split(' ').next(), Some("2"));
    unsettle(&out);
    let again = remove(&["a.jpg"]).unwrap();
    assert_eq!((again.removed, again.generation, again.samples), (0, 2, 2));
    // The samples that remain after a removal must not be mistaken for a repeated addition.
    unsettle(&out);
    fs::remove_file(place.path("src/a.jpg")).unwrap();
    let error = place.add("src", &AddOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("2 of 2 new samples have keys"), "{error}");
    place.verify(2);
}

#[test]
fn an_interrupted_addition_is_done_for_its_own_samples_alone() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&small());
    place.photo("week/c.jpg", 3);
    place.add("week", &AddOptions::default()).unwrap();
    unsettle(&place.path("out"));
    let error = place.add("src", &AddOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("1 of 1 new samples have keys"), "{error}");
    unsettle(&place.path("out"));
    let again = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((again.packed.report.outcome, again.generation), (Outcome::AlreadyComplete, 2));
    compact(&place.path("out")).unwrap();
    let again = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((again.packed.report.outcome, again.generation), (Outcome::AlreadyComplete, 2));
}

#[test]
fn a_class_without_samples_is_named_and_its_name_stays() {
    let place = Place::new();
    place.photos(1, &["src/ant/1.jpg", "src/patient 17/x.jpg", "src/zebra/2.jpg"]);
    place.pack(&small());
    let out = place.path("out");
    let removed = remove(&out, &keys(&["ant/1.jpg"]), &RewriteOptions::default()).unwrap();
    assert_eq!(removed.empty_classes, ["ant"]);
    let removed = remove(&out, &keys(&["patient 17/x.jpg"]), &RewriteOptions::default()).unwrap();
    assert_eq!(removed.empty_classes, ["ant", "patient 17"]);
    let gone = compact(&out).unwrap();
    assert_eq!((gone.generations, gone.empty_classes), (vec![1, 2], keys(&["ant", "patient 17"])));
    // No bytes of the sample are left, but its class stays, because labels are class numbers.
    let holding = |needle: &[u8]| {
        let files = walk(&out).into_iter().map(|file| (file.clone(), fs::read(file).unwrap()));
        let holding = files.filter(|(_, bytes)| bytes.windows(needle.len()).any(|window| window == needle));
        holding.map(|(file, _)| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(holding(b"patient 17/x.jpg"), keys(&[]));
    let newest = place.open(None);
    let mut expected: Vec<String> = newest.shards().map(|shard| shard.name.clone()).collect();
    expected.extend(keys(&["manifest.json", "manifest-0003.json"]));
    expected.sort_unstable();
    let mut found = holding(b"patient 17");
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(labels(&newest)["zebra/2.jpg"], 2);
    // A class that has samples again is no longer reported as empty.
    place.photo("week/ant/3.jpg", 4);
    place.add("week", &AddOptions::default()).unwrap();
    assert_eq!(compact(&out).unwrap().empty_classes, ["patient 17"]);
}

#[test]
fn not_all_samples_can_be_removed_and_an_empty_shard_is_fine() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg"]);
    place.pack(&PackOptions { shard_bytes: 1, ..small() });
    let out = place.path("out");
    let error = remove(&out, &keys(&["a.jpg", "b.jpg"]), &RewriteOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("cannot remove all 2 samples"), "{error}");
    remove(&out, &keys(&["a.jpg"]), &RewriteOptions::default()).unwrap();
    let newest = place.open(None);
    assert_eq!((newest.len(), newest.shards().len()), (1, 2));
    place.verify(2);
}
