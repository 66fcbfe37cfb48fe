//! Tests additions and removals: their results, crashes, and parallel runs.

use super::behaviour::options;
use super::faults::run;
use super::memory_fs::{Crash, Fault, MemoryFs};
use super::said;
use super::source::{Numbers, Sum};
use crate::target::Target;
use crate::{Encoded, Error, Growth, KeptSample, Next, Outcome, Plan, Report, SampleSource, Tally as _, WriteOptions};
use shardpack_format::{Error as FormatError, FOOTER_BYTES, Footer, Index, Limits, Manifest, Record};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(super) const OUT: &str = "/data/out";
const FIRST: u64 = 40;

pub(super) fn sources() -> (Numbers, Numbers) {
    let mut more = Numbers::new(30);
    more.keys = (0..30).map(|n| format!("later/{n:04}.bin")).collect();
    (Numbers::new(FIRST), more)
}

pub(super) fn fresh() -> MemoryFs {
    let fs = MemoryFs::new();
    let (first, _) = sources();
    run(&fs, &first.plan(20_000), &first, &options(1)).unwrap();
    fs
}

pub(super) fn held(fs: &MemoryFs) -> BTreeMap<String, Vec<u8>> {
    fs.files_in(Path::new(OUT))
}

pub(super) fn parse(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Manifest {
    Manifest::parse(&files[name], &Limits::default()).unwrap()
}

pub(super) fn add(fs: &MemoryFs, source: &Numbers, options: &WriteOptions<'_>) -> crate::Result<Report> {
    let growth = Growth::take_on(Target::folder(fs, Path::new(OUT)))?;
    // A real caller would notice from the keys that these samples have already been added.
    if growth.manifest().samples == FIRST + 30 {
        return Err(Error::usage("done", ""));
    }
    let plan = source.plan(20_000).behind(growth.manifest(), FIRST)?;
    let kept = (0..).zip(&growth.manifest().shards).map(|(number, _)| (number, Sum(1.0))).collect();
    growth.write(&plan, source, Next { kept, fidelity: &Sum::fidelity }, options)
}

/// Returns a disk with an unfinished addition of files: it failed at a sample after some shards were finished.
pub(super) fn begun() -> MemoryFs {
    let fs = fresh();
    let (_, mut later) = sources();
    later.fail = Some(29);
    // Repeat the addition, because timing decides whether another shard is finished before the last sample fails.
    let tries = std::iter::repeat_with(|| add(&fs, &later, &options(1)).unwrap_err()).take(200);
    let begun = tries.into_iter().any(|_| is_begun(&fs));
    assert!(begun, "{:?}", held(&fs).keys());
    fs
}

/// True if the journal of an addition lists a finished shard after its first line.
pub(super) fn is_begun(fs: &MemoryFs) -> bool {
    let next = fs.files_in(&Path::new(OUT).join(".shardpack-next"));
    let mut journals = next.iter().filter(|(name, _)| name.ends_with(".jsonl"));
    journals.any(|(_, bytes)| bytes.iter().filter(|&&byte| byte == b'\n').count() > 1)
}

pub(super) fn others() -> Numbers {
    let mut other = Numbers::new(20);
    other.keys = (0..20).map(|n| format!("other/{n}")).collect();
    other
}

fn add_at_last(fs: &MemoryFs) {
    assert_done(add(fs, &sources().1, &options(1)));
}

/// Fails unless the change was made, by this call or by an earlier one.
fn assert_done(result: crate::Result<Report>) {
    match result {
        Ok(_) => {}
        Err(Error::Format(FormatError::Usage(note))) if note.text == "done" => {}
        Err(error) => panic!("cannot continue: {error}"),
    }
}

/// Makes a change of the first generation, and crashes at each of its operations. Afterwards the dataset must have the
/// old generation or the new one, with files that pass `check`, and the change must be able to continue.
pub(super) fn crash_at_any_moment(
    change: impl Fn(&MemoryFs) -> crate::Result<Report>,
    check: impl Fn(&BTreeMap<String, Vec<u8>>),
) {
    let start = fresh();
    let before = held(&start);
    let done = start.with_fault(Fault::None, None);
    change(&done).unwrap();
    let expected = held(&done);
    for crash in [Crash::NothingSurvives, Crash::NamesSurvive, Crash::Random(1), Crash::Random(2)] {
        for k in 1.. {
            let fs = start.with_fault(Fault::CrashAt(k), None);
            let result = change(&fs);
            if !fs.was_hit() {
                result.unwrap();
                assert!(k > 20, "{k}");
                break;
            }
            let fs = fs.after(crash);
            let files = held(&fs);
            let newest = &files["manifest.json"];
            assert!(newest == &before["manifest.json"] || newest == &expected["manifest.json"], "{k} {crash:?}");
            if let Some(first) = files.get("manifest-0001.json") {
                assert_eq!(first, &before["manifest.json"], "{k} {crash:?}");
            }
            check(&files);
            assert_done(change(&fs));
            assert!(held(&fs) == expected, "{k} {crash:?}: {:?}", held(&fs).keys());
            assert!(fs.files().len() == expected.len(), "{k} {crash:?}: {:?}", fs.files().keys());
        }
    }
}

/// Returns the id of each sample by key. Checks that keys and ids are unique, and that the shards match the manifest.
pub(super) fn samples(files: &BTreeMap<String, Vec<u8>>, manifest: &Manifest) -> BTreeMap<String, u64> {
    let (mut found, mut ids) = (BTreeMap::new(), BTreeSet::new());
    for (number, shard) in (0..).zip(&manifest.shards) {
        let bytes = &files[&shard.name];
        let footer_at = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
        let footer = Footer::parse(&bytes[footer_at..], shard.bytes, &Limits::default()).unwrap();
        assert_eq!(footer.crc32(), shard.footer_crc32);
        assert_eq!((footer.identity.shard_number, footer.identity.dataset_id), (number, manifest.dataset_id));
        let index_at = usize::try_from(footer.index_offset).unwrap();
        let index = Index::parse(bytes[index_at..footer_at].to_vec(), &footer, &Limits::default()).unwrap();
        assert!(manifest.has_shards(index.metadata().shards.unwrap()));
        for row in (0..index.len()).map(|i| index.row(i).unwrap()) {
            let record = Record::parse(&bytes[usize::try_from(row.offset).unwrap()..], &Limits::default()).unwrap();
            assert_eq!(record.frame.shard_number, number);
            assert!(ids.insert(record.frame.sample_id));
            assert_eq!(found.insert(record.key.to_owned(), record.frame.sample_id), None);
        }
    }
    assert_eq!(found.len() as u64, manifest.samples);
    found
}

#[test]
fn an_addition_changes_no_existing_byte() {
    let fs = fresh();
    let before = held(&fs);
    let report = add(&fs, &sources().1, &options(2)).unwrap();
    assert_eq!((report.outcome, report.samples), (Outcome::Complete, 30));
    let after = held(&fs);
    for (name, bytes) in before.iter().filter(|(name, _)| *name != "manifest.json") {
        assert_eq!(after.get(name), Some(bytes), "{name}");
    }
    assert_eq!(after["manifest-0001.json"], before["manifest.json"]);
    assert_eq!(after["manifest-0002.json"], after["manifest.json"]);
    let (old, new) = (parse(&after, "manifest-0001.json"), parse(&after, "manifest.json"));
    assert_eq!((old.generation(), new.generation()), (1, 2));
    assert_eq!(new.shards[..old.shards.len()], old.shards[..]);
    assert_eq!(new.shard_recipe(), old.recipe);
    let names = after.keys().filter(|name| !name.starts_with("manifest")).collect::<Vec<_>>();
    assert_eq!(names, new.shards.iter().map(|shard| &shard.name).collect::<Vec<_>>(), "no other file is left");
    let (of_old, of_new) = (samples(&after, &old), samples(&after, &new));
    assert!(of_old.iter().all(|(key, id)| of_new.get(key) == Some(id)));
    assert_eq!(of_new["later/0007.bin"], FIRST + 7);
}

#[test]
fn the_same_addition_gives_the_same_bytes_whatever_the_threads() {
    let [one, four] = [1, 4].map(|threads| {
        let fs = fresh();
        add(&fs, &sources().1, &options(threads)).unwrap();
        held(&fs)
    });
    assert_eq!(one, four);
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_generation_or_the_new_one() {
    let check = |files: &BTreeMap<String, Vec<u8>>| {
        let there = samples(files, &parse(files, "manifest.json"));
        assert!(there.len() == 40 || there.len() == 70);
    };
    crash_at_any_moment(|fs| add(fs, &sources().1, &options(2)), check);
}

#[test]
fn an_unfinished_generation_is_not_mixed_with_another() {
    let fs = begun();
    let other = others();
    let error = super::said(&add(&fs, &other, &options(1)).unwrap_err());
    assert!(error.contains("interrupted") && error.contains("--force"), "{error}");
    let report = add(&fs, &other, &WriteOptions { force: true, ..options(1) }).unwrap();
    assert_eq!(report.samples, 20);
    let files = held(&fs);
    assert_eq!(samples(&files, &parse(&files, "manifest.json")).len(), 60);
}

#[test]
fn two_concurrent_runs_do_not_mix() {
    let fs = fresh();
    let first = Growth::take_on(Target::folder(&fs, Path::new(OUT))).unwrap();
    assert!(matches!(add(&fs, &sources().1, &options(1)), Err(Error::Locked { .. })));
    drop(first);
    add(&fs, &sources().1, &options(1)).unwrap();
}

#[test]
fn packing_again_over_later_generations_is_refused_and_force_leaves_nothing_of_them() {
    let fs = fresh();
    add(&fs, &sources().1, &options(1)).unwrap();
    remove(&fs, "class0/0003.bin");
    let (first, _) = sources();
    let error = said(&run(&fs, &first.plan(20_000), &first, &options(1)).unwrap_err());
    assert!(error.contains("generation 3") && error.contains("shardpack add"), "{error}");
    let expected = held(&fresh());
    run(&fs, &first.plan(20_000), &first, &WriteOptions { force: true, ..options(1) }).unwrap();
    assert_eq!(held(&fs), expected);
}

/// The records of a shard, except for one sample.
struct Rest {
    keys: Vec<String>,
    records: Vec<Vec<u8>>,
}

impl SampleSource for Rest {
    type Tally = Sum;
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.keys[usize::try_from(sample).unwrap()].as_str().into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        5000
    }

    fn encode(&self, sample: u64, _: u32, _: Vec<u8>) -> Result<Encoded<Sum>, Self::Error> {
        let mut record = self.records[usize::try_from(sample).unwrap()].clone();
        let (mut frame, scalars) = {
            let parsed = Record::parse(&record, &Limits::default())?;
            (parsed.frame, parsed.scalars.to_vec())
        };
        frame.renumber(&mut record, sample)?;
        let source_bytes = frame.record_bytes;
        Ok(Encoded::Record(crate::EncodedSample { record, frame, scalars, source_bytes, tally: Sum(1.0) }))
    }
}

pub(super) fn remove(fs: &MemoryFs, key: &str) {
    let growth = Growth::take_on(Target::folder(fs, Path::new(OUT))).unwrap();
    let files = held(fs);
    let mut rest = Rest { keys: Vec::new(), records: Vec::new() };
    let (mut shards, mut kept) = (Vec::new(), BTreeMap::new());
    let mut metadata = None;
    for (number, shard) in (0..).zip(&growth.manifest().shards) {
        let bytes = &files[&shard.name];
        let footer_at = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
        let footer = Footer::parse(&bytes[footer_at..], shard.bytes, &Limits::default()).unwrap();
        let index_at = usize::try_from(footer.index_offset).unwrap();
        let index = Index::parse(bytes[index_at..footer_at].to_vec(), &footer, &Limits::default()).unwrap();
        if !(0..index.len()).any(|i| index.key(i) == Some(key)) {
            kept.insert(number, Sum(1.0));
            continue;
        }
        metadata = Some(index.metadata().clone());
        let mut stay = Vec::new();
        for i in (0..index.len()).filter(|&i| index.key(i) != Some(key)) {
            let row = index.row(i).unwrap();
            let at = usize::try_from(row.offset).unwrap();
            let length = usize::try_from(row.length.div_ceil(64) * 64).unwrap();
            rest.keys.push(index.key(i).unwrap().to_owned());
            rest.records.push(bytes[at..at + length].to_vec());
            stay.push(KeptSample { sample_id: row.sample_id, record_bytes: row.length, crc32: row.crc32 });
        }
        shards.push((number, stay));
    }
    let plan = Plan::anew(growth.manifest(), metadata.unwrap(), &shards).unwrap();
    growth.write(&plan, &rest, Next { kept, fidelity: &Sum::fidelity }, &options(2)).unwrap();
}

#[test]
fn a_removal_rewrites_its_shard_and_compacting_removes_all_old_bytes() {
    let fs = fresh();
    let before = held(&fs);
    let old = parse(&before, "manifest.json");
    remove(&fs, "class0/0003.bin");
    let files = held(&fs);
    let new = parse(&files, "manifest.json");
    assert_eq!((new.generation(), new.samples), (2, FIRST - 1));
    let (of_old, of_new) = (samples(&files, &old), samples(&files, &new));
    assert!(of_old.contains_key("class0/0003.bin") && !of_new.contains_key("class0/0003.bin"));
    assert!(of_new.iter().all(|(key, id)| of_old.get(key) == Some(id)));
    let changed: Vec<_> = new.shards.iter().filter(|shard| !old.shards.contains(shard)).collect();
    assert_eq!(changed.len(), 1);
    assert!(changed[0].name.ends_with("-0002.shard"), "{}", changed[0].name);

    let growth = Growth::take_on(Target::folder(&fs, Path::new(OUT))).unwrap();
    let gone = growth.compact().unwrap();
    assert_eq!((gone.generations, gone.shards.len()), (vec![1], 1));
    drop(growth);
    let needle = b"class0/0003.bin";
    let has = |files: &BTreeMap<String, Vec<u8>>| {
        files.values().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
    };
    assert!(has(&files) && !has(&held(&fs)));
    assert_eq!(samples(&held(&fs), &new), of_new);
    remove(&fs, of_new.keys().next().unwrap());
    let newest = parse(&held(&fs), "manifest.json");
    assert_eq!(newest.generation(), 3);
    assert!(newest.shards.iter().all(|shard| !gone.shards.contains(&shard.name)));
}

#[test]
fn a_different_command_is_refused_after_an_interrupted_one() {
    let fs = fresh();
    let (_, mut later) = sources();
    later.fail = Some(29);
    // On a busy machine, the run may fail before the first shard is committed. Repeat it until one is.
    let tries = std::iter::repeat_with(|| add(&fs, &later, &options(1)).unwrap_err()).take(200);
    let begun = tries.into_iter().any(|_| fs.files().keys().filter(|name| name.ends_with(".shard")).count() > 3);
    assert!(begun, "a shard was finished");
    let (_, mut other) = sources();
    other.keys.iter_mut().for_each(|key| key.insert(0, 'x'));
    let error = add(&fs, &other, &options(1)).unwrap_err();
    assert_eq!(
        said(&error),
        "`/data/out` contains unfinished files from an interrupted `add`, `remove`, `compact` or `add_columns`, but \
         that run had different options or source files\n\
         hint: repeat the interrupted command to continue, or run this one with `--force` to discard the \
         unfinished files"
    );
    let going = fs.with_fault(Fault::None, None);
    assert!(add(&going, &sources().1, &options(1)).unwrap().shards_reused > 0);
    add(&fs, &other, &WriteOptions { force: true, ..options(1) }).unwrap();
    let files = held(&fs);
    assert!(samples(&files, &parse(&files, "manifest.json")).contains_key("xlater/0007.bin"));
}

#[test]
fn other_files_replace_generations_only_with_force() {
    let fs = fresh();
    add_at_last(&fs);
    let (mut first, _) = sources();
    first.keys.iter_mut().for_each(|key| key.insert(0, 'x'));
    let error = said(&run(&fs, &first.plan(20_000), &first, &options(1)).unwrap_err());
    assert!(
        error.starts_with("`/data/out` already contains a dataset of 70 samples (generation 2), but the source has "),
        "{error}"
    );
    assert!(!error.contains("shardpack_generation"), "{error}");
    let hint = "add new samples with `shardpack add`, use `--force` to replace all generations, or choose";
    assert!(error.contains(hint), "{error}");
}

fn thirty(growth: &Growth<'_>) -> (Plan, BTreeMap<u32, Sum>) {
    let plan = sources().1.plan(20_000).behind(growth.manifest(), FIRST).unwrap();
    (plan, (0..).zip(&growth.manifest().shards).map(|(number, _)| (number, Sum(1.0))).collect())
}

#[test]
fn an_addition_that_failed_anywhere_is_finished_by_the_same_call() {
    let start = fresh();
    let done = start.with_fault(Fault::None, None);
    add(&done, &sources().1, &options(1)).unwrap();
    let expected = held(&done);
    let (mut errors, mut in_place) = (0, 0);
    for k in 1.. {
        let fs = start.with_fault(Fault::FailAt(k, std::io::ErrorKind::Other), None);
        let Ok(growth) = Growth::take_on(Target::folder(&fs, Path::new(OUT))) else { continue };
        let write = || {
            let (plan, kept) = thirty(&growth);
            growth.write(&plan, &sources().1, Next { kept, fidelity: &Sum::fidelity }, &options(1))
        };
        let first = write();
        if first.is_err() {
            errors += 1;
            in_place += u32::from(parse(&held(&fs), "manifest.json").generation() == 2);
            let report = write().unwrap_or_else(|error| panic!("operation {k}: {error}"));
            assert_eq!((report.outcome, report.samples), (Outcome::Complete, 30), "operation {k}");
        }
        drop(growth);
        assert!(held(&fs) == expected, "operation {k}: {:?}", held(&fs).keys());
        if !fs.was_hit() {
            break;
        }
    }
    assert!(errors > 20 && in_place > 1, "{errors} {in_place}");
}

#[test]
fn a_ready_generation_is_neither_cleared_nor_confused() {
    let start = fresh();
    let mut ready = 0;
    for k in 1.. {
        let fs = start.with_fault(Fault::FailAt(k, std::io::ErrorKind::Other), None);
        let Ok(growth) = Growth::take_on(Target::folder(&fs, Path::new(OUT))) else { continue };
        let (plan, kept) = thirty(&growth);
        let result = growth.write(&plan, &sources().1, Next { kept, fidelity: &Sum::fidelity }, &options(1));
        if !fs.was_hit() {
            break;
        }
        let is_ready =
            result.is_err() && fs.files_in(&Path::new(OUT).join(".shardpack-next")).contains_key("manifest.json");
        growth.clear(true).unwrap();
        if is_ready {
            ready += 1;
            assert_eq!(parse(&held(&fs), "manifest.json").generation(), 2, "operation {k}");
            let other = Numbers::new(20);
            let (plan, kept) = (other.plan(20_000).behind(growth.manifest(), FIRST).unwrap(), thirty(&growth).1);
            let error = growth.write(&plan, &other, Next { kept, fidelity: &Sum::fidelity }, &options(1)).unwrap_err();
            assert!(
                said(&error).contains("already contains the samples of an earlier attempt, as generation 2"),
                "{error}"
            );
        }
        drop(growth);
        let files = held(&fs);
        let there = samples(&files, &parse(&files, "manifest.json")).len();
        assert!(there == 40 || there == 70, "operation {k}: {there}");
        add_at_last(&fs);
    }
    assert!(ready > 5, "{ready}");
}
