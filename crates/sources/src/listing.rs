//! Lists the samples of a source, in key order.

use crate::bad::BadInput;
use crate::columns::TableColumn;
use crate::content::{SampleContent, SourceKind};
use crate::error::{Result, SourceError};
use crate::files::Files;
use crate::files::listed::{SideFile, SourceFile, mtime_ns};
use serde::{Deserialize, Serialize};
use shardpack_format::{Note, bug};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

/// One sample of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSample {
    /// Path below the source, separated by `/`, including the extension. For a clip, the path of its folder.
    pub key: String,
    /// Size at the time of listing, in bytes. For a clip, the total size of its frames.
    pub bytes: u64,
    /// Modification time at the time of listing, in ns since 1970.
    pub mtime_ns: i64,
    /// Label, as an index into [`Listing::classes`].
    pub class: Option<u32>,
    /// Content of the file. For a clip, the content of its first frame.
    pub content: SampleContent,
    /// Data file that belongs to an ENVI header. `None` for other formats.
    pub data: Option<Box<SideFile>>,
    /// File with the label mask.
    pub mask: Option<Box<SideFile>>,
    /// Metadata file next to the sample, as written by `unpack`.
    pub meta: Option<Box<SideFile>>,
    /// Frames of a clip, in order. Empty for other samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<SideFile>,
}

impl SourceSample {
    pub(crate) fn new(file: SourceFile, content: SampleContent, data: Option<SideFile>) -> Self {
        let SourceFile { key, bytes, mtime_ns } = file;
        let data = data.map(Box::new);
        Self { key, bytes, mtime_ns, class: None, content, data, mask: None, meta: None, frames: Vec::new() }
    }

    /// Returns the total size on disk of the sample's files, in bytes.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        [&self.data, &self.mask, &self.meta]
            .into_iter()
            .flatten()
            .fold(self.bytes, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns a number that changes with the modification time of any of the sample's files, because a run
    /// must not be resumed after a file has changed. For a single file, the number is
    /// [`mtime_ns`](Self::mtime_ns). Otherwise it is not a time and has no meaningful order.
    #[must_use]
    pub fn fingerprint_mtime_ns(&self) -> i64 {
        // An odd factor loses no information. A large factor keeps small changes of two files from
        // cancelling out.
        const FACTOR: i64 = 0x5851_F42D_4C95_7F2D;
        let fold = |folded: i64, next: i64| folded.wrapping_mul(FACTOR).wrapping_add(next);
        let beside = [&self.data, &self.mask, &self.meta].into_iter().flatten();
        let folded = beside.fold(self.mtime_ns, |folded, file| fold(folded, file.mtime_ns));
        self.frames.iter().fold(folded, |folded, file| {
            // A clip with the same frames in a different order is a different clip.
            let name = file.path.file_name().unwrap_or_default().as_encoded_bytes();
            let folded = name.iter().fold(folded, |folded, byte| fold(folded, i64::from(*byte)));
            fold(fold(folded, file.mtime_ns), file.bytes.cast_signed())
        })
    }

    /// Returns the paths of the files with the values, without the mask and the metadata.
    pub fn paths(&self, root: &Path) -> Vec<PathBuf> {
        match self.frames.is_empty() {
            true => vec![root.join(&self.key)],
            false => self.frames.iter().map(|frame| frame.path.clone()).collect(),
        }
    }
}

/// Where the labels in a listing come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelsFrom {
    /// There are no labels.
    #[default]
    Nothing,
    /// Labels are the names of first-level folders.
    Folders,
    /// Labels come from a column of the label table.
    Column {
        /// Path of the table.
        table: PathBuf,
        /// Name of the column.
        column: String,
    },
}

impl fmt::Display for LabelsFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Folders => f.write_str("the names of the first-level folders"),
            Self::Column { table, column } => {
                let table = table.to_string_lossy();
                write!(f, "the column `{}` of `{}`", column.escape_debug(), table.escape_debug())
            }
        }
    }
}

/// The samples of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Folder that keys are relative to, as a URL or as an absolute path with links resolved.
    pub root: PathBuf,
    /// Stores that `root` and the paths of samples may refer to.
    pub files: Files,
    /// Kind of the samples, which is the same for all.
    pub kind: SourceKind,
    /// Samples sorted by the bytes of their keys. Never empty.
    pub samples: Vec<SourceSample>,
    /// Class names. If this is empty, the `class` of every sample is `None`. Otherwise every sample
    /// has a class.
    pub classes: Vec<String>,
    /// Columns of the label table, in sample order.
    pub columns: Vec<TableColumn>,
    /// Source of the labels: folder names, a table column, or nothing.
    pub labels_from: LabelsFrom,
    /// Files that cannot be packed, sorted by key. Empty unless the policy is to skip them.
    pub bad: Vec<BadInput>,
    /// Number of skipped hidden files and side files.
    pub ignored: u64,
    /// Notes for the user, for example on class folders without samples.
    pub notes: Vec<Note>,
}

impl Listing {
    /// Returns the path of a sample's file.
    #[must_use]
    pub fn path(&self, entry: &SourceSample) -> PathBuf {
        self.root.join(&entry.key)
    }

