//! Walks the files of a source, sorted by key, calling `stat` once per file.
//!
//! Folders are listed level by level, without recursion. All folders of a level are listed in parallel on the
//! caller's rayon pool.

use super::{HiddenFiles, Tree, is_ignored, store};
use crate::bad::{BadInput, BadKind, Flaw};
use crate::cancel::Cancel;
use crate::error::{Result, SourceError};
use crate::files::Files;
use crate::files::listed::{SourceFile, mtime_ns};
use rayon::prelude::*;
use shardpack_format::visible_path;
use shardpack_format::{Hint, Setting};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of folders to enter through links. A few hundred links to folders with further links can form
/// an endless tree.
const MAX_LINKED_FOLDERS: usize = 1 << 16;

/// Maximum number of times to enter the same folder through symbolic links.
const MAX_TIMES: u32 = 100;

/// Maximum number of names to check in all hidden subfolders of a folder.
const MAX_HIDDEN: usize = 10_000;

fn hidden(key: &str, path: &Path, is_folder: bool) -> HiddenFiles {
    let mut found = HiddenFiles::default();
    if !is_folder {
        found.add(key);
        return found;
    }
    let (mut folders, mut seen) = (vec![(key.to_owned(), path.to_owned())], 0);
    while let Some((key, path)) = folders.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_HIDDEN {
                found.is_at_least = true;
                return found;
            }
            let (Some(name), Ok(kind)) = (entry.file_name().to_str().map(str::to_owned), entry.file_type()) else {
                continue;
            };
            let key = format!("{key}/{name}");
            if kind.is_dir() {
                folders.push((key, entry.path()));
            } else if kind.is_file() {
                found.add(&key);
            }
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Follow only links to files inside the source.
    Inside,
    /// Follow all links, except circular ones.
    Everywhere,
}

/// Lists `src`, a folder or a single file. Existing paths in `exclude` are omitted and not counted, except for
/// `src` itself.
pub(crate) fn walk(src: &Path, exclude: &[&Path], files: &Files, follow: Follow, cancel: Cancel<'_>) -> Result<Tree> {
    files.check(src)?;
    if files.has(src) {
        return store::walk(src, exclude, files);
    }
    let real = fs::canonicalize(src).map_err(SourceError::io("open", src))?;
    let metadata = fs::metadata(&real).map_err(SourceError::io("open", src))?;
    if !metadata.is_file() && !metadata.is_dir() {
        let problem = "expected a folder or a file, found a pipe, socket or device";
        return Err(SourceError::NotASource { path: src.to_owned(), problem });
    }
    if follow == Follow::Inside {
        // The data file, mask and metadata of a single file are next to it.
        let folder = if metadata.is_file() { real.parent().unwrap_or(&real) } else { &real };
        files.confine(folder).map_err(SourceError::io("open", src))?;
    }
    if metadata.is_file() {
        return single(src, &real, &metadata);
    }
    let exclude: Vec<_> =
        exclude.iter().filter_map(|path| fs::canonicalize(path).ok()).filter(|path| *path != real).collect();
    let mut walk = TreeWalk {
        root: &real,
        exclude: &exclude,
        follow,
        tree: Tree::empty(real.clone()),
        linked: 0,
        times: HashMap::new(),
        cancel,
    };
    let mut level = vec![Folder { prefix: String::new(), real: real.clone(), entered_by: None }];
    while !level.is_empty() {
        let listed: Vec<_> = level.par_iter().map(|folder| walk.list(folder)).collect();
        cancel.check()?;
        level = walk.take(&level, listed)?;
    }
    let mut tree = walk.tree;
    tree.files.par_sort_unstable_by(|a, b| a.key.cmp(&b.key));
    tree.folders.sort_unstable();
    tree.inner.sort_unstable();
    tree.followed.sort_unstable();
    tree.bad.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(tree)
}

