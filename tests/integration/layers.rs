//! The layers of ARCHITECTURE.md hold: who may import whom, where `unsafe` may stand, what a
//! library never does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each package of the workspace, and the packages of the workspace that it may import. Arrows
/// point down only.
const ARROWS: &[(&str, &[&str])] = &[
    ("shardpack-format", &[]),
    ("shardpack-base", &["shardpack-format"]),
    ("shardpack-jpeg", &["shardpack-format", "shardpack-base"]),
    ("shardpack-array", &["shardpack-format", "shardpack-base"]),
    ("shardpack-augment", &["shardpack-format", "shardpack-base"]),
    ("shardpack-io", &["shardpack-format"]),
    ("shardpack-writer", &["shardpack-format", "shardpack-io"]),
    ("shardpack-reader", &["shardpack-format", "shardpack-io", "shardpack-jpeg", "shardpack-array"]),
    (
        "shardpack-loader",
        &[
            "shardpack-format",
            "shardpack-io",
            "shardpack-base",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-augment",
            "shardpack-reader",
        ],
    ),
    (
        "shardpack-gpu",
        &[
            "shardpack-format",
            "shardpack-base",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-augment",
            "shardpack-reader",
            "shardpack-loader",
        ],
    ),
    ("shardpack-gpu-play", &[]),
    ("shardpack-store", &["shardpack-format", "shardpack-io", "shardpack-reader", "shardpack-writer"]),
    ("shardpack-report", &[]),
    ("shardpack-recipe", &["shardpack-format", "shardpack-jpeg", "shardpack-array"]),
    (
        "shardpack-sources",
        &[
            "shardpack-format",
            "shardpack-base",
            "shardpack-io",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-recipe",
            "shardpack-reader",
        ],
    ),
    (
        "shardpack-pack",
        &[
            "shardpack-format",
            "shardpack-io",
            "shardpack-base",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-reader",
            "shardpack-writer",
            "shardpack-report",
            "shardpack-recipe",
            "shardpack-sources",
        ],
    ),
    (
        "shardpack",
        &[
            "shardpack-format",
            "shardpack-io",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-reader",
            "shardpack-loader",
            "shardpack-writer",
            "shardpack-gpu",
            "shardpack-store",
            "shardpack-report",
            "shardpack-recipe",
            "shardpack-sources",
            "shardpack-pack",
        ],
    ),
    (
        "shardpack-python",
        &[
            "shardpack",
            "shardpack-format",
            "shardpack-io",
            "shardpack-jpeg",
            "shardpack-array",
            "shardpack-reader",
            "shardpack-loader",
            "shardpack-writer",
            "shardpack-gpu",
            "shardpack-sources",
            "shardpack-recipe",
            "shardpack-pack",
        ],
    ),
];

/// The only places where `unsafe` may stand: the fences around LZ4, libjpeg-turbo and the CUDA
/// driver, those around the rows of a batch and the streams that others use it in, the one around
/// the C structs by which Python's frameworks take tensors, and the call by which tests run kernels on the CPU.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/array/src/blosc2/ffi.rs",
    "crates/jpeg/src/turbo.rs",
    "crates/gpu/src/driver/",
    "crates/gpu-play/src/ffi.rs",
    "crates/loader/src/rows.rs",
    "crates/loader/src/stage/stream.rs",
    "python/src/dlpack.rs",
];

/// Words that no library may use, and why.
const NEVER_IN_LIBRARIES: &[(&str, &str)] = &[
    ("println!", "a library does not print"),
    ("eprintln!", "a library does not print"),
    ("print!", "a library does not print"),
    ("eprint!", "a library does not print"),
    ("std::env", "settings are values passed in"),
    ("env::var", "settings are values passed in"),
    ("process::exit", "a library does not end the process"),
    ("process::abort", "a library does not end the process"),
    ("static mut", "no globals"),
];

/// Words that `format` may not use beyond those: it is layout only.
const NEVER_IN_FORMAT: &[(&str, &str)] = &[
    ("std::fs", "format does no I/O"),
    ("std::io", "format does no I/O"),
    ("std::net", "format does no I/O"),
    ("std::thread", "format has no threads"),
    ("std::time", "format knows no clock"),
    ("rayon", "format has no threads"),
];

/// Libraries none of whose modules, files or folders beside `lib.rs`, use each other in a circle.
const WITHOUT_CIRCLES: &[&str] = &["array", "augment", "base", "format", "gpu", "jpeg", "loader", "report", "sources"];

