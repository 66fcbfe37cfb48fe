//! New samples behind those of a dataset.

use super::{AddOptions, behind, fit, known, open, recipe};
use crate::bail;
use crate::pack::cubes::{self, Cubes};
use crate::pack::images::{self, Images};
use crate::pack::{Hooks, PackOptions, PackReport, Planned, Tally, default_memory, plan_of, refuse_overlap, schema};
use serde_json::{Value, json};
use shardpack_array::Trial;
use shardpack_format::{Field, Hinted, Metadata, Schema};
use shardpack_reader::Dataset;
use shardpack_sources::{Files, Listing, SourceKind};
use shardpack_writer::{Growth, Next, Report, SampleSource, Tally as _, WriteOptions};
use std::path::Path;

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
pub fn add(dataset: &Path, src: &Path, given: &AddOptions, hooks: &Hooks<'_>) -> crate::Result<AddReport> {
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
    ) -> crate::Result<PackReport> {
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
fn refuse_other_fields(expected: &Schema, found: &Schema) -> crate::Result<()> {
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
