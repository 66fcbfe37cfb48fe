//! Opens a dataset: a folder, a manifest, or a lone shard.

use crate::dataset::{Dataset, FromManifest, Inner, Origin, Slot};
use crate::error::{Error, Result};
use crate::generation::find_manifest;
use crate::handles::{Handles, ShardFile};
use crate::manifest_file::{identity_in, is_being_packed, read_manifest, shard_names};
use crate::shard::{Shard, ShardOptions};
use shardpack_format::{HEADER_MAGIC, Hint, Limits, Manifest, Metadata, Voice};
use shardpack_io::{Folder, ReadAt, Storage, open_regular, read_exact_at};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Options for opening a dataset.
///
/// ```
/// use shardpack_reader::{DatasetOptions, Limits};
/// let limits = Limits { max_record_bytes: 8 << 30, ..Default::default() };
/// let options = DatasetOptions::new().limits(limits).verify_crc(true);
/// assert!(options.open("no/such/folder").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    shard: ShardOptions,
    follow_symlinks: bool,
    max_open_files: usize,
    generation: Option<u32>,
}

impl Default for DatasetOptions {
    fn default() -> Self {
        Self { shard: ShardOptions::default(), follow_symlinks: false, max_open_files: 256, generation: None }
    }
}

impl DatasetOptions {
    /// Returns the default options: limits for untrusted data, CRC32s checked, no symlinks, at most 256 open files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits on the sizes that a file may declare.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.shard.limits = limits;
        self
    }

    /// Sets whether to check the CRC32 of each record before returning it. Default: true. Headers, indexes and
    /// frames are always checked.
    #[must_use]
    pub const fn verify_crc(mut self, verify_crc: bool) -> Self {
        self.shard.check_crc = verify_crc;
        self
    }

    /// Sets whether shards may be symlinks to any file, as in the caches of some download tools. Default: false,
    /// because a symlink in an untrusted dataset could lead to any of your files.
    #[must_use]
    pub const fn follow_symlinks(mut self, follow_symlinks: bool) -> Self {
        self.follow_symlinks = follow_symlinks;
        self
    }

    /// Sets the maximum number of open shards. Default: 256, or less if the process may open fewer files.
    #[must_use]
    pub const fn max_open_files(mut self, max_open_files: usize) -> Self {
        self.max_open_files = max_open_files;
        self
    }

    /// Sets the generation of the dataset to open, counted from 1. Default: the newest. Applies only to folders,
    /// because a manifest describes a single generation.
    #[must_use]
    pub const fn generation(mut self, generation: Option<u32>) -> Self {
        self.generation = generation;
        self
    }

    pub(crate) fn refuse_generation(generation: Option<u32>, path: &Path) -> Result<()> {
        let Some(generation) = generation else { return Ok(()) };
        let path = path.display();
        Err(Error::usage(format!(
            "cannot open generation {generation} of `{path}`, which is a file: only the folder of a dataset has \
             generations"
        )))
    }

    /// Opens the dataset at `path`: a folder with a manifest, a manifest, or a lone shard.
    ///
    /// # Errors
    /// `Io` if a file cannot be read, `Usage` if `path` is none of these, `Format` or `Limit` if the manifest or the
    /// lone shard is invalid.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dataset> {
        let path = path.as_ref();
        if std::fs::metadata(path).map_err(|e| cannot_open(path, e))?.is_dir() {
            return self.open_in(Arc::new(Folder::open(path, self.follow_symlinks)?));
        }
        Self::refuse_generation(self.generation, path)?;
        let file = open_regular(path)?;
        if is_shard(&*file, path)? {
            let shard = Shard::from_file(ShardFile::open(path.into(), file), self.shard.clone(), None)?;
            return Ok(Dataset::of_lone_shard(shard, None));
        }
        let manifest = read_manifest(&*file, path, &self.shard.limits)?;
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        self.with_manifest(Arc::new(Folder::open(folder, self.follow_symlinks)?), path.into(), manifest)
    }

    /// Opens the dataset whose manifest is in `storage`.
    ///
    /// # Errors
    /// Same as [`DatasetOptions::open`].
    pub fn open_in(&self, storage: Arc<dyn Storage>) -> Result<Dataset> {
        let found = find_manifest(&*storage, self.generation, &self.shard.limits);
        let (name, manifest) = found.map_err(|e| match e {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => no_manifest(&*storage),
            other => other,
        })?;
        let path = storage.path().join(name);
        self.with_manifest(storage, path, manifest)
    }

    /// Opens the manifest or the lone shard `name` in `storage`.
    ///
    /// # Errors
    /// Same as [`DatasetOptions::open`].
    pub fn open_file_in(&self, storage: Arc<dyn Storage>, name: &str) -> Result<Dataset> {
        let path = storage.path().join(name);
        Self::refuse_generation(self.generation, &path)?;
        let file = storage.open(name)?;
        if !is_shard(&*file, &path)? {
            let manifest = read_manifest(&*file, &path, &self.shard.limits)?;
            return self.with_manifest(storage, path, manifest);
        }
        let shard = Shard::from_file(ShardFile::open(path, file), self.shard.clone(), None)?;
        Ok(Dataset::of_lone_shard(shard, Some(storage)))
    }

    fn with_manifest(&self, storage: Arc<dyn Storage>, path: PathBuf, mut manifest: Manifest) -> Result<Dataset> {
        if manifest.schema.optional_features() != 0
            && let Some(first) = manifest.shards.first()
            && let Some(identity) = identity_in(&*storage, &first.name)
        {
            // The optional-feature bits are not in the manifest.
            manifest.schema = manifest.schema.with_features(identity.optional_features);
        }
        let handles = Arc::new(Handles::new(Arc::clone(&storage), self.max_open_files));
        let mut first = 0_u64;
        let slots = manifest.shards.iter().map(|entry| {
            let slot = Slot {
                first,
                samples: entry.samples,
                origin: Origin::Entry(entry.clone()),
                shard: OnceLock::new(),
                damage: OnceLock::new(),
            };
            first = first.saturating_add(entry.samples);
            slot
        });
        let slots = slots.collect();
        let metadata = Metadata {
            schema: manifest.whole_schema().map_err(|e| e.in_file(path.to_string_lossy()))?,
            classes: manifest.classes.clone(),
            recipe: manifest.recipe.clone(),
            shards: None,
        };
        let parts = std::iter::once(0..first).collect();
        Ok(Dataset(Arc::new(Inner {
            path,
            samples: first,
            dataset_id: manifest.dataset_id,
            metadata,
            source: Some(FromManifest { handles, manifest }),
            storage: Some(storage),
            slots,
            parts,
            options: self.shard.clone(),
            keys: OnceLock::new(),
            known: OnceLock::new(),
        })))
    }
}

