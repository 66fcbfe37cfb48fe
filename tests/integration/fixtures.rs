//! Tests that the fixtures equal the output of their generator, and that each fixture is listed with its
//! expected result.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

#[test]
fn making_the_fixtures_again_gives_the_same_bytes() {
    let made = crate::make::files(&crate::make::cases());
    let found = crate::make::on_disk(&root()).unwrap();
    for (name, bytes) in &made {
        let on_disk =
            found.get(name).unwrap_or_else(|| panic!("missing: {name}\nhint: cargo run --example make_fixtures"));
        assert!(on_disk == bytes, "{name} differs\nhint: cargo run --example make_fixtures");
    }
    for name in found.keys() {
        assert!(made.contains_key(name), "no case makes {name}");
    }
}

#[test]
fn each_target_is_listed_once_and_all_stay_small() {
    let cases = crate::make::cases();
    let mut targets: Vec<_> = cases.iter().map(|case| &case.target).collect();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), cases.len());
    assert!(cases.len() > 100);
    let bytes: usize = crate::make::files(&cases).values().map(Vec::len).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

#[test]
fn fixtures_of_released_versions_are_as_released() {
    for version in ["v1.0"] {
        let folder = root().join("compat").join(version);
        let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        let mut listed = 1;
        for line in sums.lines() {
            let (digest, name) = line.split_once("  ").unwrap();
            assert_eq!(
                crate::make::sha256(&std::fs::read(folder.join(name)).unwrap()),
                digest,
                "{version}/{name} has changed"
            );
            listed += 1;
        }
        assert_eq!(count(&folder), listed, "files in compat/{version} that SHA256SUMS does not list");
    }
}

fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

/// Fixtures with faults that only a comparison of several samples, shards or files reveals. `verify` must find these
/// faults, but programs that read single samples need not find them (spec §8).
const FOUND_BY_VERIFY_ALONE: [&str; 11] = [
    "K05-digest-of-a-file/",
    "N10-digest-of-a-shard/",
    "S06-key-twice-in-two-shards/",
    "S06-key-twice.shard",
    "S06-sample-id-twice.shard",
    "S10-classes-of-a-shard/",
    "S10-number-of-shards/",
    "S10-recipe-of-a-shard/",
    "V01-json-with-key-twice.shard",
    "V01-label-negative.shard",
    "V01-label-outside-the-classes.shard",
];

struct Listed {
    target: String,
    verdict: String,
    message: String,
    values: Vec<String>,
}

fn listed(folder: &Path) -> Vec<Listed> {
    let table = std::fs::read_to_string(folder.join("expected.txt")).unwrap();
    let mut out: Vec<Listed> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if let Some(value) = line.strip_prefix('\t') {
            out.last_mut().unwrap().values.push(value.to_owned());
            continue;
        }
        let mut parts = line.split('\t').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        out.push(Listed { target: part(), verdict: part(), message: part(), values: Vec::new() });
    }
    out
}

/// `verify` must return the result listed for each fixture, and the first error of `Dataset` must be among the problems
/// that `verify` reports. This also applies to the fixtures of released versions.
#[test]
fn every_fixture_reads_as_listed() {
    for folder in [root(), root().join("compat/v1.0")] {
        for Listed { target, verdict, message, values } in listed(&folder) {
            let report = crate::reading::verify(&folder.join(&target)).unwrap();
            let read = crate::reading::values(&folder.join(&target));
            if verdict == "ok" {
                assert!(report.is_whole(), "{target}: {:?}", report.problems);
                assert_eq!(read.unwrap(), values, "{target}");
                continue;
            }
            let named = report.problems.iter().any(|p| p.kind == verdict && p.to_string().contains(&message));
            assert!(named, "{target}: no problem of kind {verdict} that says {message:?}: {:#?}", report.problems);
            let verify_alone = target
                .strip_prefix("invalid/")
                .is_some_and(|name| FOUND_BY_VERIFY_ALONE.contains(&name) || name.starts_with("V02-segment-index"));
            match read {
                Ok(_) => assert!(verify_alone, "{target}: read without an error"),
                Err(error) => {
                    assert!(!verify_alone, "{target}: {error}");
                    let (kind, text) = (crate::reading::kind(&error), error.to_string());
                    assert_eq!(kind, verdict, "{target}: {error}");
                    let listed = report.problems.iter().any(|p| p.to_string() == text);
                    assert!(listed || kind != "format", "{target}: {error} is not among {:#?}", report.problems);
                }
            }
        }
    }
}
