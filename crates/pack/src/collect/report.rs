//! Builds the recipe of a collected dataset, and the report to the program.

use super::kind::Kind;
use super::layout::{FieldEncoder, ProgramLayout};
use super::options::CollectOptions;
use crate::encode::OddPicture;
use crate::pack::report_json;
use serde_json::{Value, json};
use shardpack_array::{ArrayOptions, Trial};
use shardpack_format::Recipe;
use shardpack_recipe::{ArrayRecipe, DatasetRecipe, Order, ProgramRecipe};
use shardpack_writer::Report;

/// The result of [`Collector::commit`](super::Collector::commit).
#[derive(Debug)]
pub struct CollectReport {
    /// The writer's report.
    pub report: Report,
    /// Number of classes, or 0 if there are none.
    pub classes: u64,
    /// Memory limit for samples during writing, in bytes.
    pub memory_bytes: u64,
    /// Number of pictures with more than 8 bits per sample. Loaders decode them to 8 bits.
    pub deep_pictures: u64,
    /// Number of pictures with an alpha channel or another extra band. Extra bands are not decoded.
    pub banded_pictures: u64,
    /// Pictures with oddities that decoders ignore. Each names the key of its sample.
    pub odd_pictures: Vec<OddPicture>,
    /// Codec candidates tried for each array field, best first.
    pub trials: Vec<(String, Trial)>,
    /// The result of an addition to an existing dataset.
    pub appended: Option<Appended>,
}

/// The result of [`Collector::append`](super::Collector::append). The report's figures cover the
/// whole dataset. All other values cover only the new samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Appended {
    /// Number of the newest generation.
    pub generation: u32,
    /// Number of samples in the newest generation.
    pub samples: u64,
    /// New classes, ordered by class number.
    pub new_classes: Vec<String>,
    /// Number of samples skipped because their keys are already in the dataset.
    pub known: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl CollectReport {
    /// Returns the report as JSON, like [`PackReport::to_json`](crate::pack::PackReport::to_json).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = report_json(&self.report);
        out["classes"] = json!(self.classes);
        out["memory_bytes"] = json!(self.memory_bytes);
        out["pictures_over_8_bits"] = json!(self.deep_pictures);
        out["pictures_with_more_bands"] = json!(self.banded_pictures);
        out["odd_pictures"] = json!(self.odd_pictures);
        let settings = self.trials.iter().map(|(field, trial)| (field.clone(), json!(trial.settings)));
        out["settings"] = Value::Object(settings.collect());
        if let Some(appended) = &self.appended {
            out["generation"] = json!(appended.generation);
            out["samples_of_dataset"] = json!(appended.samples);
            out["new_classes"] = json!(appended.new_classes);
            out["known"] = json!(appended.known);
            out["notes"] = json!(appended.notes);
        }
        out
    }
}

pub(super) fn trials(layout: &ProgramLayout) -> Vec<(String, Trial)> {
    chosen(layout).map(|(field, _, trial)| (field, trial)).collect()
}

fn chosen(layout: &ProgramLayout) -> impl Iterator<Item = (String, ArrayOptions, Trial)> {
    layout.fields.iter().filter_map(|field| {
        let FieldEncoder::Array(_, choice) = &field.encoder else { return None };
        let (asked, trial) = choice.chosen()?;
        Some((field.name.clone(), asked, trial))
    })
}

pub(super) fn recipe(layout: &ProgramLayout, options: &CollectOptions) -> Recipe {
    let order = options.shuffle.map_or(Order::Added, Order::Shuffled);
    let fields = layout.fields.iter().map(|field| (field.name.clone(), field.kind.to_string()));
    let mut recipe = ProgramRecipe::new(order, options.shard_bytes, fields);
    for field in layout.fields.iter().filter(|field| field.kind == Kind::Image) {
        recipe.add_pictures(&field.name, &layout.pictures);
    }
    for (field, asked, mut trial) in chosen(layout) {
        // Omit the figures of a single candidate. They describe only the first array, and there was no comparison.
        if trial.table.len() < 2 {
            trial.table.clear();
        }
        recipe.add_arrays(&field, &ArrayRecipe::new(asked, &trial));
    }
    DatasetRecipe::Program(Box::new(recipe)).to_map()
}
