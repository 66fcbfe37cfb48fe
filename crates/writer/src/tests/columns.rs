//! Tests generations that add columns: their files, and crashes.

use super::behaviour::options;
use super::growth::{OUT, add, crash_at_any_moment, fresh, held, parse, sources};
use super::memory_fs::MemoryFs;
use super::said;
use super::source::Sum;
use crate::target::Target;
use crate::{Encoded, EncodedSample, Error, Growth, KeptSample, Next, Plan, Report, SampleSource, Tally as _};
use shardpack_format::{Dtype, FOOTER_BYTES, Field, Footer, Index, Limits, Manifest, RecordBuilder, Schema};
use shardpack_io::FileSystem as _;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// A score for each sample of a dataset.
struct Scores {
    schema: Schema,
    samples: Vec<(String, u64)>,
}

impl SampleSource for Scores {
    type Tally = Sum;
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.samples[usize::try_from(sample).unwrap()].0.as_str().into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        500
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<Sum>, Self::Error> {
        let (key, id) = &self.samples[usize::try_from(sample).unwrap()];
        let scalars = id.to_le_bytes();
        let (record, frame) = RecordBuilder::new(buffer, &self.schema, shard, sample, key, &scalars, &[])?.finish();
        let scalars = scalars.to_vec();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes: 8, tally: Sum(0.0) }))
    }
}

fn index(files: &BTreeMap<String, Vec<u8>>, name: &str) -> (Footer, Index) {
    let bytes = &files[name];
    let footer_at = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
    let footer = Footer::parse(&bytes[footer_at..], bytes.len() as u64, &Limits::default()).unwrap();
    let index_at = usize::try_from(footer.index_offset).unwrap();
    let index = Index::parse(bytes[index_at..footer_at].to_vec(), &footer, &Limits::default()).unwrap();
    (footer, index)
}

fn add_scores(fs: &MemoryFs, name: &str) -> crate::Result<Report> {
    let growth = Growth::take_on(Target::folder(fs, Path::new(OUT)))?;
    // A real caller would notice that the field is there.
    if growth.manifest().whole_schema()?.scalar_position(name).is_some() {
        return Err(Error::usage("done", ""));
    }
    let (files, mut scores) = (held(fs), Vec::new());
    let mut samples = Vec::new();
    for shard in &growth.manifest().shards {
        let (_, index) = index(&files, &shard.name);
        let rows = (0..index.len()).map(|i| (index.key(i).unwrap().to_owned(), index.row(i).unwrap().sample_id));
        samples
            .push(rows.clone().map(|(_, sample_id)| KeptSample { sample_id, record_bytes: 200, crc32: 7 }).collect());
        scores.extend(rows);
    }
    let schema = Schema::new(vec![Field::scalar(name, Dtype::U64)]).unwrap();
    let plan = Plan::columns(growth.manifest(), schema.clone(), samples)?;
    let next = Next { kept: BTreeMap::new(), fidelity: &Sum::fidelity };
    growth.write(&plan, &Scores { schema, samples: scores }, next, &options(2))
}

/// Checks that each columns file has the samples of its shard, and the values of its samples.
fn check(files: &BTreeMap<String, Vec<u8>>, manifest: &Manifest) {
    for columns in &manifest.columns {
        for (number, (file, shard)) in columns.files.iter().zip(&manifest.shards).enumerate() {
            let (footer, added) = index(files, &file.name);
            let number = u32::try_from(number).unwrap();
            let place = manifest.columns.iter().position(|other| other == columns).unwrap();
            manifest.check_columns_file(place, number, &footer, added.metadata()).unwrap();
            index(files, &shard.name).1.check_columns(&added).unwrap();
            for i in 0..added.len() {
                assert_eq!(added.scalar(i, 0).unwrap(), added.row(i).unwrap().sample_id.to_le_bytes());
            }
        }
    }
}

#[test]
fn columns_are_added_beside_the_shards() {
    let fs = fresh();
    let before = held(&fs);
    let report = add_scores(&fs, "score").unwrap();
    let files = held(&fs);
    let (old, new) = (parse(&files, "manifest-0001.json"), parse(&files, "manifest.json"));
    assert_eq!(report.samples, old.samples);
    assert_eq!((new.generation(), &new.shards, &new.schema), (2, &old.shards, &old.schema));
    assert_eq!((new.shard_recipe(), &new.fidelity), (old.recipe.clone(), &old.fidelity));
    assert_eq!(new.columns[0].files[1].name, "columns-00001-0002.shard");
    assert_eq!(files["manifest-0001.json"], before["manifest.json"]);
    check(&files, &new);
    add_scores(&fs, "second").unwrap();
    let newest = parse(&held(&fs), "manifest.json");
    assert_eq!((newest.generation(), newest.columns.len(), &newest.columns[0]), (3, 2, &new.columns[0]));
    check(&held(&fs), &newest);
}

#[test]
fn a_crash_at_any_moment_leaves_the_dataset_with_or_without_the_columns() {
    crash_at_any_moment(|fs| add_scores(fs, "score"), |files| check(files, &parse(files, "manifest.json")));
}

#[test]
fn a_generation_that_would_lose_columns_is_refused() {
    let fs = fresh();
    add_scores(&fs, "score").unwrap();
    let before = held(&fs);
    let error = said(&add(&fs, &sources().1, &options(1)).unwrap_err());
    assert_eq!(error, "the new generation would lose the added columns `score`");
    assert_eq!(held(&fs), before);
}

#[test]
fn compacting_keeps_only_the_columns_files_of_the_newest_generation() {
    let fs = fresh();
    add_scores(&fs, "score").unwrap();
    let compact = || Growth::take_on(Target::folder(&fs, Path::new(OUT))).unwrap().compact().unwrap();
    let gone = compact();
    assert_eq!((gone.generations, gone.shards), (vec![1], vec![]));
    check(&held(&fs), &parse(&held(&fs), "manifest.json"));
    // A columns file of the dataset that no manifest lists is a leftover.
    let leftover = held(&fs)["columns-00000-0002.shard"].clone();
    let file = fs.create_new(&Path::new(OUT).join("columns-00000-0001.shard")).unwrap();
    file.append(&leftover).unwrap();
    assert_eq!(compact().shards, ["columns-00000-0001.shard"]);
}
