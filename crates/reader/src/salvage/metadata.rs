//! Finds the schema of a damaged shard.

use crate::handles::ShardFile;
use crate::manifest_file::{manifest_in, shard_names};
use crate::shard::{Shard, ShardOptions};
use shardpack_format::{Identity, Limits, MANIFEST_NAME, Metadata};
use shardpack_io::Storage;
use std::path::PathBuf;

/// The file in which a damaged shard's schema was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataSource {
    /// The shard's own index.
    OwnIndex,
    /// The manifest in the same folder.
    Manifest,
    /// Another shard of the same dataset, in the same folder.
    Sibling(PathBuf),
}

/// Finds the schema. Does not follow symlinks, because files outside the folder may belong to
/// another dataset.
pub(super) fn find(
    folder: &dyn Storage,
    name: &str,
    identity: Option<&Identity>,
    limits: &Limits,
) -> Option<(Metadata, MetadataSource)> {
    let same = |id| identity.is_none_or(|i| i.dataset_id == id);
    if let Ok(manifest) = manifest_in(folder, MANIFEST_NAME, limits)
        && same(manifest.dataset_id)
    {
        let shards = u32::try_from(manifest.shards.len()).ok();
        let (schema, classes, recipe) = (manifest.schema, manifest.classes, manifest.recipe);
        return Some((Metadata { schema, classes, recipe, shards }, MetadataSource::Manifest));
    }
    shard_names(folder).unwrap_or_default().into_iter().filter(|sibling| sibling != name).find_map(|sibling| {
        let options = ShardOptions { limits: limits.clone(), ..ShardOptions::default() };
        let path = folder.path().join(&sibling);
        let file = folder.open(&sibling).ok()?;
        let shard = Shard::from_file(ShardFile::open(path.clone(), file), options, None).ok()?;
        let known = shard.index().metadata().clone();
        let is_sibling = same(shard.identity().dataset_id) && !shard.identity().is_columns_file();
        is_sibling.then_some((known, MetadataSource::Sibling(path)))
    })
}
