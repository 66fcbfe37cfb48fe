//! What errors and notes say to do next names options that there are, and reaches the user.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use shardpack_pack::arguments::{PackArguments, ReportArguments};
use shardpack_pack::grow::AddOptions;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Options that are not among those of packing, reporting and adding: of the readers, of a loader,
/// and where a report is written.
const OTHERS: [&str; 3] = ["max_record", "max_batch", "output"];

/// The Rust files below `folder`.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The code of the project that users get, file by file.
fn code() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    sources(&root.join("src"), &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_option_that_is_named_is_there() {
    let known: BTreeSet<&str> =
        PackArguments::names().chain(ReportArguments::names()).chain(AddOptions::NAMES).chain(OTHERS).collect();
    let mut named = BTreeSet::new();
    for (path, text) in code() {
        for found in text.split("Setting::").skip(1) {
            // The name is the first argument, wherever the line is broken.
            let Some((_, arguments)) = found.split_once('(') else { continue };
            let Some(name) = arguments.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            assert!(known.contains(name), "{}: there is no option `{name}`", path.display());
            named.insert(name.to_owned());
        }
    }
    assert!(named.len() > 15, "the search finds them: {named:?}");
}

#[test]
fn every_error_with_hints_is_asked_for_them() {
    let explain = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/explain.rs")).unwrap();
    let mut asked = 0;
    for (path, text) in code() {
        if !text.contains("pub fn hint(&self)") && !text.contains("pub fn hints(&self)") {
            continue;
        }
        let derived = text.split("thiserror::Error").skip(1).filter_map(|rest| {
            let line = rest.lines().find(|line| line.starts_with("pub enum ") || line.starts_with("pub struct "))?;
            line.split_whitespace().nth(2)
        });
        let written =
            text.split("impl std::error::Error for ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for name in derived.chain(written) {
            let name = name.split(['(', '<']).next().unwrap();
            // Each crate calls its own `Error`.
            let name = match (name, path.iter().rev().nth(2).and_then(|name| name.to_str())) {
                ("Error", Some("format")) => "FormatError",
                ("Error", Some("reader")) => "ReaderError",
                ("Error", Some("writer")) => "WriterError",
                (name, _) => name,
            };
            assert!(explain.contains(&format!("downcast_ref::<{name}>")), "{}: `{name}`", path.display());
            asked += 1;
        }
    }
    assert!(asked >= 8, "the search finds them: {asked}");
}
