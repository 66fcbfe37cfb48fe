//! Finds the manifest of the newest generation (spec §3.5) in a damaged folder.

use crate::error::{Error, Result};
use crate::manifest_file::{is_being_packed, manifest_in};
use shardpack_format::{
    Error as FormatError, FOOTER_BYTES, Footer, Hint, Limits, MANIFEST_NAME, Manifest, Setting, ShardEntry,
    generation_name, generation_of_name, generation_of_shard_name, visible_path,
};
use shardpack_io::{Storage, read_exact_at};
use std::cmp::Ordering;
use std::path::Path;

/// The newest generation of a dataset for which the folder contains an undamaged manifest.
///
/// After samples are removed, their records remain in the shards of older generations until the dataset is compacted.
/// Only the newest manifest shows which shards are current.
#[derive(Debug)]
pub struct Newest {
    /// The newest undamaged manifest and its file name. This is `manifest.json` or, if that is missing, damaged
    /// or older, a name such as `manifest-0003.json`.
    pub manifest: Option<(String, Manifest)>,
    /// True if no file in the folder belongs to a later generation than this manifest.
    pub is_certain: bool,
    /// Errors in the manifests that were skipped.
    pub damage: Vec<Error>,
}

impl Newest {
    pub(super) fn find(storage: &dyn Storage, limits: &Limits) -> Result<Self> {
        let path = storage.path();
        let names = storage.names()?;
        let mut kept: Vec<u32> = names.iter().filter_map(|name| generation_of_name(name)).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let of_shards = names.iter().filter_map(|name| generation_of_shard_name(name));
        let latest = of_shards.chain(kept.first().copied()).max().unwrap_or(1);

        let mut damage = Vec::new();
        let whole = |name: &str| manifest_in(storage, name, limits);
        let current = whole(MANIFEST_NAME).map_err(|error| damage.push(error)).ok();
        let mut numbered = None;
        for number in kept {
            let name = generation_name(number);
            let found = whole(&name).and_then(|manifest| match manifest.generation() {
                found if found == number => Ok(manifest),
                found => Err(FormatError::format("generation in the manifest", number, found)
                    .in_file(path.join(&name).to_string_lossy())
                    .into()),
            });
            match found {
                Ok(manifest) => {
                    numbered = Some((name, manifest));
                    break;
                }
                Err(error) => damage.push(error),
            }
        }
        let manifest = match (current, numbered) {
            (Some(current), Some((name, numbered))) if is_better(storage, &numbered, &current, limits) => {
                damage.push(older(&path.join(MANIFEST_NAME), &name, &current, &numbered));
                Some((name, numbered))
            }
            (Some(current), _) => Some((MANIFEST_NAME.to_owned(), current)),
            (None, numbered) => numbered,
        };
        let is_certain = match &manifest {
            // A numbered manifest of the first generation exists only if there is a second
            // generation, so it is not the newest.
            Some((name, manifest)) => {
                manifest.generation() >= latest && (name == MANIFEST_NAME || manifest.generation() > 1)
            }
            // A dataset that is still being packed cannot have removed samples.
            None => latest == 1 && is_being_packed(storage),
        };
        Ok(Self { manifest, is_certain, damage })
    }

    /// Fails unless the newest generation is known, or the caller wants the samples of all generations.
    ///
    /// # Errors
    /// `Usage`, with a hint about the option to take all generations.
    pub fn known_or(&self, all_generations: bool, folder: &Path) -> Result<()> {
        if self.is_certain || all_generations {
            return Ok(());
        }
        let found =
            self.manifest.as_ref().map_or(String::new(), |(name, _)| format!(" (the last readable one is `{name}`)"));
        Err(Error::usage(format!(
            "the newest manifest of `{}` is missing or damaged{found}, so it is unknown which samples were removed",
            visible_path(folder)
        ))
        .with_hint(
            Hint::new("restore the newest manifest from a backup, or use ")
                .and([Setting::on("all_generations")])
                .then(" to copy the samples of all shards, including removed samples"),
        ))
    }
}

/// Returns true if the numbered manifest is newer than the current one. If both have the same generation but differ,
/// returns true if more shards in the folder match the numbered manifest.
fn is_better(storage: &dyn Storage, numbered: &Manifest, current: &Manifest, limits: &Limits) -> bool {
    let fitting = |manifest: &Manifest| manifest.files().filter(|(_, file)| fits(storage, file, limits)).count();
    match numbered.generation().cmp(&current.generation()) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => {
            let is_same = numbered.dataset_id == current.dataset_id && numbered.files().eq(current.files());
            !is_same && fitting(numbered) > fitting(current)
        }
    }
}

fn fits(storage: &dyn Storage, entry: &ShardEntry, limits: &Limits) -> bool {
    let footer = || -> Option<Footer> {
        let file = storage.open(&entry.name).ok().filter(|file| file.len() == entry.bytes)?;
        let mut bytes = [0; 128];
        read_exact_at(&*file, storage.path(), &mut bytes, entry.bytes.checked_sub(FOOTER_BYTES)?).ok()?;
        Footer::parse(&bytes, entry.bytes, limits).ok()
    };
    footer().is_some_and(|footer| footer.crc32() == entry.footer_crc32)
}

fn older(path: &Path, name: &str, current: &Manifest, numbered: &Manifest) -> Error {
    let (found, expected) = (current.generation(), numbered.generation());
    let error = match found == expected {
        true => FormatError::malformed(format!("the manifest is out of date: `{name}` matches more of the shards")),
        false => FormatError::format("generation in the manifest", format!("{expected} (from `{name}`)"), found),
    };
    error.in_file(path.to_string_lossy()).into()
}
