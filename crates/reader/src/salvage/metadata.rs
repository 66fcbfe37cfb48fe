//! The schema of a shard that may have lost it.

use crate::dataset::read_manifest;
use crate::fs::{Folder, Storage, open_regular};
use crate::shard::{Shard, ShardOptions};
use shardpack_format::{Identity, Index, Limits, MANIFEST_NAME, Metadata};
use std::path::{Path, PathBuf};

/// Where the schema of a damaged shard was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataSource {
    /// In the shard itself.
    OwnIndex,
    /// In the manifest beside it.
    Manifest,
    /// In another shard of the same dataset beside it.
    Sibling(PathBuf),
}

pub(super) fn find(
    path: &Path,
    identity: Option<&Identity>,
    index: Option<&Index>,
    limits: &Limits,
) -> Option<(Metadata, MetadataSource)> {
    if let Some(index) = index {
        return Some((index.metadata().clone(), MetadataSource::OwnIndex));
    }
    let parent = path.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
    let same = |id| identity.is_none_or(|i| i.dataset_id == id);
    let manifest_path = parent.join(MANIFEST_NAME);
    let manifest = open_regular(&manifest_path).and_then(|file| read_manifest(&*file, &manifest_path, limits));
    if let Ok(manifest) = manifest
        && same(manifest.dataset_id)
    {
        let shards = u32::try_from(manifest.shards.len()).ok();
        let (schema, classes, recipe) = (manifest.schema, manifest.classes, manifest.recipe);
        return Some((Metadata { schema, classes, recipe, shards }, MetadataSource::Manifest));
    }
    let names = Folder::open(parent, false).and_then(|folder| folder.shard_names()).unwrap_or_default();
    names.into_iter().map(|name| parent.join(name)).filter(|sibling| sibling != path).find_map(|sibling| {
        let options = ShardOptions { limits: limits.clone(), ..ShardOptions::default() };
        let shard = Shard::open(&sibling, options).ok().filter(|s| same(s.identity().dataset_id))?;
        Some((shard.index().metadata().clone(), MetadataSource::Sibling(sibling)))
    })
}
