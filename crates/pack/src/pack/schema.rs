//! Schema, classes and recipe of the dataset to be written.

use super::PackOptions;
use shardpack_format::{Dtype, Field, FieldKind, Hinted, Metadata, Recipe, Schema};
use shardpack_recipe::{DatasetRecipe, FolderRecipe, LabelTable, Order};
use shardpack_sources::{ColumnValues, LabelsFrom, Listing};

/// Schema and recipe as every shard holds them: first the fields of the kind, then the columns of
/// the label table.
pub(crate) fn metadata(listing: &Listing, fields: Vec<Field>, recipe: Recipe) -> crate::Result<Metadata> {
    let mut fields = fields;
    fields.extend(listing.columns.iter().map(|column| match column.values {
        ColumnValues::Bool(_) => Field::scalar(&column.name, Dtype::Bool),
        ColumnValues::Int(_) => Field::scalar(&column.name, Dtype::I64),
        ColumnValues::Float(_) => Field::scalar(&column.name, Dtype::F64),
        ColumnValues::Text(_) => Field::stored(&column.name, FieldKind::Text),
        ColumnValues::Json(_) => Field::stored(&column.name, FieldKind::Json),
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
pub(super) fn recipe(listing: &Listing, options: &PackOptions) -> FolderRecipe {
    FolderRecipe {
        shardpack: Some(env!("CARGO_PKG_VERSION").to_owned().into()),
        kind: listing.kind,
        order: Some(options.shuffle.map_or(Order::Keys, Order::Shuffled).into()),
        shard_bytes: Some(options.shard_bytes.into()),
        on_bad_input: Some(options.source.on_bad_input.into()),
        labels: options.source.labels.as_ref().map(|_| label_table(listing, options).into()),
        image: None,
        clips: None,
        variable: None,
        spatial: None,
        cube: None,
        mask: None,
        others: serde_json::Map::new(),
    }
}

/// A recipe as shards hold it.
pub(super) fn map_of(recipe: FolderRecipe) -> Recipe {
    DatasetRecipe::Folder(Box::new(recipe)).to_map()
}

fn label_table(listing: &Listing, options: &PackOptions) -> LabelTable {
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
    LabelTable {
        columns: columns.into_iter().map(str::to_owned).collect(),
        label_column: label.map(str::to_owned),
        // Where nobody named it, the tables of other weeks may call it otherwise.
        key_column: options.source.key_column.clone(),
    }
}
