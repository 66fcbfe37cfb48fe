//! Rebuilds the manifest of a folder in which all shards are intact.

use crate::error::{Error, Result};
use crate::handles::ShardFile;
use crate::manifest_file::{is_columns_file, shard_names};
use crate::shard::{Shard, ShardOptions};
use crate::verify::hash_file;
use shardpack_format::{
    Error as FormatError, Limits, MANIFEST_NAME, Manifest, ShardEntry, generation_name, generation_of_name,
    visible_path,
};
use shardpack_io::{Folder, Storage};
use std::path::{Path, PathBuf};

/// A manifest rebuilt from the shards.
#[derive(Debug)]
pub struct Rebuilt {
    /// The manifest, with the fidelity statistics from the caller's hook.
    pub manifest: Manifest,
    /// Shards in the folder that are not part of the dataset, each with the reason.
    pub left_out: Vec<(PathBuf, Error)>,
}

/// Rebuilds a manifest from the intact shards in `folder`. Reads all shards completely to compute their
/// SHA-256.
///
/// Calls `fidelity` with each shard, in the order of their numbers. It computes the manifest's fidelity statistics
/// from the columns, whose meaning this crate does not know.
///
/// # Errors
/// `Usage` if the folder contains no shards. `Format` if a shard is damaged, or if the numbers and counts in the shards
/// show that one is missing. Salvage a damaged shard first, and write its records to a new one. If the folder contains
/// several generations, the shards do not show which of them are current. The hint then names the newest manifest.
pub fn rebuild_manifest(
    folder: impl AsRef<Path>,
    limits: &Limits,
    fidelity: &mut dyn FnMut(&Shard, &mut Manifest) -> Result<()>,
) -> Result<Rebuilt> {
    let folder = folder.as_ref();
    rebuild(folder, limits, fidelity).map_err(|error| match newest_kept(folder) {
        Some(name) => error.with_hint(format!("copy `{name}` over `{MANIFEST_NAME}` to restore the newest generation")),
        None => error,
    })
}

fn newest_kept(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| generation_of_name(&name)).max().map(generation_name)
}

fn rebuild(
    folder: &Path,
    limits: &Limits,
    fidelity: &mut dyn FnMut(&Shard, &mut Manifest) -> Result<()>,
) -> Result<Rebuilt> {
    let folder = Folder::open(folder, false)?;
    let mut left_out = Vec::new();
    let mut shards: Vec<(String, Shard)> = Vec::new();
    let options = ShardOptions { limits: limits.clone(), ..ShardOptions::default() };
    for name in shard_names(&folder)? {
        let path = folder.path().join(&name);
        if is_columns_file(&folder, &name) {
            let error = FormatError::malformed("this columns file has added columns of a later generation, no samples");
            left_out.push((path.clone(), error.in_file(path.to_string_lossy()).into()));
            continue;
        }
        let shard = Shard::from_file(ShardFile::open(path, folder.open(&name)?), options.clone(), None)?;
        shards.push((name, shard));
    }
    let Some((_, first)) = shards.first() else {
        return Err(Error::usage(format!("`{}` has no shards", visible_path(folder.path()))));
    };
    let (id, metadata) = (first.identity().dataset_id, first.index().metadata().clone());
    shards.retain(|(_, shard)| {
        if shard.identity().dataset_id == id {
            return true;
        }
        let error = FormatError::format("dataset id", id, shard.identity().dataset_id);
        left_out.push((shard.path().into(), error.in_file(shard.path().to_string_lossy()).into()));
        false
    });
    shards.sort_by_key(|(_, shard)| shard.identity().shard_number);
    let mut manifest = Manifest::new(id, metadata.clone());
    for (number, (name, shard)) in shards.iter().enumerate() {
        let wrong = |what: &str, expected: String, found: String| -> Result<Rebuilt> {
            Err(FormatError::format(what, expected, found).in_file(shard.path().to_string_lossy()).into())
        };
        let found = shard.identity().shard_number;
        if u64::from(found) != number as u64 {
            let found = format!("{found} (a shard is missing or duplicated)");
            return wrong("shard number", number.to_string(), found);
        }
        if *shard.index().metadata() != metadata {
            let error = FormatError::malformed("the schema, classes or recipe differ from those in the first shard");
            return Err(error.in_file(shard.path().to_string_lossy()).into());
        }
        let sha256 = hash_file(shard.file())?;
        manifest.push(ShardEntry {
            name: name.clone(),
            bytes: shard.file_bytes(),
            samples: shard.len(),
            footer_crc32: shard.footer_crc32(),
            sha256,
        });
        fidelity(shard, &mut manifest)?;
    }
    if let Some(count) = metadata.shards
        && count as usize != shards.len()
    {
        let text = format!("the shards belong to a dataset of {count} shards, but the folder has {}", shards.len());
        let error = FormatError::malformed(text);
        return Err(error.in_file(folder.path().to_string_lossy()).into());
    }
    Ok(Rebuilt { manifest, left_out })
}
