//! Tests segment indexes of JPEGs: which pictures get one, that indexes change no pixel, and that wrong indexes are
//! noticed.

use crate::make::segments::strip;
use crate::make::shard::{FixtureValue, Shard};
use crate::make::valid::sample;
use crate::making::run;
use shardpack::{Dataset, PictureCrop, Scalar, View};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, Field, FieldKind, Limits, Metadata, RecordBuilder, SEGMENT_INDEXES, Schema,
    StoredField,
};
use shardpack_jpeg::{Rect, SegmentIndexer};
use shardpack_loader::order::End;
use shardpack_pack::collect::{AppendOptions, CollectOptions, Collector, Kind, Sample, SampleValue};
use shardpack_pack::grow::{AddOptions, OnKnownKey, RewriteOptions, add, add_indexes, compact};
use shardpack_pack::pack::{Hooks, PackOptions};
use shardpack_pack::salvage::{SalvageOptions, Survey};
use shardpack_recipe::{Jpeg, PictureOptions};
use shardpack_sources::{OnBadInput, SourceOptions};
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn with(segment_index: bool) -> PackOptions {
    PackOptions { pictures: PictureOptions::Keep { segment_index }, shard_bytes: 1 << 12, ..PackOptions::default() }
}

/// Writes two pictures for which an index is useful, and one picture that is too small.
fn write_pictures(folder: &Path) -> PathBuf {
    let src = folder.join("src");
    fs::create_dir_all(&src).unwrap();
    fs::write(src.join("a.jpg"), strip(255)).unwrap();
    fs::write(src.join("b.jpg"), strip(130)).unwrap();
    fs::write(src.join("c.jpg"), crate::make::valid::jpeg()).unwrap();
    src
}

/// Returns a grey JPEG of 48 × 48 equal blocks. Without restart markers or an index, a GPU does not decode that many.
fn large() -> Vec<u8> {
    let strip = strip(255);
    let place = |marker: [u8; 2]| strip.windows(2).position(|bytes| bytes == marker).unwrap();
    let (frame, scan) = (place([0xFF, 0xC0]), place([0xFF, 0xDA]) + 10);
    let mut large = strip[..scan].to_vec();
    large[frame + 5..frame + 7].copy_from_slice(&384_u16.to_be_bytes());
    large.extend([0; 48 * 48 * 2 / 8]);
    large.extend([0xFF, 0xD9]);
    large
}

/// Returns the picture and the index of each sample, by key.
fn stored(dataset: &Path, field: &str) -> BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)> {
    let dataset = Dataset::open(dataset).unwrap();
    let samples = (0..dataset.len()).map(|i| dataset.get(i).unwrap());
    let row = |sample: shardpack::Sample| {
        let index = sample.field(&format!("{field}.segments")).unwrap();
        assert!(index.is_none_or(|index| index.codec == Codec::Raw));
        let index = index.map(|index| index.bytes.to_vec());
        (sample.key().to_owned(), (sample.image(field).unwrap().bytes.to_vec(), index))
    };
    samples.map(row).collect()
}

fn check(found: &BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)>) {
    for (key, (picture, index)) in found {
        let mut expected = Vec::new();
        let count = SegmentIndexer::new().index(picture, &Limits::default(), &mut expected).unwrap();
        assert_eq!(count.map(|_| &expected), index.as_ref(), "{key}");
    }
}

fn indexed(found: &BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)>) -> Vec<&str> {
    found.iter().filter(|(_, (_, index))| index.is_some()).map(|(key, _)| key.as_str()).collect()
}

fn recipe(dataset: &Path) -> String {
    serde_json::to_string(&Dataset::open(dataset).unwrap().recipe()["image"]).unwrap()
}

/// Returns the pictures that a GPU is expected to decode.
fn for_gpus(dataset: &Path) -> Vec<String> {
    let dataset = Dataset::open(dataset).unwrap();
    let is = |sample: &shardpack::Sample| sample.scalar("gpu_jpeg").unwrap() == Scalar::Bool(true);
    let samples = (0..dataset.len()).map(|i| dataset.get(i).unwrap()).filter(is);
    samples.map(|sample| sample.key().to_owned()).collect()
}

