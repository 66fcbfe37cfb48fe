//! Describes the fields that later generations have added to a dataset, and the files with their values (spec §3.6).

use crate::error::{Error, Result};
use crate::json;
use crate::schema::{Recipe, Schema};
use crate::shard_entry::ShardEntry;
use serde::{Deserialize, Serialize};

/// Recipe key of the added columns.
const COLUMNS: &str = "shardpack_columns";

/// Fields that one generation has added, with a columns file for each shard. A columns file is a shard with the same
/// samples as its shard, in the same order, but only with these fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedColumns {
    /// The added fields: scalars and arrays.
    #[serde(deserialize_with = "json::object")]
    pub schema: Schema,
    /// The columns file of each shard, in the order of the shards.
    #[serde(deserialize_with = "json::objects")]
    pub files: Vec<ShardEntry>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct All(#[serde(deserialize_with = "json::objects")] Vec<AddedColumns>);

/// Moves the added columns out of a recipe.
pub(crate) fn take(recipe: &mut Recipe) -> Result<Vec<AddedColumns>> {
    let Some(value) = recipe.remove(COLUMNS) else { return Ok(Vec::new()) };
    let all = All::deserialize(value);
    all.map(|All(columns)| columns)
        .map_err(|e| Error::malformed(format!("the added columns in the manifest are not valid: {e}")))
}

/// Adds the columns to a recipe, in the form that [`take`] reads.
pub(crate) fn put(columns: &[AddedColumns], recipe: &mut Recipe) -> Result<()> {
    let value = serde_json::to_value(columns);
    let value = value.map_err(|e| Error::usage(format!("cannot write the added columns as JSON: {e}")))?;
    recipe.insert(COLUMNS.into(), value);
    Ok(())
}
