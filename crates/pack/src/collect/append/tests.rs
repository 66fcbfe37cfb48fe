//! Tests adding a program's samples to a dataset, by reading the dataset back.

use crate::collect::{AppendOptions, CollectError, CollectOptions, Collector, Kind, Number, Sample, SampleValue};
use crate::grow::{OnKnownKey, RewriteOptions, compact, remove};
use proptest::prelude::*;
use shardpack_array::Array;
use shardpack_format::{Dtype, Explain};
use shardpack_reader::{ArrayDecoder, Dataset, DatasetOptions, VerifyOptions, verify};
use shardpack_recipe::OptionValue as Given;
use shardpack_writer::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn floats(shape: &[u64], seed: u64) -> Array {
    let count: u64 = shape.iter().product();
    let value = |i: u64| ((i * 7 + seed * 13) % 101) as f32 / 7.0;
    Array::new(Dtype::F32, shape.to_vec(), (0..count).flat_map(|i| value(i).to_le_bytes()).collect()).unwrap()
}

fn mask(seed: u64) -> Array {
    Array::new(Dtype::U8, vec![6, 5], (0..30).map(|i| ((i * 3 + seed) % 5) as u8).collect()).unwrap()
}

fn sample(i: u64) -> Sample {
    Sample::new()
        .with_key(format!("s/{i:03}"))
        .with("cube", SampleValue::Array(floats(&[6, 5, 4], i)))
        .with("mask", SampleValue::Array(mask(i)))
        .with("caption", "a text")
        .with("meta", SampleValue::Json(format!("{{\"i\": {i}}}")))
        .with("label", i64::try_from(i % 2).unwrap())
}

fn small() -> CollectOptions {
    let classes = Some(["a", "b"].map(str::to_owned).to_vec());
    CollectOptions { classes, shard_bytes: 4096, threads: 2, ..CollectOptions::default() }
}

fn write(out: &Path, options: CollectOptions, samples: impl IntoIterator<Item = Sample>) {
    let collector = Collector::open(out, None, options).unwrap();
    samples.into_iter().for_each(|sample| collector.add(sample).unwrap());
    collector.commit(None, None).unwrap();
}

fn append(out: &Path, samples: impl IntoIterator<Item = Sample>) -> Result<super::super::Appended, CollectError> {
    let collector = Collector::append(out, None, AppendOptions { threads: 2, ..Default::default() })?;
    samples.into_iter().try_for_each(|sample| collector.add(sample))?;
    Ok(collector.commit(None, None)?.appended.unwrap())
}

fn check(out: &Path, generations: u32) {
    for generation in (1..=generations).map(Some).chain([None]) {
        let report = verify(out, &VerifyOptions { digest: true, generation, ..Default::default() }).unwrap();
        assert!(report.is_whole(), "{generation:?}: {:?}", report.problems);
    }
}

/// Returns the bytes of each sample without its frame. The frame depends on where the sample is stored.
fn bodies(dataset: &Dataset) -> BTreeMap<String, Vec<u8>> {
    let body = |i| {
        let sample = dataset.get(i).unwrap();
        (sample.key().to_owned(), sample.record_bytes()[64..].to_vec())
    };
    (0..dataset.len()).map(body).collect()
}

fn files(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())).collect()
}

