//! The folder that a dataset is written to, on a disk or in a store.
//!
//! *Scratch* files are unfinished shards, manifests and journals. They are in a local folder. For a
//! dataset on a disk, this is the folder of the dataset itself, and a file is committed by renaming
//! it. For a dataset in a store, it is the spool, and a file is committed by uploading it. The same sequence of steps
//! is therefore safe for both.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::names::{MANIFEST_TEMPORARY, RETIRED_NAME, TOKEN_NAME, is_scratch};
use crate::uploads::Uploads;
use shardpack_format::{Limits, MANIFEST_NAME};
use shardpack_io::{Cause, Ends, FileSystem, GrowingFile, Reader, is_unsupported, read_ends, read_whole};
use std::io::{Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a dataset. Its functions take file names, and their errors include the path.
#[derive(Clone)]
pub(crate) struct Target<'a> {
    pub(crate) files: &'a dyn FileSystem,
    path: PathBuf,
    scratch: PathBuf,
    pub(crate) store: Option<Bucket>,
    pub(crate) uploads: Arc<Uploads>,
}

impl<'a> Target<'a> {
    pub(crate) fn folder(files: &'a dyn FileSystem, path: &Path) -> Self {
        Self { files, path: path.to_owned(), scratch: path.to_owned(), store: None, uploads: Arc::default() }
    }

    pub(crate) fn store(files: &'a dyn FileSystem, bucket: &Bucket) -> Self {
        let (path, scratch) = (bucket.name().to_owned(), bucket.spool().to_owned());
        Self { files, path, scratch, store: Some(bucket.clone()), uploads: Arc::default() }
    }