/// Loads the middle of each picture. Returns the pixels by key, and the number of indexes that were found to be wrong.
fn batch(dataset: &Path) -> (BTreeMap<String, Vec<u8>>, u64) {
    let dataset = Dataset::open(dataset).unwrap();
    let options = dataset.loader().batch_size(8).end(End::Uneven).image(View::center_crop(8, (8, 8)));
    let mut loader = options.fields(["image"]).open().unwrap();
    let mut rows = BTreeMap::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let bytes = batch.field("image").unwrap().to_host().unwrap();
        for (row, &index) in bytes.chunks(8 * 8 * 3).zip(batch.indices()) {
            rows.insert(dataset.key(index).unwrap(), row.to_vec());
        }
    }
    (rows, loader.stats().wrong_indexes)
}

#[test]
fn kept_pictures_get_indexes_unless_the_user_declines() {
    let scratch = tempfile::tempdir().unwrap();
    let src = write_pictures(scratch.path());
    let (out, plain) = (scratch.path().join("out"), scratch.path().join("plain"));
    run(&src, &out, &PackOptions { pictures: PictureOptions::of(Jpeg::Keep), ..with(true) }).unwrap();
    run(&src, &plain, &with(false)).unwrap();
    let found = stored(&out, "image");
    check(&found);
    assert_eq!(indexed(&found), ["a.jpg", "b.jpg"]);
    for (key, (picture, _)) in &found {
        assert_eq!(*picture, fs::read(src.join(key)).unwrap(), "{key}");
    }
    assert_eq!(recipe(&out), r#"{"jpeg":"keep","segment_index":true}"#);
    assert_eq!(recipe(&plain), r#"{"jpeg":"keep"}"#);
    let dataset = Dataset::open(&out).unwrap();
    assert!(dataset.schema().user_fields().all(|field| !field.name.contains("segments")));
    for number in dataset.shard_numbers() {
        assert_eq!(dataset.shard(number).unwrap().identity().optional_features, SEGMENT_INDEXES);
    }
    let plain_dataset = Dataset::open(&plain).unwrap();
    assert!(!plain_dataset.schema().fields().contains(&Field::segments("image")));
    assert_eq!(plain_dataset.shard(0).unwrap().identity().optional_features, 0);
    let (rows, wrong) = batch(&out);
    assert_eq!((&rows, wrong), (&batch(&plain).0, 0));
    assert!(rows["a.jpg"] != rows["b.jpg"]);
    for dataset in [&out, &plain] {
        assert!(shardpack::verify(dataset).unwrap().report.is_whole());
    }
}

#[test]
fn making_an_index_finds_damage_that_markers_do_not_show() {
    let scratch = tempfile::tempdir().unwrap();
    let src = write_pictures(scratch.path());
    let mut damaged = strip(255);
    // This byte makes the compressed data invalid, because no code for AC coefficients in this picture begins with a 1
    // bit.
    let at = damaged.len() - 6;
    damaged[at] = 0x7F;
    fs::write(src.join("d.jpg"), damaged).unwrap();
    let out = scratch.path().join("out");
    let error = run(&src, &out, &with(true)).unwrap_err().to_string();
    assert!(error.contains("d.jpg`: cannot decode the picture"), "{error}");
    let source = SourceOptions { on_bad_input: OnBadInput::Skip, ..SourceOptions::default() };
    let report = run(&src, &out, &PackOptions { source, ..with(true) }).unwrap().report;
    assert_eq!((report.samples, report.skipped[0].key.as_str()), (3, "d.jpg"));
    assert_eq!(run(&src, &scratch.path().join("plain"), &with(false)).unwrap().report.samples, 4);
}

#[test]
fn a_source_without_baseline_jpegs_gets_no_field_for_indexes() {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir(scratch.path().join("src")).unwrap();
    let progressive = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/jpeg/testdata/progressive.jpg");
    fs::copy(progressive, scratch.path().join("src/b.jpg")).unwrap();
    let out = scratch.path().join("out");
    run(&scratch.path().join("src"), &out, &with(true)).unwrap();
    assert!(!Dataset::open(&out).unwrap().schema().fields().contains(&Field::segments("image")));
    // Pictures for which an index would be useful can still be added to this dataset. They get no index.
    let collector = Collector::append(&out, None, AppendOptions::default()).unwrap();
    collector.add(Sample::new().with_key("new").with("image", SampleValue::Bytes(strip(255)))).unwrap();
    collector.commit(None, None).unwrap();
    assert_eq!(Dataset::open(&out).unwrap().len(), 2);
}

#[test]
fn additions_get_indexes_if_the_dataset_has_them() {
    let scratch = tempfile::tempdir().unwrap();
    let src = write_pictures(scratch.path());
    let more = scratch.path().join("more");
    fs::create_dir(&more).unwrap();
    fs::write(more.join("x.jpg"), strip(200)).unwrap();
    let cancel = AtomicBool::new(false);
    let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel };
    for segment_index in [true, false] {
        let out = scratch.path().join(format!("out-{segment_index}"));
        run(&src, &out, &with(segment_index)).unwrap();
        add(&out, &more, &AddOptions { on_known_key: OnKnownKey::Stop, ..AddOptions::default() }, &hooks).unwrap();
        let collector = Collector::append(&out, None, AppendOptions::default()).unwrap();
        collector.add(Sample::new().with_key("y").with("image", SampleValue::Bytes(strip(210)))).unwrap();
        collector.commit(None, None).unwrap();
        assert!(shardpack::verify(&out).unwrap().report.is_whole());
        assert_eq!(recipe(&out).contains("segment_index"), segment_index);
        if segment_index {
            let found = stored(&out, "image");
            check(&found);
            assert_eq!(indexed(&found), ["a.jpg", "b.jpg", "x.jpg", "y"]);
        } else {
            assert!(!Dataset::open(&out).unwrap().schema().fields().contains(&Field::segments("image")));
        }
    }
}

#[test]
fn programs_get_indexes_beside_each_kept_picture_and_cannot_name_a_field_like_one() {
    let scratch = tempfile::tempdir().unwrap();
    let options = || CollectOptions { pictures: PictureOptions::of(Jpeg::Keep), ..CollectOptions::default() };
    let out = scratch.path().join("out");
    let collector = Collector::open(&out, None, options()).unwrap();
    let sample = || {
        Sample::new()
            .with("left", SampleValue::Bytes(strip(255)))
            .with("n", 1_i64)
            .with("right", SampleValue::Bytes(crate::make::valid::jpeg()))
    };
    collector.add(sample().with_key("both")).unwrap();
    collector
        .add(
            Sample::new()
                .with_key("one")
                .with("left", SampleValue::Bytes(strip(99 + 64)))
                .with("n", 2_i64)
                .without("right"),
        )
        .unwrap();
    collector.commit(None, None).unwrap();
    let found = stored(&out, "left");
    check(&found);
    assert_eq!(indexed(&found), ["both", "one"]);
    let dataset = Dataset::open(&out).unwrap();
    let names: Vec<_> = dataset.schema().stored().map(|field| field.name.clone()).collect();
    assert_eq!(names, ["left", "left.segments", "right", "right.segments"]);
    assert!(shardpack::verify(&out).unwrap().report.is_whole());
    for pictures in [Jpeg::Tile, Jpeg::Keep].map(PictureOptions::of) {
        let kinds = vec![("image".to_owned(), Kind::Image), ("image.segments".to_owned(), Kind::Bytes)];
        let collector =
            Collector::open(&*scratch.path().join("other"), Some(kinds), CollectOptions { pictures, ..options() })
                .unwrap();
        let error = collector.add(
            Sample::new()
                .with("image", SampleValue::Bytes(strip(255)))
                .with("image.segments", SampleValue::Bytes(b"x".to_vec())),
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`image.segments`: this name is reserved"), "{error}");
    }
}

#[test]
fn an_older_dataset_gets_indexes_in_a_generation_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let src = write_pictures(scratch.path());
    fs::write(src.join("d.jpg"), large()).unwrap();
    let (out, packed) = (scratch.path().join("out"), scratch.path().join("packed"));
    run(&src, &out, &with(false)).unwrap();
    run(&src, &packed, &with(true)).unwrap();
    let before = batch(&out);
    assert!(!for_gpus(&out).contains(&"d.jpg".to_owned()));
    let report = add_indexes(&out, &RewriteOptions::default()).unwrap();
    let bytes: usize = stored(&packed, "image").values().filter_map(|(_, index)| index.as_ref()).map(Vec::len).sum();
    assert_eq!((report.generation, report.indexed, report.index_bytes, report.damaged), (2, 3, bytes as u64, 0));
    assert_eq!(stored(&out, "image"), stored(&packed, "image"));
    assert_eq!(recipe(&out), recipe(&packed));
    assert_eq!(Dataset::open(&out).unwrap().schema(), Dataset::open(&packed).unwrap().schema());
    assert_eq!(batch(&out), before);
    assert_eq!(for_gpus(&out), for_gpus(&packed));
    assert!(for_gpus(&out).contains(&"d.jpg".to_owned()), "an index is enough for a GPU");
    assert!(shardpack::verify(&out).unwrap().report.is_whole());
    // A second call rewrites nothing. The first generation remains until `compact` deletes it.
    assert_eq!(add_indexes(&out, &RewriteOptions::default()).unwrap().shards, 0);
    assert_eq!(compact(&out).unwrap().generations, [1]);
    assert_eq!(stored(&out, "image"), stored(&packed, "image"));
    assert!(shardpack::verify(&out).unwrap().report.is_whole());

    let tiled = scratch.path().join("tiled");
    run(&src, &tiled, &PackOptions::default()).unwrap();
    let error = add_indexes(&tiled, &RewriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("no pictures that were stored unchanged"), "{error}");
}

/// Every wrong index in the invalid fixtures leaves the pixels unchanged and is counted.
#[test]
fn a_wrong_index_changes_no_pixel_and_is_counted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let (sound, wrong) = batch(&root.join("valid/segment-indexes.shard"));
    assert_eq!(wrong, 0);
    let mut seen = 0;
    for case in crate::make::segments::invalid() {
        if case.target.contains("without-picture") {
            continue;
        }
        let (rows, wrong) = batch(&root.join(&case.target));
        assert_eq!(rows["a.jpg"], sound["indexed.jpg"], "{}", case.target);
        // A fault in the padding of an index is not noticed, because decoders do not check padding.
        assert_eq!(wrong, u64::from(!case.target.contains("padding")), "{}", case.target);
        seen += 1;
    }
    assert!(seen > 15);
    // Without the feature bit, a field with the name of an index is not used as one.
    assert_eq!(batch(&root.join("valid/field-named-like-a-segment-index.shard")).1, 0);
}

