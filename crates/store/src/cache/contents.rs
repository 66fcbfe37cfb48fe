//! Lists, verifies and clears the contents of a cache, for maintenance commands.

use super::block::{BlockHead, is_block};
use super::{Cache, MARKER};
use rustix::fs::{AtFlags, unlinkat};
use shardpack_io::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The blocks in a cache folder. Other processes may use the folder at the same time.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let error = shardpack_store::CacheFolder::open(folder.path()).unwrap_err();
/// assert!(error.to_string().contains("is not a cache"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct CacheFolder {
    path: PathBuf,
    cache: Cache,
}

/// The blocks of one dataset in a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedDataset {
    /// URL of the dataset, followed by the endpoints from the options.
    pub url: String,
    /// Number of shards and manifests with at least one block.
    pub objects: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Size of the blocks on disk, in bytes.
    pub bytes: u64,
}

/// A number of blocks and their total size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockCount {
    /// Number of blocks.
    pub blocks: u64,
    /// Size of the blocks on disk, in bytes.
    pub bytes: u64,
}

impl BlockCount {
    fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }
}

/// The result of [`CacheFolder::verify`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCheck {
    /// Blocks whose pages all have a correct checksum.
    pub whole: BlockCount,
    /// Damaged blocks, which were removed.
    pub damaged: BlockCount,
}

impl CacheFolder {
    /// Opens an existing cache.
    ///
    /// # Errors
    /// `Usage` if the folder is not a cache.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.join(MARKER).is_file() {
            return Err(Error::usage(format!("`{}` is not a cache: the file `{MARKER}` is missing", path.display()))
                .with_hint("pass the folder that you use for `--cache` or SHARDPACK_CACHE"));
        }
        Ok(Self { path: path.into(), cache: Cache::open(path, u64::MAX, String::new())? })
    }

    /// Lists the datasets in the cache, sorted by URL. Skips blocks with a damaged header.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read.
    pub fn datasets(&self) -> Result<Vec<CachedDataset>> {
        let mut found: BTreeMap<String, (CachedDataset, BTreeSet<String>)> = BTreeMap::new();
        self.each_block(|_, head, bytes| {
            let Some(head) = head else { return };
            let (dataset, objects) = found.entry(head.store.clone()).or_default();
            objects.insert(head.key.clone());
            dataset.blocks += 1;
            dataset.bytes += bytes;
        })?;
        Ok(found
            .into_iter()
            .map(|(url, (dataset, objects))| CachedDataset {
                url: url.trim_end().to_owned(),
                objects: objects.len() as u64,
                ..dataset
            })
            .collect())
    }

    /// Removes all blocks, or only one dataset's blocks. Readers fetch missing blocks again.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read or a block cannot be removed.
    pub fn clear(&self, url: Option<&str>) -> Result<BlockCount> {
        let (mut removed, mut failed) = (BlockCount::default(), None);
        self.each_block(|name, head, bytes| {
            let is_of = |url: &str| head.is_some_and(|head| head.is_of(url));
            if url.is_none_or(is_of) {
                match self.remove(name) {
                    Ok(()) => removed.add(bytes),
                    // A reader has removed the block in the meantime.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => failed = Some(error),
                }
            }
        })?;
        failed.map_or(Ok(removed), |error| Err(Error::io(self.path.clone(), "remove a block", error)))
    }

    /// Verifies the checksum of every page of every block, and removes damaged blocks.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read.
    pub fn verify(&self) -> Result<CacheCheck> {
        let mut check = CacheCheck::default();
        self.each_block(|name, head, bytes| {
            let Ok((file, _)) = self.cache.file(name) else { return };
            if head.is_some_and(|head| head.is_whole(name, &file)) {
                check.whole.add(bytes);
            } else if self.cache.drop_block(name, &file) {
                check.damaged.add(bytes);
            }
        })?;
        Ok(check)
    }

    /// Calls `take` with the name, the header and the size of every block. The header is `None` if it is
    /// damaged. Skips blocks that another process removes in the meantime.
    fn each_block(&self, mut take: impl FnMut(&str, Option<&BlockHead>, u64)) -> Result<()> {
        let names = self.cache.names().map_err(|error| Error::io(self.path.clone(), "list", error))?;
        for name in names.iter().filter(|name| is_block(name)) {
            let Ok((file, meta)) = self.cache.file(name) else { continue };
            take(name, BlockHead::read(&file).as_ref(), meta.len());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.cache.folder, name, AtFlags::empty())?)
    }
}
