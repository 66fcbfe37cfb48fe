//! Compares the shards with each other: they must belong to the same dataset and have the same schema, and no number,
//! key or id may occur twice.

use super::problem::Problem;
use super::target::Target;
use super::unique::Unique;
use shardpack_format::{DatasetId, Error as FormatError, Limits, Manifest, SharedMetadata};
use std::collections::HashSet;

/// Identity and metadata of each shard, compared once all shards have been opened.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) unique: Unique,
    /// Target, dataset, number and metadata of each shard. Equal metadata is stored once.
    identities: Vec<(usize, DatasetId, u32, SharedMetadata)>,
}

impl Statements {
    pub(super) fn known(&self) -> Option<SharedMetadata> {
        self.identities.first().map(|(.., metadata)| metadata.clone())
    }

    pub(super) fn push(&mut self, target: usize, id: DatasetId, number: u32, metadata: SharedMetadata) {
        self.identities.push((target, id, number, metadata));
    }

    pub(super) fn problems(mut self, targets: &[Target], manifest: Option<&Manifest>, limits: &Limits) -> Vec<Problem> {
        let mut out = Vec::new();
        let file =
            |target: usize| targets.get(target).map(|t| t.path.to_string_lossy().into_owned()).unwrap_or_default();
        let mut put = |target: usize, error: FormatError| out.push(Problem::new(file(target), error));
        self.identities.sort_by_key(|(target, ..)| *target);
        let Some((_, first_id, _, first_metadata)) = &self.identities.first().cloned() else { return out };
        let mut numbers = HashSet::new();
        let recipe = manifest.map(Manifest::shard_recipe);
        for (target, id, number, shared) in &self.identities {
            let metadata = shared.metadata();
            if let Some(count) = metadata.shards
                && manifest.map_or(count as usize != targets.len(), |manifest| !manifest.has_shards(count))
                && (manifest.is_some() || targets.len() > 1)
            {
                let expected = format!("{count} (recorded in the shard)");
                let found = manifest.map_or(targets.len(), |manifest| manifest.shards.len());
                put(*target, FormatError::format("number of shards", expected, found));
            }
            if let Some(manifest) = manifest {
                // Opening the shard has already compared the dataset id, number, size, counts and schema.
                if !manifest.has_classes(metadata.classes.as_deref()) {
                    put(
                        *target,
                        FormatError::malformed("the classes of the shard differ from the classes in the manifest"),
                    );
                }
                if Some(&metadata.recipe) != recipe.as_ref() {
                    put(
                        *target,
                        FormatError::malformed("the recipe of the shard differs from the recipe in the manifest"),
                    );
                }
                continue;
            }
            if id != first_id {
                let expected = format!("{first_id} (from the first shard)");
                put(*target, FormatError::format("dataset id of the shard", expected, id));
            } else if !shared.is_same(first_metadata) && metadata != first_metadata.metadata() {
                put(
                    *target,
                    FormatError::malformed("the schema, classes or recipe differ from those in the first shard"),
                );
            }
            if !numbers.insert(*number) {
                put(*target, FormatError::malformed(format!("another shard also has number {number}")));
            }
        }
        for (what, (target, record), (other, other_record)) in self.unique.duplicates() {
            let name = targets.get(other).map_or("", |t| t.name.as_str()).escape_debug();
            let text = format!("the {what} is not unique: record {other_record} of `{name}` has it too");
            let error = FormatError::malformed(text).in_record(record);
            let key = targets.get(target).and_then(|t| t.key(record, limits));
            let error = key.into_iter().fold(error, FormatError::in_sample);
            out.push(Problem::new(file(target), error));
        }
        out
    }
}
