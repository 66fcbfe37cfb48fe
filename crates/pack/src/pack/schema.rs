//! Schema, classes and recipe of the dataset to be written.

use super::PackOptions;
use serde_json::{Value, json};
use shardpack_format::{Dtype, Field, FieldKind, Hinted, Metadata, Recipe, Schema};
use shardpack_sources::{LabelsFrom, Listing, Values};

/// Schema and recipe as every shard holds them: first the fields of the kind, then the columns of
/// the label table.
pub(crate) fn metadata(listing: &Listing, fields: Vec<Field>, recipe: Recipe) -> anyhow::Result<Metadata> {
    let mut fields = fields;
    fields.extend(listing.columns.iter().map(|column| match column.values {
        Values::Bool(_) => Field::scalar(&column.name, Dtype::Bool),
        Values::Int(_) => Field::scalar(&column.name, Dtype::I64),
        Values::Float(_) => Field::scalar(&column.name, Dtype::F64),
        Values::Text(_) => Field::stored(&column.name, FieldKind::Text),
        Values::Json(_) => Field::stored(&column.name, FieldKind::Json),
    }));
    let schema = Schema::new(fields).map_err(|error| {
        let hint = "rename the column; `image`, `icc`, `cube`, `mask`, `meta`, `height`, `width`, `channels`, \
                    `orientation` and `gpu_jpeg` are taken";
        Hinted::new(format!("the columns of the table of labels cannot all be fields: {error}"), hint)
    })?;
    let classes = (!listing.classes.is_empty()).then(|| listing.classes.clone());
    Ok(Metadata { schema, classes, recipe, shards: None })
}

/// Columns that hold labels without being named.
const USUAL: [&str; 2] = ["label", "class"];

/// The part of the recipe that pictures and cubes share.
pub(super) fn recipe(listing: &Listing, options: &PackOptions) -> Recipe {
    let mut recipe = Recipe::new();
    let mut put = |name: &str, value: Value| recipe.insert(name.to_owned(), value);
    put("shardpack", json!(env!("CARGO_PKG_VERSION")));
    put("kind", json!(listing.kind.to_string()));
    put("order", options.shuffle.map_or_else(|| json!("as the keys sort"), |seed| json!({ "shuffle_seed": seed })));
    put("shard_bytes", json!(options.shard_bytes));
    put("on_bad_input", json!(if options.skips() { "skip" } else { "stop" }));
    if options.source.labels.is_some() {
        let mut columns: Vec<&str> = listing.columns.iter().map(|c| c.name.as_str()).collect();
        let label = match &listing.labels_from {
            LabelsFrom::Column { column, .. } => Some(column.as_str()).filter(|name| !USUAL.contains(name)),
            _ => None,
        };
        match label {
            // Where the labels are numbers, the field has another name than the column.
            Some(name) => {
                columns.retain(|column| *column != "label" && *column != name);
                columns.insert(0, name);
            }
            None if !listing.classes.is_empty() && !columns.contains(&"label") => columns.insert(0, "label"),
            None => {}
        }
        let mut labels = json!({ "columns": columns });
        if let Some(name) = label {
            labels["label_column"] = json!(name);
        }
        // Where nobody named it, the tables of other weeks may call it otherwise.
        if let Some(name) = &options.source.key_column {
            labels["key_column"] = json!(name);
        }
        put("labels", labels);
    }
    recipe
}
