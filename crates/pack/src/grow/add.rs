//! New samples behind those of a dataset.

use super::{behind, fit, known, open, recipe};
use crate::arguments::MAX_BYTES;
use crate::pack::cubes::{self, Cubes};
use crate::pack::images::{self, Images};
use crate::pack::{Hooks, PackOptions, PackReport, Planned, Tally, default_memory, plan_of, refuse_overlap, schema};
use anyhow::bail;
use serde_json::{Value, json};
use shardpack_array::Trial;
use shardpack_format::{Field, Hinted, Metadata, Schema};
use shardpack_reader::{Dataset, Limits};
use shardpack_recipe::Word;
use shardpack_sources::{Files, Listing, OnBadInput, SourceKind};
use shardpack_writer::{Growth, Next, Report, SampleSource, Tally as _, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What to do about samples whose keys the dataset holds already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnKnownKey {
    /// Stop before anything is written.
    #[default]
    Stop,
    /// Leave them out, and count them.
    Skip,
}

impl Word for OnKnownKey {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[("stop", Self::Stop, ""), ("skip", Self::Skip, "")];
}

/// Options of [`add`]. How samples are stored, the recipe of the dataset says.
///
/// ```
/// use shardpack_pack::grow::{AddOptions, OnKnownKey};
/// assert_eq!(AddOptions::default().on_known_key, OnKnownKey::Stop);
/// ```
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// Table of labels; needed if the dataset was packed with one. Default: none.
    pub labels: Option<PathBuf>,
    /// Name of the column of `labels` that holds the keys. Default: the one that the dataset was
    /// packed with, if it was named then; else the first that has one of the usual names.
    pub key_column: Option<String>,
    /// Name of the column of `labels` that holds the labels. Default: the one that the dataset was
    /// packed with.
    pub label_column: Option<String>,
    /// Folder of masks. Default: none.
    pub masks: Option<PathBuf>,
    /// Follow symbolic links that lead out of the source. Default: false, as for every packing.
    pub follow_links: bool,
    /// What to do about files that cannot be packed. Default: as the dataset was packed.
    pub on_bad_input: Option<OnBadInput>,
    /// What to do about keys that are there already. Default: stop.
    pub on_known_key: OnKnownKey,
    /// Largest cube to accept, in decoded bytes. Default 4 GiB.
    pub max_cube: u64,
    /// Drop what an interrupted addition or removal has made so far. Default: false.
    pub force: bool,
    /// Threads that read and encode. Default: all cores.
    pub threads: usize,
    /// As for [`PackOptions`].
    pub memory_bytes: Option<u64>,
    /// What the dataset's files may ask for. Default: records and decoded fields up to 4 GiB.
    pub limits: Limits,
    /// Set it to stop while files are listed. Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self {
            labels: None,
            key_column: None,
            label_column: None,
            masks: None,
            follow_links: false,
            on_bad_input: None,
            on_known_key: OnKnownKey::Stop,
            max_cube: MAX_BYTES,
            force: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: None,
            limits: Limits { max_record_bytes: MAX_BYTES, max_decoded_bytes: MAX_BYTES, ..Limits::default() },
            cancel: None,
        }
    }
}

/// What [`add`] did.
#[derive(Debug)]
pub struct AddReport {
    /// What was packed. `samples` counts the new ones; if there was nothing to add, all.
    pub packed: PackReport,
    /// The newest generation.
    pub generation: u32,
    /// Samples of that generation.
    pub samples: u64,
    /// Classes that the dataset did not have, in the order of their numbers.
    pub new_classes: Vec<String>,
    /// Samples that were left out because the dataset holds their keys.
    pub known: u64,
}

impl AddReport {
    /// The object that `add --json` prints.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = self.packed.to_json();
        out["generation"] = json!(self.generation);
        out["samples_of_dataset"] = json!(self.samples);
        out["new_classes"] = json!(self.new_classes);
        out["known"] = json!(self.known);
        out
    }
}

