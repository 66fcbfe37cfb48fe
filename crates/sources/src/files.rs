//! Files of sources, wherever they are: on this machine, or in stores, where the path is a URL.
//!
//! A store lists its objects once, with what tells their content; an object is opened as the one that
//! was listed. What the run will read next is announced, and the store fetches it ahead.

use super::error::{Result, SourceError};
use super::listing::{Entry, Listing};
use super::walk::FoundFile;
use crate::regular::{self, Confines};
use sha2::{Digest, Sha256};
use shardpack_reader::{Listed, ReadAt, Storage, is_url};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object of at most this size is announced whole when it is listed; of a larger one the ends.
const WHOLE_BYTES: u64 = 256 << 10;
/// What is read of the ends of an object.
const END_BYTES: u64 = 16 << 10;
/// Reads of fewer bytes are made of a piece of this size: a store charges and waits for requests.
const WINDOW_BYTES: u64 = 64 << 10;

/// The stores that paths of a source may lead to. By default there are none, and all paths are of
/// this machine.
///
/// It is not an option: any two compare as equal. Clones share the stores.
///
/// ```
/// use shardpack_sources::{Files, SourceOptions};
/// let options = SourceOptions { files: Files::default(), ..Default::default() };
/// assert_eq!(options.files.read_ahead_bytes(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Files(Arc<Vec<Store>>, Arc<Confines>);

#[derive(Debug)]
struct Store {
    root: String,
    storage: Arc<dyn Storage>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the listing says, by the path below the root.
    listed: HashMap<String, Listed>,
    /// Announced, and not released yet.
    ready: HashMap<String, Arc<Object>>,
    /// The first object that could not be read: that is no flaw of a file.
    failed: Option<(PathBuf, Arc<io::Error>)>,
}

/// An object, for all who look at it.
#[derive(Debug)]
struct Object {
    bytes: Arc<dyn ReadAt>,
    /// A piece that was read for a small read, and where it begins.
    window: Mutex<(u64, Vec<u8>)>,
}

impl Object {
    fn new(bytes: Arc<dyn ReadAt>) -> Arc<Self> {
        Arc::new(Self { bytes, window: Mutex::default() })
    }

    /// At least one byte, unless `out` begins behind the end. No byte is asked for twice that is
    /// still in the window: the store drops what it holds once it was read.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, piece) = &mut *window;
        let has = offset >= *start && offset - *start < piece.len() as u64;
        if !has {
            if out.len() as u64 >= WINDOW_BYTES {
                drop(window);
                return self.bytes.read_at(out, offset);
            }
            let len = WINDOW_BYTES.min(self.bytes.len().saturating_sub(offset));
            *start = offset;
            piece.clear();
            piece.resize(usize::try_from(len).unwrap_or(0), 0);
            let read = self.bytes.read_at(piece, offset);
            piece.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        let from = usize::try_from(offset - *start).ok().and_then(|at| piece.get(at..)).unwrap_or_default();
        let count = from.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &Path, error: io::Error) -> io::Error {
        let error = Arc::new(error);
        self.state().failed.get_or_insert_with(|| (path.to_owned(), Arc::clone(&error)));
        again(&error)
    }

    fn open(&self, key: &str) -> io::Result<Arc<Object>> {
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
        opened.map(Object::new).map_err(into_io)
    }
}

/// The same error once more.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn into_io(error: shardpack_reader::Error) -> io::Error {
    match error {
        shardpack_reader::Error::Io { source, .. } => source,
        other => io::Error::new(ErrorKind::InvalidInput, other.to_string()),
    }
}

impl Files {
    /// These, and the folder `url` of a store.
    #[must_use]
    pub fn and(self, url: &str, storage: Arc<dyn Storage>) -> Self {
        let root = url.trim_end_matches('/').to_owned();
        let mut stores: Vec<Store> = Arc::try_unwrap(self.0).unwrap_or_default();
        stores.push(Store { root, storage, state: Mutex::default() });
        Self(Arc::new(stores), self.1)
    }

