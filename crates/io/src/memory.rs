//! In-memory storage for tests.
#![allow(clippy::unwrap_used)]

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::read_at::ReadAt;
use crate::storage::{Listed, Storage, check_name};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Storage that keeps named objects in memory.
#[derive(Debug)]
pub struct MemoryStorage {
    path: PathBuf,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryStorage {
    /// Creates in-memory storage with these objects. Messages refer to it as `path`.
    pub fn new(path: impl Into<PathBuf>, objects: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self { path: path.into(), objects: Mutex::new(objects.into_iter().collect()) }
    }

    /// Creates in-memory storage with all files directly in a folder.
    ///
    /// # Panics
    /// If a file cannot be read.
    #[must_use]
    pub fn of_folder(folder: &Path) -> Self {
        let read = |entry: io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        };
        Self::new("memory", std::fs::read_dir(folder).unwrap().map(read))
    }

    /// Returns the objects, locked until the guard is dropped.
    pub fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap()
    }

    fn failed(&self, name: &str, action: &'static str, source: impl Into<Cause>) -> Error {
        Error::io(self.path.join(name), action, source)
    }
}

impl Storage for MemoryStorage {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        check_name(name)?;
        let bytes = self.objects().get(name).cloned();
        Ok(Arc::new(bytes.ok_or_else(|| self.failed(name, "open", ErrorKind::NotFound))?))
    }

    fn names(&self) -> Result<Vec<String>> {
        let first = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
        Ok(self.objects().keys().map(first).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let objects = self.objects();
        let listed = objects.iter().map(|(name, bytes)| Listed {
            name: name.clone(),
            bytes: ReadAt::len(bytes),
            modified_ns: 0,
            e_tag: None,
        });
        Ok(listed.collect())
    }
}

impl Objects for MemoryStorage {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64> {
        let mut bytes = Vec::new();
        let count = source.read_to_end(&mut bytes).map_err(|e| self.failed(name, "write", e))?;
        self.objects().insert(name.to_owned(), bytes);
        on_sent(count as u64);
        Ok(count as u64)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        Ok(self.objects().entry(name.to_owned()).or_insert_with(|| bytes.to_vec()) == bytes)
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool> {
        let mut objects = self.objects();
        let is_old = objects.get(name).is_none_or(|found| found == old);
        if is_old {
            objects.insert(name.to_owned(), new.to_vec());
        }
        Ok(is_old)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.objects().remove(name);
        Ok(())
    }
}