/// Packs `src` behind the samples of the dataset in the folder `dataset`, by the dataset's own
/// recipe, as its next generation. No byte of an older generation changes.
///
/// An interrupted run leaves the dataset as it was, and the same call goes on from there.
///
/// # Errors
/// If there is no dataset, or one that was not packed from files; if a key is there already (under
/// the policy to stop); if the new samples do not fit its fields; else as
/// [`pack`](crate::pack::pack).
pub fn add(dataset: &Path, src: &Path, given: &AddOptions, hooks: &Hooks<'_>) -> anyhow::Result<AddReport> {
    given.check()?;
    refuse_overlap(src, dataset, &Files::default())?;
    let growth = Growth::take(dataset)?;
    let opened = open(dataset, &given.limits)?;
    let base = growth.manifest();
    let recipe::Known { options, trials } = recipe::read(dataset, base, given)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let mut listing = pool.install(|| shardpack_sources::enumerate(src, &options.source))?;
    let new_classes = fit::classes(&mut listing, base.classes.as_deref())?;
    fit::refuse_more(&listing, &base.schema, &options)?;
    let icc = base.schema.fields().iter().any(|field| field.name == "icc");
    let beside = images::Beside { icc, masks: trials.first().map(|(_, trial)| trial.clone()) };
    let own = match listing.kind {
        SourceKind::Images => images::fields(&listing, &options.pictures, &beside),
        SourceKind::Cubes => cubes::fields(&listing, trials.len() > 1),
    };
    fit::columns(&mut listing, &base.schema, &own)?;
    let count = listing.samples.len();
    let known::Fresh { listing, notes } = known::without(listing, dataset, &opened, given)?;
    let Some(listing) = listing else {
        let report = growth.unchanged()?;
        let report = nothing_to_add(report, base.generation(), &options, count as u64);
        return Ok(AddReport { packed: PackReport { notes, ..report.packed }, ..report });
    };
    let known = (count - listing.samples.len()) as u64;
    let adding = Adding { growth: &growth, opened: &opened, options: &options, hooks };
    let mut packed = match listing.kind {
        SourceKind::Images => {
            let source = pool.install(|| Images::new(&listing, &options, &beside))?;
            drop(pool);
            let stored: Vec<u64> = listing.samples.iter().map(|entry| source.estimate(entry)).collect();
            let mut packed = adding.run(&listing, source.fields(), &stored, &source, trials)?;
            packed.add_odd(source.odd());
            packed
        }
        SourceKind::Cubes => {
            drop(pool);
            let source = Cubes::with_trials(&listing, &options, trials)?;
            let stored: Vec<u64> = listing.samples.iter().map(|entry| source.estimate(entry)).collect();
            let mut packed = adding.run(&listing, source.fields(), &stored, &source, source.trials().to_vec())?;
            packed.notes.extend(source.unfit_note());
            packed
        }
    };
    packed.notes.extend(notes);
    for note in &mut packed.notes {
        note.hint = note.hint.take().filter(AddOptions::can_follow);
    }
    let generation = open(dataset, &given.limits)?;
    Ok(AddReport { packed, generation: generation.generation(), samples: generation.len(), new_classes, known })
}

fn nothing_to_add(mut report: Report, generation: u32, options: &PackOptions, known: u64) -> AddReport {
    let (samples, kind) = (report.samples, options.source.kind.unwrap_or(SourceKind::Images));
    report.samples = 0;
    AddReport { packed: PackReport::unchanged(kind, report), generation, samples, new_classes: Vec::new(), known }
}

/// What does not depend on what the samples are.
struct Adding<'a> {
    growth: &'a Growth<'static>,
    opened: &'a Dataset,
    options: &'a PackOptions,
    hooks: &'a Hooks<'a>,
}

impl Adding<'_> {
    fn run<S: SampleSource<Tally = Tally>>(
        &self,
        listing: &Listing,
        fields: Vec<Field>,
        stored: &[u64],
        source: &S,
        trials: Vec<(String, Trial)>,
    ) -> anyhow::Result<PackReport> {
        let base = self.growth.manifest();
        let metadata = schema::metadata(listing, fields, base.shard_recipe())?;
        refuse_other_fields(&base.schema, &metadata.schema)?;
        // The dataset has classes if it had any, also if no new sample has one.
        let metadata = Metadata { classes: base.classes.as_ref().map(|_| listing.classes.clone()), ..metadata };
        let plan = plan_of(listing, Ok(metadata), stored, self.options)?;
        let plan = plan.behind(base, behind::first_id(self.opened)?)?;
        let largest = (0..listing.samples.len() as u64).map(|i| source.memory_bytes(i)).max().unwrap_or(0);
        let threads = self.options.threads;
        let memory_bytes = self.options.memory_bytes.unwrap_or_else(|| default_memory(threads, largest));
        (self.hooks.on_plan)(&Planned {
            split: None,
            kind: listing.kind,
            samples: plan.sample_count(),
            source_bytes: listing.source_bytes(),
            shards: plan.shard_count(),
            trials: &[],
            memory_bytes,
            threads,
        });
        let write = WriteOptions {
            threads,
            memory_bytes,
            part: None,
            force: self.options.force,
            on_progress: Some(self.hooks.on_progress),
            cancel: Some(self.hooks.cancel),
        };
        let kept = behind::kept(self.opened)?;
        let fidelity = |total: &Tally| behind::with_notes(total.fidelity(), &base.fidelity);
        let report = self.growth.write(&plan, source, Next { kept, fidelity: &fidelity }, &write)?;
        Ok(PackReport::of(listing, report, trials, memory_bytes))
    }
}

/// Says which field is not the dataset's.
fn refuse_other_fields(expected: &Schema, found: &Schema) -> anyhow::Result<()> {
    let words = |field: Option<&Field>| match field {
        None => "no more fields".to_owned(),
        Some(Field { name, kind, dtype }) => {
            let dtype = dtype.map(|dtype| format!(" of {dtype}")).unwrap_or_default();
            format!("`{}`, {}{dtype}", name.escape_debug(), format!("{kind:?}").to_lowercase())
        }
    };
    let count = expected.fields().len().max(found.fields().len());
    let differs = (0..count).find(|&number| expected.fields().get(number) != found.fields().get(number));
    let Some(number) = differs else { return Ok(()) };
    let text = format!(
        "field {number} of the new samples: expected {}, as in the dataset, found {}",
        words(expected.fields().get(number)),
        words(found.fields().get(number))
    );
    bail!(Hinted::new(text, "another version may have packed the dataset; `concat` takes two datasets as one"))
}