    /// Most bytes that should be announced ahead; 0 if all files are of this machine.
    #[must_use]
    pub fn read_ahead_bytes(&self) -> u64 {
        // The rest is for what is read without a word.
        self.0.iter().map(|store| store.storage.read_ahead_bytes() / 2).max().unwrap_or(0)
    }

    fn place<'a>(&self, path: &'a Path) -> Option<(&Store, &'a str)> {
        let text = path.to_str().filter(|text| is_url(text))?;
        self.0.iter().find_map(|store| {
            let key = text.strip_prefix(store.root.as_str())?;
            if key.is_empty() { Some((store, "")) } else { Some((store, key.strip_prefix('/')?)) }
        })
    }

    /// Whether the path leads to one of the stores.
    pub fn has(&self, path: &Path) -> bool {
        self.place(path).is_some()
    }

    /// An error if the path is a URL of a store that nobody has opened.
    pub fn check(&self, path: &Path) -> Result<()> {
        if self.has(path) || !path.to_str().is_some_and(is_url) {
            return Ok(());
        }
        let (expected, found) = ("a path of this machine", "a URL");
        Err(SourceError::NotASource { path: path.to_owned(), expected, found })
    }

    /// All files below a folder of a store, unsorted. Runs once for each store.
    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<FoundFile>> {
        let missing = || SourceError::io("list", folder)(ErrorKind::NotFound.into());
        let (store, below) = self.place(folder).ok_or_else(missing)?;
        let listed = store.storage.list().map_err(|error| SourceError::io("list", folder)(into_io(error)))?;
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let found = listed.iter().filter_map(|listed| Some(found(listed.name.strip_prefix(&prefix)?, listed)));
        let found = found.collect();
        store.state().listed = listed.into_iter().map(|listed| (listed.name.clone(), listed)).collect();
        Ok(found)
    }

    /// What is known of the files that a listing names, for its file.
    pub(crate) fn of_listing(&self, listing: &Listing) -> Vec<Listed> {
        let paths = listing.samples.iter().flat_map(|entry| paths(listing, entry));
        let known = paths.filter_map(|path| {
            let (store, key) = self.place(&path)?;
            let listed = store.state().listed.get(key)?.clone();
            Some(Listed { name: path.to_str()?.to_owned(), ..listed })
        });
        known.collect()
    }

    /// Takes in what [`of_listing`](Self::of_listing) gave.
    pub(crate) fn know(&self, listed: Vec<Listed>) {
        for listed in listed {
            if let Some((store, key)) = self.place(Path::new(&listed.name)) {
                let listed = Listed { name: key.to_owned(), ..listed.clone() };
                store.state().listed.insert(key.to_owned(), listed);
            }
        }
    }

    /// Size and time of a file.
    pub(crate) fn look(&self, path: &Path) -> io::Result<FoundFile> {
        let Some((store, key)) = self.place(path) else {
            let metadata = std::fs::metadata(path)?;
            let mtime_ns = super::walk::mtime_ns(&metadata)?;
            let kind = if metadata.is_file() { Ok(()) } else { Err(ErrorKind::InvalidInput) };
            return kind.map_err(io::Error::from).map(|()| FoundFile {
                key: String::new(),
                bytes: metadata.len(),
                mtime_ns,
            });
        };
        if let Some(listed) = store.state().listed.get(key) {
            return Ok(found(key, listed));
        }
        let missing = |error: io::Error| store.note(path, error);
        let opened = store.storage.open(key).map_err(into_io).map_err(missing)?;
        Ok(FoundFile { key: key.to_owned(), bytes: opened.len(), mtime_ns: 0 })
    }

    /// Size of a file, if there is one of this name. Of a store, one that was listed.
    pub(crate) fn size(&self, path: &Path) -> Option<u64> {
        match self.place(path) {
            Some((store, key)) => store.state().listed.get(key).map(|listed| listed.bytes),
            None => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len()),
        }
    }

    /// The names in a folder of a store, unsorted; `None` for a folder of this machine.
    pub(crate) fn names(&self, folder: &Path) -> Option<Vec<String>> {
        let (store, below) = self.place(folder)?;
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let state = store.state();
        let inside = state.listed.keys().filter_map(|key| key.strip_prefix(&prefix));
        Some(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    /// From now on, files of a source of this machine are opened below such folders alone.
    pub(crate) fn confine(&self, root: &Path) -> io::Result<()> {
        self.1.confine(root)
    }

    /// Opens a regular file of a source of this machine.
    pub(crate) fn open_local(&self, path: &Path) -> io::Result<(File, Metadata)> {
        self.1.open(path)
    }

    /// Opens a regular file, or an object, of a source.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Opened> {
        self.open_by(path, |path| self.open_local(path))
    }

    /// The same of one that the user named, wherever it is.
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<Opened> {
        self.open_by(path, regular::open)
    }

    fn open_by(&self, path: &Path, local: impl Fn(&Path) -> io::Result<(File, Metadata)>) -> io::Result<Opened> {
        let inner = match self.place(path) {
            None => {
                let (file, metadata) = local(path)?;
                Inner::File(file, metadata.len())
            }
            Some((store, key)) => {
                let object = store.open(key).map_err(|error| store.note(path, error))?;
                Inner::Object { object, position: AtomicU64::new(0), files: self.clone() }
            }
        };
        Ok(Opened { inner, path: path.to_owned() })
    }

    /// Says that a file will be looked at soon, as whoever lists it does.
    pub(crate) fn announce_look(&self, path: &Path, bytes: u64) {
        if bytes <= WHOLE_BYTES {
            self.announce(path);
        } else if let Some(object) = self.ready(path) {
            object.bytes.advise_soon(0, END_BYTES);
            object.bytes.advise_soon(bytes - END_BYTES, END_BYTES);
        }
    }

    /// Says that a file will be read soon, as a whole.
    pub fn announce(&self, path: &Path) {
        if let Some(object) = self.ready(path) {
            object.bytes.advise_soon(0, object.bytes.len());
        }
    }

    /// Says that all files of a sample will be read soon.
    pub fn announce_sample(&self, listing: &Listing, entry: &Entry) {
        if !self.0.is_empty() {
            paths(listing, entry).for_each(|path| self.announce(&path));
        }
    }

    /// Says that a file that was announced is not needed any more.
    pub fn release(&self, path: &Path) {
        if let Some((store, key)) = self.place(path) {
            // Dropped without the lock: the store has one of its own.
            let gone = store.state().ready.remove(key);
            drop(gone);
        }
    }

    /// Says that no file of a sample is needed any more.
    pub fn release_sample(&self, listing: &Listing, entry: &Entry) {
        if !self.0.is_empty() {
            paths(listing, entry).for_each(|path| self.release(&path));
        }
    }

    fn ready(&self, path: &Path) -> Option<Arc<Object>> {
        let (store, key) = self.place(path)?;
        let listed = store.state().listed.get(key).cloned()?;
        let object = Object::new(store.storage.open_listed(&listed).ok()?);
        store.state().ready.insert(key.to_owned(), Arc::clone(&object));
        Some(object)
    }

    /// The first object of a store that could not be read, as an error. Damage is not among them:
    /// bytes that arrived are those of the object.
    pub fn failure(&self) -> Result<()> {
        let failed = self.0.iter().find_map(|store| store.state().failed.clone());
        match failed {
            None => Ok(()),
            Some((path, error)) if error.kind() == ErrorKind::InvalidData => Err(SourceError::Changed {
                expected: "the object that was listed".to_owned(),
                found: "another one of this name".to_owned(),
                path,
            }),
            Some((path, error)) => Err(SourceError::Io { action: "read", path, source: again(&error) }),
        }
    }
}

