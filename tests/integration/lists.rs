//! Tests that the "To add …" lists in `docs/code.md` are complete: each list names an existing example, and every file
//! whose code contains that name. Also tests that each term defined in `ARCHITECTURE.md` is one type in the code.

use crate::layers::{code, files_below, has_word, is_test_file, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: &[&str] = &["crates", "src", "python/src", "python/shardpack", "format-spec"];

/// A section of `docs/code.md` that begins with "To add".
struct List {
    title: String,
    /// Names of the examples in the code: the words in backticks in the first line below the title, up to the end of
    /// its first sentence.
    examples: Vec<String>,
    /// Paths in the section's items.
    files: BTreeSet<String>,
}

fn lists(text: &str) -> Vec<List> {
    let sections = text.split("\n### ").filter(|section| section.starts_with("To add"));
    sections
        .map(|section| {
            let (title, body) = section.split_once('\n').expect("a title and a body");
            let body = body.split("\n## ").next().unwrap_or_default();
            let sentence = body.trim_start().lines().next().and_then(|line| line.split(". ").next());
            let examples = sentence.map(quoted).unwrap_or_default();
            let items = body.split("\n- ").skip(1).map(|item| item.split("\n\n").next().unwrap_or_default());
            List { title: title.to_owned(), examples, files: items.flat_map(files_of).collect() }
        })
        .collect()
}

/// Returns the words in backticks. A word with braces, such as `a.{rs,py}`, is several words.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).flat_map(expanded).collect()
}

fn expanded(word: &str) -> Vec<String> {
    let parts = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (middle, after))) => {
            middle.split(',').flat_map(|part| expanded(&format!("{before}{part}{after}"))).collect()
        }
        None => vec![word.to_owned()],
    }
}

/// Returns the paths in an item of a list. A file name without a folder is next to the file at the beginning.
fn files_of(item: &str) -> Vec<String> {
    let mut words = quoted(item).into_iter().filter(|word| is_path(word));
    let Some(first) = words.next() else { return Vec::new() };
    let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let others = words.filter_map(|word| match word.contains('/') {
        true => Some(word),
        false => Some(format!("{folder}/{word}")).filter(|path| root().join(path).is_file()),
    });
    let others: Vec<String> = others.collect();
    [first].into_iter().chain(others).collect()
}

fn is_path(word: &str) -> bool {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    is_plain
        && !word.starts_with('.')
        && [".rs", ".py", ".md", ".toml", ".cu", ".cuh"].iter().any(|end| word.ends_with(end))
}

fn code_files(dir: &Path) -> Vec<PathBuf> {
    let is_code = |path: &PathBuf| !is_test_file(path) && !path.components().any(|part| part.as_os_str() == "examples");
    files_below(dir, &["rs", "py", "cu", "cuh"]).into_iter().filter(is_code).collect()
}

fn files_with(example: &str) -> BTreeSet<String> {
    let files = FOLDERS.iter().flat_map(|folder| code_files(&root().join(folder)));
    let names_it = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a readable source file");
        code(&text).iter().any(|(_, line)| has_word(line, example))
    };
    let place = |path: PathBuf| path.strip_prefix(root()).expect("below the root").display().to_string();
    files.filter(names_it).map(place).collect()
}

#[test]
fn lists_of_what_to_change_are_complete() {
    let text = fs::read_to_string(root().join("docs/code.md")).expect("docs/code.md");
    let lists = lists(&text);
    assert!(lists.len() >= 7, "docs/code.md: expected a list for each kind of addition, found {}", lists.len());
    let mut wrong = Vec::new();
    for List { title, examples, files } in lists {
        for example in &examples {
            let found = files_with(example);
            assert!(!found.is_empty(), "docs/code.md: {title}: no code has `{example}`");
            let missing = found.difference(&files);
            wrong.extend(missing.map(|file| format!("{title}: not listed, but has `{example}`: {file}")));
        }
    }
    assert!(wrong.is_empty(), "docs/code.md:\n{}", wrong.join("\n"));
}

