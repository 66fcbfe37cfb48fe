//! Tests that a dataset in a store changes as it would in a folder.

use super::*;
use crate::collect::{AppendOptions, CollectOptions, Collector, Sample};
use shardpack_format::Dtype;
use shardpack_io::{MemoryStorage, Objects, Storage as _};
use shardpack_writer::Bucket;
use std::sync::Arc;

const NAME: &str = "s3://bucket/train";

/// A folder and a store that get the same changes.
struct Twins {
    folder: PathBuf,
    memory: Arc<MemoryStorage>,
    spools: PathBuf,
}

impl Twins {
    /// Copies the dataset `out` of the place into a store.
    fn of(place: &Place) -> Self {
        let memory = Arc::new(MemoryStorage::new(NAME, []));
        memory.objects().extend(files(&place.path("out")));
        Self { folder: place.path("out"), memory, spools: place.path("spools") }
    }

    fn outputs(&self) -> [Output; 2] {
        let objects: Arc<dyn Objects> = Arc::<MemoryStorage>::clone(&self.memory);
        [Output::from(&self.folder), Bucket::new(objects, &self.spools).into()]
    }

    /// Makes the same change to both, and checks that their files are the same afterwards.
    fn change<T: PartialEq + std::fmt::Debug>(&self, change: impl Fn(Output) -> T) -> T {
        let [here, there] = self.outputs().map(change);
        assert_eq!(here, there);
        assert!(files(&self.folder) == *self.memory.objects(), "{:?}", self.memory.names());
        assert_eq!(fs::read_dir(&self.spools).unwrap().count(), 0, "the spool is removed");
        here
    }
}

#[test]
fn files_are_added_removed_and_compacted_in_a_store() {
    let place = Place::new();
    place.photos(0, &["src/cat/1.jpg", "src/cat/2.jpg", "src/dog/1.jpg", "src/dog/2.jpg"]);
    place.photos(10, &["week/ant/1.jpg", "week/dog/9.jpg"]);
    place.pack(&kept());
    let twins = Twins::of(&place);
    let add_week = |out: Output| {
        let added = hooked(|hooks| add(out, &place.path("week"), &AddOptions::default(), hooks)).unwrap();
        (added.generation, added.samples, added.packed.report.samples, added.packed.report.outcome, added.new_classes)
    };
    let added = twins.change(add_week);
    assert_eq!(added, (2, 6, 2, Outcome::Complete, vec!["ant".to_owned()]));
    assert_eq!(twins.change(add_week).3, Outcome::AlreadyComplete, "a repeat has nothing to do");
    let options = RewriteOptions::default();
    let remove_two = |out: Output| remove(out, &keys(&["cat/2.jpg", "dog/9.jpg"]), &options).unwrap();
    let removed = twins.change(remove_two);
    assert_eq!((removed.removed, removed.samples, removed.generation), (2, 4, 3));
    assert_eq!(twins.change(remove_two).removed, 0, "a repeat has nothing to do");
    let indexed = twins.change(|out| add_indexes(out, &options).unwrap());
    assert_eq!(indexed.generation, 4);
    let scores = [1.0_f64, 2.0, 3.0, 4.0].map(f64::to_le_bytes).concat();
    let columns = [NewColumn { name: "score".into(), dtype: Dtype::F64, shape: vec![], bytes: &scores }];
    let new = NewColumns { columns: &columns, keys: None, generation: Some(4) };
    let extended = twins.change(|out| add_columns(out, &new, &options).unwrap());
    assert_eq!((extended.generation, extended.samples), (5, 4));
    let compacted = twins.change(|out| compact(out).unwrap());
    assert_eq!(compacted.generations, [1, 2, 3, 4]);
    assert!(verify(&twins.folder, &VerifyOptions { digest: true, ..Default::default() }).unwrap().is_whole());
    let error = remove(twins.outputs()[1].clone(), &keys(&["nobody.jpg"]), &options).unwrap_err().to_string();
    assert!(error.contains("1 of 1 keys are not in the dataset, so nothing was removed"), "{error}");
    assert!(files(&twins.folder) == *twins.memory.objects(), "a refused run leaves nothing behind");
}

#[test]
fn a_program_appends_to_a_dataset_in_a_store() {
    let place = Place::new();
    let sample = |key: &str| Sample::new().with_key(key).with("text", key.repeat(100).as_str()).with("label", 3);
    let collector = Collector::open(&place.path("out"), None, CollectOptions::default()).unwrap();
    ["a", "b", "c"].iter().for_each(|key| collector.add(sample(key)).unwrap());
    collector.commit(None, None).unwrap();
    drop(collector);
    let twins = Twins::of(&place);
    let append = |out: Output| {
        let collector = Collector::append(out, None, AppendOptions::default()).unwrap();
        assert!(collector.add(sample("b")).is_err());
        ["d", "e"].iter().for_each(|key| collector.add(sample(key)).unwrap());
        let appended = collector.commit(None, None).unwrap().appended.unwrap();
        (appended.generation, appended.samples)
    };
    assert_eq!(twins.change(append), (2, 5));
    twins.change(|out| {
        let aborted = Collector::append(out, None, AppendOptions::default()).unwrap();
        aborted.add(sample("f")).unwrap();
    });
    let empty = Bucket::new(Arc::new(MemoryStorage::new(NAME, [])), &twins.spools);
    let error = Collector::append(empty, None, AppendOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "`s3://bucket/train` is not a dataset: it has no manifest.json");
}
