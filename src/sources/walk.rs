//! The files of a source, sorted by key, each stat'ed once.
//!
//! Folders are listed level by level, those of one level in parallel on the caller's rayon pool: no recursion, whatever the tree looks like.

use super::bad::{BadInput, BadKind, Flaw};
use super::error::{Result, SourceError};
use rayon::prelude::*;
use shardpack_format::check_key;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Most folders that are entered by symbolic links. Links across links multiply: a few hundred can span a tree without end.
const MAX_LINKED_FOLDERS: usize = 1 << 16;

/// Names that operating systems and viewers leave behind. Those that begin with a dot are ignored anyway.
const RUBBISH: &[&str] =
    &["Thumbs.db", "ehthumbs.db", "desktop.ini", "Desktop.ini", "Icon\r", "__MACOSX", "@eaDir", "$RECYCLE.BIN"];

/// A regular file below the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    /// Path below the source, with `/`.
    pub(crate) key: String,
    pub(crate) bytes: u64,
    pub(crate) mtime_ns: i64,
}

/// What stands below a source.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The folder that keys are relative to, made absolute, links resolved.
    pub(crate) root: PathBuf,
    /// Whether the source is a single file; `files` then leaves out what stands beside it.
    pub(crate) single: bool,
    /// Sorted by the bytes of the key.
    pub(crate) files: Vec<FoundFile>,
    /// First-level folders, sorted.
    pub(crate) folders: Vec<String>,
    /// What cannot be a sample by its name or type, sorted.
    pub(crate) bad: Vec<BadInput>,
    /// Hidden files and rubbish; a folder of it counts as one.
    pub(crate) ignored: u64,
}

/// Time of modification in ns since 1970.
pub(crate) fn mtime_ns(metadata: &Metadata) -> io::Result<i64> {
    let time = metadata.modified()?;
    let ns = |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    Ok(time.duration_since(UNIX_EPOCH).map_or_else(|before| -ns(before.duration()), ns))
}

/// Lists `src`, a folder or a single file. Paths in `exclude` are left out, uncounted, if they exist and are not `src` itself.
pub(crate) fn walk(src: &Path, exclude: &[&Path]) -> Result<Tree> {
    let real = fs::canonicalize(src).map_err(SourceError::io("open", src))?;
    let metadata = fs::metadata(&real).map_err(SourceError::io("open", src))?;
    if metadata.is_file() {
        return single(src, &real, &metadata);
    }
    if !metadata.is_dir() {
        let found = "a pipe, socket or device";
        return Err(SourceError::NotASource { path: src.to_owned(), expected: "a folder or a file", found });
    }
    let exclude: Vec<_> =
        exclude.iter().filter_map(|path| fs::canonicalize(path).ok()).filter(|path| *path != real).collect();
    let mut walk = Walk { root: &real, exclude: &exclude, tree: Tree::empty(real.clone()), linked: 0 };
    let mut level = vec![Folder { prefix: String::new(), real: real.clone(), entered_by: None }];
    while !level.is_empty() {
        let listed: Vec<_> = level.par_iter().map(|folder| walk.list(folder)).collect();
        level = walk.take(&level, listed)?;
    }
    let mut tree = walk.tree;
    tree.files.par_sort_unstable_by(|a, b| a.key.cmp(&b.key));
    tree.folders.sort_unstable();
    tree.bad.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(tree)
}