/// Those of them in whose folders modules do.
const WITH_CIRCLES_INSIDE: &[&str] = &["gpu"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The workspace's packages as Cargo sees them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Every Rust file below `dir`.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("`{}`: {e}", dir.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Whether a file is compiled for tests only, by its name and place in the repository.
fn is_test_file(path: &Path) -> bool {
    let place = path.strip_prefix(root()).unwrap_or(path);
    place.components().any(|c| c.as_os_str().to_string_lossy().contains("test"))
}

/// The code of a file, line by line with its number: without comments, and without the test module
/// that ends it.
///
/// Good for searching words, no more than that: `//` within a string is taken for a comment, too.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim() == "#[cfg(test)]" {
            let next = text.lines().nth(i + 1).unwrap_or_default();
            if next.starts_with("mod ") && !next.ends_with(';') {
                break;
            }
        }
        lines.push((i + 1, line.split("//").next().unwrap_or_default().to_owned()));
    }
    lines
}

/// Whether `word` stands in `line`, not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let goes_on = word.ends_with(|c: char| c.is_alphanumeric()) && part(after);
        !part(before) && !goes_on
    })
}

/// Every place where one of `words` stands in the sources of `dir`, tests left out.
fn offences(dir: &Path, words: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(dir).iter().filter(|p| !is_test_file(p)) {
        let text = fs::read_to_string(path).expect("a readable source file");
        for (number, line) in code(&text) {
            for (word, why) in words.iter().filter(|(word, _)| has_word(&line, word)) {
                found.push(format!("{}:{number}: `{word}`: {why}", path.display()));
            }
        }
    }
    found
}

fn libraries() -> Vec<PathBuf> {
    let mut dirs: Vec<_> = fs::read_dir(root().join("crates"))
        .expect("crates/")
        .map(|e| e.expect("a directory entry").path().join("src"))
        .filter(|p| p.is_dir())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 4, "crates/: expected at least 4 libraries, found: {dirs:?}");
    dirs
}

/// The command and the Python package.
fn entries() -> [PathBuf; 2] {
    [root().join("src"), root().join("python/src")]
}