#[test]
fn samples_come_behind_those_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..20).map(sample));
    let before = files(&out);
    let appended = append(&out, (20..30).map(sample)).unwrap();
    assert_eq!((appended.generation, appended.samples, appended.known), (2, 30, 0));
    assert!(appended.new_classes.is_empty());
    let after = files(&out);
    for (name, bytes) in before.iter().filter(|(name, _)| *name != "manifest.json") {
        assert_eq!(&after[name], bytes, "{name} is as it was");
    }
    assert_eq!(after["manifest-0001.json"], before["manifest.json"]);
    let newest = Dataset::open(&out).unwrap();
    let first = DatasetOptions::new().generation(Some(1)).open(&out).unwrap();
    assert_eq!((first.len(), newest.len()), (20, 30));
    let mut decoder = ArrayDecoder::new();
    let found = newest.get(newest.by_key("s/025").unwrap().unwrap()).unwrap();
    assert_eq!(found.view().array("mask", &mut decoder).unwrap(), mask(25));
    assert_eq!(newest.fidelity().unwrap()["cube"]["samples"], 30);
    check(&out, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn parts_hold_the_same_samples_as_the_whole(cuts in proptest::collection::vec(1_u64..24, 1..3), shuffle in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
        let options = CollectOptions { shuffle: shuffle.then_some(3), ..small() };
        write(&whole, options.clone(), (0..24).map(sample));
        let mut cuts: Vec<u64> = cuts.into_iter().chain([24]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        write(&parts, options, (0..cuts[0]).map(sample));
        for cut in cuts.windows(2) {
            append(&parts, (cut[0]..cut[1]).map(sample)).unwrap();
        }
        let [whole, parts_opened] = [&whole, &parts].map(|path| Dataset::open(path).unwrap());
        prop_assert_eq!(bodies(&whole), bodies(&parts_opened));
        prop_assert_eq!(whole.schema(), parts_opened.schema());
        prop_assert_eq!(whole.classes(), parts_opened.classes());
        prop_assert_eq!(whole.recipe().get("cube"), parts_opened.recipe().get("cube"));
        check(&parts, u32::try_from(cuts.len()).unwrap());
    }
}

#[test]
fn what_does_not_fit_is_named_and_adds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    let change = |field: &str, value: Option<SampleValue>| {
        let mut sample = sample(9);
        sample.values.iter_mut().filter(|(name, _)| name == field).for_each(|(_, old)| *old = value.clone());
        append(&out, [sample]).unwrap_err().to_string()
    };
    let without = Sample { values: sample(9).values.into_iter().skip(1).collect(), ..sample(9) };
    let two_axes = Array::new(Dtype::F32, vec![2, 2], vec![0; 16]).unwrap();
    for (error, words) in [
        (
            change("cube", Some(SampleValue::Array(two_axes))),
            "sample `s/009`: field `cube`: expected an array of float32 with 3 axes (as in the dataset), found an \
             array of float32 with shape [2, 2]",
        ),
        (
            change("cube", Some(SampleValue::Array(mask(1)))),
            "sample `s/009`: field `cube`: expected an array of float32, found an array of uint8",
        ),
        (
            change("caption", Some(SampleValue::from(3))),
            "sample `s/009`: field `caption`: expected text, found the number 3",
        ),
        (change("label", None), "sample `s/009`: field `label`: expected int64, found no value"),
        (
            change("label", Some(SampleValue::from(2))),
            "sample `s/009`: field `label`: expected a class number from 0 to 1, found 2",
        ),
        (change("label", Some("c".into())), "sample `s/009`: field `label`: there is no class `c`"),
        (
            append(&out, [without]).unwrap_err().to_string(),
            "sample `s/009`: field `cube`: the dataset has this field (of kind array:float32), but the sample does not",
        ),
        (
            append(&out, [sample(9).with("more", "text")]).unwrap_err().to_string(),
            "sample `s/009`: field `more`: the dataset has no such field, only cube, mask, caption, meta, label",
        ),
        (
            append(&out, [sample(2)]).unwrap_err().to_string(),
            "sample `s/002`: the dataset already has a sample with this key",
        ),
        (append(&out, []).unwrap_err().to_string(), "no samples were added"),
    ] {
        assert_eq!(error, words);
    }
    let schema = vec![("cube".to_owned(), Kind::Array(None)), ("text".to_owned(), Kind::Text)];
    let error = Collector::append(&out, Some(schema), AppendOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("schema: the dataset has no field `text`, only "), "{error}");
    let nowhere = folder.path().join("nowhere");
    let error = Collector::append(&nowhere, None, AppendOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("is not a dataset: it has no manifest.json"), "{error}");
    assert_eq!(error.hints()[0].to_string(), "omit `append = true` to create a new dataset there");
    assert!(!nowhere.exists());
    assert_eq!(Dataset::open(&out).unwrap().generation(), 1);
}

#[test]
fn options_are_those_of_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    let with = |name: &str, value: &str| {
        let options = AppendOptions::read(vec![(name.to_owned(), Given::Text(value.into()))]).unwrap();
        Collector::append(&out, None, options).map(drop).map_err(|error| error.to_string())
    };
    for (name, value) in
        [("shard_size", "4KiB"), ("seed", "0"), ("codec", "auto"), ("values", "auto"), ("jpeg", "keep")]
    {
        with(name, value).unwrap();
    }
    for (name, value, words) in [
        ("shard_size", "1MiB", "shard_size: the dataset was written with 4KiB, not 1MiB"),
        ("seed", "3", "seed: the dataset was written with 0, not 3"),
        ("no_shuffle", "true", "no_shuffle: the dataset was written with false, not true"),
        ("codec", "raw", "codec: the dataset was written with auto, not raw"),
        ("values", "keep", "values: the dataset was written with auto, not keep"),
    ] {
        assert_eq!(with(name, value).unwrap_err(), words);
    }
    for name in ["spool", "spoon"] {
        assert!(AppendOptions::read(vec![(name.to_owned(), Given::Text("x".into()))]).is_err());
    }
}

