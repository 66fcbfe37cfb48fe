//! Lists and opens the files of sources, on this machine or in a store. A path into a store is a
//! URL.
//!
//! The objects of a store are listed once, with their versions, and always read in the listed version. The run
//! announces its next reads, so that the store can fetch objects in advance.

pub mod listed;
mod object;
pub(crate) mod read_at;
mod regular;

use crate::error::{Result, SourceError};
use listed::{SourceFile, mtime_ns};
pub(crate) use object::OpenFile;
use object::{FirstFailure, OpenObject};
use regular::Confines;
use sha2::{Digest, Sha256};
use shardpack_io::{Cause, Listed, Storage, is_url};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size of an object that is announced whole, in bytes. For larger objects, only the two ends are announced.
const WHOLE_BYTES: u64 = 256 << 10;
/// Number of bytes read at each end of an object.
const END_BYTES: u64 = 16 << 10;
/// The stores of a source. Default: none, with only local paths.
///
/// Any two values compare as equal, because stores are not options. Clones share the stores.
///
/// ```
/// use shardpack_sources::{Files, SourceOptions};
/// let options = SourceOptions { files: Files::default(), ..Default::default() };
/// assert_eq!(options.files.read_ahead_bytes(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Files {
    stores: Arc<Vec<Store>>,
    confines: Arc<Confines>,
}

#[derive(Debug)]
struct Store {
    root: String,
    storage: Arc<dyn Storage>,
    state: Mutex<StoreState>,
    failure: FirstFailure,
}

#[derive(Debug, Default)]
struct StoreState {
    /// Listed objects, by path below the root.
    listed: HashMap<String, Listed>,
    /// Objects that were announced and not yet released.
    ready: HashMap<String, Arc<OpenObject>>,
}

impl Store {
    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, key: &str) -> Result<Arc<OpenObject>, Cause> {
        let listed = {
            let state = self.state();
            if let Some(ready) = state.ready.get(key) {
                return Ok(Arc::clone(ready));
            }
            state.listed.get(key).cloned()
        };
        let opened = match &listed {
            Some(listed) => self.storage.open_listed(listed),
            None => self.storage.open(key),
        };
        opened.map(OpenObject::new).map_err(shardpack_io::Error::into_cause)
    }
}

impl Files {
    /// Adds the folder `url` of a store.
    #[must_use]
    pub fn and(self, url: &str, storage: Arc<dyn Storage>) -> Self {
        let root = url.trim_end_matches('/').to_owned();
        let mut stores: Vec<Store> = Arc::try_unwrap(self.stores).unwrap_or_default();
        stores.push(Store { root, storage, state: Mutex::default(), failure: FirstFailure::default() });
        Self { stores: Arc::new(stores), confines: self.confines }
    }

    /// Returns the maximum number of bytes to announce ahead, or 0 if all files are local.
    #[must_use]
    pub fn read_ahead_bytes(&self) -> u64 {
        // The other half is reserved for unannounced reads.
        self.stores.iter().map(|store| store.storage.read_ahead_bytes() / 2).max().unwrap_or(0)
    }

