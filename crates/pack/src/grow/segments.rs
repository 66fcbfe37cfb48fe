//! Adds segment indexes to a dataset's pictures (spec §5.5) by rewriting its shards as a new generation.

use super::rewritten_records::RewrittenRecords;
use super::whole_record::ShardRecords;
use super::{RewriteOptions, open};
use crate::bail;
use crate::encode::FidelityTotals;
use crate::pack::with_notes;
use serde::Serialize;
use shardpack_format::{Dtype, Field, FieldKind, Manifest, Metadata, Note, Schema};
use shardpack_recipe::{DatasetRecipe, PictureOptions};
use shardpack_writer::{Growth, Next, Output, Plan, SampleSource as _, Tally as _};
use std::collections::BTreeMap;

/// The result of [`add_indexes`]. `compact --segment-index --json` prints it as the object `segment_index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Number of the newest generation.
    pub generation: u32,
    /// Number of pictures that were given an index.
    pub indexed: u64,
    /// Total size of the new indexes in bytes.
    pub index_bytes: u64,
    /// Number of damaged pictures. They were copied unchanged.
    pub damaged: u64,
    /// Number of rewritten shards, or 0 if the dataset already has indexes.
    pub shards: u32,
    /// Total size of the rewritten shards, in bytes.
    pub bytes_out: u64,
    /// Notes for the user.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Creates a new generation of the dataset in the folder `dataset`, with a segment index for each JPEG that is
/// stored unchanged and can use an index. Rewrites all shards, but does not change the pictures. Added columns become
/// part of the shards. Older generations stay until [`compact`](super::compact) deletes them.
///
/// An interrupted run leaves the dataset unchanged, and repeating the call continues the run. A dataset that
/// already has indexes does not change.
///
/// # Errors
/// Fails if there is no dataset, if it has no pictures that are stored unchanged, if a record is damaged, or if
/// the dataset cannot be written.
pub fn add_indexes(dataset: impl Into<Output>, options: &RewriteOptions<'_>) -> crate::Result<IndexReport> {
    let dataset = &dataset.into();
    let growth = Growth::take(dataset.clone())?;
    let opened = open(dataset, &options.limits)?;
    let base = growth.manifest();
    let wanted = pictures(base);
    if wanted.is_empty() {
        let text = format!(
            "`{}` has no pictures that were stored unchanged, so there is nothing to index",
            dataset.path().display()
        );
        bail!(
            Note::new(text)
                .with_hint("tiled and re-encoded pictures need no segment index: loaders can decode them in parts")
        );
    }
    let has_index = |name: &&str| {
        let index = Field::segments(name);
        base.schema.fields().contains(&index) && base.schema.is_segment_index(&index)
    };
    if wanted.iter().all(has_index) {
        let generation = opened.generation();
        let (indexed, index_bytes, damaged, shards, bytes_out) = (0, 0, 0, 0, 0);
        return Ok(IndexReport { generation, indexed, index_bytes, damaged, shards, bytes_out, notes: Vec::new() });
    }
    let metadata = metadata(base, opened.schema(), &wanted)?;
    let source = RewrittenRecords::new(ShardRecords::all(&opened)?, &metadata.schema, &options.limits, 4);
    let plan = Plan::anew(base, metadata.clone(), &source.shards(base.shards.len())?)?;
    let largest = (0..opened.len()).map(|sample| source.memory_bytes(sample));
    let write = options.to_write(largest.max().unwrap_or(0));
    let fidelity = |total: &FidelityTotals| with_notes(total.fidelity(), &base.fidelity);
    let written = growth.write(&plan, &source, Next { kept: BTreeMap::new(), fidelity: &fidelity }, &write)?;
    Ok(IndexReport {
        generation: open(dataset, &options.limits)?.generation(),
        indexed: source.indexed.into_inner(),
        index_bytes: source.index_bytes.into_inner(),
        damaged: source.damaged.into_inner(),
        shards: written.shards,
        bytes_out: written.bytes_out,
        notes: written.notes,
    })
}

/// Returns the picture fields whose JPEGs are stored unchanged according to the recipe. Leaves out
/// clips, because they have no index.
fn pictures(base: &Manifest) -> Vec<&str> {
    let recipe = DatasetRecipe::read(&base.shard_recipe());
    let is_kept = |name: &str| recipe.pictures(name).is_none_or(|how| how.keeps_files());
    let is_clip = |name: &str| {
        base.schema.scalar_position(&format!("{name}.frames")).is_some_and(|(_, dtype)| dtype == Dtype::U32)
    };
    let pictures = base.schema.fields().iter().filter(|field| field.kind == FieldKind::Image);
    pictures.map(|field| field.name.as_str()).filter(|name| is_kept(name) && !is_clip(name)).collect()
}

/// Returns the dataset's metadata with added fields for the indexes of these pictures. `all` are its present fields.
fn metadata(base: &Manifest, all: &Schema, wanted: &[&str]) -> crate::Result<Metadata> {
    let mut recipe = DatasetRecipe::read(&base.shard_recipe());
    let mut fields = Vec::new();
    for field in all.fields() {
        fields.push(field.clone());
        let index = Field::segments(&field.name);
        if wanted.contains(&field.name.as_str()) && !all.fields().contains(&index) {
            fields.push(index);
        }
    }
    for name in wanted {
        recipe.set_pictures(name, &PictureOptions::Keep { segment_index: true });
    }
    let schema = Schema::new(fields)?;
    let is_users = |field: &&Field| schema.is_segment_index(field) && !all.is_segment_index(field);
    if let Some(field) = all.fields().iter().find(is_users) {
        let text = format!(
            "cannot add the segment index `{}`, because the dataset already has another field with this name",
            field.name
        );
        bail!(Note::new(text).with_hint("rename this field, and pack the dataset again"));
    }
    Ok(Metadata { schema, classes: base.classes.clone(), recipe: recipe.to_map(), shards: None })
}
