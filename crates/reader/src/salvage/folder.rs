//! The folder of a damaged dataset. On a disk, reads only regular files directly in the folder or one level below, and
//! follows no symlinks.

use super::metadata;
use super::newest::Newest;
use super::scan::SalvageScan;
use crate::error::Result;
use crate::handles::{Handles, ShardFile};
use crate::manifest_file::{is_columns_file, shard_names};
use shardpack_format::{Limits, SharedMetadata};
use shardpack_io::{Folder, Storage};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A folder with shards to salvage.
///
/// An untrusted dataset may contain FIFOs, devices, or symlinks to any of your files. None of these is opened,
/// so `salvage` copies nothing from outside the folder. If shards are stored elsewhere, pass the symlinks one
/// by one to [`SalvageScan::open`], which follows a symlink that the user names.
///
/// ```no_run
/// use shardpack_reader::{Limits, SalvageFolder};
/// let folder = SalvageFolder::open("damaged")?;
/// for name in folder.shard_names()? {
///     println!("{name}: {} whole records", folder.scan(&name, &Limits::default())?.count());
/// }
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct SalvageFolder {
    storage: Arc<dyn Storage>,
    handles: Arc<Handles>,
    known: OnceLock<SharedMetadata>,
}

impl SalvageFolder {
    /// Opens the folder.
    ///
    /// # Errors
    /// `Io` if it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open_in(Arc::new(Folder::open(path.as_ref(), false)?)))
    }

    /// Uses the folder `storage`, for example in a store. Sends no requests.
    #[must_use]
    pub fn open_in(storage: Arc<dyn Storage>) -> Self {
        let handles = Arc::new(Handles::new(Arc::clone(&storage)));
        Self { storage, handles, known: OnceLock::new() }
    }

    /// Returns the path of the folder, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Finds the newest undamaged manifest in the folder.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed.
    pub fn newest(&self, limits: &Limits) -> Result<Newest> {
        Newest::find(&*self.storage, limits)
    }

    /// Returns the names ending in `.shard` directly in the folder, sorted, without columns files.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed.
    pub fn shard_names(&self) -> Result<Vec<String>> {
        let mut names = shard_names(&*self.storage)?;
        names.retain(|name| !is_columns_file(&*self.storage, name));
        Ok(names)
    }

    /// Returns the names of the columns files directly in the folder, sorted (spec §3.6).
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed.
    pub fn columns_file_names(&self) -> Result<Vec<String>> {
        let mut names = shard_names(&*self.storage)?;
        names.retain(|name| is_columns_file(&*self.storage, name));
        Ok(names)
    }

    /// Scans one shard of the folder. `name` comes from the manifest or from [`SalvageFolder::shard_names`].
    ///
    /// # Errors
    /// `Io` if it cannot be read, `Usage` if it is not a regular file in the folder.
    pub fn scan(&self, name: &str, limits: &Limits) -> Result<SalvageScan> {
        let file = ShardFile::pooled(&self.handles, name)?;
        let mut scan = SalvageScan::of_file(file, limits, self.known.get())?;
        match &scan.own_metadata {
            Some(own) => drop(self.known.get_or_init(|| own.clone())),
            None => scan.metadata = metadata::find(&*self.storage, name, scan.identity.as_ref(), limits),
        }
        Ok(scan)
    }
}