    fn place<'a>(&self, path: &'a Path) -> Option<(&Store, &'a str)> {
        let text = path.to_str().filter(|text| is_url(text))?;
        self.stores.iter().find_map(|store| {
            let key = text.strip_prefix(store.root.as_str())?;
            if key.is_empty() { Some((store, "")) } else { Some((store, key.strip_prefix('/')?)) }
        })
    }

    pub(crate) fn has_stores(&self) -> bool {
        !self.stores.is_empty()
    }

    /// Returns true if the path leads into a store.
    pub fn has(&self, path: &Path) -> bool {
        self.place(path).is_some()
    }

    /// Fails if the path is the URL of a store that has not been opened.
    pub fn check(&self, path: &Path) -> Result<()> {
        if self.has(path) || !path.to_str().is_some_and(is_url) {
            return Ok(());
        }
        let problem = "expected a local path, found a URL";
        Err(SourceError::NotASource { path: path.to_owned(), problem })
    }

    /// Lists all files below a folder of a store, unsorted. Called once per store.
    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<SourceFile>> {
        let missing = || SourceError::io("list", folder)(ErrorKind::NotFound);
        let (store, below) = self.place(folder).ok_or_else(missing)?;
        let listed = store.storage.list().map_err(|error| SourceError::io("list", folder)(error.into_cause()))?;
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let found = listed.iter().filter_map(|listed| Some(found(listed.name.strip_prefix(&prefix)?, listed)));
        let found = found.collect();
        store.state().listed = listed.into_iter().map(|listed| (listed.name.clone(), listed)).collect();
        Ok(found)
    }

    /// Returns the store objects at `paths`, for a listing file.
    pub(crate) fn listed(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<Listed> {
        let known = paths.filter_map(|path| {
            let (store, key) = self.place(&path)?;
            let listed = store.state().listed.get(key)?.clone();
            Some(Listed { name: path.to_str()?.to_owned(), ..listed })
        });
        known.collect()
    }

    pub(crate) fn know(&self, listed: Vec<Listed>) {
        for listed in listed {
            if let Some((store, key)) = self.place(Path::new(&listed.name)) {
                let listed = Listed { name: key.to_owned(), ..listed.clone() };
                store.state().listed.insert(key.to_owned(), listed);
            }
        }
    }

    pub(crate) fn look(&self, path: &Path) -> io::Result<SourceFile> {
        let Some((store, key)) = self.place(path) else {
            let metadata = std::fs::metadata(path)?;
            let mtime_ns = mtime_ns(&metadata)?;
            let kind = if metadata.is_file() { Ok(()) } else { Err(ErrorKind::InvalidInput) };
            return kind.map_err(io::Error::from).map(|()| SourceFile {
                key: String::new(),
                bytes: metadata.len(),
                mtime_ns,
            });
        };
        if let Some(listed) = store.state().listed.get(key) {
            return Ok(found(key, listed));
        }
        let missing = |error: Cause| store.failure.note(path, error);
        let opened = store.storage.open(key).map_err(shardpack_io::Error::into_cause).map_err(missing)?;
        Ok(SourceFile { key: key.to_owned(), bytes: opened.len(), mtime_ns: 0 })
    }

    /// Returns the size of a file or of a listed object, or `None` if it does not exist.
    pub(crate) fn size(&self, path: &Path) -> Option<u64> {
        match self.place(path) {
            Some((store, key)) => store.state().listed.get(key).map(|listed| listed.bytes),
            None => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len()),
        }
    }

    /// Returns the names in a folder of a store, unsorted, or `None` for a local folder.
    pub(crate) fn names(&self, folder: &Path) -> Option<Vec<String>> {
        let (store, below) = self.place(folder)?;
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let state = store.state();
        let inside = state.listed.keys().filter_map(|key| key.strip_prefix(&prefix));
        Some(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    /// Restricts local source files to this folder, in addition to the folders added before.
    pub(crate) fn confine(&self, root: &Path) -> io::Result<()> {
        self.confines.confine(root)
    }

    pub(crate) fn open_local(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.confines.open(path)
    }

    /// Opens a regular file or a store object that belongs to a source.
    pub(crate) fn open(&self, path: &Path) -> io::Result<OpenFile> {
        self.open_by(path, |path| self.open_local(path))
    }

    /// Like [`Self::open`], for a path that the user named. The path may be outside the source.
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<OpenFile> {
        self.open_by(path, regular::open)
    }

    fn open_by(&self, path: &Path, local: impl Fn(&Path) -> io::Result<(File, Metadata)>) -> io::Result<OpenFile> {
        Ok(match self.place(path) {
            None => {
                let (file, metadata) = local(path)?;
                OpenFile::of_file(path, file, metadata.len())
            }
            Some((store, key)) => {
                let object = store.open(key).map_err(|error| store.failure.note(path, error))?;
                OpenFile::of_object(path, object, store.failure.clone())
            }
        })
    }

    pub(crate) fn announce_look(&self, path: &Path, bytes: u64) {
        if bytes <= WHOLE_BYTES {
            self.announce(path);
        } else if let Some(object) = self.ready(path) {
            object.bytes.advise_soon(0, END_BYTES);
            object.bytes.advise_soon(bytes - END_BYTES, END_BYTES);
        }
    }

    /// Announces that a whole file will be read soon.
    pub fn announce(&self, path: &Path) {
        if let Some(object) = self.ready(path) {
            object.bytes.advise_soon(0, object.bytes.len());
        }
    }

    /// Announces that a file is no longer needed.
    pub fn release(&self, path: &Path) {
        if let Some((store, key)) = self.place(path) {
            // Drop the object only after releasing this lock, because dropping it takes the store's lock.
            let gone = store.state().ready.remove(key);
            drop(gone);
        }
    }

    fn ready(&self, path: &Path) -> Option<Arc<OpenObject>> {
        let (store, key) = self.place(path)?;
        let listed = store.state().listed.get(key).cloned()?;
        let object = OpenObject::new(store.storage.open_listed(&listed).ok()?);
        store.state().ready.insert(key.to_owned(), Arc::clone(&object));
        Some(object)
    }

    /// Returns the first read error of a store. Damage does not count, because the object itself contains the
    /// damaged bytes.
    pub fn failure(&self) -> Result<()> {
        match self.stores.iter().find_map(|store| store.failure.get()) {
            None => Ok(()),
            Some((path, error)) if error.kind() == ErrorKind::InvalidData => {
                Err(SourceError::Changed { change: "the store has a different version now".to_owned(), path })
            }
            Some((path, error)) => Err(SourceError::Io { action: "read", path, source: error }),
        }
    }
}

impl PartialEq for Files {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Files {}

/// Describes an object as a file. Stores report times in whole seconds, so the fraction is derived from the ETag. Two
/// versions of an object then always have different times.
fn found(key: &str, listed: &Listed) -> SourceFile {
    const SECOND: i64 = 1_000_000_000;
    let mark = listed.e_tag.as_ref().map_or(listed.modified_ns.rem_euclid(SECOND), |tag| {
        let digest: [u8; 32] = Sha256::digest(tag).into();
        let first = digest.first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes));
        i64::from(first).rem_euclid(SECOND)
    });
    let seconds = listed.modified_ns.div_euclid(SECOND);
    let mtime_ns = seconds.saturating_mul(SECOND).saturating_add(mark);
    SourceFile { key: key.to_owned(), bytes: listed.bytes, mtime_ns }
}
