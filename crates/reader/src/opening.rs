//! Opens a dataset: a folder, a manifest, or a lone shard.

use crate::dataset::{Dataset, FromManifest, Inner, Origin, Slot};
use crate::error::{Error, Result};
use crate::generation::find_manifest;
use crate::handles::{Handles, ShardFile};
use crate::manifest_file::{identity_in, is_being_packed, read_manifest, shard_names};
use crate::shard::{Shard, ShardOptions};
use shardpack_format::{HEADER_MAGIC, Hint, Limits, MANIFEST_NAME, Manifest, Metadata, Voice};
use shardpack_io::{Folder, ReadAt, Storage, is_url, open_regular, read_exact_at};
use std::io::ErrorKind;
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
#[derive(Debug, Clone, Default)]
pub struct DatasetOptions {
    shard: ShardOptions,
    follow_symlinks: bool,
    generation: Option<u32>,
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

    /// Sets the generation of the dataset to open, counted from 1. Default: the newest. Applies only to folders,
    /// because a manifest describes a single generation.
    #[must_use]
    pub const fn generation(mut self, generation: Option<u32>) -> Self {
        self.generation = generation;
        self
    }

    fn refuse_generation(&self, path: &Path) -> Result<()> {
        let Some(generation) = self.generation else { return Ok(()) };
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
        self.open_found(self.find(path.as_ref())?)
    }

    /// Opens the dataset whose manifest is in `storage`.
    ///
    /// # Errors
    /// Same as [`DatasetOptions::open`].
    pub fn open_in(&self, storage: Arc<dyn Storage>) -> Result<Dataset> {
        self.open_found(self.find_in(storage))
    }

    /// Opens the manifest or the lone shard `name` in `storage`.
    ///
    /// # Errors
    /// Same as [`DatasetOptions::open`].
    pub fn open_file_in(&self, storage: Arc<dyn Storage>, name: &str) -> Result<Dataset> {
        self.open_found(self.find_file_in(storage, name)?)
    }

    fn open_found(&self, found: DatasetFile) -> Result<Dataset> {
        match found {
            DatasetFile::Shard { file, storage } => {
                Ok(Dataset::of_lone_shard(Shard::from_file(file, self.shard.clone(), None)?, storage))
            }
            DatasetFile::Manifest { storage, path, is_named, manifest } => match manifest {
                Err(Error::Io { source, .. }) if !is_named && source.kind() == ErrorKind::NotFound => {
                    Err(no_manifest(&*storage))
                }
                manifest => self.with_manifest(storage, path, manifest?),
            },
        }
    }

    /// Finds the file that describes the dataset at `path`.
    pub(crate) fn find(&self, path: &Path) -> Result<DatasetFile> {
        if std::fs::metadata(path).map_err(|e| cannot_open(path, e))?.is_dir() {
            return Ok(self.find_in(Arc::new(Folder::open(path, self.follow_symlinks)?)));
        }
        self.refuse_generation(path)?;
        let file = open_regular(path)?;
        if is_shard(&*file, path)? {
            return Ok(DatasetFile::Shard { file: ShardFile::open(path.into(), file), storage: None });
        }
        let manifest = read_manifest(&*file, path, &self.shard.limits);
        let folder = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let storage = Arc::new(Folder::open(folder, self.follow_symlinks)?);
        Ok(DatasetFile::Manifest { storage, path: path.into(), is_named: true, manifest })
    }

    /// Finds the manifest in `storage`.
    pub(crate) fn find_in(&self, storage: Arc<dyn Storage>) -> DatasetFile {
        let (name, manifest) = match find_manifest(&*storage, self.generation, &self.shard.limits) {
            Ok((name, manifest)) => (name, Ok(manifest)),
            Err(error) => (MANIFEST_NAME.into(), Err(error)),
        };
        DatasetFile::Manifest { path: storage.path().join(name), storage, is_named: false, manifest }
    }

    /// Opens the file `name` in `storage`, a manifest or a lone shard.
    pub(crate) fn find_file_in(&self, storage: Arc<dyn Storage>, name: &str) -> Result<DatasetFile> {
        let path = storage.path().join(name);
        self.refuse_generation(&path)?;
        let file = match storage.open(name) {
            Err(error) if !has_shard_name(&path) => {
                return Ok(DatasetFile::Manifest { storage, path, is_named: true, manifest: Err(error.into()) });
            }
            file => file?,
        };
        if is_shard(&*file, &path)? {
            return Ok(DatasetFile::Shard { file: ShardFile::open(path, file), storage: Some(storage) });
        }
        let manifest = read_manifest(&*file, &path, &self.shard.limits);
        Ok(DatasetFile::Manifest { storage, path, is_named: true, manifest })
    }

    fn with_manifest(&self, storage: Arc<dyn Storage>, path: PathBuf, mut manifest: Manifest) -> Result<Dataset> {
        if manifest.schema.optional_features() != 0
            && let Some(first) = manifest.shards.first()
            && let Some(identity) = identity_in(&*storage, &first.name)
        {
            // The optional-feature bits are not in the manifest.
            manifest.schema = manifest.schema.with_features(identity.optional_features);
        }
        let handles = Arc::new(Handles::new(Arc::clone(&storage)));
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

/// The file that describes a dataset.
#[expect(clippy::large_enum_variant, reason = "one value for each dataset that is opened")]
pub(crate) enum DatasetFile {
    /// A manifest, which may be missing or damaged.
    Manifest {
        storage: Arc<dyn Storage>,
        path: PathBuf,
        /// True if the caller has named the manifest, and not only its folder.
        is_named: bool,
        manifest: Result<Manifest>,
    },
    /// A lone shard. Without a storage, no other file of its folder can be read.
    Shard { file: ShardFile, storage: Option<Arc<dyn Storage>> },
}

fn has_shard_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "shard")
}

/// Returns true if the name of the file ends in `.shard`, or if it begins with the magic of a shard.
fn is_shard(file: &dyn ReadAt, path: &Path) -> Result<bool> {
    if has_shard_name(path) {
        return Ok(true);
    }
    let mut magic = [0; 8];
    let known = usize::try_from(file.len()).map_or(magic.len(), |len| len.min(magic.len()));
    let (start, _) = magic.split_at_mut(known);
    read_exact_at(file, path, start, 0)?;
    Ok(magic == HEADER_MAGIC)
}

/// Returns the error for a failed `open`, with a hint if `path` is actually a URL.
fn cannot_open(path: &Path, source: std::io::Error) -> Error {
    if is_url(&path.to_string_lossy()) {
        let hint = Hint::new("").only(Voice::Rust, "open datasets in object stores with the crate shardpack-store");
        return Error::usage("expected a local path to a dataset, found a URL").with_hint(hint);
    }
    Error::io(path, "open", source)
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
