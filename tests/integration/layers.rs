//! Tests that the layers of ARCHITECTURE.md hold: which packages may import each other, where `unsafe` is
//! allowed, and which words libraries never use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of the workspace that each package may import.
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
    ("shardpack-store", &["shardpack-format", "shardpack-io", "shardpack-reader"]),
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

/// The only places where `unsafe` is allowed: wrappers of LZ4, libjpeg-turbo and the CUDA driver, access to the rows of
/// a batch, CUDA streams of other libraries, the C structs that pass tensors to Python frameworks, and the call that
/// runs kernels on the CPU in tests.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/array/src/blosc2/ffi.rs",
    "crates/jpeg/src/turbo.rs",
    "crates/gpu/src/driver/",
    "crates/gpu-play/src/ffi.rs",
    "crates/loader/src/rows.rs",
    "crates/loader/src/stage/stream.rs",
    "python/src/batch.rs",
    "python/src/dlpack.rs",
];

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

/// Names that the crate `shardpack-format` must not use, with the reasons.
const NEVER_IN_FORMAT: &[(&str, &str)] = &[
    ("std::fs", "format does no I/O"),
    ("std::io", "format does no I/O"),
    ("std::net", "format does no I/O"),
    ("std::thread", "format has no threads"),
    ("std::time", "format knows no clock"),
    ("rayon", "format has no threads"),
];

const GLOBALS_ALLOWED: &[(&str, &str)] = &[
    ("crates/gpu/src/stage/kernels.rs", "a driver compiles kernels for seconds: loaders of one process share them"),
    ("crates/io/src/cancel.rs", "the flag that a caller sets to cancel the work of its thread"),
    ("python/src/values.rs", "a function of Python, looked up once for the interpreter"),
    ("src/verify.rs", "a decoder for each thread of rayon"),
];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

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

fn sources(dir: &Path) -> Vec<PathBuf> {
    files_below(dir, &["rs"])
}

pub(crate) fn files_below(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("`{}`: {e}", dir.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            files.extend(files_below(&path, extensions));
        } else if path.extension().is_some_and(|e| extensions.iter().any(|one| e == *one)) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns true if a file is compiled only for tests, judging by its name and folder.
pub(crate) fn is_test_file(path: &Path) -> bool {
    let place = path.strip_prefix(root()).unwrap_or(path);
    place.components().any(|c| c.as_os_str().to_string_lossy().contains("test"))
}

/// Returns the code of a file as numbered lines, without comments and the test module at the end.
///
/// This is not exact, because `//` within a string also counts as a comment, but good enough to search for words.
pub(crate) fn code(text: &str) -> Vec<(usize, String)> {
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

/// Returns true if `line` contains `word` as a whole word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let goes_on = word.ends_with(|c: char| c.is_alphanumeric()) && part(after);
        !part(before) && !goes_on
    })
}

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
            // Tests may import any package: the reader's tests, for example, need shards from the writer.
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
fn unsafe_is_only_in_allowed_files() {
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
fn other_libraries_forbid_unsafe() {
    for dir in libraries().into_iter().chain(entries()) {
        if UNSAFE_ALLOWED.iter().any(|file| root().join(file).starts_with(&dir)) {
            continue;
        }
        let lib = dir.join("lib.rs");
        let text = fs::read_to_string(&lib).expect("lib.rs");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{}: expected `#![forbid(unsafe_code)]`", lib.display());
    }
}

fn all_sources() -> Vec<(String, PathBuf)> {
    let of = |dir: PathBuf| {
        let package = dir.parent().expect("a package").strip_prefix(root()).expect("in the repository");
        let name = if package.as_os_str().is_empty() { Path::new(".") } else { package };
        (name.to_string_lossy().into_owned(), dir)
    };
    libraries().into_iter().chain(entries()).map(of).collect()
}

/// Path of a module within its package, such as `["a", "b"]` for `a/b.rs` and `a/b/mod.rs`.
type Module = Vec<String>;

fn text_of(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a readable source file");
    code(&text).into_iter().map(|(_, line)| line + "\n").collect()
}

/// Returns every path that a `use` with braces imports.
fn paths_of(tree: &str) -> Vec<Module> {
    let names = |path: &str| {
        let path = path.split(" as ").next().unwrap_or_default();
        path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let Some((head, rest)) = tree.split_once('{') else { return vec![names(tree)] };
    let list = rest.rsplit_once('}').map_or(rest, |(list, _)| list);
    let (mut depth, mut items) = (0, vec![String::new()]);
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match (c, depth) {
            (',', 0) => items.push(String::new()),
            _ => items.last_mut().expect("an item").push(c),
        }
    }
    let head: Module = names(head);
    let items = items.iter().filter(|item| !item.trim().is_empty());
    items.flat_map(|item| paths_of(item)).map(|path| [head.clone(), path].concat()).collect()
}

fn declarations(text: &str) -> (Vec<Module>, Vec<Module>, String) {
    let (mut used, mut handed, mut rest) = (Vec::new(), Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        let public = start.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest).trim_start(),
            None => rest.trim_start(),
        });
        let Some(tree) = public.unwrap_or(start).strip_prefix("use ") else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line);
        }
        let paths = paths_of(tree.split(';').next().unwrap_or_default());
        if public.is_some() { handed.extend(paths) } else { used.extend(paths) }
    }
    (used, handed, rest)
}