#[test]
fn classes_are_matched_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let labelled = |key: &str, label: SampleValue| Sample::new().with_key(key).with("label", label);
    let classes = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    write(
        &out,
        CollectOptions { classes: classes(&["cat", "dog"]), ..small() },
        [labelled("1", 0.into()), labelled("2", 1.into())],
    );
    let options = AppendOptions { classes: classes(&["ant", "dog", "owl"]), ..Default::default() };
    let collector = Collector::append(&out, None, options).unwrap();
    for (key, label) in
        [("3", SampleValue::from(0)), ("4", SampleValue::from(1)), ("5", "owl".into()), ("6", "cat".into())]
    {
        collector.add(labelled(key, label)).unwrap();
    }
    assert!(
        collector.add(labelled("7", 3.into())).unwrap_err().to_string().contains("expected a class number from 0 to 2")
    );
    let appended = collector.commit(None, None).unwrap().appended.unwrap();
    assert_eq!(appended.new_classes, ["ant", "owl"]);
    drop(collector);
    let newest = Dataset::open(&out).unwrap();
    assert_eq!(newest.classes().unwrap(), ["cat", "dog", "ant", "owl"]);
    let label = |key: &str| {
        newest.get(newest.by_key(key).unwrap().unwrap()).unwrap().scalar("label").unwrap().as_i64().unwrap()
    };
    assert_eq!(["1", "2", "3", "4", "5", "6"].map(label), [0, 1, 2, 1, 3, 0]);
    check(&out, 2);
    let options = AppendOptions { classes: classes(&["a", "a"]), ..Default::default() };
    assert!(Collector::append(&out, None, options).unwrap_err().to_string().contains("class `a` occurs twice"));
    let plain = folder.path().join("plain");
    write(&plain, CollectOptions { classes: None, ..small() }, [labelled("1", 7.into())]);
    let options = AppendOptions { classes: classes(&["a"]), ..Default::default() };
    let error = Collector::append(&plain, None, options).unwrap_err().to_string();
    assert_eq!(error, "cannot use the classes [a], because the labels of the dataset are numbers without names");
}

#[test]
fn known_keys_may_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    let skip = || AppendOptions { on_known_key: OnKnownKey::Skip, ..Default::default() };
    let collector = Collector::append(&out, None, skip()).unwrap();
    (2..6).for_each(|i| collector.add(sample(i)).unwrap());
    assert_eq!(collector.len(), 2);
    let report = collector.commit(None, None).unwrap();
    let appended = report.appended.clone().unwrap();
    assert_eq!((appended.samples, appended.known, report.report.samples), (6, 2, 2));
    assert!(appended.notes.is_empty());
    drop(collector);
    let collector = Collector::append(&out, None, skip()).unwrap();
    let mut other = sample(1);
    other.values.last_mut().unwrap().1 = Some(0.into());
    collector.add(other).unwrap();
    let report = collector.commit(None, None).unwrap();
    let appended = report.appended.unwrap();
    assert_eq!(report.report.outcome, Outcome::AlreadyComplete);
    assert_eq!((appended.generation, appended.samples, appended.known, report.report.samples), (2, 6, 1, 0));
    assert!(
        appended.notes[0].ends_with("`s/001`: field `label` is 1 in the dataset, but 0 in the new sample)"),
        "{:?}",
        appended.notes
    );
}

#[test]
fn the_same_call_once_more_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    append(&out, (4..8).map(sample)).unwrap();
    let before = files(&out);
    let again = append(&out, (4..8).map(sample)).unwrap();
    assert_eq!((again.generation, again.samples, again.known), (2, 8, 4));
    assert_eq!(files(&out), before);
    for other in [append(&out, (4..7).map(sample)), append(&out, (4..9).map(sample)), append(&out, (3..5).map(sample))]
    {
        assert!(other.unwrap_err().to_string().contains("already has a sample with this key"));
    }
    let mut changed = sample(4);
    changed.values[2].1 = Some("another text".into());
    assert!(append(&out, [changed]).unwrap_err().to_string().contains("already has a different sample with this key"));
}

