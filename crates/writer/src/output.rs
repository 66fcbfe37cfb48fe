//! The destination of a dataset: a folder on a disk or in an object store.

use crate::bucket::Bucket;
use crate::target::Target;
use shardpack_io::{Disk, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Destination of a dataset, created from a path or a [`Bucket`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Output {
    /// A folder on a disk.
    Folder(PathBuf),
    /// A folder in an object store.
    Bucket(Bucket),
}

impl Output {
    /// Returns the path of the folder, or its name in the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Bucket(bucket) => bucket.name(),
        }
    }

    /// Returns the local folder for unfinished files: the destination itself or, for a store, the spool.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Bucket(bucket) => bucket.spool(),
        }
    }

    /// Returns the folder in the store for reading its objects, or `None` for a folder on a disk.
    #[must_use]
    pub fn storage(&self) -> Option<Arc<dyn Storage>> {
        match self {
            Self::Folder(_) => None,
            Self::Bucket(bucket) => Some(bucket.storage()),
        }
    }

    pub(crate) fn target(&self) -> Target<'static> {
        match self {
            Self::Folder(path) => Target::folder(&Disk, path),
            Self::Bucket(bucket) => Target::store(&Disk, bucket),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Output {
    fn from(path: &P) -> Self {
        Self::Folder(path.as_ref().to_owned())
    }
}

impl From<Bucket> for Output {
    fn from(bucket: Bucket) -> Self {
        Self::Bucket(bucket)
    }
}