impl PartialEq for Files {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Files {}

/// All files of a sample.
fn paths<'a>(listing: &'a Listing, entry: &'a Entry) -> impl Iterator<Item = PathBuf> + 'a {
    let beside = [&entry.data, &entry.mask, &entry.meta].into_iter().flatten();
    entry.paths(&listing.root).into_iter().chain(beside.map(|file| file.path.clone()))
}

/// A file of a store. Stores give seconds: what is below a second is made from the ETag, so that
/// whoever compares times sees every change.
fn found(key: &str, listed: &Listed) -> FoundFile {
    const SECOND: i64 = 1_000_000_000;
    let mark = listed.e_tag.as_ref().map_or(listed.modified_ns.rem_euclid(SECOND), |tag| {
        let digest: [u8; 32] = Sha256::digest(tag).into();
        let first = digest.first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes));
        i64::from(first).rem_euclid(SECOND)
    });
    let seconds = listed.modified_ns.div_euclid(SECOND);
    let mtime_ns = seconds.saturating_mul(SECOND).saturating_add(mark);
    FoundFile { key: key.to_owned(), bytes: listed.bytes, mtime_ns }
}

/// An open file, or an object. Like a file it has one position, for whoever reads it as a stream.
#[derive(Debug)]
pub(crate) struct Opened {
    inner: Inner,
    path: PathBuf,
}

