//! Checks that an unfinished addition of a killed program is removed, but an unfinished addition of files is not.

use super::behaviour::options;
use super::growth::{OUT, add, begun, fresh, held, others, parse, samples, sources};
use super::memory_fs::{Crash, Fault, MemoryFs};
use super::source::{Numbers, Sum};
use crate::target::Target;
use crate::{Growth, Next, Tally as _, WriteOptions};
use shardpack_io::FileSystem as _;
use std::path::Path;

/// Adds samples that were not yet known when the dataset was opened.
fn append(fs: &MemoryFs, source: &Numbers, force: bool) -> crate::Result<()> {
    let growth = Growth::take_on(Target::folder(fs, Path::new(OUT)))?;
    growth.clear(force)?;
    let first = growth.manifest().samples;
    let plan = source.plan(20_000).behind(growth.manifest(), first)?.of_program();
    let kept = (0..).zip(&growth.manifest().shards).map(|(number, _)| (number, Sum(1.0))).collect();
    growth.write(&plan, source, Next { kept, fidelity: &Sum::fidelity }, &options(1)).map(drop)
}

#[test]
fn a_killed_program_locks_no_other_out() {
    let start = fresh();
    let before = held(&start);
    for crash in [Crash::NothingSurvives, Crash::NamesSurvive, Crash::Random(1)] {
        for k in 1.. {
            let fs = start.with_fault(Fault::CrashAt(k), None);
            let result = append(&fs, &sources().1, false);
            if !fs.was_hit() {
                result.unwrap();
                assert!(k > 20, "{k}");
                break;
            }
            let fs = fs.after(crash);
            let there = parse(&held(&fs), "manifest.json").samples;
            assert!(there == 40 || there == 70, "{k} {crash:?}");
            append(&fs, &others(), false).unwrap_or_else(|error| panic!("{k} {crash:?}: {error}"));
            let files = held(&fs);
            let all = samples(&files, &parse(&files, "manifest.json")).len();
            assert!(all == 60 || all == 90, "{k} {crash:?}: {all}");
            let first = &files["manifest-0001.json"];
            assert_eq!(first, &before["manifest.json"], "{k} {crash:?}");
        }
    }
}

#[test]
fn an_unfinished_addition_of_files_is_kept_without_force() {
    let fs = begun();
    let error = super::said(&append(&fs, &others(), false).unwrap_err());
    assert!(error.contains("interrupted") && error.contains("repeat the interrupted command to continue"), "{error}");
    append(&fs, &others(), true).unwrap();
    let files = held(&fs);
    assert_eq!(samples(&files, &parse(&files, "manifest.json")).len(), 60);
    let mut failing = sources().1;
    failing.fail = Some(29);
    append(&fs, &failing, false).unwrap_err();
    add(&fs, &sources().1, &WriteOptions { force: true, ..options(1) }).unwrap();
}

#[test]
fn shards_without_a_readable_journal_are_kept_without_force() {
    let begun = begun();
    let next = Path::new(OUT).join(".shardpack-next");
    for damage in [None, Some(b"{ no line".as_slice())] {
        let fs = begun.with_fault(Fault::None, None);
        let journals: Vec<String> = fs.files_in(&next).into_keys().filter(|name| name.ends_with(".jsonl")).collect();
        assert_eq!(journals.len(), 1);
        fs.remove(&next.join(&journals[0])).unwrap();
        if let Some(bytes) = damage {
            fs.create_new(&next.join(&journals[0])).unwrap().append(bytes).unwrap();
        }
        let there = fs.files_in(&next);
        let error = super::said(&append(&fs, &others(), false).unwrap_err());
        assert!(error.contains("interrupted"), "{error}");
        assert_eq!(fs.files_in(&next), there);
        append(&fs, &others(), true).unwrap();
    }
}
