//! Finds the generations of a dataset and their manifests (spec §3.5).

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::manifest_file::manifest_in;
use sha2::{Digest, Sha256};
use shardpack_format::{DatasetId, Limits, MANIFEST_NAME, Manifest, generation_name};
use shardpack_io::Storage;
use std::io::ErrorKind;

pub(crate) fn find_manifest(
    storage: &dyn Storage,
    generation: Option<u32>,
    limits: &Limits,
) -> Result<(String, Manifest)> {
    let read = |name: &str| manifest_in(storage, name, limits);
    let Some(wanted) = generation else { return Ok((MANIFEST_NAME.into(), read(MANIFEST_NAME)?)) };
    let name = generation_name(wanted);
    match read(&name) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
        Ok(manifest) if manifest.generation() != wanted => {
            let what = format!("the manifest `{}`", storage.path().join(&name).display());
            return Err(Error::usage(format!(
                "{what} must describe generation {wanted}, but describes generation {}",
                manifest.generation()
            )));
        }
        other => return Ok((name, other?)),
    }
    // There is no numbered manifest. A dataset that has never been changed has only
    // `manifest.json`.
    let newest = read(MANIFEST_NAME)?;
    if newest.generation() == wanted {
        return Ok((MANIFEST_NAME.into(), newest));
    }
    let (path, last) = (storage.path().display(), newest.generation());
    let error = Error::usage(format!("`{path}` has no generation {wanted}: the newest is {last}"));
    match wanted < newest.generation() {
        true => Err(error.with_hint("open a newer generation; `shardpack compact` may have removed this one")),
        false => Err(error),
    }
}

impl Dataset {
    /// Returns the number of this generation: 1 after packing, plus one for each addition or removal. Returns 1 for a
    /// lone shard and for a concatenation.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.manifest().map_or(1, Manifest::generation)
    }

    /// Returns the id of this generation of this dataset. For the first generation, it is the
    /// dataset id. For later generations, it is a digest of the dataset id, the generation number
    /// and the shards. The number alone is not enough, because two copies of a dataset can grow
    /// differently and reach the same number.
    #[must_use]
    pub fn version_id(&self) -> DatasetId {
        let (id, generation) = (self.dataset_id(), self.generation());
        let Some(manifest) = self.manifest().filter(|_| generation > 1) else { return id };
        let mut digest = Sha256::new();
        digest.update(b"shardpack generation\n");
        digest.update(id.0);
        digest.update(generation.to_le_bytes());
        manifest.files().for_each(|(_, file)| digest.update(file.sha256));
        let mut version = DatasetId::default();
        version.0.iter_mut().zip(digest.finalize()).for_each(|(to, from)| *to = from);
        version
    }
}