#[test]
fn paths_in_the_pages_for_contributors_exist() {
    let extensions = ["rs", "py", "md", "toml", "cu", "cuh"];
    let folders = [
        "crates",
        "src",
        "python",
        "format-spec",
        "docs",
        "tests",
        "scripts",
        "fixtures",
        "fuzz",
        "examples",
        "benches",
    ];
    let files: Vec<_> = folders.iter().flat_map(|folder| files_below(&root().join(folder), &extensions)).collect();
    for page in ["docs/code.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).expect("a page for contributors");
        // Outside blocks of code. A path may leave out the folders that its context names.
        let text: String = text.split("```").step_by(2).collect();
        let is_missing = |path: &String| {
            is_path(path) && !root().join(path).exists() && !files.iter().any(|file| file.ends_with(path.as_str()))
        };
        let missing: Vec<String> = quoted(&text).into_iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{page}: no such files: {}", missing.join(", "));
    }
}

fn defines(line: &str, name: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let is_head = words.by_ref().find(|word| !["pub", "crate", "super", "in"].contains(word));
    is_head.is_some_and(|word| ["struct", "enum", "trait"].contains(&word)) && words.next() == Some(name)
}

#[test]
fn each_noun_is_one_type() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, words) = text.split_once("\n## Words\n").expect("a table of words");
    let rows: Vec<[&str; 2]> = words
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs`"))
        .map(|line| {
            let mut quoted = line.split('`').skip(1).step_by(2);
            [quoted.next().expect("a type"), quoted.next().expect("a file")]
        })
        .collect();
    assert!(rows.len() >= 40, "ARCHITECTURE.md: expected some forty words, found {}", rows.len());
    let files = code_files(&root().join("crates"));
    for [name, file] in rows {
        let has_it = |path: &&PathBuf| {
            let text = fs::read_to_string(path).expect("a readable source file");
            code(&text).iter().any(|(_, line)| defines(line.trim(), name))
        };
        let found: Vec<_> = files.iter().filter(has_it).collect();
        assert_eq!(found, [&root().join(file)], "`{name}` is one type, of `{file}`");
    }
}

#[cfg(feature = "store")]
#[test]
fn lists_of_schemes_are_complete() {
    use shardpack_store::SCHEMES;
    let page = fs::read_to_string(root().join("docs/stores.md")).expect("docs/stores.md");
    for scheme in SCHEMES {
        assert!(page.contains(&format!("`{}://", scheme.name)), "docs/stores.md: no row for `{}://`", scheme.name);
    }
    let written: Vec<_> = SCHEMES.iter().filter(|s| s.is_written).map(|s| format!("{}://", s.name)).collect();
    let mut files = vec![root().join("README.md")];
    files.extend(files_below(&root().join("docs"), &["md"]));
    files.extend(FOLDERS.iter().flat_map(|folder| code_files(&root().join(folder))));
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with("lists.rs")) {
        let text = fs::read_to_string(path).expect("a readable file");
        let lines: Vec<&str> = text.split("#[cfg(test)]").next().unwrap_or_default().lines().collect();
        // A line that names two schemes is part of a list of store schemes. That line and the adjacent lines must also
        // name all other schemes.
        let is_list = |line: &str| written.iter().filter(|scheme| line.contains(scheme.as_str())).count() >= 2;
        for number in (0..lines.len()).filter(|&number| is_list(lines[number]) && !lines[number].starts_with('|')) {
            let near = lines[number.saturating_sub(1)..lines.len().min(number + 2)].join(" ");
            if let Some(scheme) = written.iter().find(|scheme| !near.contains(scheme.as_str())) {
                wrong.push(format!("{}:{}: a list of stores without {scheme}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_list_is_read_as_it_stands() {
    let text = "# Code\n\n### To add a view\n\n`Pad` is one (`Fit` another):\n\n- `a/b.rs`: the name; then\n  `c/{d,e}.py`\n\
                - `f.rs`: the other, of `pad`\n\n## Tests\n\n- `g.rs`\n";
    let [list] = &lists(text)[..] else { panic!("one list") };
    assert_eq!((list.title.as_str(), &list.examples[..]), ("To add a view", &["Pad".to_owned(), "Fit".to_owned()][..]));
    assert_eq!(list.files, ["a/b.rs", "c/d.py", "c/e.py", "f.rs"].map(str::to_owned).into());
}