/// A picture's index is used and checked even if the record also contains a cube that is decoded in parts.
#[test]
fn pictures_beside_large_cubes_use_their_indexes() {
    let picture = strip(255);
    let index = |jpeg: &[u8]| {
        let mut index = Vec::new();
        SegmentIndexer::new().index(jpeg, &Limits::default(), &mut index).unwrap();
        FixtureValue::plain(FieldKind::Bytes, &index)
    };
    let sound = index(&picture);
    let unreadable = FixtureValue { codec: Codec::Zstd, decoded_bytes: 1 << 60, ..sound.clone() };
    let scratch = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for (value, expected) in [(sound, 0), (index(&strip(254)), 1), (unreadable, 1)] {
        for cube_bytes in [16, 1 << 16] {
            let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![cube_bytes]);
            let cube = vec![7; cube_bytes as usize];
            let values = vec![
                Some(FixtureValue::picture(Codec::Jpeg, "image/jpeg", &picture)),
                Some(value.clone()),
                Some(FixtureValue::array(Codec::Raw, &descriptor, cube.clone(), cube)),
            ];
            let fields = vec![
                Field::stored("image", FieldKind::Image),
                Field::segments("image"),
                Field::stored("cube", FieldKind::Array),
            ];
            let mut shard = Shard::new(fields, vec![sample(0, "a", values)]);
            shard.identity.optional_features = SEGMENT_INDEXES;
            let path = scratch.path().join("one.shard");
            fs::write(&path, shard.bytes()).unwrap();
            let dataset = Dataset::open(&path).unwrap();
            let options = dataset.loader().batch_size(1).image(View::center_crop(8, (8, 8))).part_bytes(1 << 12);
            let mut loader = options.fields(["image", "cube"]).open().unwrap();
            let batch = loader.epoch(0).next().unwrap().unwrap();
            assert!(batch.field("cube").unwrap().to_host().unwrap().iter().all(|&byte| byte == 7));
            seen.push(batch.field("image").unwrap().to_host().unwrap().to_vec());
            assert_eq!(loader.stats().wrong_indexes, expected, "{cube_bytes} bytes");
        }
    }
    assert!(seen.iter().all(|pixels| *pixels == seen[0]));
}