fn paths_in(code: &str) -> Vec<Module> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for prefix in ["crate::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            if code[..at].ends_with(|c| is_part(c) || c == ':') {
                continue;
            }
            let path = code[at..].split(|c| !is_part(c) && c != ':').next().unwrap_or_default();
            paths.push(path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect());
        }
    }
    paths
}

/// Returns the modules that each module uses, including through re-exports.
fn uses_of(sources: &[(Module, String)]) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules: BTreeSet<&Module> = sources.iter().map(|(module, _)| module).collect();
    let parsed: Vec<_> = sources.iter().map(|(module, text)| (module, declarations(text))).collect();
    let mut homes: BTreeMap<(Module, String), Module> = BTreeMap::new();
    for (module, (_, handed, _)) in &parsed {
        for path in handed {
            let path = path.strip_prefix(&["self".to_owned()][..]).unwrap_or(path);
            let Some((name, inside)) = path.split_last() else { continue };
            let home = [module.as_slice(), inside].concat();
            if !inside.is_empty() && modules.contains(&home) {
                homes.insert(((*module).clone(), name.clone()), home);
            }
        }
    }
    let target = |from: &Module, path: &Module| {
        let mut rest = path.as_slice();
        let mut at = from.clone();
        match rest.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Module::new(), &rest[1..]),
            Some("self") => rest = &rest[1..],
            Some("super") => {
                while let Some("super") = rest.first().map(String::as_str) {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            Some(name) if modules.contains(&[at.as_slice(), &[name.to_owned()]].concat()) => {}
            _ => return None,
        }
        while let Some((name, after)) = rest.split_first() {
            let inside = [at.as_slice(), std::slice::from_ref(name)].concat();
            match homes.get(&(at.clone(), name.clone())) {
                _ if modules.contains(&inside) => (at, rest) = (inside, after),
                Some(home) => at = home.clone(),
                None => break,
            }
        }
        (at != *from && modules.contains(&at)).then_some(at)
    };
    let found = parsed.iter().map(|(module, (used, _, rest))| {
        let paths = used.iter().cloned().chain(paths_in(rest));
        ((*module).clone(), paths.filter_map(|path| target(module, &path)).collect())
    });
    found.collect()
}

fn in_circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let reaches_itself = |file: &&Module| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![*file]);
        while let Some(next) = left.pop() {
            for used in uses.get(next).into_iter().flatten() {
                if used == *file {
                    return true;
                }
                if seen.insert(used) {
                    left.push(used);
                }
            }
        }
        false
    };
    uses.keys().filter(reaches_itself).map(|file| file.join("/")).collect()
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    for (package, src) in all_sources() {
        let module = |path: &PathBuf| {
            let place = path.strip_prefix(&src).expect("a file of the package").with_extension("");
            let mut names: Module = place.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            names.pop_if(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
            (names, text_of(path))
        };
        let files: Vec<_> = sources(&src).iter().filter(|path| !is_test_file(path)).map(module).collect();
        let found = in_circles(&uses_of(&files));
        assert!(found.is_empty(), "`{package}`: files that use each other; move the shared part down: {found:?}");
    }
}

/// Returns true if a function parameter on this line is a tuple pattern. Ignores tuple patterns in `let` and in
/// closures, because these are allowed.
fn opens_a_tuple(line: &str) -> bool {
    !line.contains("let ")
        && !line.contains("|(")
        && line.match_indices("): (").any(|(end, _)| {
            let Some(start) = line[..end].rfind('(') else { return false };
            let mut names = line[start + 1..end].split(',').map(|name| name.trim().trim_start_matches("mut "));
            let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            line[start..end].contains(',') && names.all(is_name)
        })
}

fn clamps(line: &str) -> bool {
    line.contains("unwrap_or(usize::MAX)")
}

fn is_global(line: &str) -> bool {
    let holds = ["Mutex", "RwLock", "OnceLock", "OnceCell", "LazyLock", "Atomic"];
    let declares = line.trim_start().trim_start_matches("pub ").starts_with("static ");
    line.contains("thread_local!") || declares && holds.iter().any(|name| line.contains(name))
}

