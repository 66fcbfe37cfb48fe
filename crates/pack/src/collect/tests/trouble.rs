//! Tests errors from values that do not fit, folders that are in use, and commits that end early.

use super::*;

#[test]
fn misfits_name_sample_and_field_and_cost_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, small_shards());
    let error = |sample: Sample| said(&collector.add(sample).unwrap_err());
    let nothing = error(Sample::new().with_key("x").without("meta"));
    assert!(
        nothing.contains("`x`: field `meta`: the first sample has no value") && nothing.contains("hint: pass a schema")
    );
    collector.add(mixed(0)).unwrap();
    let with = |field: &str, value: Option<SampleValue>| {
        let mut sample = mixed(1);
        sample.values.iter_mut().filter(|(name, _)| name == field).for_each(|(_, v)| *v = value.clone());
        sample
    };
    for (field, value, expected) in [
        ("photo", Some(SampleValue::Bytes(b"neither fish nor fowl".to_vec())), "expected a complete JPEG"),
        ("photo", Some(SampleValue::Bytes(jpeg(40, 24, 1)[..300].to_vec())), "JPEG"),
        ("cube", Some(floats(&[12, 10], 1).into()), "expected an array of float32 with 3 axes"),
        ("mask", Some(floats(&[12, 10], 1).into()), "expected an array of uint8, found an array of float32"),
        ("cube", Some("text".into()), "expected an array, found text"),
        (
            "label",
            Some(SampleValue::Number { value: Number::Float(1.5), dtype: None }),
            "expected int64, found the number 1.5",
        ),
        ("label", Some(3.into()), "expected a class number from 0 to 2, found 3"),
        ("label", Some("d".into()), "there is no class `d`"),
        ("label", None, "expected int64, found no value"),
        ("meta", Some(SampleValue::Json("{\"a\": NaN}".into())), "JSON"),
        ("caption", Some(SampleValue::Bytes(vec![1])), "expected text, found 1 byte"),
        ("photo", Some("a.jpg".into()), "found text\nhint: pass the bytes of the file, not its name"),
    ] {
        let text = error(with(field, value));
        assert!(
            text.starts_with(&format!("sample `class-1/001`: field `{field}`: ")) && text.contains(expected),
            "{text}"
        );
    }
    assert!(
        error(mixed(1).with("more", 1))
            .contains("field `more`: the schema and the first sample have no such field, only photo, cube")
    );
    assert!(error(mixed(0)).contains("sample key `class-0/000` occurs twice"));
    assert!(error(mixed(1).with_key("../up")).contains("sample key: expected a relative path"));
    let wide = Array::new(Dtype::F32, vec![1, 1, 1], 1e9f32.to_le_bytes().to_vec()).unwrap();
    let fine = collector.add(with("cube", Some(wide.into())));
    // Integers are stored as they are, even if float16 cannot represent them exactly.
    assert!(fine.is_ok(), "{fine:?}");
    let wide = [0.3f32, 1e5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let wide = Array::new(Dtype::F32, vec![1, 1, 2], wide).unwrap();
    let text = error(Sample { key: Some("wide".into()), ..with("cube", Some(wide.into())) });
    assert!(text.starts_with("sample `wide`: field `cube`: the value "), "{text}");
    // A refused sample can be corrected and added again. Only numbers are required in every sample, and a class
    // may be given by name.
    let mended = with("photo", None);
    collector.add(Sample { key: Some("wide".into()), ..mended }).unwrap();
    let named = Sample { key: Some("named".into()), ..with("label", Some("b".into())) };
    collector.add(named).unwrap();
    let report = collector.commit(None, None).unwrap();
    assert_eq!(report.report.samples, 4);
    assert_eq!(report.report.fidelity["photo"]["samples"], 3);
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    let labels = dataset.labels().unwrap();
    assert_eq!(labels.iter().filter(|label| **label == 1).count(), 3);
}

