//! The fixtures are what the generator makes, and each is listed with what a reader must say of it.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[path = "../fixtures/make/mod.rs"]
mod make;
mod plain;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

#[test]
fn making_the_fixtures_again_gives_the_same_bytes() {
    let made = make::files(&make::cases());
    let found = make::on_disk(&root()).unwrap();
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
    let cases = make::cases();
    let mut targets: Vec<_> = cases.iter().map(|case| &case.target).collect();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), cases.len());
    assert!(cases.len() > 100);
    let bytes: usize = make::files(&cases).values().map(Vec::len).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

/// A released version's fixtures may never change again.
#[test]
fn fixtures_of_released_versions_are_as_released() {
    for version in ["v1.0"] {
        let folder = root().join("compat").join(version);
        let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        let mut listed = 1;
        for line in sums.lines() {
            let (digest, name) = line.split_once("  ").unwrap();
            assert_eq!(
                make::sha256(&std::fs::read(folder.join(name)).unwrap()),
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

/// The crates make of every fixture what the table says: the table of a released version included.
#[test]
fn every_fixture_reads_as_listed() {
    for folder in [root(), root().join("compat/v1.0")] {
        let table = std::fs::read_to_string(folder.join("expected.txt")).unwrap();
        let mut lines = table.lines().filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            let parts: Vec<&str> = line.split('\t').collect();
            let mut expected = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
                expected.push(line[1..].to_owned());
            }
            let result = plain::read(&folder.join(parts[0]));
            assert_eq!(plain::verdict(&result), parts[1], "{}: {result:?}", parts[0]);
            match result {
                Ok(found) => assert_eq!(found, expected, "{}", parts[0]),
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains(parts[2]), "{}: {message} does not say {:?}", parts[0], parts[2]);
                }
            }
        }
    }
}
