//! What errors and notes say to do next names options that there are, and reaches the user.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use shardpack_format::{Hint, Setting};
use shardpack_pack::arguments::{PackArguments, ReportArguments};
use shardpack_pack::grow::AddOptions;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of single commands (of `convert`, too), and of a loader where they are not named after a field of
/// `LoaderOptions`.
const OTHERS: [&str; 12] =
    ["all_generations", "max_record", "max_batch", "output", "field", "skip", "device", "splits", "flip", "format", "append", "classes"];

/// The fields of `LoaderOptions`.
fn of_loaders() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/loader/src/options/mod.rs");
    let text = fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once("pub struct LoaderOptions {").unwrap();
    let (fields, _) = rest.split_once("\n}").unwrap();
    let name = |line: &str| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0.to_owned());
    fields.lines().filter_map(name).collect()
}

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

/// The options that hints in this code name.
fn settings(code: &str) -> impl Iterator<Item = &str> {
    code.split("Setting::").skip(1).filter_map(|found| {
        // The name is the first argument, wherever the line is broken.
        let (_, arguments) = found.split_once('(')?;
        arguments.trim_start().strip_prefix('"')?.split('"').next()
    })
}

#[test]
fn every_option_that_is_named_is_there() {
    let of_loaders = of_loaders();
    assert!(of_loaders.iter().any(|name| name == "slots"), "the search finds them: {of_loaders:?}");
    let known: BTreeSet<String> = PackArguments::names()
        .chain(ReportArguments::names())
        .chain(AddOptions::NAMES)
        .chain(OTHERS)
        .map(str::to_owned)
        .chain(of_loaders)
        .collect();
    let mut named = BTreeSet::new();
    for (path, text) in code() {
        for name in settings(&text) {
            assert!(known.contains(name), "{}: there is no option `{name}`", path.display());
            named.insert(name.to_owned());
        }
    }
    assert!(named.len() > 15, "the search finds them: {named:?}");
}

/// The options of a command, as its help lists them.
fn of_command(command: &str) -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_shardpack")).args([command, "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().filter_map(|line| {
        // `  -o, --output <FILE>`
        let (before, option) = line.split_once("--")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let starts = before.trim().is_empty() || before.trim().len() == 3;
        starts.then(|| option.split(|c| !is_name(c)).next().unwrap_or_default().replace('-', "_"))
    });
    options.collect()
}

/// What a module says alone, the command that it is of must take.
#[test]
fn each_command_has_the_options_that_its_own_hints_name() {
    let modules = [
        ("pack", "src/cli/pack/"),
        ("add", "crates/pack/src/grow/"),
        ("add", "src/cli/grow/"),
        ("cat", "src/cli/cat.rs"),
        ("bench", "src/cli/bench/"),
        ("report", "src/cli/report/"),
        ("salvage", "crates/pack/src/salvage/"),
        ("salvage", "crates/reader/src/salvage/"),
        // Every part of reading a source is one of packing; of adding, `AddOptions::can_follow` decides.
        ("pack", "crates/pack/src/sources/"),
        ("pack", "crates/pack/src/pack/"),
    ];
    let mut checked = 0;
    for (path, text) in code() {
        let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap();
        for (command, _) in modules.iter().filter(|(_, module)| path.starts_with(module)) {
            let options = of_command(command);
            for name in settings(&text) {
                assert!(options.contains(name), "{path}: `{command}` has no option `{name}`: {options:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "the search finds them: {checked}");
}

#[test]
fn add_takes_the_options_that_its_table_lists() {
    let mut options = of_command("add");
    assert!(["help", "json"].iter().all(|common| options.remove(*common)), "{options:?}");
    assert_eq!(options, AddOptions::NAMES.map(str::to_owned).into());
    // What its errors recommend for a table, a link or a file is among them.
    for name in ["key_column", "follow_links", "labels", "masks", "on_bad_input", "on_known_key"] {
        assert!(AddOptions::can_follow(&Hint::set([Setting::named(name)])), "{name}");
    }
}

/// A hint in a text would come before the causes of an error, and spell options in one way for all.
#[test]
fn no_text_has_a_hint_in_it() {
    let mut searched = 0;
    for (path, text) in code() {
        // Tests compare with what the front ends say, and `hint.rs` says it.
        let of_tests = |part: &std::ffi::OsStr| part.to_string_lossy().contains("tests");
        if path.iter().any(of_tests) || path.ends_with("crates/format/src/hint.rs") {
            continue;
        }
        let (shown, _) = text.split_once("#[cfg(test)]\nmod ").unwrap_or((&text, ""));
        let shown: Vec<_> = shown.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // A text goes on behind a backslash at the end of a line.
        let joined: String = shown.join("\n").split("\\\n").map(str::trim_start).collect();
        for start in ["\"hint:", "\\nhint:"] {
            assert!(!joined.contains(start), "{}: a text with a hint in it", path.display());
        }
        searched += 1;
    }
    assert!(searched > 200, "the search finds them: {searched}");
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
