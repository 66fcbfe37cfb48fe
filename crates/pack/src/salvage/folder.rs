//! Finds the shards to scan in the folder of a damaged dataset.

use super::options::SalvageOptions;
use crate::{Context, bail};
use shardpack_format::{Hint, Limits, MANIFEST_NAME, Manifest, Note, Setting, visible_path};
use shardpack_io::Storage;
use shardpack_reader::{Newest, SalvageFolder, SalvageScan};
use shardpack_sources::words::plural;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns a note about the manifest that salvage uses, or `None` for a first-generation dataset whose manifest
/// is in place.
pub(super) fn taken_from(newest: &Newest) -> Option<Note> {
    let (name, manifest) = newest.manifest.as_ref()?;
    let generation = manifest.generation();
    (generation > 1 || name != MANIFEST_NAME)
        .then(|| Note::new(format!("using generation {generation}, as listed in `{name}`")))
}

#[derive(Default)]
pub(super) struct DamagedFolder {
    pub(super) shards: Vec<PathBuf>,
    pub(super) manifest: Option<Manifest>,
    pub(super) damage: Vec<String>,
    pub(super) notes: Vec<Note>,
    root: PathBuf,
    /// The folder, or `None` for a lone shard.
    folder: Option<SalvageFolder>,
}

impl DamagedFolder {
    pub(super) fn look(path: &Path, options: &SalvageOptions) -> crate::Result<Self> {
        if !fs::metadata(path).with_context(|| format!("cannot open `{}`", visible_path(path)))?.is_dir() {
            return Ok(Self { shards: vec![path.to_owned()], ..Self::default() });
        }
        Self::of_folder(SalvageFolder::open(path)?, options)
    }

    /// Looks at a folder in a store, or at its shard `name`.
    pub(super) fn look_in(
        storage: Arc<dyn Storage>,
        name: Option<&str>,
        options: &SalvageOptions,
    ) -> crate::Result<Self> {
        let folder = SalvageFolder::open_in(storage);
        let Some(name) = name else { return Self::of_folder(folder, options) };
        let root = folder.path().to_owned();
        Ok(Self { shards: vec![root.join(name)], root, folder: Some(folder), ..Self::default() })
    }

    fn of_folder(folder: SalvageFolder, options: &SalvageOptions) -> crate::Result<Self> {
        let path = folder.path().to_owned();
        let path = path.as_path();
        let names = folder.shard_names()?;
        let newest = folder.newest(&options.limits)?;
        if newest.manifest.is_some() || !names.is_empty() {
            newest.known_or(options.all_generations, path)?;
        }
        let damage = newest.damage.iter().map(ToString::to_string).collect();
        let mut notes = Vec::new();
        if !newest.is_certain {
            notes.push(Note::new("removed samples may be copied too: no manifest shows which samples were removed"));
        }
        let taken = taken_from(&newest);
        let manifest = newest.manifest.map(|(_, manifest)| manifest);
        let mut shards: Vec<PathBuf> =
            manifest.iter().flat_map(|m| &m.shards).map(|shard| path.join(&shard.name)).collect();
        // The manifest may be stale or belong to another dataset, so scan other files that look like shards
        // too. If the dataset has several generations, these files may contain removed samples, so scan them
        // only with `all_generations`.
        let listed: BTreeSet<&PathBuf> = shards.iter().collect();
        let mut others: Vec<PathBuf> = names.into_iter().map(|name| path.join(name)).collect();
        others.retain(|shard| !listed.contains(shard));
        if manifest.as_ref().is_some_and(|manifest| manifest.generation() > 1) && !others.is_empty() {
            let count = plural(others.len() as u64, "shard");
            notes.push(match options.all_generations {
                true if !newest.is_certain => {
                    Note::new(format!("samples are also copied from {count} of other generations"))
                }
                true => Note::new(format!(
                    "samples are also copied from {count} of older generations, including removed samples"
                )),
                false => Note::new(format!(
                    "left out {count} of older generations, because they may contain removed samples"
                ))
                .with_hint(Hint::new("pass ").and([Setting::on("all_generations")]).then(" to copy them too")),
            });
            if !options.all_generations {
                others.clear();
            }
        }
        notes.extend(taken);
        let columns = folder.columns_file_names()?.len() as u64;
        if columns > 0 {
            let files = plural(columns, "columns file");
            let note = Note::new(format!("left out {files}: the copy has no columns that were added later"));
            notes.push(note.with_hint("add the columns to the copy again"));
        }
        shards.extend(others);
        shards.sort();
        if shards.is_empty() {
            bail!(
                "`{}` is neither a dataset nor a shard: it contains no manifest and no .shard files",
                visible_path(path)
            );
        }
        let root = path.to_owned();
        Ok(Self { shards, manifest, damage, notes, root, folder: Some(folder) })
    }

    pub(super) fn scan(&self, shard: &Path, limits: &Limits) -> shardpack_reader::Result<SalvageScan> {
        let name = shard.strip_prefix(&self.root).ok().and_then(Path::to_str);
        match (&self.folder, name) {
            (Some(folder), Some(name)) => folder.scan(name, limits),
            _ => SalvageScan::open(shard, limits),
        }
    }

    /// Returns true if the manifest belongs to a later generation and no longer lists this shard.
    pub(super) fn is_older(&self, shard: &Path) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.generation() > 1) && self.samples(shard).is_none()
    }

    pub(super) fn samples(&self, shard: &Path) -> Option<u64> {
        let entries = &self.manifest.as_ref()?.shards;
        entries.iter().find(|entry| self.root.join(&entry.name) == shard).map(|entry| entry.samples)
    }
}
