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
    /// Name of the example in the code: the first word in backticks below the title.
    example: String,
    /// Paths at the beginning of the section's items.
    files: BTreeSet<String>,
}

fn lists(text: &str) -> Vec<List> {
    let sections = text.split("\n### ").filter(|section| section.starts_with("To add"));
    sections
        .map(|section| {
            let (title, body) = section.split_once('\n').expect("a title and a body");
            let body = body.split("\n## ").next().unwrap_or_default();
            let example = body.split('`').nth(1).unwrap_or_default().to_owned();
            let items = body.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next());
            List { title: title.to_owned(), example, files: items.map(str::to_owned).collect() }
        })
        .collect()
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
    for List { title, example, files } in lists {
        let found = files_with(&example);
        let is_there = |file: &&String| !root().join(file.as_str()).is_file();
        wrong.extend(files.iter().filter(is_there).map(|file| format!("{title}: no such file: {file}")));
        wrong.extend(found.difference(&files).map(|file| format!("{title}: not listed, but has `{example}`: {file}")));
    }
    assert!(wrong.is_empty(), "docs/code.md:\n{}", wrong.join("\n"));
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
        // A line that names the second scheme is part of a list of store schemes. That line and the adjacent lines must
        // also name all other schemes.
        for number in
            (0..lines.len()).filter(|&number| lines[number].contains(&written[1]) && !lines[number].starts_with('|'))
        {
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
    let text = "# Code\n\n### To add a view\n\n`Pad` is one:\n\n- `a.rs`: the name\n- `b.rs`: the other\n\n\
                ## Tests\n\n- `c.rs`\n";
    let [list] = &lists(text)[..] else { panic!("one list") };
    assert_eq!((list.title.as_str(), list.example.as_str()), ("To add a view", "Pad"));
    assert_eq!(list.files, ["a.rs", "b.rs"].map(str::to_owned).into());
}
