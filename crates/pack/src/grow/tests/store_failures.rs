//! Tests that changes of a dataset in a store survive a failure or a kill at any request: readers find the old dataset
//! or the new one, and a repeat completes the change.

use super::*;
use shardpack_format::{Dtype, MANIFEST_NAME, Manifest};
use shardpack_io::{FailingStorage, Failure, MemoryStorage};
use shardpack_reader::verify_in;
use shardpack_writer::Bucket;
use std::sync::Arc;

const NAME: &str = "s3://bucket/train";
/// A file of another program in the folder of the dataset.
const FOREIGN: &str = "notes.txt";

type Files = BTreeMap<String, Vec<u8>>;
type Change<'a> = &'a dyn Fn(Output) -> crate::Result<()>;

/// A dataset in a store, before and after a change.
struct Changed<'a> {
    change: Change<'a>,
    before: Files,
    after: Files,
    /// Number of requests that the change sends.
    requests: u64,
}

impl<'a> Changed<'a> {
    /// Makes the change once without a failure, in the store and in a folder. Both get the same files.
    fn new(place: &Place, change: Change<'a>) -> Self {
        place.write(&format!("out/{FOREIGN}"), "not ours");
        let (before, spools) = (files(&place.path("out")), place.path("spools"));
        let memory = store(&before);
        let failing = FailingStorage::new(&memory, Failure::None);
        change(Bucket::new(Arc::<FailingStorage>::clone(&failing), &spools).into()).unwrap();
        change((&place.path("out")).into()).unwrap();
        let after = files(&place.path("out"));
        assert!(*memory.objects() == after, "{:?}", memory.objects().keys());
        assert!(failing.requests() > 20, "{}", failing.requests());
        Self { change, before, after, requests: failing.requests() }
    }

    /// Checks that each file of the dataset is complete, and that the newest generation is the old or the new one.
    fn check(&self, memory: &MemoryStorage, failure: Failure) {
        let left = memory.objects().clone();
        let newest = &left[MANIFEST_NAME];
        assert!(*newest == self.before[MANIFEST_NAME] || *newest == self.after[MANIFEST_NAME], "{failure:?}");
        assert_whole(&left, failure);
    }

    /// Fails and kills the change at each request. The same machine then repeats it.
    fn completes_after_any_failure(&self) {
        for failure in Failure::all(self.requests) {
            let (memory, spools) = (store(&self.before), tempfile::tempdir().unwrap());
            let _ = (self.change)(bucket(&memory, failure, spools.path()));
            self.check(&memory, failure);
            let again = (self.change)(bucket(&memory, Failure::None, spools.path()));
            again.unwrap_or_else(|error| panic!("{failure:?}: {}", error.told(Voice::Command)));
            assert!(*memory.objects() == self.after, "{failure:?}: {:?}", memory.objects().keys());
            assert_eq!(fs::read_dir(spools.path()).unwrap().count(), 0, "{failure:?}: the spool is removed");
        }
    }

    /// Kills the change at each request. Another machine then takes it over, and compacts the dataset.
    fn is_taken_over_after_any_kill(&self) {
        let expected = contents(&self.after);
        for failure in Failure::kills(self.requests) {
            let (memory, spools) = (store(&self.before), tempfile::tempdir().unwrap());
            let others = tempfile::tempdir().unwrap();
            let _ = (self.change)(bucket(&memory, failure, spools.path()));
            let there = Bucket::new(FailingStorage::new(&memory, Failure::None), others.path()).take_over(true);
            let taken = (self.change)(there.into());
            taken.unwrap_or_else(|error| panic!("{failure:?}: {}", error.told(Voice::Command)));
            let left = memory.objects().clone();
            assert_whole(&left, failure);
            assert!(contents(&left) == expected, "{failure:?}");
            // The machine whose run was killed has nothing left to do.
            (self.change)(bucket(&memory, Failure::None, spools.path())).unwrap();
            assert!(*memory.objects() == left, "{failure:?}: {:?}", memory.objects().keys());
            // Compacting deletes the objects that the killed run left behind.
            compact(bucket(&memory, Failure::None, others.path())).unwrap();
            let compacted = memory.objects().clone();
            let newest = manifest(&compacted, MANIFEST_NAME);
            let generation = format!("manifest-{:04}.json", newest.generation());
            let mut listed: Vec<&str> = newest.files().map(|(_, file)| file.name.as_str()).collect();
            listed.extend([MANIFEST_NAME, FOREIGN, &generation]);
            listed.sort_unstable();
            assert_eq!(compacted.keys().collect::<Vec<_>>(), listed, "{failure:?}");
            assert!(contents(&compacted) == expected, "{failure:?}");
        }
    }
}

fn store(files: &Files) -> Arc<MemoryStorage> {
    Arc::new(MemoryStorage::new(NAME, files.clone()))
}

fn bucket(memory: &Arc<MemoryStorage>, failure: Failure, spools: &Path) -> Output {
    Bucket::new(FailingStorage::new(memory, failure), spools).into()
}

