//! Reads a damaged dataset from a store, and stops at the first failed request.

use shardpack_io::{Cause, Ends, Error, Listed, ReadAt, Result, Storage, Traffic};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The first failed request to a store. A search for undamaged records treats errors as damage, so a store that does
/// not answer would look like a damaged file.
#[derive(Debug, Clone, Default)]
pub(super) struct Outage(Arc<OnceLock<Error>>);

impl Outage {
    /// Fails with the error of the first failed request.
    pub(super) fn check(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Sends a request, unless an earlier one has failed.
    fn ask<T>(&self, request: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        request().inspect_err(|error| {
            match error.kind() {
                // These answers say something about the file, or about the kind of the store.
                ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::FileTooLarge | ErrorKind::InvalidInput => {}
                // Callers repeat these requests.
                ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
                _ => _ = self.0.set(error.clone()),
            }
        })
    }
}

/// A store whose requests all fail after one has failed.
#[derive(Debug)]
pub(super) struct WatchedStorage {
    storage: Arc<dyn Storage>,
    outage: Outage,
}

impl WatchedStorage {
    pub(super) fn new(storage: Arc<dyn Storage>) -> (Arc<Self>, Outage) {
        let outage = Outage::default();
        (Arc::new(Self { storage, outage: outage.clone() }), outage)
    }

    fn watched(&self, name: &str, file: Arc<dyn ReadAt>) -> Arc<dyn ReadAt> {
        let path = self.storage.path().join(name);
        Arc::new(WatchedFile { file, path, outage: self.outage.clone() })
    }
}

impl Storage for WatchedStorage {
    fn path(&self) -> &Path {
        self.storage.path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let file = self.outage.ask(|| self.storage.open(name))?;
        Ok(self.watched(name, file))
    }

    fn names(&self) -> Result<Vec<String>> {
        self.outage.ask(|| self.storage.names())
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        self.outage.ask(|| self.storage.read(name, max_bytes))
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        self.outage.ask(|| self.storage.read_ends(name, head, tail))
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.storage.read_ahead_bytes()
    }

    fn advise_open(&self, name: &str) {
        self.storage.advise_open(name);
    }

    fn traffic(&self) -> Traffic {
        self.storage.traffic()
    }

    fn list(&self) -> Result<Vec<Listed>> {
        self.outage.ask(|| self.storage.list())
    }

    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        let file = self.outage.ask(|| self.storage.open_listed(listed))?;
        Ok(self.watched(&listed.name, file))
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn ReadAt>,
    path: PathBuf,
    outage: Outage,
}

impl WatchedFile {
    fn ask(&self, request: impl FnOnce() -> Result<usize, Cause>) -> Result<usize, Cause> {
        self.outage.ask(|| request().map_err(|cause| Error::io(&self.path, "read", cause))).map_err(Error::into_cause)
    }
}

impl ReadAt for WatchedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.ask(|| self.file.read_at(buffer, offset))
    }

    fn read_unchecked_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.ask(|| self.file.read_unchecked_at(buffer, offset))
    }

    fn advise_sequential(&self) {
        self.file.advise_sequential();
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        self.file.advise_soon(offset, bytes);
    }

    fn is_cached(&self, offset: u64) -> Option<bool> {
        self.file.is_cached(offset)
    }

    fn drop_cached(&self) {
        self.file.drop_cached();
    }
}
