//! Packs new samples for an existing dataset as its next generation (spec §3.5).

use super::folder::FolderSource;
use crate::bail;
use crate::encode::FidelityTotals;
use serde_json::{Map, Value, json};
use shardpack_format::{Field, Metadata, Note, Schema};
use shardpack_reader::Dataset;
use shardpack_writer::{Growth, Next, Plan, Report, SampleSource, Tally as _, WriteOptions};
use std::collections::BTreeMap;

/// An existing dataset to add samples to. Its existing shards do not change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextGeneration<'a> {
    pub(crate) growth: &'a Growth<'static>,
    pub(crate) opened: &'a Dataset,
}

impl NextGeneration<'_> {
    pub(super) fn plan(&self, plan: Plan) -> crate::Result<Plan> {
        Ok(plan.behind(self.growth.manifest(), first_id(self.opened)?)?)
    }

    /// Returns the schema, classes and recipe for the new samples. The schema and the recipe are the dataset's own.
    pub(super) fn metadata(&self, source: &FolderSource<'_>) -> crate::Result<Metadata> {
        let base = self.growth.manifest();
        refuse_other_fields(&base.schema, source.schema())?;
        // If the dataset has classes, the next generation has them too, even if no new sample is labelled.
        let classes = base.classes.as_ref().map(|_| source.listing().classes.clone());
        Ok(Metadata { schema: base.schema.clone(), classes, recipe: base.shard_recipe(), shards: None })
    }

    pub(crate) fn write<E: From<shardpack_reader::Error> + From<shardpack_writer::Error>>(
        &self,
        plan: &Plan,
        source: &impl SampleSource<Tally = FidelityTotals>,
        options: &WriteOptions<'_>,
    ) -> Result<Report, E> {
        let mut kept = BTreeMap::new();
        for (place, number) in (0..).zip(self.opened.shard_numbers()) {
            kept.insert(place, FidelityTotals::of_shard(&*self.opened.shard(number)?));
        }
        let fidelity = |total: &FidelityTotals| with_notes(total.fidelity(), &self.growth.manifest().fidelity);
        Ok(self.growth.write(plan, source, Next { kept, fidelity: &fidelity }, options)?)
    }
}

pub(crate) fn first_id(opened: &Dataset) -> shardpack_reader::Result<u64> {
    let mut next = 0;
    for number in opened.shard_numbers() {
        let shard = opened.shard(number)?;
        for record in 0..shard.len() {
            next = next.max(shard.row(record)?.sample_id.saturating_add(1));
        }
    }
    Ok(next)
}

fn refuse_other_fields(expected: &Schema, found: &Schema) -> crate::Result<()> {
    let words = |field: Option<&Field>| match field {
        None => "no field".to_owned(),
        Some(Field { name, kind, dtype }) => {
            let dtype = dtype.map(|dtype| format!(" of {dtype}")).unwrap_or_default();
            format!("`{}` ({}{dtype})", name.escape_debug(), format!("{kind:?}").to_lowercase())
        }
    };
    let count = expected.fields().len().max(found.fields().len());
    let differs = (0..count).find(|&number| expected.fields().get(number) != found.fields().get(number));
    let Some(number) = differs else { return Ok(()) };
    let text = format!(
        "field {number} differs: the dataset has {}, but the new samples have {}",
        words(expected.fields().get(number)),
        words(found.fields().get(number))
    );
    bail!(Note::new(text).with_hint("pack the new samples into another dataset, and load both datasets with `concat`"))
}

/// Adds the facts that only the previous manifest has: the reasons for storing pictures unchanged,
/// and figures from other programs.
pub(crate) fn with_notes(mut figures: Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    for (field, noted) in before {
        let Some(entry) = figures.get_mut(field) else {
            figures.insert(field.clone(), noted.clone());
            continue;
        };
        let (Some(entry), Some(noted)) = (entry.as_object_mut(), noted.as_object()) else { continue };
        for name in ["profiles_dropped", "below_target"] {
            add_count(entry, name, noted.get(name));
        }
        let reasons = noted.get("kept_because").and_then(Value::as_object);
        for (why, count) in reasons.into_iter().flatten() {
            let all = entry.entry("kept_because").or_insert_with(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                add_count(all, why, Some(count));
            }
        }
    }
    figures
}

fn add_count(to: &mut Map<String, Value>, name: &str, count: Option<&Value>) {
    let Some(count) = count.and_then(Value::as_u64).filter(|&count| count > 0) else { return };
    let sum = to.get(name).and_then(Value::as_u64).unwrap_or(0).saturating_add(count);
    to.insert(name.to_owned(), json!(sum));
}