#[derive(Debug)]
enum Inner {
    File(File, u64),
    Object { object: Arc<Object>, position: AtomicU64, files: Files },
}

/// The bytes of a file that came from elsewhere: out of an archive, say.
#[derive(Debug)]
struct Held(Vec<u8>);

impl ReadAt for Held {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let count = left.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }
}

impl Opened {
    /// Bytes in memory, read as the file `path` would be.
    pub(crate) fn held(path: &Path, bytes: Vec<u8>) -> Self {
        let object = Object::new(Arc::new(Held(bytes)));
        let inner = Inner::Object { object, position: AtomicU64::new(0), files: Files::default() };
        Self { inner, path: path.to_owned() }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.inner {
            Inner::File(_, len) => *len,
            Inner::Object { object, .. } => object.bytes.len(),
        }
    }

    /// The file itself, if it is one of this machine.
    pub(crate) const fn file(&self) -> Option<&File> {
        match &self.inner {
            Inner::File(file, _) => Some(file),
            Inner::Object { .. } => None,
        }
    }

    /// Fills `bytes` from `offset`.
    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.inner {
            Inner::File(file, _) => read_file_at(file, out, offset),
            Inner::Object { object, files, .. } => object.read_at(out, offset).map_err(|error| {
                let store = files.place(&self.path);
                store.map_or(ErrorKind::NotFound.into(), |(store, _)| store.note(&self.path, error))
            }),
        }
    }
}

impl Read for &Opened {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &self.inner {
            Inner::File(file, _) => {
                let mut file = file;
                file.read(out)
            }
            Inner::Object { position, .. } => {
                let at = position.load(Ordering::Relaxed);
                let read = self.read_at(out, at)?;
                position.store(at.saturating_add(read as u64), Ordering::Relaxed);
                Ok(read)
            }
        }
    }
}

impl Seek for &Opened {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &self.inner {
            Inner::File(file, _) => {
                let mut file = file;
                file.seek(to)
            }
            Inner::Object { object, position, .. } => {
                let at = match to {
                    SeekFrom::Start(at) => Some(at),
                    SeekFrom::End(by) => object.bytes.len().checked_add_signed(by),
                    SeekFrom::Current(by) => position.load(Ordering::Relaxed).checked_add_signed(by),
                };
                let at = at.ok_or(ErrorKind::InvalidInput)?;
                position.store(at, Ordering::Relaxed);
                Ok(at)
            }
        }
    }
}

#[cfg(unix)]
fn read_file_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, offset)
}

#[cfg(not(unix))]
fn read_file_at(mut file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    file.read(out)
}