#[test]
fn arrows_point_down_only() {
    let packages = packages();
    let names: Vec<&str> = packages.iter().map(|p| p["name"].as_str().expect("a name")).collect();
    for name in &names {
        assert!(
            ARROWS.iter().any(|(n, _)| n == name),
            "package `{name}` has no layer: give it one in tests/integration/layers.rs"
        );
    }
    for (name, allowed) in ARROWS {
        let package = packages.iter().find(|p| p["name"] == *name).unwrap_or_else(|| panic!("no package `{name}`"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let imported = dependency["name"].as_str().expect("a name");
            // Tests may reach across: the reader's tests need shards that somebody wrote.
            let is_ours = names.contains(&imported) && dependency["kind"] != "dev";
            assert!(!is_ours || allowed.contains(&imported), "`{name}` imports `{imported}`: arrows point down only");
        }
    }
}

#[test]
fn format_is_layout_only() {
    let found = offences(&root().join("crates/format/src"), NEVER_IN_FORMAT);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn libraries_neither_print_nor_exit_nor_read_the_environment() {
    let found: Vec<_> = libraries().iter().flat_map(|dir| offences(dir, NEVER_IN_LIBRARIES)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn unsafe_stands_behind_its_fence() {
    let mut dirs = libraries();
    dirs.extend(entries());
    let found: Vec<_> = dirs
        .iter()
        .flat_map(|dir| {
            offences(dir, &[("unsafe", "allowed only in the files that tests/integration/layers.rs names")])
        })
        .filter(|offence| !UNSAFE_ALLOWED.iter().any(|file| offence.contains(file)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn libraries_without_a_fence_forbid_unsafe() {
    for dir in libraries().into_iter().chain(entries()) {
        if UNSAFE_ALLOWED.iter().any(|file| root().join(file).starts_with(&dir)) {
            continue;
        }
        let lib = dir.join("lib.rs");
        let text = fs::read_to_string(&lib).expect("lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{}: expected `#![forbid(unsafe_code)]`", lib.display());
    }
}

/// What a file uses of a folder, by the paths of its code: those that begin with one of the `names` of
/// the folder.
fn uses(text: &str, names: [&str; 2]) -> Vec<String> {
    let code: String = code(text).into_iter().map(|(_, line)| line + "\n").collect();
    let mut found = Vec::new();
    for prefix in names {
        for (at, _) in code.match_indices(prefix) {
            // `super::super::x` is none of the parent's, nor `my_crate::x` one of ours.
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            let list = match rest.strip_prefix('{') {
                // Names at the head of each item, whatever is in braces of its own.
                Some(list) => {
                    let (mut depth, mut heads) = (1, String::new());
                    for c in list.chars() {
                        depth += i32::from(c == '{') - i32::from(c == '}');
                        match depth {
                            0 => break,
                            1 => heads.push(c),
                            _ => {}
                        }
                    }
                    heads
                }
                None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned(),
            };
            let head = |item: &str| item.trim().split("::").next().unwrap_or_default().to_owned();
            found.extend(list.split(',').map(head));
        }
    }
    found
}

/// Which module of a folder, of the library in `src`, uses which others. The folder itself, `lib.rs` or
/// `mod.rs`, names what it shows of them.
fn modules(src: &Path, folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let names_below = |path: &Path, dir: &Path| -> Vec<String> {
        let place = path.strip_prefix(dir).expect("a file of the folder");
        place.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let inside: String = names_below(folder, src).iter().map(|name| format!("{name}::")).collect();
    let own = |path: &&PathBuf| **path == folder.join("lib.rs") || **path == folder.join("mod.rs");
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(folder).iter().filter(|path| !is_test_file(path) && !own(path)) {
        let names = names_below(path, folder);
        let depth = names.len() - usize::from(names.ends_with(&["mod.rs".to_owned()]));
        let text = fs::read_to_string(path).expect("a readable source file");
        let module = all.entry(names[0].trim_end_matches(".rs").to_owned()).or_default();
        module.extend(uses(&text, [&format!("crate::{inside}"), &"super::".repeat(depth)]));
    }
    let names: BTreeSet<String> = all.keys().cloned().collect();
    for (own, used) in &mut all {
        used.retain(|name| name != own && names.contains(name));
    }
    all
}

/// The folders that have files in them or below, this one first.
fn folders(dir: &Path) -> BTreeSet<PathBuf> {
    let above = |file: &PathBuf| file.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
    sources(dir).iter().flat_map(above).filter(|folder| folder.starts_with(dir)).collect()
}

/// The modules that use each other in a circle, or are between two that do.
fn circle(mut modules: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    // Whoever uses none of those that are left, or is used by none, is in no circle.
    loop {
        let left: BTreeSet<String> = modules.keys().cloned().collect();
        let used: BTreeSet<String> = modules.values().flatten().filter(|name| left.contains(*name)).cloned().collect();
        modules.retain(|name, uses| used.contains(name) && uses.iter().any(|name| left.contains(name)));
        if modules.len() == left.len() {
            return left.into_iter().collect();
        }
    }
}

#[test]
fn modules_use_each_other_in_no_circle() {
    for library in WITHOUT_CIRCLES {
        let src = root().join("crates").join(library).join("src");
        let is_checked = |folder: &PathBuf| *folder == src || !WITH_CIRCLES_INSIDE.contains(library);
        for folder in folders(&src).into_iter().filter(is_checked) {
            let (found, place) = (circle(modules(&src, &folder)).join(", "), folder.display());
            assert!(found.is_empty(), "modules in a circle, in `{place}`: sink what they share: {found}");
        }
    }
}

#[test]
fn the_search_finds_circles() {
    let text =
        "use crate::{a::X, b::{c, d}};\nuse super::e;\nlet x = crate::f::g();\nuse super::super::h; // crate::i\n";
    assert_eq!(uses(text, ["crate::", "super::"]), ["a", "b", "f", "e", "super"]);
    assert_eq!(uses(text, ["crate::", "super::super::"]), ["a", "b", "f", "h"]);
    assert_eq!(uses(text, ["crate::f::", "super::super::"]), ["g", "h"]);
    let graph = |arrows: &[(&str, &str)]| {
        let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in arrows {
            modules.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            modules.entry((*to).to_owned()).or_default();
        }
        modules
    };
    assert!(circle(graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    assert_eq!(circle(graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])), ["b", "c"]);
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert!(has_word("    unsafe { go() }", "unsafe"));
    assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    assert!(has_word("let x = std::env::var(\"A\");", "std::env"));
    assert!(!has_word("eprintln!(\"a\")", "println!"));
    let text = "let a = 1; // unsafe\n#[cfg(test)]\nmod tests {\n    unsafe {}\n}\n";
    assert_eq!(code(text), [(1, "let a = 1; ".to_owned())]);
}