/// Returns true if the file begins with the magic of a shard, or if its name ends in `.shard`.
fn is_shard(file: &dyn ReadAt, path: &Path) -> Result<bool> {
    let mut magic = [0; 8];
    let known = usize::try_from(file.len()).map_or(magic.len(), |len| len.min(magic.len()));
    let (start, _) = magic.split_at_mut(known);
    read_exact_at(file, path, start, 0)?;
    Ok(magic == HEADER_MAGIC || path.extension().is_some_and(|e| e == "shard"))
}

/// Returns the error for a failed `open`, with a hint if `path` is actually a URL.
pub(crate) fn cannot_open(path: &Path, source: std::io::Error) -> Error {
    let text = path.to_string_lossy();
    match text.split_once("://") {
        Some((scheme, _)) if !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            let hint = Hint::new("").only(Voice::Rust, "open datasets in object stores with the crate shardpack-store");
            Error::usage("expected a local path to a dataset, found a URL").with_hint(hint)
        }
        _ => Error::io(path, "open", source),
    }
}

fn no_manifest(storage: &dyn Storage) -> Error {
    if is_being_packed(storage) {
        let hint = "run the same `shardpack pack` command again to continue, or copy the samples packed so far with \
                    `shardpack salvage`";
        let path = storage.path().display();
        return Error::usage(format!("`{path}` is incomplete: packing was interrupted or is still running"))
            .with_hint(hint);
    }
    match shard_names(storage).map_or(0, |names| names.len()) {
        0 => no_dataset(storage.path()).with_hint(
            "make a dataset from a folder of files with `shardpack pack`; add `--splits` to make one dataset in each \
             subfolder",
        ),
        n => {
            let shards = if n == 1 { "shard" } else { "shards" };
            Error::usage(format!("`{}` has {n} {shards}, but no manifest.json", storage.path().display())).with_hint(
                "restore the newest undamaged manifest-000N.json with `shardpack salvage`; if there is none, it \
                 rebuilds the manifest from the shards, and removed samples may come back. You can also open a \
                 single shard by its path",
            )
        }
    }
}

pub(crate) fn no_dataset(path: &Path) -> Error {
    Error::usage(format!("`{}` is not a dataset: it has no manifest.json and no shards", path.display()))
}

impl Dataset {
    /// Opens the dataset at `path` with the default [`DatasetOptions`]: a folder with a manifest, a manifest,
    /// or a lone shard.
    ///
    /// # Errors
    /// Same as [`DatasetOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        DatasetOptions::default().open(path)
    }
}
