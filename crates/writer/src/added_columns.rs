//! Adds fields to the samples of a dataset as a new generation, in columns files. No shard is rewritten (spec §3.6).

use crate::error::{Error, Result};
use crate::growth::Growth;
use crate::journal::JournalEntry;
use crate::next_plan::KeptSample;
use crate::plan::Plan;
use shardpack_format::{AddedColumns, Limits, Manifest, Metadata, Recipe, Schema, columns_name};
use std::collections::BTreeMap;

impl Plan {
    /// Plans a columns file for each shard of a dataset, with the fields of `schema`. `samples` lists the samples of
    /// each shard, in stored order. The source numbers the samples of all shards consecutively. `crc32` of a sample
    /// must depend on its new values.
    ///
    /// # Errors
    /// `Usage` if there are not as many lists as shards.
    pub fn columns(manifest: &Manifest, schema: Schema, samples: Vec<Vec<KeptSample>>) -> Result<Self> {
        if samples.len() != manifest.shards.len() {
            let (shards, lists) = (manifest.shards.len(), samples.len());
            return Err(Error::usage(format!("the dataset has {shards} shards, but {lists} were given"), ""));
        }
        let metadata = Metadata { schema, classes: None, recipe: Recipe::new(), shards: None };
        let shards: Vec<_> = (0..).zip(samples).collect();
        Ok(Self { is_columns: true, ..Self::anew(manifest, metadata, &shards)? })
    }
}

impl Growth<'_> {
    /// Returns the manifest of a generation that adds columns.
    pub(crate) fn manifest_with_columns(
        &self,
        generation: u32,
        plan: &Plan,
        entries: &BTreeMap<u32, JournalEntry>,
    ) -> Result<Manifest> {
        let taken = self.target.names()?;
        let mut files = Vec::new();
        for entry in entries.values() {
            let mut file = entry.file.clone();
            file.name = columns_name(entry.number, generation);
            if taken.contains(&file.name) {
                return Err(self.name_is_taken(&file.name, "columns file"));
            }
            files.push(file);
        }
        let columns = AddedColumns { schema: plan.metadata().schema.clone(), files };
        let manifest = self.manifest.with_columns(generation, columns);
        // Apply all of a reader's checks and limits.
        Manifest::parse(&manifest.encode()?, &Limits::default())?;
        Ok(manifest)
    }

    /// Refuses a plan whose generation would lose added columns.
    pub(crate) fn refuse_loss_of_columns(&self, plan: &Plan) -> Result<()> {
        let stays = &plan.metadata().schema;
        let added = self.manifest.columns.iter().flat_map(|columns| columns.schema.fields());
        let lost = added.filter(|field| !plan.is_columns && !stays.fields().contains(field));
        let names: Vec<String> = lost.map(|field| format!("`{}`", field.name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let what = format!("the new generation would lose the added columns {}", names.join(", "));
        Err(Error::usage(what, ""))
    }
}
