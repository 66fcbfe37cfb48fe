//! State shared by the cubes of a run: the cancellation flag, and listings of folders.

use super::error::{CubeError, Result};
#[cfg(test)]
use crate::cancel::Polls;
use crate::files::Files;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum number of names in the cached listings.
const MAX_NAMES: usize = 1 << 20;

/// State shared by the cubes of one run, and by clones of this value.
///
/// Any two values compare as equal, so the state does not affect comparisons of options.
///
/// ```
/// use shardpack_sources::cubes::{CubeOptions, CubeProblem, CubeRun, load};
/// use std::sync::{Arc, atomic::AtomicBool};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("cube.npy");
/// std::fs::write(&path, "any")?;
/// let stop = Arc::new(AtomicBool::new(true));
/// let options = CubeOptions { run: CubeRun::new(Some(stop)), ..Default::default() };
/// assert!(matches!(load(&path, &options).unwrap_err().problem(), CubeProblem::Cancelled));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CubeRun(Arc<RunState>);

#[derive(Default)]
struct RunState {
    files: Files,
    cancel: Option<Arc<AtomicBool>>,
    folders: Mutex<Folders>,
    #[cfg(test)]
    polls: Polls,
}

#[derive(Default)]
struct Folders {
    listed: HashMap<PathBuf, Arc<Siblings>>,
    names: usize,
}

struct Siblings {
    by_stem: HashMap<OsString, Vec<OsString>>,
    names: usize,
    modified: Option<SystemTime>,
}

impl CubeRun {
    /// Creates a run that stops when `cancel` is set. All reads then fail with
    /// [`Cancelled`](super::CubeProblem::Cancelled).
    #[must_use]
    pub fn new(cancel: Option<Arc<AtomicBool>>) -> Self {
        Self::within(Files::default(), cancel)
    }

    /// Creates a run for files in these stores or on this machine.
    pub fn within(files: Files, cancel: Option<Arc<AtomicBool>>) -> Self {
        Self(Arc::new(RunState { files, cancel, ..RunState::default() }))
    }

    pub(crate) fn files(&self) -> &Files {
        &self.0.files
    }

    /// Returns true if the cancellation flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        #[cfg(test)]
        if self.0.polls.next_is_raised() {
            return true;
        }
        self.0.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Fails if the cancellation flag is set, for readers of streams.
    pub(super) fn check(&self) -> io::Result<()> {
        // Do not use the kind `Interrupted`, because callers retry after it.
        if self.is_cancelled() { Err(io::Error::other("the run was cancelled")) } else { Ok(()) }
    }

    /// Returns `result`, but replaces any error with `Cancelled` if the cancellation flag is set.
    pub(super) fn or_cancelled<T>(&self, path: &Path, result: Result<T>) -> Result<T> {
        result.map_err(|error| if self.is_cancelled() { CubeError::cancelled(path) } else { error })
    }

    /// Returns the names in `folder` with this stem, sorted. The listing of the folder is cached until the
    /// folder changes, because listing it for every file would take quadratic time.
    pub(super) fn same_stem(&self, folder: &Path, stem: &OsStr) -> Vec<OsString> {
        if let Some(names) = self.0.files.names(folder) {
            let own = names.into_iter().map(OsString::from);
            let mut own: Vec<_> = own.filter(|name| Path::new(name).file_stem() == Some(stem)).collect();
            own.sort_unstable();
            return own;
        }
        let modified = std::fs::metadata(folder).and_then(|metadata| metadata.modified()).ok();
        let lock = || self.0.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().listed.get(folder).filter(|known| known.modified == modified).cloned();
        let siblings = known.unwrap_or_else(|| {
            let made = Arc::new(Siblings::list(folder, modified));
            lock().keep(folder, &made);
            made
        });
        siblings.by_stem.get(stem).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
impl CubeRun {
    pub(crate) fn raised_at(at: u64) -> Self {
        Self(Arc::new(RunState { polls: Polls::raised_at(at), ..RunState::default() }))
    }

    pub(crate) fn polls(&self) -> u64 {
        self.0.polls.made()
    }
}

impl Siblings {
    /// Lists a folder. An unreadable folder has an empty listing.
    fn list(folder: &Path, modified: Option<SystemTime>) -> Self {
        let mut by_stem: HashMap<OsString, Vec<OsString>> = HashMap::new();
        let mut names = 0;
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let stem = Path::new(&name).file_stem().unwrap_or_default().to_owned();
            by_stem.entry(stem).or_default().push(name);
            names += 1;
        }
        by_stem.values_mut().for_each(|names| names.sort_unstable());
        Self { by_stem, names, modified }
    }
}

impl Folders {
    fn keep(&mut self, folder: &Path, siblings: &Arc<Siblings>) {
        if self.names.saturating_add(siblings.names) > MAX_NAMES {
            *self = Self::default();
        }
        let before = self.listed.insert(folder.to_owned(), Arc::clone(siblings));
        self.names = self.names + siblings.names - before.map_or(0, |before| before.names);
    }
}

impl PartialEq for CubeRun {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CubeRun {}

impl fmt::Debug for CubeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CubeRun").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_kept_until_the_folder_changes() {
        let folder = tempfile::tempdir().unwrap();
        let run = CubeRun::default();
        let of_x = || run.same_stem(folder.path(), OsStr::new("x"));
        assert!(of_x().is_empty());
        std::fs::write(folder.path().join("x.b"), "").unwrap();
        std::fs::write(folder.path().join("x.a"), "").unwrap();
        std::fs::write(folder.path().join("y.a"), "").unwrap();
        // File times are coarse, so change the time explicitly.
        let folder_file = std::fs::File::open(folder.path()).unwrap();
        folder_file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(of_x(), ["x.a", "x.b"]);
        assert_eq!(run.0.folders.lock().unwrap().names, 3);
        let listing = || Arc::clone(&run.0.folders.lock().unwrap().listed[folder.path()]);
        let before = listing();
        assert_eq!(run.clone().same_stem(folder.path(), OsStr::new("y")), ["y.a"]);
        assert!(Arc::ptr_eq(&before, &listing()), "listed once");
    }
}