/// Without the feature bit, a field named like a segment index is an ordinary field of the user.
#[test]
fn a_field_of_the_user_may_have_the_name_of_an_index() {
    let scratch = tempfile::tempdir().unwrap();
    let lone = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/valid/field-named-like-a-segment-index.shard");
    let names = |dataset: &Dataset| dataset.schema().user_fields().map(|field| field.name.clone()).collect::<Vec<_>>();
    let lone = Dataset::open(lone).unwrap();
    assert_eq!(names(&lone), ["image", "image.segments"]);

    let fields = vec![Field::stored("image", FieldKind::Image), Field::segments("image")];
    let source = OneSample(Schema::new(fields).unwrap().with_features(0));
    let metadata = Metadata { schema: source.0.clone(), ..Metadata::default() };
    let planned = PlanSample { key: "one", source_bytes: 1, stored_bytes: 200, ..PlanSample::default() };
    let plan = Plan::new([planned], metadata, PlanOptions::default()).unwrap();
    let out = scratch.path().join("out");
    write_dataset(&out, &plan, &source, &WriteOptions::default()).unwrap();
    let error = add_indexes(&out, &RewriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("already has another field with this name"), "{error}");
    let collector = Collector::append(&out, None, AppendOptions::default()).unwrap();
    let sample = Sample::new().with_key("two").with("image", SampleValue::Bytes(strip(255)));
    collector.add(sample.with("image.segments", SampleValue::Bytes(b"mine".to_vec()))).unwrap();
    collector.commit(None, None).unwrap();
    let dataset = Dataset::open(&out).unwrap();
    assert_eq!(names(&dataset), ["image", "image.segments"]);
    for number in dataset.shard_numbers() {
        assert_eq!(dataset.shard(number).unwrap().identity().optional_features, 0);
    }
    let found = stored(&out, "image");
    assert_eq!(found["two"], (strip(255), Some(b"mine".to_vec())));
    assert!(shardpack::verify(&out).unwrap().report.is_whole());
    // The other dataset has a field of the same name that is an index. In the concatenation, the user's field stays
    // visible.
    let indexed = scratch.path().join("indexed");
    run(&write_pictures(scratch.path()), &indexed, &with(true)).unwrap();
    let parts = [&indexed, &out].map(|path| shardpack_loader::Dataset::open(path).unwrap());
    let both = shardpack_loader::Dataset::concat(&parts).unwrap();
    assert!(both.schema().user_fields().any(|field| field.name == "image.segments"));
}

