//! Finds the photos for the timing examples.
#![allow(clippy::unwrap_used, reason = "for programs of developers")]

use std::path::{Path, PathBuf};

/// Returns the sorted paths of all files with a JPEG extension below a folder.
pub(crate) fn jpegs(folder: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    walk(Path::new(folder), &mut paths);
    paths.sort();
    paths
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg")) {
            files.push(path);
        }
    }
}