fn single(src: &Path, real: &Path, metadata: &Metadata) -> Result<Tree> {
    // Use the name that the user wrote, rather than the name of the link's target.
    let name = src.file_name().or(real.file_name()).unwrap_or_default();
    let Some(key) = name.to_str() else {
        let problem = "the file name is not valid UTF-8: rename the file";
        return Err(SourceError::NotASource { path: src.to_owned(), problem });
    };
    let parent = match src.parent() {
        Some(parent) if src.file_name().is_some() && parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut tree = Tree::empty(fs::canonicalize(parent).map_err(SourceError::io("open", parent))?);
    let mtime_ns = mtime_ns(metadata).map_err(SourceError::io("read the modification time of", src))?;
    tree.single = true;
    tree.files.push(SourceFile { key: key.to_owned(), bytes: metadata.len(), mtime_ns });
    Ok(tree)
}

#[derive(Debug)]
struct Folder {
    /// Key of the folder, followed by `/`. Empty for the root.
    prefix: String,
    real: PathBuf,
    /// Innermost symbolic link on the path to the folder.
    entered_by: Option<Arc<Link>>,
}

#[derive(Debug)]
struct Link {
    /// Real path of the folder that contains the link.
    home: PathBuf,
    outer: Option<Arc<Link>>,
}

impl Folder {
    /// Returns true if entering `target` would form a loop, because `target` contains this folder or the folder
    /// of a link on the path to it.
    fn is_loop(&self, target: &Path) -> bool {
        let mut link = self.entered_by.as_deref();
        let mut home = self.real.as_path();
        loop {
            if home.starts_with(target) {
                return true;
            }
            match link {
                None => return false,
                Some(outer) => (home, link) = (&outer.home, outer.outer.as_deref()),
            }
        }
    }
}

enum Node {
    File(SourceFile),
    Folder(Folder),
    /// Target of a link that leads out of the source, with the key of the link.
    Outside(Box<Self>, String),
    Bad(BadInput),
    Ignored(HiddenFiles),
    Excluded,
}

struct TreeWalk<'a> {
    root: &'a Path,
    exclude: &'a [PathBuf],
    follow: Follow,
    tree: Tree,
    linked: usize,
    /// Number of times each folder has been entered through links.
    times: HashMap<PathBuf, u32>,
    cancel: Cancel<'a>,
}

