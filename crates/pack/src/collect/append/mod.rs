//! Adds samples from a program to a dataset as its next generation (spec §3.5).
//!
//! The existing dataset determines the schema, the classes and the recipe. Anything that the caller declares
//! must match them.

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
use shardpack_recipe::{ArgumentError, Given, OptionValue, StorageOptions};
use shardpack_writer::{Growth, Output};
use std::sync::Mutex;

/// Options for adding samples to a dataset. The dataset determines how samples are stored.
///
/// ```
/// use shardpack_pack::collect::AppendOptions;
/// use shardpack_pack::grow::OnKnownKey;
/// assert_eq!(AppendOptions::default().on_known_key, OnKnownKey::Stop);
/// ```
#[derive(Debug, Clone)]
pub struct AppendOptions {
    /// Class names that the labels of the new samples refer to, numbered from 0. Known classes keep their
    /// numbers in the dataset, and new classes get the next free numbers. Default: labels are the dataset's own
    /// class numbers.
    pub classes: Option<Vec<String>>,
    /// Policy for samples whose keys are already in the dataset. Default: stop.
    pub on_known_key: OnKnownKey,
    /// Packing options by name, such as `codec` and `shard_size`. An option that the dataset
    /// records must have the recorded value. Any other option is used as given. Default: none.
    pub storage: Vec<(String, OptionValue)>,
    /// Drop the unfinished result of an interrupted addition or removal. Default: false.
    pub force: bool,
    /// Same as [`CollectOptions::threads`].
    pub threads: usize,
    /// Same as [`CollectOptions::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// Limits on the sizes that the dataset's files may declare. Default: records and decoded fields up to 4 GiB.
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
            limits: grow::default_limits(),
        }
    }
}

impl AppendOptions {
    /// Parses packing options by name. [`Collector::append`](super::Collector::append) later compares the
    /// storage options with the dataset's.
    ///
    /// # Errors
    /// Fails if an option does not exist, has an invalid value, or does not apply to an existing dataset.
    pub fn read(given: Vec<(String, OptionValue)>) -> Result<Self, ArgumentError> {
        let mut options = Self::default();
        for (name, value) in given {
            let value = &value;
            match name.as_str() {
                "force" => options.force = Given { option: "force", value }.switch()?,
                "threads" => options.threads = Given { option: "threads", value }.threads()?,
                "memory" => options.memory_bytes = Some(Given { option: "memory", value }.size()?),
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

#[derive(Debug)]
pub(super) struct Addition {
    pub(super) growth: Growth<'static>,
    pub(super) first_id: u64,
    pub(super) classes: Option<Vec<String>>,
    pub(super) new_classes: usize,
    pub(super) held: HeldSamples,
    pub(super) begun: Mutex<Option<BegunCommit>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BegunCommit {
    samples: u64,
    generation: u32,
}

pub(super) struct OpenedDataset {
    pub(super) addition: Addition,
    pub(super) layout: ProgramLayout,
    pub(super) options: CollectOptions,
}

impl Addition {
    /// Opens and locks the dataset in the folder `out`.
    pub(super) fn open(out: &Output, schema: Option<&[(String, Kind)]>, given: AppendOptions) -> Result<OpenedDataset> {
        let AppendOptions { classes, on_known_key, storage, force, threads, memory_bytes, limits } = given;
        if threads == 0 {
            return Err(CollectError::usage("the number of threads must be at least 1, not 0", ""));
        }
        refuse_none(out)?;
        let growth = Growth::take(out.clone())?;
        growth.clear(force)?;
        let opened = grow::open(out, &limits)?;
        let base = growth.manifest();
        grow::refuse_columns(base).map_err(shardpack_format::Error::Usage)?;
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
        // Build the table of keys now, so that damage is reported before the caller adds samples.
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

/// Fails if the folder contains no dataset, because locking would otherwise create a lock file there.
fn refuse_none(out: &Output) -> Result<()> {
    let local = || std::fs::read_dir(out.path()).into_iter().flatten().flatten();
    let names: Vec<String> = match out.storage() {
        Some(store) => store.names().map_err(shardpack_writer::Error::from)?,
        None => local().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
    };
    let is_one = |name: &str| name == MANIFEST_NAME || generation_of_name(name).is_some();
    // If only the newest manifest is missing, the writer reports the older one when it opens the folder.
    if names.iter().any(|name| is_one(name)) {
        return Ok(());
    }
    let hint = Hint::new("omit ").and([Setting::on("append")]).then(" to create a new dataset there");
    Err(CollectError::usage(format!("`{}` is not a dataset: it has no manifest.json", out.path().display()), hint))
}