fn manifest(files: &Files, name: &str) -> Manifest {
    Manifest::parse(&files[name], &Limits::default()).unwrap()
}

/// Checks that every generation with a manifest can be read, and that the foreign object is unchanged.
fn assert_whole(files: &Files, failure: Failure) {
    assert_eq!(files[FOREIGN], b"not ours");
    for name in files.keys().filter(|name| name.starts_with("manifest")) {
        let options = VerifyOptions { digest: true, threads: 1, ..Default::default() };
        let report = verify_in(store(files), Some(name), &options).unwrap();
        assert!(report.is_whole(), "{failure:?}: {name}: {:?}", report.problems);
    }
}

/// Returns the content of each sample of the newest generation, by key.
fn contents(files: &Files) -> BTreeMap<String, BTreeSet<String>> {
    let dataset = DatasetOptions::new().open_in(store(files)).unwrap();
    let content = |sample: shardpack_reader::Sample| {
        let names = dataset.schema().fields().iter().map(|field| field.name.as_str());
        let value = |name| format!("{name}: {:?} {:?}", sample.scalar(name).ok(), sample.field(name).ok());
        (sample.key().to_owned(), names.map(value).collect())
    };
    dataset.iter().unwrap().map(|sample| content(sample.unwrap())).collect()
}

/// Packs five photos, which stay as they are, into several shards.
fn packed() -> Place {
    let place = Place::new();
    place.photos(0, &["src/cat/1.jpg", "src/cat/2.jpg", "src/dog/1.jpg", "src/dog/2.jpg", "src/dog/3.jpg"]);
    place.pack(&PackOptions { shard_bytes: 1500, ..kept() });
    assert!(place.open(None).shards().len() > 1);
    place
}

fn options() -> RewriteOptions<'static> {
    RewriteOptions { threads: 1, ..RewriteOptions::default() }
}

fn remove_two(out: Output) -> crate::Result<()> {
    remove(out, &keys(&["cat/2.jpg", "dog/3.jpg"]), &options()).map(drop)
}

fn index(out: Output) -> crate::Result<()> {
    add_indexes(out, &options()).map(drop)
}

fn add_scores(out: Output) -> crate::Result<()> {
    let scores = [1.0_f64, 2.0, 3.0, 4.0, 5.0].map(f64::to_le_bytes).concat();
    let columns = [NewColumn { name: "score".into(), dtype: Dtype::F64, shape: vec![], bytes: &scores }];
    add_columns(out, &NewColumns { columns: &columns, keys: None, generation: None }, &options()).map(drop)
}

#[test]
fn files_are_added_despite_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    place.photos(10, &["week/ant/1.jpg", "week/dog/9.jpg"]);
    let week = |out: Output| {
        let options = AddOptions { threads: 1, ..AddOptions::default() };
        hooked(|hooks| add(out, &place.path("week"), &options, hooks)).map(drop)
    };
    let added = Changed::new(&place, &week);
    assert_eq!(contents(&added.after).len(), 7);
    added.completes_after_any_failure();
    added.is_taken_over_after_any_kill();
}

#[test]
fn samples_are_removed_despite_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    let removed = Changed::new(&place, &remove_two);
    assert_eq!(contents(&removed.after).keys().collect::<Vec<_>>(), ["cat/1.jpg", "dog/1.jpg", "dog/2.jpg"]);
    removed.completes_after_any_failure();
    removed.is_taken_over_after_any_kill();
}

#[test]
fn columns_survive_a_removal_despite_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    add_scores((&place.path("out")).into()).unwrap();
    let removed = Changed::new(&place, &remove_two);
    let (before, after) = (contents(&removed.before), contents(&removed.after));
    assert!(after.len() == 3 && after.iter().all(|(key, values)| before[key] == *values));
    removed.completes_after_any_failure();
}

#[test]
fn segment_indexes_are_added_despite_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    let indexed = Changed::new(&place, &index);
    assert_eq!(contents(&indexed.after).len(), 5);
    indexed.completes_after_any_failure();
    indexed.is_taken_over_after_any_kill();
}

#[test]
fn compacting_with_segment_indexes_continues_after_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    // A shard is left without samples.
    remove_two((&place.path("out")).into()).unwrap();
    let both = |out: Output| {
        index(out.clone())?;
        compact(out).map(drop)
    };
    let compacted = Changed::new(&place, &both);
    assert_eq!(manifest(&compacted.after, MANIFEST_NAME).generation(), 3);
    assert!(!compacted.after.contains_key("manifest-0002.json"));
    compacted.completes_after_any_failure();
}

#[test]
fn columns_are_added_despite_a_failure_or_a_kill_at_any_request() {
    let place = packed();
    let added = Changed::new(&place, &add_scores);
    assert!(contents(&added.after)["dog/3.jpg"].iter().any(|value| value.starts_with("score: Some")));
    added.completes_after_any_failure();
    added.is_taken_over_after_any_kill();
}