    /// Returns the total size of all samples on disk, in bytes.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        self.samples.iter().fold(0, |sum, entry| sum.saturating_add(entry.source_bytes()))
    }

    /// Returns a listing of only the samples at `positions`, with their labels and columns. The
    /// samples keep the order of this listing.
    ///
    /// Panics if a position does not exist.
    #[must_use]
    pub fn subset(&self, positions: &[usize]) -> Self {
        const MISSING: &str = "each position of the listing has a sample";
        let mut order: Vec<u32> =
            positions.iter().map(|&position| u32::try_from(position).unwrap_or_else(|_| bug(MISSING))).collect();
        order.sort_unstable();
        order.dedup();
        let sample = |&row: &u32| self.samples.get(row as usize).cloned().unwrap_or_else(|| bug(MISSING));
        let column =
            |column: &TableColumn| TableColumn { name: column.name.clone(), values: column.values.permuted(&order) };
        Self {
            samples: order.iter().map(sample).collect(),
            columns: self.columns.iter().map(column).collect(),
            root: self.root.clone(),
            files: self.files.clone(),
            kind: self.kind,
            classes: self.classes.clone(),
            labels_from: self.labels_from.clone(),
            bad: Vec::new(),
            ignored: 0,
            notes: Vec::new(),
        }
    }

    /// Returns true if the samples are clips.
    pub fn is_of_clips(&self) -> bool {
        self.samples.first().is_some_and(|entry| !entry.frames.is_empty())
    }

    fn paths_of(&self, entry: &SourceSample) -> impl Iterator<Item = PathBuf> {
        let beside = [&entry.data, &entry.mask, &entry.meta].into_iter().flatten();
        let beside: Vec<PathBuf> = beside.map(|file| file.path.clone()).collect();
        entry.paths(&self.root).into_iter().chain(beside)
    }

    pub(crate) fn all_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.samples.iter().flat_map(|entry| self.paths_of(entry))
    }

    /// Announces that all files of a sample will be read soon.
    pub fn announce(&self, entry: &SourceSample) {
        if self.files.has_stores() {
            self.paths_of(entry).for_each(|path| self.files.announce(&path));
        }
    }

    /// Announces that all files of a sample are no longer needed.
    pub fn release(&self, entry: &SourceSample) {
        if self.files.has_stores() {
            self.paths_of(entry).for_each(|path| self.files.release(&path));
        }
    }

    /// Reads the whole file of a sample into `out`. The length of `out` must be the listed length of the file.
    ///
    /// # Errors
    /// `Io` if the file cannot be read; `Changed` if its size or time differs from the listing, before or after
    /// reading.
    pub fn read_into(&self, entry: &SourceSample, out: &mut [u8]) -> Result<()> {
        self.read_file(&self.path(entry), entry.bytes, entry.mtime_ns, out)
    }

    /// Like [`Listing::read_into`], but reads a frame of a clip.
    ///
    /// # Errors
    /// Same as [`Listing::read_into`].
    pub fn read_frame(&self, frame: &SideFile, out: &mut [u8]) -> Result<()> {
        self.read_file(&frame.path, frame.bytes, frame.mtime_ns, out)
    }

    fn read_file(&self, path: &Path, bytes: u64, mtime_ns: i64, out: &mut [u8]) -> Result<()> {
        if self.files.has(path) {
            let file = self.files.open(path).map_err(SourceError::io("open", path))?;
            let read = file.read_exact_at(out, 0);
            return read.map_err(|error| self.files.failure().err().unwrap_or(SourceError::io("read", path)(error)));
        }
        let (mut file, _) = self.files.open_local(path).map_err(SourceError::io("open", path))?;
        let check = |file: &File| {
            let metadata = file.metadata().map_err(SourceError::io("read the metadata of", path))?;
            unchanged(path, bytes, mtime_ns, &metadata)
        };
        check(&file)?;
        file.read_exact(out).map_err(SourceError::io("read", path))?;
        check(&file)
    }

    /// Checks that the sizes and modification times of the sample's files are as listed. If a reader opens the
    /// path itself, call this before and after reading.
    ///
    /// # Errors
    /// `Io` if a file cannot be examined; `Changed` if it differs from the listing.
    pub fn check_unchanged(&self, entry: &SourceSample) -> Result<()> {
        // Objects are always read in the listed version.
        self.files.failure()?;
        let check = |path: &Path, bytes, mtime_ns| {
            if self.files.has(path) {
                return Ok(());
            }
            let metadata = fs::metadata(path).map_err(SourceError::io("read the metadata of", path))?;
            unchanged(path, bytes, mtime_ns, &metadata)
        };
        if entry.frames.is_empty() {
            check(&self.path(entry), entry.bytes, entry.mtime_ns)?;
        }
        [&entry.data, &entry.mask, &entry.meta]
            .into_iter()
            .flatten()
            .map(|file| &**file)
            .chain(&entry.frames)
            .try_for_each(|file| check(&file.path, file.bytes, file.mtime_ns))
    }
}

fn unchanged(path: &Path, bytes: u64, mtime: i64, now: &Metadata) -> Result<()> {
    let mtime_now = mtime_ns(now).map_err(SourceError::io("read the metadata of", path))?;
    if (now.len(), mtime_now) == (bytes, mtime) {
        return Ok(());
    }
    let change = match now.len() == bytes {
        true => "its modification time is different".to_owned(),
        false => format!("it had {bytes} bytes, but now has {}", now.len()),
    };
    Err(SourceError::Changed { path: path.to_owned(), change })
}
