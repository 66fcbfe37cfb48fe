//! Samples of a program behind those of a dataset: its next generation (spec §3.5).
//!
//! The dataset says what a sample is and how it is stored: its schema, its classes, and its recipe. So
//! nothing is decided here, and whatever the caller says of it must be the same.

mod commit;
mod fields;
mod held;
mod recipe;
#[cfg(test)]
mod tests;

use super::error::{CollectError, Result};
use super::kind::Kind;
use super::labels::{self, JoinedClasses};
use super::layout::{LayoutOrigin, ProgramLayout};
use super::options::CollectOptions;
use crate::grow::{self, OnKnownKey};
use crate::pack::first_id;
use held::HeldSamples;
use shardpack_format::{Hint, MANIFEST_NAME, Setting, generation_of_name};
use shardpack_reader::Limits;
use shardpack_recipe::{ArgumentError, Given, MAX_BYTES, StorageOptions, Value};
use shardpack_writer::Growth;
use std::path::Path;
use std::sync::Mutex;

/// How samples are added to a dataset. How they are stored, the dataset says.
///
/// ```
/// use shardpack_pack::collect::AppendOptions;
/// use shardpack_pack::grow::OnKnownKey;
/// assert_eq!(AppendOptions::default().on_known_key, OnKnownKey::Stop);
/// ```
#[derive(Debug, Clone)]
pub struct AppendOptions {
    /// Names of the classes that labels of new samples count into, from 0. They are matched by name
    /// with those of the dataset; new ones get the next numbers, in this order. Default: labels count
    /// into the classes of the dataset.
    pub classes: Option<Vec<String>>,
    /// What to do about samples whose keys the dataset holds already. Default: stop.
    pub on_known_key: OnKnownKey,
    /// Options of packing by name, such as `codec` and `shard_size`: each must be what the dataset was
    /// written with. One that the dataset says nothing of is used. Default: none.
    pub storage: Vec<(String, Value)>,
    /// Drop what an interrupted addition or removal of files has made so far. Default: false.
    pub force: bool,
    /// As for [`CollectOptions`].
    pub threads: usize,
    /// As for [`CollectOptions`].
    pub memory_bytes: Option<u64>,
    /// What the dataset's files may ask for. Default: records and decoded fields up to 4 GiB.
    pub limits: Limits,
}

impl Default for AppendOptions {
    fn default() -> Self {
        let CollectOptions { threads, memory_bytes, .. } = CollectOptions::default();
        Self {
            classes: None,
            on_known_key: OnKnownKey::Stop,
            storage: Vec::new(),
            force: false,
            threads,
            memory_bytes,
            limits: Limits { max_record_bytes: MAX_BYTES, max_decoded_bytes: MAX_BYTES, ..Limits::default() },
        }
    }
}

impl AppendOptions {
    /// The options of packing that were given, by name. Those that say how samples are stored are compared
    /// with the dataset once it is opened.
    ///
    /// # Errors
    /// If there is no such option, it cannot have its value, or it has no meaning for a dataset that is
    /// there.
    pub fn read(given: Vec<(String, Value)>) -> Result<Self, ArgumentError> {
        let mut options = Self::default();
        for (name, value) in given {
            let value = &value;
            match name.as_str() {
                "force" => options.force = Given { option: "force", value }.switch()?,
                "threads" => options.threads = Given { option: "threads", value }.threads()?,
                "memory" => options.memory_bytes = Some(Given { option: "memory", value }.size()?),
                "spool" => return Err(without("spool")),
                "take_over" => return Err(without("take_over")),
                storage => {
                    let Some(option) = StorageOptions::option(storage) else { return Err(recipe::unknown(storage)) };
                    StorageOptions::canonical(option, value)?;
                    options.storage.push((name, value.clone()));
                }
            }
        }
        Ok(options)
    }
}

fn without(option: &'static str) -> ArgumentError {
    ArgumentError::new(option, "a URL, and no dataset that is added to", "one")
}

/// A dataset that gets more samples, and what is known of them.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) growth: Growth<'static>,
    /// The first id that no sample has.
    pub(super) first_id: u64,
    /// The classes of the next generation, if the dataset has any.
    pub(super) classes: Option<Vec<String>>,
    /// How many of them are new.
    pub(super) new_classes: usize,
    pub(super) held: HeldSamples,
    /// A commit that was begun and not finished.
    pub(super) begun: Mutex<Option<BegunCommit>>,
}

/// An earlier try to commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct BegunCommit {
    /// How many samples there were.
    samples: u64,
    /// What it was to be.
    generation: u32,
}

/// A dataset, ready for samples.
pub(super) struct OpenedDataset {
    pub(super) addition: Addition,
    pub(super) layout: ProgramLayout,
    pub(super) options: CollectOptions,
}

impl Addition {
    /// Opens the dataset in the folder `out`, and holds its lock.
    pub(super) fn open(out: &Path, schema: Option<&[(String, Kind)]>, given: AppendOptions) -> Result<OpenedDataset> {
        let AppendOptions { classes, on_known_key, storage, force, threads, memory_bytes, limits } = given;
        if threads == 0 {
            return Err(CollectError::usage("threads", "at least 1", "0", ""));
        }
        refuse_none(out)?;
        let growth = Growth::take(out)?;
        growth.clear(force)?;
        let opened = grow::open(out, &limits)?;
        let base = growth.manifest();
        let recipe = recipe::read(base, &storage)?;
        fields::refuse_masks_of_shrunk(base, &recipe)?;
        let layout = fields::layout(&opened, base, &recipe)?;
        if let Some(schema) = schema {
            fields::compare(&layout, schema)?;
        }
        let JoinedClasses { names, new: new_classes, labels } =
            labels::join(base.classes.as_deref(), classes.as_deref())?;
        let origin = LayoutOrigin::Dataset { names_all: schema.is_none() };
        let layout = ProgramLayout { labels, origin, threads, ..layout };
        let options = CollectOptions {
            pictures: layout.pictures.clone(),
            arrays: recipe.arrays,
            classes: names.clone(),
            shard_bytes: recipe.shard_bytes,
            shuffle: recipe.shuffle,
            force: false,
            threads,
            memory_bytes,
        };
        // Also builds the table of keys: damage is found before there are samples to lose.
        opened.by_key("")?;
        let before = grow::before(out, &opened, &limits);
        let addition = Self {
            first_id: first_id(&opened)?,
            classes: names,
            new_classes,
            begun: Mutex::default(),
            held: HeldSamples::new(opened, before, on_known_key),
            growth,
        };
        Ok(OpenedDataset { addition, layout, options })
    }
}

/// Says where there is no dataset, before a lock file is put there.
fn refuse_none(out: &Path) -> Result<()> {
    let names = std::fs::read_dir(out).into_iter().flatten().flatten();
    let is_one = |name: &str| name == MANIFEST_NAME || generation_of_name(name).is_some();
    // Of a dataset without its newest manifest, the writer says which one there is.
    if names.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_one)) {
        return Ok(());
    }
    let hint = Hint::new("without ").and([Setting::on("append")]).then(" a dataset is made there");
    let what = format!("`{}`", out.display());
    Err(CollectError::usage(what, "a dataset to add to: a folder with a manifest.json", "none", hint))
}
