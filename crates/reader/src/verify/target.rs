//! Describes a shard to verify, and opens its file.

use crate::anatomy::Anatomy;
use crate::error::Result;
use crate::handles::{Handles, ShardFile};
use shardpack_format::Limits;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
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
        Self { name, path: file.path().into(), bytes: file.len(), source: TargetFile::Lone(file) }
    }

    /// Creates the target for a shard in a folder. `bytes` is its size according to the manifest, if any.
    pub(super) fn pooled(handles: &Arc<Handles>, name: &str, path: PathBuf, bytes: Option<u64>) -> Self {
        let bytes = bytes.unwrap_or_else(|| ShardFile::pooled(handles, name).map_or(0, |file| file.len()));
        Self { name: name.into(), path, bytes, source: TargetFile::Pooled(Arc::clone(handles)) }
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