fn single(src: &Path, real: &Path, metadata: &Metadata) -> Result<Tree> {
    // The link's own name, not its target's, is what the user wrote.
    let name = src.file_name().or(real.file_name()).unwrap_or_default();
    let Some(key) = name.to_str() else {
        let found = "a name that is not UTF-8";
        return Err(SourceError::NotASource { path: src.to_owned(), expected: "a name in UTF-8", found });
    };
    let parent = match src.parent() {
        Some(parent) if src.file_name().is_some() && parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut tree = Tree::empty(fs::canonicalize(parent).map_err(SourceError::io("open", parent))?);
    let mtime_ns = mtime_ns(metadata).map_err(SourceError::io("read the time of", src))?;
    tree.single = true;
    tree.files.push(FoundFile { key: key.to_owned(), bytes: metadata.len(), mtime_ns });
    Ok(tree)
}

impl Tree {
    const fn empty(root: PathBuf) -> Self {
        Self { root, single: false, files: Vec::new(), folders: Vec::new(), bad: Vec::new(), ignored: 0 }
    }
}

/// A folder to list.
#[derive(Debug)]
struct Folder {
    /// Its key and `/`; empty for the root.
    prefix: String,
    /// Where it really is.
    real: PathBuf,
    /// The innermost symbolic link on the way to it.
    entered_by: Option<Arc<Link>>,
}

/// A symbolic link to a folder.
#[derive(Debug)]
struct Link {
    /// Where the folder that holds the link really is.
    home: PathBuf,
    outer: Option<Arc<Link>>,
}

impl Folder {
    /// Whether entering `target` from here would lead here again: it holds this folder, or one that a link on the way here stands in.
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

/// One name in a folder.
enum Node {
    File(FoundFile),
    Folder(Folder),
    Bad(BadInput),
    Ignored,
    Excluded,
}

struct Walk<'a> {
    root: &'a Path,
    exclude: &'a [PathBuf],
    tree: Tree,
    linked: usize,
}

impl Walk<'_> {
    fn list(&self, folder: &Folder) -> io::Result<Vec<Node>> {
        let entries = fs::read_dir(&folder.real)?.collect::<io::Result<Vec<_>>>()?;
        // Excluded paths that stand right here: a comparison of names, instead of a path made for every file.
        let excluded: Vec<_> = self
            .exclude
            .iter()
            .filter(|path| path.parent() == Some(&folder.real))
            .filter_map(|path| path.file_name())
            .collect();
        Ok(entries.into_par_iter().with_min_len(64).map(|entry| self.node(folder, &entry, &excluded)).collect())
    }

    fn node(&self, folder: &Folder, entry: &DirEntry, excluded: &[&OsStr]) -> Node {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") || RUBBISH.iter().any(|rubbish| name == *rubbish) {
            return Node::Ignored;
        }
        if excluded.contains(&name.as_os_str()) {
            return Node::Excluded;
        }
        let key = match name.to_str() {
            Some(name) => format!("{}{name}", folder.prefix),
            None => return Node::Bad(not_utf8(folder, &name)),
        };
        if let Err(error) = check_key(&key) {
            return Node::Bad(Flaw::new(BadKind::Name, error.to_string()).of(key));
        }
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
            .map_err(|error| link(format!("link cannot be followed: {error}")))?;
        if !target.starts_with(self.root) {
            return Err(link(format!("link leads out of the source: `{}`", target.display())));
        }
        if self.exclude.iter().any(|path| target.starts_with(path)) {
            return Ok(Node::Excluded);
        }
        let metadata = fs::metadata(&target)?;
        if metadata.is_file() {
            return file(key, &metadata);
        }
        if !metadata.is_dir() {
            return Err(special());
        }
        if folder.is_loop(&target) {
            return Err(link(format!("link leads in a circle: `{}`", target.display())));
        }
        let entered_by = Some(Arc::new(Link { home: folder.real.clone(), outer: folder.entered_by.clone() }));
        Ok(Node::Folder(Folder { prefix: format!("{key}/"), real: target, entered_by }))
    }

    /// Takes in what the folders of one level hold; gives the next level.
    fn take(&mut self, level: &[Folder], listed: Vec<io::Result<Vec<Node>>>) -> Result<Vec<Folder>> {
        let mut next = Vec::new();
        for (folder, nodes) in level.iter().zip(listed) {
            let nodes = match nodes {
                Ok(nodes) => nodes,
                // An unreadable root is no bad input among others.
                Err(error) if folder.prefix.is_empty() => return Err(SourceError::io("list", self.root)(error)),
                Err(error) => vec![Node::Bad(unlisted(&error).of(folder.prefix.clone()))],
            };
            for node in nodes {
                match node {
                    Node::File(file) => self.tree.files.push(file),
                    Node::Bad(bad) => self.tree.bad.push(bad),
                    Node::Ignored => self.tree.ignored += 1,
                    Node::Excluded => {}
                    Node::Folder(inner) => {
                        if folder.prefix.is_empty() {
                            self.tree.folders.push(inner.prefix.trim_end_matches('/').to_owned());
                        }
                        self.linked += usize::from(inner.entered_by.is_some());
                        next.push(inner);
                    }
                }
            }
            if self.linked > MAX_LINKED_FOLDERS {
                let found = "a web of symbolic links that leads through more";
                let expected = "at most 65536 folders behind symbolic links";
                return Err(SourceError::NotASource { path: self.root.to_owned(), expected, found });
            }
        }
        Ok(next)
    }
}

fn file(key: &str, metadata: &Metadata) -> Result<Node, Flaw> {
    if metadata.len() == 0 {
        return Err(Flaw::new(BadKind::Empty, "empty file"));
    }
    Ok(Node::File(FoundFile { key: key.to_owned(), bytes: metadata.len(), mtime_ns: mtime_ns(metadata)? }))
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
    Flaw::new(BadKind::Name, "name is not UTF-8: rename it").of(format!("{}{escaped}", folder.prefix))
}

fn unlisted(error: &io::Error) -> Flaw {
    match error.kind() {
        io::ErrorKind::InvalidFilename => Flaw::new(BadKind::Name, "path too long"),
        _ => Flaw::new(BadKind::Unreadable, format!("folder cannot be listed: {error}")),
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