/// The headers of the shards, not the field's name, tell `salvage` whether a field is a segment index.
#[test]
fn salvage_keeps_indexes_and_fields_with_their_names() {
    let scratch = tempfile::tempdir().unwrap();
    let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/valid/field-named-like-a-segment-index.shard");
    let indexed = scratch.path().join("indexed");
    let src = write_pictures(scratch.path());
    for n in 0..20 {
        fs::write(src.join(format!("more-{n}.jpg")), strip(250 - n)).unwrap();
    }
    run(&src, &indexed, &with(true)).unwrap();
    // Without its header, a shard is identified by its footer. A shard without either is assumed to belong to the same
    // dataset as the others.
    let shards = shard_files(&indexed);
    assert!(shards.len() > 1);
    let salvaged = |from: &Path, name: &str| {
        let (out, limits) = (scratch.path().join(name), Limits::default());
        let mut survey = Survey::scan(from, &SalvageOptions::default(), &AtomicBool::new(false)).unwrap();
        survey.write(&out, &limits, &WriteOptions::default()).unwrap();
        let dataset = Dataset::open(&out).unwrap();
        let features = dataset.shard(0).unwrap().identity().optional_features;
        let names: Vec<_> = dataset.schema().user_fields().map(|field| field.name.clone()).collect();
        (names.iter().any(|name| name == "image.segments"), features, stored(&out, "image"))
    };
    let before = stored(&indexed, "image");
    for (name, damaged) in [("whole", 0), ("without-header", 1), ("without-footer", 2)] {
        if damaged > 0 {
            let mut bytes = fs::read(&shards[0]).unwrap();
            let at = if damaged == 1 { 8 } else { bytes.len() - 40 };
            bytes[at] ^= 0xFF;
            fs::write(&shards[0], bytes).unwrap();
        }
        assert_eq!(salvaged(&indexed, name), (false, SEGMENT_INDEXES, before.clone()), "{name}");
    }
    assert_eq!(salvaged(&users, "saved"), (true, 0, stored(&users, "image")));
}

