//! Deletes older generations and, with them, the bytes of removed samples (spec §3.5).
//!
//! The headers of the shards show which shards to delete. The older manifests cannot be used, because they are deleted
//! first, and a run after an interruption must still find the shards.

use crate::error::{Error, Result};
use crate::folder::{Survey, refuse_damaged_shards};
use crate::growth::{Growth, interrupted, read_manifest};
use crate::names::{NEXT, oldest_generation};
use shardpack_format::{
    DatasetId, FOOTER_BYTES, Footer, HEADER_BYTES, Hint, Identity, Limits, Manifest, Setting, generation_of_name,
};
use std::collections::{BTreeMap, HashSet};

/// Generations and shards that [`Growth::compact`] has deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The deleted generations, which can no longer be opened.
    pub generations: Vec<u32>,
    /// The deleted shards, which the newest generation does not use.
    pub shards: Vec<String>,
    /// Total size of the deleted shards, in bytes.
    pub bytes: u64,
}

impl Growth<'_> {
    /// Deletes all older generations, and all shards of the dataset that the newest generation does not use. First
    /// checks that the newest generation is in place and complete.
    ///
    /// # Errors
    /// `Usage` if an addition or a removal is unfinished, because it may use the same samples, or if a file belongs
    /// to a later or unknown generation; `Damaged` if a shard of the newest generation is missing; `Io`.
    pub fn compact(&self) -> Result<Compacted> {
        let (target, next) = (&self.target, self.target.below(NEXT));
        if !next.names_if_there()?.is_empty() && Survey::take(&next)?.is_begun() {
            let what = interrupted(target);
            let hint = Hint::new("repeat the interrupted command to continue, or repeat it with ")
                .and([Setting::on("force")])
                .then(" to start over; then compact again");
            return Err(Error::usage(what, hint));
        }
        refuse_damaged_shards(target, self.manifest.dataset_id, &self.manifest.files().collect::<Vec<_>>())?;
        let names = target.names()?;
        let older = self.older(&names)?;
        let leaving = self.leaving(&names, older.values())?;
        // Delete manifests first, because the shards of an existing manifest must exist.
        older.keys().try_for_each(|(_, name)| target.remove(name))?;
        target.sync()?;
        leaving.keys().try_for_each(|name| target.remove(name))?;
        Survey::take(target)?.remove_temporaries(target)?;
        target.sync()?;
        Ok(Compacted {
            generations: older.into_keys().map(|(generation, _)| generation).collect(),
            bytes: leaving.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            shards: leaving.into_keys().collect(),
        })
    }

    /// Returns the older manifests, keyed by generation and file name.
    fn older(&self, names: &[String]) -> Result<BTreeMap<(u32, String), Manifest>> {
        let own = self.manifest.generation();
        let mut older = BTreeMap::new();
        let mut newest: Option<(u32, &String)> = None;
        for name in names {
            let Some(named) = generation_of_name(name).filter(|&generation| generation != own) else { continue };
            let (manifest, _) = match read_manifest(&self.target, name) {
                Err(Error::Damaged { source }) => {
                    return Err(Error::usage(
                        source.to_string(),
                        "move this file out of the folder, then compact again",
                    ));
                }
                other => other?,
            };
            if manifest.dataset_id != self.manifest.dataset_id {
                continue;
            }
            let generation = named.max(manifest.generation());
            if generation > own {
                newest = newest.max(Some((generation, name)));
                continue;
            }
            older.insert((named, name.clone()), manifest);
        }
        if let Some((generation, name)) = newest {
            let what = format!(
                "`{}` describes generation {generation}, but manifest.json describes only generation {own}",
                self.target.file(name).display()
            );
            return Err(Error::usage(what, format!("copy `{name}` to manifest.json, then compact again")));
        }
        Ok(older)
    }

    fn leaving<'a>(
        &self,
        names: &[String],
        older: impl Iterator<Item = &'a Manifest>,
    ) -> Result<BTreeMap<String, u64>> {
        let stays: HashSet<&str> = self.manifest.files().map(|(_, file)| file.name.as_str()).collect();
        let listed: HashSet<&str> = older.flat_map(Manifest::files).map(|(_, file)| file.name.as_str()).collect();
        let mut leaving = BTreeMap::new();
        for name in names.iter().filter(|name| !stays.contains(name.as_str())) {
            let (is_listed, written_for) = (listed.contains(name.as_str()), oldest_generation(name));
            if !is_listed && written_for.is_none() {
                continue;
            }
            let ends = match self.target.read_ends(name, HEADER_BYTES, FOOTER_BYTES) {
                // Skip a folder or a symlink that is named like a shard.
                Err(_) if !is_listed => continue,
                other => other?,
            };
            let by_footer =
                || Footer::parse(&ends.tail, ends.bytes, &Limits::none()).ok().map(|footer| footer.identity);
            let identity = Identity::parse_header(&ends.head).ok().or_else(by_footer);
            let is_own = |identity: &Identity| identity.dataset_id == self.manifest.dataset_id;
            match identity {
                Some(identity) if is_own(&identity) => self.refuse_later(name, is_listed, written_for, &identity)?,
                Some(_) => continue,
                None if is_listed => return Err(self.unknown(name, self.manifest.dataset_id)),
                None => continue,
            }
            leaving.insert(name.clone(), ends.bytes);
        }
        Ok(leaving)
    }

    /// Refuses a shard of a later generation, which shows that this manifest is outdated.
    fn refuse_later(&self, name: &str, is_listed: bool, written_for: Option<u32>, identity: &Identity) -> Result<()> {
        let own = self.manifest.generation();
        let count = self.manifest.shards.len() as u64;
        if is_listed || (u64::from(identity.shard_number) < count && written_for <= Some(own)) {
            return Ok(());
        }
        let what = format!(
            "`{}` (shard {}) belongs to a generation after {own}, but no manifest lists it",
            self.target.file(name).display(),
            identity.shard_number
        );
        Err(Error::usage(what, "restore the newest manifest.json from a backup, or move this shard to another folder"))
    }

    fn unknown(&self, name: &str, id: DatasetId) -> Error {
        let what = format!(
            "`{}` is not a shard of dataset {id}, although an older generation lists it; nothing was deleted",
            self.target.file(name).display()
        );
        Error::usage(what, "move this file out of the folder or delete it, then compact again")
    }
}