fn lines_that(src: &Path, has: fn(&str) -> bool) -> Vec<String> {
    let files = sources(src).into_iter().filter(|path| !is_test_file(path));
    let found = files.flat_map(|path| {
        let text = fs::read_to_string(&path).expect("a readable source file");
        let place = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let lines = code(&text).into_iter().filter(|(_, line)| has(line));
        lines.map(|(number, line)| format!("{place}:{number}: {}", line.trim())).collect::<Vec<_>>()
    });
    found.collect()
}

#[test]
fn parameters_are_named_and_numbers_are_not_clamped() {
    for (_, src) in all_sources() {
        let clamped = lines_that(&src, clamps);
        assert!(clamped.is_empty(), "convert with `to_usize`:\n{}", clamped.join("\n"));
        let tuples = lines_that(&src, opens_a_tuple);
        assert!(tuples.is_empty(), "give the parameters a struct, or separate them:\n{}", tuples.join("\n"));
    }
}

#[test]
fn there_are_no_process_wide_variables() {
    let found: Vec<_> = all_sources().iter().flat_map(|(_, src)| lines_that(src, is_global)).collect();
    for (file, _) in GLOBALS_ALLOWED {
        assert!(found.iter().any(|line| line.starts_with(file)), "`{file}` has no such variable: take it off the list");
    }
    let is_allowed = |line: &&String| GLOBALS_ALLOWED.iter().any(|(file, _)| line.starts_with(file));
    let found: Vec<_> = found.iter().filter(|line| !is_allowed(line)).map(String::as_str).collect();
    assert!(found.is_empty(), "pass it as a value:\n{}", found.join("\n"));
}

/// Only `watch.rs` may release the interpreter lock, because it turns a panic into an exception of the package.
/// Elsewhere, a panic would reach Python as an exception of a different type.
#[test]
fn the_interpreter_lock_is_released_in_one_file() {
    let lets_go: fn(&str) -> bool = |line| line.contains(".detach(") || line.contains("allow_threads");
    let found = lines_that(&root().join("python/src"), lets_go);
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|line| line.starts_with("python/src/watch.rs:"));
    assert!(!there.is_empty() && elsewhere.is_empty(), "call `watch::detached`:\n{}", elsewhere.join("\n"));
}

#[test]
fn the_search_finds_circles() {
    let file = |name: &str, text: &str| (name.split('/').map(str::to_owned).collect::<Module>(), text.to_owned());
    let circles = |files: &[(Module, String)]| in_circles(&uses_of(files));
    let lib = (Module::new(), "mod a;\nmod b;\npub use b::Thing;\n".to_owned());
    // Module `b` uses `a`. Each of these lines makes `a` depend on `b`, which closes the cycle: a `use`, a path in the
    // code, or a `use` of a name that `lib.rs` re-exports.
    for text in ["use super::b::{Thing, other};\n", "fn f() { crate::b::g() }\n", "use crate::{c::X, Thing};\n"] {
        let files = [lib.clone(), file("a", text), file("b", "use super::a;\n"), file("c", "use super::a;\n")];
        assert_eq!(circles(&files)[..2], ["a", "b"], "{text}");
    }
    let files = [lib, file("a", "use super::b::Thing; // super::c\n"), file("b", "use std::fmt;\n")];
    assert!(circles(&files).is_empty());
    let deep = [
        file("a", "mod x;\nmod y;\n"),
        file("a/x", "use super::super::b;\n"),
        file("a/y", "use super::x;\n"),
        file("b", "use super::a::y;\n"),
    ];
    assert_eq!(circles(&deep), ["a/x", "a/y", "b"]);
}

#[test]
fn the_search_finds_habits() {
    assert!(opens_a_tuple("fn f((a, mut b): (u8, u8)) {"));
    assert!(opens_a_tuple("    (a, b): (u8, u8),"));
    assert!(!opens_a_tuple("fn f(a: u8): (u8, u8)"));
    assert!(!opens_a_tuple("let (a, b): (u8, u8) = c;"));
    assert!(!opens_a_tuple("let f = |(a, b): (u8, u8)| a;"));
    assert!(!opens_a_tuple("for ((a, b), c) in d {"));
    assert!(clamps("n.unwrap_or(usize::MAX)") && !clamps("n.unwrap_or(0)"));
    assert!(is_global("static A: Mutex<u8> = x;") && !is_global("static A: &str = \"\";"));
}

#[test]
fn the_search_finds_words() {
    assert!(has_word("    unsafe { go() }", "unsafe"));
    assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    assert!(has_word("let x = std::env::var(\"A\");", "std::env"));
    assert!(!has_word("eprintln!(\"a\")", "println!"));
    let text = "let a = 1; // unsafe\n#[cfg(test)]\nmod tests {\n    unsafe {}\n}\n";
    assert_eq!(code(text), [(1, "let a = 1; ".to_owned())]);
}