#[test]
fn odd_pictures_that_are_kept_are_named_and_damaged_ones_refused() {
    let whole = include_bytes!("../../../../jpeg/testdata/tiles.jpg").to_vec();
    let at = whole.windows(2).position(|marker| marker == b"\xFF\xD2").unwrap();
    let mut damaged = whole.clone();
    damaged[at + 1] = 0xD5;
    let odd = [&whole[..20], b"odd", &whole[20..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let options = CollectOptions {
        pictures: shardpack_recipe::PictureOptions::Keep { segment_index: false },
        ..CollectOptions::default()
    };
    let collector = open(&folder, options);
    for (key, left, right) in [("c", &odd, &whole), ("b", &whole, &whole), ("a", &odd, &odd)] {
        let sample = Sample::new().with_key(key).with("left", left.clone()).with("right", right.clone());
        collector.add(sample).unwrap();
    }
    let sample = Sample::new().with_key("d").with("left", damaged).with("right", whole);
    let error = collector.add(sample).unwrap_err().to_string();
    assert!(error.contains("cannot decode the picture"), "{error}");
    let report = collector.commit(None, None).unwrap();
    let found: Vec<_> = report.odd_pictures.iter().map(|d| (d.key.as_str(), &d.what[..12])).collect();
    assert_eq!(found, [("a", "field `left`"), ("a", "field `right"), ("c", "field `left`")]);
    assert_eq!(report.to_json()["odd_pictures"].as_array().unwrap().len(), 3);
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    let stored = (0..3).map(|i| dataset.get(i).unwrap()).find(|sample| sample.key() == "a").unwrap();
    assert_eq!(stored.image("left").unwrap().bytes, odd, "to the byte");
}

#[test]
fn a_folder_is_for_one_writer_and_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/out");
    let open = |force| Collector::open(&out, None, CollectOptions { force, ..Default::default() });
    let first = open(false).unwrap();
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("a.jpg"), jpeg(8, 8, 1)).unwrap();
    let packed = crate::pack::pack(
        source.path(),
        &out,
        &crate::pack::PackOptions::default(),
        &crate::pack::Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &AtomicBool::new(false) },
    );
    assert!(packed.unwrap_err().to_string().contains("is being written by another packer"));
    let error = open(true).unwrap_err().to_string();
    assert!(error.contains("is being written by another packer: process"), "{error}");
    first.add(Sample::new().with("i", 1)).unwrap();
    drop(first);
    assert!(!out.exists());
    assert!(open(false).unwrap().commit(None, None).unwrap_err().to_string().contains("no samples were added"));

    let whole = open(false).unwrap();
    whole.add(Sample::new().with("i", 1)).unwrap();
    whole.commit(None, None).unwrap();
    drop(whole);
    let error = said(&open(false).unwrap_err());
    assert!(error.contains("already contains a dataset of 1 sample\nhint: use `--force`"), "{error}");
    let manifest = fs::read(out.join("manifest.json")).unwrap();
    let second = open(true).unwrap();
    second.add(Sample::new().with("i", 2)).unwrap();
    assert_eq!(
        fs::read(out.join("manifest.json")).unwrap(),
        manifest,
        "the old one stays until the new one is complete"
    );
    drop(second);
    assert_eq!(fs::read(out.join("manifest.json")).unwrap(), manifest);
    let third = open(true).unwrap();
    third.add(Sample::new().with("i", 3)).unwrap();
    third.commit(None, None).unwrap();
    assert_eq!(Dataset::open(&out).unwrap().column("i").unwrap().to_i64s().unwrap(), [3]);
    fs::write(out.join("thesis.doc"), "dear").unwrap();
    drop(third);
    assert!(open(true).unwrap_err().to_string().contains("`thesis.doc`"));
}

#[test]
fn a_cancelled_commit_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions { shard_bytes: 2000, ..CollectOptions::default() });
    for i in 0..50 {
        collector.add(Sample::new().with("noise", noise(500, i))).unwrap();
    }
    let cancel = AtomicBool::new(true);
    assert!(collector.commit(None, Some(&cancel)).unwrap_err().to_string().starts_with("cancelled"));
    cancel.store(false, Ordering::Relaxed);
    collector.add(Sample::new().with("noise", noise(500, 99))).unwrap();
    let seen = std::cell::Cell::new(0);
    let on_progress = |progress: &Progress| {
        seen.set(progress.samples);
        // The number of samples can be read while a commit runs.
        assert_eq!(collector.len(), 51);
        cancel.store(progress.shards == 5, Ordering::Relaxed);
    };
    // A different sample makes a different dataset. The next commit therefore removes the files of
    // the first attempt.
    let stopped = collector.commit(Some(&on_progress), Some(&cancel));
    let report = match stopped {
        Ok(report) => report,
        Err(_) => collector.commit(None, None).unwrap(),
    };
    assert_eq!(report.report.samples, 51);
    assert!(seen.get() > 0);
    drop(collector);
    assert!(verify(folder.path().join("out"), &VerifyOptions::default()).unwrap().is_whole());
}

#[test]
fn a_commit_that_failed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions { shard_bytes: 2000, ..CollectOptions::default() });
    for i in 0..50 {
        collector.add(Sample::new().with("noise", noise(500, i))).unwrap();
    }
    let middle = lock(&collector.added).samples[40].span;
    collector.spool.overwrite(middle, &[0; 64]);
    assert!(collector.commit(None, None).unwrap_err().to_string().contains("is damaged"));
    drop(collector);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn the_spool_is_checked_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions::default());
    collector.add(Sample::new().with_key("a").with("noise", noise(5000, 1))).unwrap();
    let span = lock(&collector.added).samples[0].span;
    let mut record = collector.spool.read(span).unwrap();
    record[3000] ^= 1;
    lock(&collector.added).samples[0].span = collector.spool.append(&record).unwrap();
    let error = collector.commit(None, None).unwrap_err().to_string();
    assert!(error.starts_with("sample `a`: the temporary file is damaged"), "{error}");
    assert!(!folder.path().join("out/manifest.json").exists());
}