#[test]
fn an_array_of_fewer_axes_than_the_columns_of_its_dataset_is_no_defect() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let named = |i: u64| Sample::new().with_key(format!("s/{i:03}")).with("label", 0);
    let with = |i: u64, shape: &[u64]| named(i).with("cube", SampleValue::Array(floats(shape, i)));
    // After the removal, the dataset has no array from which to read the number of axes.
    write(&out, small(), [with(0, &[6, 5, 4]), named(1).without("cube"), named(2).without("cube")]);
    remove(&out, &["s/000".to_owned()], &RewriteOptions::default()).unwrap();
    let collector = Collector::append(&out, None, AppendOptions { threads: 2, ..Default::default() }).unwrap();
    let refused = collector.add(with(3, &[8])).err().map(|error| error.kind());
    assert!(!matches!(refused, Some(shardpack_format::ErrorKind::Internal)), "{refused:?}");
    collector.commit(None, None).unwrap();
    check(&out, 3);
}

#[test]
fn samples_without_a_key_are_counted_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let plain = |i: i64| Sample::new().with("i", i);
    write(&out, small(), (0..3).map(plain));
    append(&out, (3..5).map(plain)).unwrap();
    let opened = Dataset::open(&out).unwrap();
    let found = opened.get(opened.by_key("00000004").unwrap().unwrap()).unwrap();
    assert_eq!(found.scalar("i").unwrap().as_i64(), Some(4));
}

#[test]
fn an_addition_that_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    let before = files(&out);
    let collector = Collector::append(&out, None, AppendOptions::default()).unwrap();
    let second = Collector::append(&out, None, AppendOptions::default()).unwrap_err();
    assert!(matches!(second, CollectError::Writer(shardpack_writer::Error::Locked { .. })), "{second}");
    (4..40).for_each(|i| collector.add(sample(i)).unwrap());
    let cancel = AtomicBool::new(true);
    collector.commit(None, Some(&cancel)).unwrap_err();
    assert_eq!(collector.len(), 36);
    collector.add(sample(40)).unwrap();
    collector.commit(None, Some(&cancel)).unwrap_err();
    drop(collector);
    assert_eq!(files(&out), before);
    assert!(!out.join(".shardpack-next").exists());
    append(&out, (4..8).map(sample)).unwrap();
    check(&out, 2);
}

#[test]
fn additions_removals_and_compactions_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    append(&out, (4..8).map(sample)).unwrap();
    remove(&out, &["s/001".to_owned(), "s/005".to_owned()], &RewriteOptions::default()).unwrap();
    append(&out, (8..12).map(sample)).unwrap();
    check(&out, 4);
    append(&out, [sample(5)]).unwrap();
    compact(&out).unwrap();
    let appended = append(&out, [sample(1)]).unwrap();
    assert_eq!((appended.generation, appended.samples), (6, 12));
    assert_eq!(bodies(&Dataset::open(&out).unwrap()).len(), 12);
    let ids: std::collections::BTreeSet<u64> = {
        let opened = Dataset::open(&out).unwrap();
        (0..opened.len()).map(|i| opened.get(i).unwrap().sample_id()).collect()
    };
    assert_eq!(ids.len(), 12);
}

#[test]
fn a_close_that_failed_at_its_very_end_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    for (name, samples) in [("again", 8), ("more", 9), ("dropped", 0)] {
        let out = folder.path().join(name);
        write(&out, small(), (0..4).map(sample));
        let collector = Collector::append(&out, None, AppendOptions { threads: 2, ..Default::default() }).unwrap();
        (4..8).for_each(|i| collector.add(sample(i)).unwrap());
        let trouble = out.join(".manifest.json.tmp");
        fs::create_dir(&trouble).unwrap();
        collector.commit(None, None).unwrap_err();
        assert_eq!(Dataset::open(&out).unwrap().generation(), 1);
        fs::remove_dir(&trouble).unwrap();
        match samples {
            8 => {
                let appended = collector.commit(None, None).unwrap().appended.unwrap();
                assert_eq!((appended.generation, appended.samples), (2, 8));
            }
            9 => {
                collector.add(sample(8)).unwrap();
                let error = collector.commit(None, None).unwrap_err().to_string();
                assert!(
                    error.contains("already contains the samples of an earlier attempt, as generation 2"),
                    "{error}"
                );
            }
            _ => {}
        }
        drop(collector);
        let dataset = Dataset::open(&out).unwrap();
        assert_eq!((dataset.generation(), dataset.len()), (2, 8), "{name}");
        assert!(!out.join(".shardpack-next").exists());
        check(&out, 2);
    }
}

