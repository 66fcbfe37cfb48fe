//! Adds new samples to a dataset.

use super::add_options::AddOptions;
use super::held::{self, FreshSamples};
use super::{fit, open, recipe, refuse_columns};
use crate::pack::{Destination, Hooks, NextGeneration, PackOptions, PackReport, pack_into, refuse_overlap};
use crate::pool::on_pool;
use serde_json::{Value, json};
use shardpack_sources::SourceKind;
use shardpack_writer::{Growth, Output, Report};
use std::path::Path;

/// The result of [`add`].
#[derive(Debug)]
pub struct AddReport {
    /// The packing report. Its `samples` counts the new samples, or all samples if there was nothing to add.
    pub packed: PackReport,
    /// Number of the newest generation.
    pub generation: u32,
    /// Number of samples in the newest generation.
    pub samples: u64,
    /// New classes, ordered by class number.
    pub new_classes: Vec<String>,
    /// Number of samples skipped because their keys are already in the dataset.
    pub known: u64,
}

impl AddReport {
    /// Returns the JSON object printed by `add --json`.
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

/// Packs `src` as the next generation of the dataset in the folder `dataset`, or in a
/// [`shardpack_writer::Bucket`], using that dataset's recipe. Older generations do not change.
///
/// An interrupted run leaves the dataset unchanged, and repeating the call continues the run.
///
/// # Errors
/// Fails if there is no dataset, or if it was not packed from files; if a key already exists and the policy is
/// to stop; if the new samples do not fit the dataset's fields; otherwise as [`pack`](crate::pack::pack).
pub fn add(dataset: impl Into<Output>, src: &Path, given: &AddOptions, hooks: &Hooks<'_>) -> crate::Result<AddReport> {
    let dataset = &dataset.into();
    given.check()?;
    refuse_overlap(src, dataset.path(), &given.files)?;
    refuse_overlap(src, dataset.folder(), &given.files)?;
    let growth = Growth::take(dataset.clone())?;
    let opened = open(dataset, &given.limits)?;
    let base = growth.manifest();
    refuse_columns(base)?;
    let (options, fields) = recipe::read(dataset.path(), base, given)?;
    let mut listing = on_pool(options.threads, || shardpack_sources::enumerate(src, &options.source))??;
    let new_classes = fit::classes(&mut listing, base.classes.as_deref())?;
    fit::refuse_more(&listing, &base.schema, &options)?;
    let own = fields.declare(&listing, &options.pictures);
    fit::columns(&mut listing, &base.schema, &own)?;
    let count = listing.samples.len();
    let FreshSamples { listing, notes } = held::without(listing, dataset, &opened, given)?;
    let Some(listing) = listing else {
        let report = growth.unchanged()?;
        let report = nothing_to_add(report, base.generation(), &options, count as u64);
        return Ok(AddReport { packed: PackReport { notes, ..report.packed }, ..report });
    };
    let known = (count - listing.samples.len()) as u64;
    let destination = Destination::Behind(NextGeneration { growth: &growth, opened: &opened });
    let mut packed = pack_into(&destination, &listing, fields, &options, hooks)?;
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
