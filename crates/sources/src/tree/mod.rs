//! Lists the files below a source, sorted by key, and counts the ignored files.

pub(crate) mod store;
pub(crate) mod walk;

use crate::bad::BadInput;
use crate::files::listed::SourceFile;
use crate::{cubes, pictures};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Names of files left behind by operating systems and viewers. Names with a leading dot are always ignored.
const RUBBISH: &[&str] =
    &["Thumbs.db", "ehthumbs.db", "desktop.ini", "Desktop.ini", "Icon\r", "__MACOSX", "@eaDir", "$RECYCLE.BIN"];

#[derive(Debug)]
pub(crate) struct Tree {
    /// Folder that keys are relative to, as an absolute path with links resolved.
    pub(crate) root: PathBuf,
    /// True if the source is a single file. `files` then contains only this file.
    pub(crate) single: bool,
    /// Files sorted by the bytes of their keys.
    pub(crate) files: Vec<SourceFile>,
    pub(crate) folders: Vec<String>,
    /// Keys of second-level folders, sorted.
    pub(crate) inner: Vec<String>,
    /// Files that cannot be samples because of their name or type, sorted.
    pub(crate) bad: Vec<BadInput>,
    /// Number of ignored hidden files and other rubbish. A folder counts as one.
    pub(crate) ignored: u64,
    /// Ignored files whose names suggest that they are samples, including files in ignored folders.
    pub(crate) hidden: HiddenFiles,
    /// Keys of followed links that lead out of the source, sorted.
    pub(crate) followed: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenFiles {
    pub(crate) count: u64,
    /// Key of the first ignored file, in key order, that could be a sample.
    pub(crate) first: Option<String>,
    /// True if there may be more ignored files that could be samples, because a folder has too many names to check.
    pub(crate) is_at_least: bool,
}

impl HiddenFiles {
    /// Counts the file with this key if it could be a sample.
    pub(crate) fn add(&mut self, key: &str) {
        let name = key.rsplit('/').next().unwrap_or(key).to_ascii_lowercase();
        // macOS writes a file whose name starts with `._` next to each file.
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if !name.starts_with("._") && (pictures::has_extension(extension) || cubes::has_extension(extension)) {
            self.count += 1;
            if self.first.as_deref().is_none_or(|first| key < first) {
                self.first = Some(key.to_owned());
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.is_at_least |= other.is_at_least;
        let firsts = [self.first.take(), other.first];
        self.first = firsts.into_iter().flatten().min();
    }
}

impl Tree {
    pub(super) fn empty(root: PathBuf) -> Self {
        Self {
            root,
            single: false,
            files: Vec::new(),
            folders: Vec::new(),
            inner: Vec::new(),
            bad: Vec::new(),
            ignored: 0,
            hidden: HiddenFiles::default(),
            followed: Vec::new(),
        }
    }
}

pub(super) fn is_ignored(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || RUBBISH.iter().any(|rubbish| name == *rubbish)
}