fn shard_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut shards: Vec<_> = files.filter(|path| path.extension().is_some_and(|name| name == "shard")).collect();
    shards.sort();
    shards
}

/// A wrong index is counted once per picture, not once per crop.
#[test]
fn a_picture_with_several_crops_has_one_wrong_index() {
    let scratch = tempfile::tempdir().unwrap();
    let picture = strip(255);
    let mut index = Vec::new();
    SegmentIndexer::new().index(&strip(254), &Limits::default(), &mut index).unwrap();
    let values = vec![
        Some(FixtureValue::picture(Codec::Jpeg, "image/jpeg", &picture)),
        Some(FixtureValue::plain(FieldKind::Bytes, &index)),
    ];
    let fields = vec![Field::stored("image", FieldKind::Image), Field::segments("image")];
    let samples = (0..3).map(|n| sample(n, ["a", "b", "c"][n as usize], values.clone())).collect();
    let mut shard = Shard::new(fields, samples);
    shard.identity.optional_features = SEGMENT_INDEXES;
    let path = scratch.path().join("three.shard");
    fs::write(&path, shard.bytes()).unwrap();
    // In the first list, the crops are far apart and are decoded one by one. In the second list, they are decoded
    // together.
    let part = |x| View::rectangle(Rect { x, y: 0, width: 8, height: 8 });
    for parts in [[0, 100, 376], [96, 100, 104]] {
        let dataset = Dataset::open(&path).unwrap();
        let options = dataset.loader().batch_size(3).crops(parts.map(|x| PictureCrop::from(part(x))));
        let mut loader = options.fields(["image"]).open().unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        drop(batch);
        assert_eq!(loader.stats().wrong_indexes, 3, "{parts:?}");
    }
}

/// A source of one sample with a user's field `image.segments` of one byte.
struct OneSample(Schema);

impl SampleSource for OneSample {
    type Tally = ();
    type Error = shardpack_format::Error;

    fn key(&self, _: u64) -> Cow<'_, str> {
        "one".into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        1 << 10
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<()>, Self::Error> {
        let picture = strip(130);
        let media = b"image/jpeg";
        let image = StoredField {
            codec: Codec::Jpeg,
            decoded_bytes: picture.len() as u64,
            descriptor: media,
            stored_bytes: picture.len() as u64,
        };
        let fields = [Some(image), Some(StoredField::raw(1))];
        let mut record = RecordBuilder::new(buffer, &self.0, shard, sample, "one", &[], &fields)?;
        record.field_mut(0).copy_from_slice(&picture);
        record.field_mut(1).copy_from_slice(b"x");
        let (record, frame) = record.finish();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars: Vec::new(), source_bytes: 1, tally: () }))
    }
}

#[test]
fn the_specification_shows_the_index_of_the_fixture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("format-spec/README.md")).unwrap();
    let section = text.split("### 5.5 Segment indexes").nth(1).unwrap();
    let dump = section.split("```").nth(1).unwrap().lines().filter_map(|line| line.get(6..53));
    let shown = dump.flat_map(str::split_ascii_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let found = stored(&root.join("fixtures/valid/segment-indexes.shard"), "image");
    assert_eq!(found["indexed.jpg"].1, Some(shown.collect()));
}