#[test]
fn truth_values_are_numbers_of_classes_too() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let classes = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let labelled =
        |key: &str, label| Sample::new().with_key(key).with("label", SampleValue::Number { value: label, dtype: None });
    let first = [labelled("1", Number::Int(0)), labelled("2", Number::Int(1))];
    write(&out, CollectOptions { classes: classes(&["pos", "neg"]), ..small() }, first);
    let options = || AppendOptions { classes: classes(&["neg", "pos"]), ..Default::default() };
    let collector = Collector::append(&out, None, options()).unwrap();
    collector.add(labelled("3", Number::Bool(true))).unwrap();
    collector.add(labelled("4", Number::Bool(false))).unwrap();
    collector.commit(None, None).unwrap();
    drop(collector);
    let newest = Dataset::open(&out).unwrap();
    let label = |key: &str| {
        newest.get(newest.by_key(key).unwrap().unwrap()).unwrap().scalar("label").unwrap().as_i64().unwrap()
    };
    assert_eq!(["3", "4"].map(label), [0, 1]);
    check(&out, 2);
    // Numbers of different types compare as equal if their values are equal.
    let options = AppendOptions { on_known_key: OnKnownKey::Skip, ..options() };
    let collector = Collector::append(&out, None, options).unwrap();
    collector.add(labelled("1", Number::Bool(true))).unwrap();
    assert!(collector.commit(None, None).unwrap().appended.unwrap().notes.is_empty());
    drop(collector);
    let options = AppendOptions { classes: classes(&["pos"]), ..Default::default() };
    let collector = Collector::append(&out, None, options).unwrap();
    let error = collector.add(labelled("5", Number::Bool(true))).unwrap_err().to_string();
    assert_eq!(error, "sample `5`: field `label`: expected a class number from 0 to 0, found 1");
}

#[test]
fn masks_beside_pictures_that_are_shrunk_come_from_folders_only() {
    use crate::pack::{Hooks, PackOptions, pack};
    use crate::testing::npy_of;
    use shardpack_jpeg::{ReencodeOptions, Resize};
    use shardpack_recipe::PictureOptions;
    use shardpack_sources::SourceOptions;
    let cancel = AtomicBool::new(false);
    let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel };
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    ["src", "masks"].iter().for_each(|name| fs::create_dir(place(name)).unwrap());
    let photo = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../jpeg/testdata/tiles.jpg")).unwrap();
    for number in 0..2 {
        fs::write(place("src").join(format!("{number}.jpg")), &photo).unwrap();
        fs::write(place("masks").join(format!("{number}.npy")), npy_of(&[32, 48])).unwrap();
    }
    for (name, resize) in [("shrunk", Resize::ShortSide(16)), ("whole", Resize::No)] {
        let pictures = PictureOptions::reencode(ReencodeOptions { resize, ..Default::default() });
        let options = PackOptions {
            source: SourceOptions { masks: Some(place("masks")), ..Default::default() },
            pictures,
            ..Default::default()
        };
        pack(&place("src"), &place(name), &options, &hooks).unwrap();
        let opened = Collector::append(&place(name), None, AppendOptions::default());
        if resize == Resize::No {
            opened.unwrap();
            continue;
        }
        let error = opened.unwrap_err();
        let text = "a writer cannot append to this dataset: its masks were shrunk, but new masks in `mask` would keep \
                    their full size";
        assert_eq!(error.to_string(), text);
        assert!(error.hints()[0].to_string().contains("`shardpack add`"), "{:?}", error.hints());
    }
}

#[test]
fn a_sample_that_comes_twice_is_not_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    write(&out, small(), (0..4).map(sample));
    append(&out, (4..6).map(sample)).unwrap();
    let error = append(&out, [sample(4), sample(4)]).unwrap_err().to_string();
    assert!(error.contains("sample key `s/004` occurs twice"), "{error}");
    assert!(append(&out, [sample(4)]).is_err());
    assert_eq!(append(&out, [sample(5), sample(4)]).unwrap().known, 2);
}

#[test]
fn an_empty_list_of_classes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, classed] = ["plain", "classed"].map(|name| folder.path().join(name));
    write(&plain, CollectOptions { classes: None, ..small() }, [sample(0)]);
    write(&classed, small(), [sample(0)]);
    let said = |out: &Path| {
        let options = AppendOptions { classes: Some(Vec::new()), ..Default::default() };
        Collector::append(out, None, options).unwrap_err().to_string()
    };
    assert_eq!(said(&plain), "cannot use the classes [], because the labels of the dataset are numbers without names");
    assert_eq!(said(&classed), "the list of classes is empty");
}
