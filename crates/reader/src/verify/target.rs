//! Describes a shard to verify, and opens its file.

use crate::anatomy::Anatomy;
use crate::error::Result;
use crate::handles::{Handles, ShardFile};
use shardpack_format::{Limits, ShardEntry};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// SHA-256 according to the manifest, if any.
    pub(super) sha256: Option<[u8; 32]>,
    /// For a columns file: the number of its addition, and the number of its shard.
    pub(super) columns: Option<(usize, usize)>,
    source: TargetFile,
}

#[derive(Debug)]
enum TargetFile {
    Lone(ShardFile),
    Pooled(Arc<Handles>),
}

impl Target {
    pub(super) fn lone(file: ShardFile) -> Self {
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (path, bytes) = (file.path().into(), file.len());
        Self { name, path, bytes, sha256: None, columns: None, source: TargetFile::Lone(file) }
    }

    /// Creates the target for a file in the manifest.
    pub(super) fn listed(
        handles: &Arc<Handles>,
        entry: &ShardEntry,
        path: PathBuf,
        columns: Option<(usize, usize)>,
    ) -> Self {
        let (name, source) = (entry.name.clone(), TargetFile::Pooled(Arc::clone(handles)));
        Self { name, path, bytes: entry.bytes, sha256: Some(entry.sha256), columns, source }
    }

    /// Creates the target for a shard in a folder without a manifest.
    pub(super) fn unlisted(handles: &Arc<Handles>, name: &str, path: PathBuf) -> Self {
        let bytes = ShardFile::pooled(handles, name).map_or(0, |file| file.len());
        let source = TargetFile::Pooled(Arc::clone(handles));
        Self { name: name.into(), path, bytes, sha256: None, columns: None, source }
    }

    pub(super) fn key(&self, record: u64, limits: &Limits) -> Option<String> {
        let index = Anatomy::read(&self.file().ok()?, limits, None).ok()?.index?.ok()?;
        index.key(record).map(str::to_owned)
    }

    pub(super) fn file(&self) -> Result<ShardFile> {
        match &self.source {
            TargetFile::Lone(file) => Ok(file.clone()),
            TargetFile::Pooled(handles) => ShardFile::pooled(handles, &self.name),
        }
    }
}
