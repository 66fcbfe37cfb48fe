//! Lists the files of a source in a store. Object names contain `/` and are sorted into folders as
//! on disk.

use super::{Tree, is_ignored};
use crate::bad::{BadKind, Flaw};
use crate::error::{Result, SourceError};
use crate::files::Files;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Returns the folder that keys are relative to. This is the URL without a trailing slash.
pub(crate) fn root(src: &Path) -> PathBuf {
    src.to_str().map_or_else(|| src.to_owned(), |url| url.trim_end_matches('/').into())
}

/// Like [`super::walk::walk`], for a folder of a store. Stores have no links.
pub(crate) fn walk(src: &Path, exclude: &[&Path], files: &Files) -> Result<Tree> {
    let mut tree = Tree::empty(root(src));
    let mut found = files.list(src)?;
    if found.is_empty() {
        // Stores have no empty folders, so the name is probably wrong.
        let problem = "the store has no objects with this prefix";
        return Err(SourceError::NotASource { path: src.to_owned(), problem });
    }
    found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let excluded: Vec<&str> = exclude.iter().filter_map(|path| below(&tree.root, path)).collect();
    let (mut folders, mut inner, mut ignored) = (BTreeSet::new(), BTreeSet::new(), HashSet::new());
    let mut kept = Vec::with_capacity(found.len());
    for file in found {
        if excluded.iter().any(|path| file.key == *path || file.key.starts_with(&format!("{path}/"))) {
            continue;
        }
        let passed = ends(&file.key).find(|end| is_ignored(OsStr::new(last(file.key.get(..*end).unwrap_or_default()))));
        let seen = passed.unwrap_or(file.key.len());
        // Add the folders that a walk on disk would list, down to an ignored folder.
        let parents: Vec<&str> =
            ends(&file.key).filter(|end| *end < seen).filter_map(|end| file.key.get(..end)).collect();
        folders.extend(parents.first().map(|&name| name.to_owned()));
        inner.extend(parents.get(1).map(|&name| name.to_owned()));
        match passed {
            Some(end) => {
                let passed = file.key.get(..end).unwrap_or_default();
                if last(passed).starts_with('.') {
                    tree.hidden.add(&file.key);
                }
                ignored.insert(passed.to_owned());
            }
            None => kept.push(file),
        }
    }
    // Some programs create a folder as an empty object with the name of the folder. The listing drops the
    // trailing slash of that name, so an empty folder can only be recognised by its missing extension.
    let is_folder = |key: &str, next: Option<&str>| {
        !last(key).contains('.') || next.is_some_and(|next| next.starts_with(&format!("{key}/")))
    };
    let keys: Vec<String> = kept.iter().map(|file| file.key.clone()).collect();
    for file in kept {
        if file.bytes > 0 {
            tree.files.push(file);
            continue;
        }
        let prefix = format!("{}/", file.key);
        let next = keys.get(keys.partition_point(|key| *key < prefix)).map(String::as_str);
        if !is_folder(&file.key, next) {
            tree.bad.push(Flaw::new(BadKind::Empty, "the file is empty").of(file.key));
        }
    }
    tree.ignored = ignored.len() as u64;
    tree.folders = folders.into_iter().collect();
    tree.inner = inner.into_iter().collect();
    Ok(tree)
}

fn ends(key: &str) -> impl Iterator<Item = usize> + '_ {
    key.match_indices('/').map(|(at, _)| at).chain(std::iter::once(key.len()))
}

fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns the part of `path` below `root`, or `None` if `path` is elsewhere.
fn below<'a>(root: &Path, path: &'a Path) -> Option<&'a str> {
    path.to_str()?.trim_end_matches('/').strip_prefix(root.to_str()?)?.strip_prefix('/')
}