impl TreeWalk<'_> {
    fn list(&self, folder: &Folder) -> io::Result<Vec<Node>> {
        let entries = fs::read_dir(&folder.real)?.collect::<io::Result<Vec<_>>>()?;
        // Compare names, to avoid building a path for every file.
        let excluded: Vec<_> = self
            .exclude
            .iter()
            .filter(|path| path.parent() == Some(&folder.real))
            .filter_map(|path| path.file_name())
            .collect();
        Ok(entries.into_par_iter().with_min_len(64).map(|entry| self.node(folder, &entry, &excluded)).collect())
    }

    fn node(&self, folder: &Folder, entry: &DirEntry, excluded: &[&OsStr]) -> Node {
        if self.cancel.is_raised() {
            return Node::Excluded;
        }
        let name = entry.file_name();
        if is_ignored(&name) {
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let key = name.to_str().filter(|_| is_hidden).map(|name| format!("{}{name}", folder.prefix));
            let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink());
            let found = key.zip(kind).map(|(key, kind)| hidden(&key, &folder.real.join(&name), kind.is_dir()));
            return Node::Ignored(found.unwrap_or_default());
        }
        if excluded.contains(&name.as_os_str()) {
            return Node::Excluded;
        }
        let key = match name.to_str() {
            Some(name) => format!("{}{name}", folder.prefix),
            None => return Node::Bad(not_utf8(folder, &name)),
        };
        match self.inspect(folder, entry, &name, &key) {
            Ok(node) => node,
            Err(flaw) => Node::Bad(flaw.of(key)),
        }
    }

    fn inspect(&self, folder: &Folder, entry: &DirEntry, name: &OsStr, key: &str) -> Result<Node, Flaw> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let entered_by = folder.entered_by.clone();
            return Ok(Node::Folder(Folder { prefix: format!("{key}/"), real: folder.real.join(name), entered_by }));
        }
        if kind.is_file() {
            return file(key, &entry.metadata()?);
        }
        if !kind.is_symlink() {
            return Err(special());
        }
        let link = |detail: String| Flaw::new(BadKind::Link, detail);
        let target = fs::canonicalize(folder.real.join(name))
            .map_err(|error| link(format!("cannot follow the link: {error}")))?;
        let outside = !target.starts_with(self.root);
        if outside && self.follow == Follow::Inside {
            let hint = Hint::new("pass ").and([Setting::on("follow_links")]).then(" to follow it");
            return Err(
                link(format!("the link points outside the source: `{}`", visible_path(&target))).with_hint(hint)
            );
        }
        let found = |node| if outside { Node::Outside(Box::new(node), key.to_owned()) } else { node };
        if self.exclude.iter().any(|path| target.starts_with(path)) {
            return Ok(Node::Excluded);
        }
        let metadata = fs::metadata(&target)?;
        if metadata.is_file() {
            return file(key, &metadata).map(found);
        }
        if !metadata.is_dir() {
            return Err(special());
        }
        if folder.is_loop(&target) {
            return Err(link(format!("the link points to a folder that contains it: `{}`", visible_path(&target))));
        }
        let entered_by = Some(Arc::new(Link { home: folder.real.clone(), outer: folder.entered_by.clone() }));
        Ok(found(Node::Folder(Folder { prefix: format!("{key}/"), real: target, entered_by })))
    }

    /// Adds the contents of the folders in `level` to the tree, and returns the folders of the next level.
    fn take(&mut self, level: &[Folder], listed: Vec<io::Result<Vec<Node>>>) -> Result<Vec<Folder>> {
        let mut next = Vec::new();
        for (folder, nodes) in level.iter().zip(listed) {
            let nodes = match nodes {
                Ok(nodes) => nodes,
                // An unreadable root is an error rather than a single bad input.
                Err(error) if folder.prefix.is_empty() => return Err(SourceError::io("list", self.root)(error)),
                Err(error) => vec![Node::Bad(unlisted(&error).of(folder.prefix.clone()))],
            };
            for node in nodes {
                let node = match node {
                    Node::Outside(node, link) => {
                        self.tree.followed.push(link);
                        *node
                    }
                    node => node,
                };
                match node {
                    // Unreachable, because links are resolved to their final targets, so the target of a link
                    // is never another link.
                    Node::Outside(..) => {}
                    Node::File(file) => self.tree.files.push(file),
                    Node::Bad(bad) => self.tree.bad.push(bad),
                    Node::Ignored(hidden) => {
                        self.tree.ignored += 1;
                        self.tree.hidden.merge(hidden);
                    }
                    Node::Excluded => {}
                    Node::Folder(inner) => {
                        let key = inner.prefix.trim_end_matches('/').to_owned();
                        match folder.prefix.matches('/').count() {
                            0 => self.tree.folders.push(key),
                            1 => self.tree.inner.push(key),
                            _ => {}
                        }
                        if inner.entered_by.is_some() {
                            self.linked += 1;
                            let times = self.times.entry(inner.real.clone()).or_default();
                            *times += 1;
                            if *times > MAX_TIMES {
                                let problem = "more than 100 symbolic links lead to this folder";
                                return Err(SourceError::TooManyLinks { path: inner.real, problem });
                            }
                        }
                        next.push(inner);
                    }
                }
            }
            if self.linked > MAX_LINKED_FOLDERS {
                let problem = "symbolic links lead to more than 65,536 folders";
                return Err(SourceError::TooManyLinks { path: self.root.to_owned(), problem });
            }
        }
        Ok(next)
    }
}

fn file(key: &str, metadata: &Metadata) -> Result<Node, Flaw> {
    if metadata.len() == 0 {
        return Err(Flaw::new(BadKind::Empty, "the file is empty"));
    }
    Ok(Node::File(SourceFile { key: key.to_owned(), bytes: metadata.len(), mtime_ns: mtime_ns(metadata)? }))
}

fn special() -> Flaw {
    Flaw::new(BadKind::Special, "expected a regular file, found a pipe, socket or device")
}

fn not_utf8(folder: &Folder, name: &OsString) -> BadInput {
    let escaped: String = name
        .as_encoded_bytes()
        .utf8_chunks()
        .flat_map(|chunk| {
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            std::iter::once(chunk.valid().to_owned()).chain(invalid)
        })
        .collect();
    Flaw::new(BadKind::Name, "the name is not valid UTF-8: rename the file or folder")
        .of(format!("{}{escaped}", folder.prefix))
}

fn unlisted(error: &io::Error) -> Flaw {
    match error.kind() {
        io::ErrorKind::InvalidFilename => Flaw::new(BadKind::Name, "the path is too long"),
        _ => Flaw::new(BadKind::Unreadable, format!("cannot list the folder: {error}")),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