    /// Returns a folder for scratch files. For a dataset in a store, it is in the spool.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self::folder(self.files, &self.scratch.join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn scratch_file(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub(crate) const fn is_store(&self) -> bool {
        self.store.is_some()
    }

    pub(crate) fn create(&self) -> Result<()> {
        match &self.store {
            Some(bucket) => bucket.create_spool(),
            None => self.files.create_dir_all(&self.path),
        }
        .map_err(|e| Error::io("create folder", &self.scratch, e))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let mut names = match self.files.names(&self.scratch) {
            Err(e) if e.kind() == ErrorKind::NotFound && self.is_store() => Vec::new(),
            other => other.map_err(|e| Error::io("list", &self.scratch, e))?,
        };
        if let Some(bucket) = &self.store {
            names.retain(|name| name != TOKEN_NAME);
            names.extend(bucket.objects().names()?.into_iter().filter(|name| !is_scratch(name)));
            names.sort_unstable();
            names.dedup();
        }
        Ok(names)
    }

    /// Same as [`Self::names`], but returns no names if the folder does not exist.
    pub(crate) fn names_if_there(&self) -> Result<Vec<String>> {
        match self.names() {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    pub(crate) fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        match &self.store {
            Some(bucket) => Ok(bucket.objects().read(name, max_bytes)?),
            None => self.read_scratch(name, max_bytes),
        }
    }

    pub(crate) fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        if let Some(bucket) = &self.store {
            return Ok(bucket.objects().read_ends(name, head, tail)?);
        }
        let path = self.file(name);
        let file = self.files.open(&path).map_err(|e| Error::io("read", &path, e))?;
        Ok(read_ends(&*file, &path, head, tail)?)
    }

    pub(crate) fn read_scratch(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        let path = self.scratch_file(name);
        let file = self.files.open(&path).map_err(|e| Error::io("read", &path, e))?;
        Ok(read_whole(&*file, &path, max_bytes)?)
    }

    /// Opens a journal or a lock. If there is no local file, opens the copy in the store, which may come from another
    /// machine.
    pub(crate) fn open_shared(&self, name: &str) -> Result<Box<dyn Read>> {
        let path = self.scratch_file(name);
        match (self.files.open(&path), &self.store) {
            (Err(e), Some(bucket)) if e.kind() == ErrorKind::NotFound => {
                let bytes = bucket.objects().read(name, Limits::default().max_manifest_bytes)?;
                Ok(Box::new(Cursor::new(bytes)))
            }
            (opened, _) => Ok(Box::new(Reader::new(opened.map_err(|e| Error::io("read", &path, e))?))),
        }
    }

    /// Creates a scratch file. Replaces any file of the same name left by a killed run.
    pub(crate) fn create_scratch(&self, name: &str) -> Result<Arc<dyn GrowingFile>> {
        self.remove_scratch(name)?;
        let path = self.scratch_file(name);
        self.files.create_new(&path).map_err(|e| Error::io("create", &path, e))
    }

    pub(crate) fn append_scratch(&self, name: &str) -> Result<Arc<dyn GrowingFile>> {
        let path = self.scratch_file(name);
        self.files.append(&path).map_err(|e| Error::io("open", &path, e))
    }

    pub(crate) fn remove_scratch(&self, name: &str) -> Result<()> {
        let path = self.scratch_file(name);
        not_there(self.files.remove(&path)).map_err(|e| Error::io("remove", &path, e))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match &self.store {
            Some(bucket) => bucket.remove(name),
            None => self.remove_scratch(name),
        }
    }

    /// Removes a local journal and, for a part, its copy in the store.
    pub(crate) fn remove_journal(&self, name: &str) -> Result<()> {
        if let Some(bucket) = &self.store
            && !is_scratch(name)
        {
            bucket.remove(name)?;
        }
        self.remove_scratch(name)
    }

    /// Commits a complete scratch file as a file of the dataset.
    pub(crate) fn commit(&self, scratch: &str, name: &str) -> Result<()> {
        match &self.store {
            Some(bucket) => bucket.commit(&self.scratch_file(scratch), name, &self.uploads),
            None => self.rename(scratch, name),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let to = self.scratch_file(to);
        self.files.rename(&self.scratch_file(from), &to).map_err(|e| Error::io("rename to", &to, e))
    }

    /// Moves a file into this folder from another folder on the same disk, or from the spool into the store. Fails if
    /// the store has a different object with the new name.
    pub(crate) fn take_in(&self, folder: &Self, name: &str, own_name: &str) -> Result<()> {
        if let Some(bucket) = &self.store {
            return bucket.take_in(&folder.file(name), own_name, &self.uploads);
        }
        let to = self.file(own_name);
        self.files.rename(&folder.file(name), &to).map_err(|e| Error::io("rename to", &to, e))
    }

    /// Turns the manifest into a scratch file, which shows that the other files are ours while they are being removed.
    pub(crate) fn retire_manifest(&self) -> Result<()> {
        let Some(bucket) = &self.store else { return self.rename(MANIFEST_NAME, RETIRED_NAME) };
        // Check the claim before creating the scratch file. Another run may have taken over the dataset.
        bucket.check(MANIFEST_NAME)?;
        let bytes = bucket.objects().read(MANIFEST_NAME, Limits::default().max_manifest_bytes)?;
        let file = self.create_scratch(RETIRED_NAME)?;
        let written = file.append(&bytes).and_then(|()| file.sync());
        written.map_err(|e| Error::io("write", &self.scratch_file(RETIRED_NAME), e))?;
        bucket.remove(MANIFEST_NAME)
    }

    /// If the dataset is in a store, uploads the journal of a part for a later merge.
    pub(crate) fn publish(&self, journal: &str) -> Result<()> {
        match &self.store {
            Some(bucket) => bucket.publish(&self.scratch_file(journal), journal),
            None => Ok(()),
        }
    }

    /// Makes the names in the folder durable. If the file system cannot do this, [`Self::syncs_folders`] returns false.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.files.sync_dir(&self.scratch) {
            Err(e) if !is_unsupported(&e) => Err(Error::io("sync folder", &self.scratch, e)),
            _ => Ok(()),
        }
    }

    pub(crate) fn syncs_folders(&self) -> bool {
        !self.files.sync_dir(&self.scratch).is_err_and(|e| is_unsupported(&e))
    }

    /// Replaces a file. Even after a crash, the file contains either `bytes` or its old content.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.write_whole(MANIFEST_TEMPORARY, bytes, || self.commit(MANIFEST_TEMPORARY, name))
    }

    /// Writes the manifest of a generation under the generation's own name. Returns false if a store has a different
    /// object with this name. That object is then kept.
    pub(crate) fn put_generation(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match &self.store {
            Some(bucket) => bucket.create(name, bytes),
            None => self.replace(name, bytes).map(|()| true),
        }
    }

    /// Replaces the manifest `old` of the dataset with `new`. Returns false if a store has a different manifest by now.
    pub(crate) fn exchange_manifest(&self, old: &[u8], new: &[u8]) -> Result<bool> {
        match &self.store {
            Some(bucket) => bucket.exchange(MANIFEST_NAME, old, new),
            None => self.replace(MANIFEST_NAME, new).map(|()| true),
        }
    }

    pub(crate) fn replace_scratch(&self, name: &str, temporary: &str, bytes: &[u8]) -> Result<()> {
        self.write_whole(temporary, bytes, || self.rename(temporary, name))
    }

    fn write_whole(&self, temporary: &str, bytes: &[u8], place: impl FnOnce() -> Result<()>) -> Result<()> {
        let write = || {
            let (file, path) = (self.create_scratch(temporary)?, self.scratch_file(temporary));
            file.append(bytes).map_err(|e| Error::io("write", &path, e))?;
            file.sync().map_err(|e| Error::io("sync", &path, e))?;
            drop(file);
            place()
        };
        if let Err(e) = write() {
            let _ = self.remove_scratch(temporary);
            return Err(e);
        }
        self.sync()
    }

    pub(crate) fn remove_folder_if_empty(&self) -> Result<()> {
        match not_there(self.files.remove_dir(&self.path)) {
            Err(e) if e.kind() != ErrorKind::DirectoryNotEmpty => Err(Error::io("remove folder", &self.path, e)),
            _ => Ok(()),
        }
    }

    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.files.free_bytes(&self.scratch)
    }
}

fn not_there(removed: Result<(), Cause>) -> Result<(), Cause> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
