//! Reads a dataset's options from its recipe.

use super::add_options::AddOptions;
use crate::encode::PictureRecorder;
use crate::pack::{FolderFields, PackOptions};
use crate::{Context, bail};
use shardpack_format::{FieldKind, Hint, Manifest, Note, SEGMENT_INDEXES, Schema, Setting};
use shardpack_recipe::{DatasetRecipe, Entry, LabelTable, PictureOptions, Variables};
use shardpack_sources::cubes::CubeOptions;
use shardpack_sources::{LabelColumn, SourceKind, SourceOptions};
use std::path::Path;

/// Returns the options and fields for adding samples to `dataset`, from the recipe of its newest generation `base`.
pub(super) fn read(dataset: &Path, base: &Manifest, given: &AddOptions) -> crate::Result<(PackOptions, FolderFields)> {
    let (name, classes) = (dataset.display(), base.classes.is_some());
    let DatasetRecipe::Folder(recipe) = DatasetRecipe::read(&base.shard_recipe()) else {
        let text = format!(
            "`{name}` was not packed from a folder of pictures or cubes, so its recipe does not say how to pack new files"
        );
        let hint = "use `shardpack convert FORMAT SRC OUT --append`, or in Python `convert(…, append=True)` or \
                    `Writer(…, append=True)`; or pack another dataset, and load both datasets with `concat`";
        bail!(Note::new(text).with_hint(hint));
    };
    let kind = recipe.kind;
    let strange = |what: &str| {
        format!("`{name}`: this version of shardpack does not understand how the dataset's recipe describes {what}")
    };
    let pictures = match kind {
        SourceKind::Images => typed(&recipe.image).cloned().with_context(|| strange("the pictures"))?,
        SourceKind::Cubes => PictureOptions::default(),
    };
    let mut trials = Vec::new();
    if kind == SourceKind::Cubes {
        let cube = typed(&recipe.cube).with_context(|| strange("the field `cube`"))?;
        trials.push(("cube".to_owned(), cube.trial()));
    }
    if let Some(mask) = &recipe.mask {
        let mask = mask.typed().with_context(|| strange("the field `mask`"))?;
        trials.push(("mask".to_owned(), mask.trial()));
    }
    let labels = typed(&recipe.labels);
    if recipe.labels.is_some() && given.labels.is_none() {
        let columns = serde_json::json!(labels.map(|labels| &labels.columns));
        let text = format!("`{name}` was packed with a table of labels, so the new samples need one too");
        let hint = Hint::new("pass ")
            .and([Setting::any("labels", "FILE")])
            .then(format!(", a table with the columns {columns}"));
        bail!(Note::new(text).with_hint(hint));
    }
    let shuffle = typed(&recipe.order).with_context(|| strange("the order of the samples"))?.seed();
    let shard_bytes = *typed(&recipe.shard_bytes).with_context(|| strange("the size of the shards"))?;
    let on_bad_input = typed(&recipe.on_bad_input).copied().unwrap_or_default();
    let label_column = label_column(labels, &base.schema, given);
    let source = SourceOptions {
        kind: Some(kind),
        labels: given.labels.clone(),
        key_column: given.key_column.clone().or_else(|| labels?.key_column.clone()),
        text_columns: text_columns(&base.schema, classes, &label_column),
        label_column,
        masks: given.masks.clone(),
        follow_links: given.follow_links,
        clips: typed(&recipe.clips) == Some(&true),
        class_folders: Some(classes && given.labels.is_none()),
        on_bad_input: given.on_bad_input.unwrap_or(on_bad_input),
        cubes: CubeOptions {
            variable: typed(&recipe.variable).map(Variables::names).unwrap_or_default(),
            spatial: typed(&recipe.spatial).copied(),
            max_bytes: given.max_cube,
            ..CubeOptions::default()
        },
        files: given.files.clone(),
        cancel: given.cancel.clone(),
        ..SourceOptions::default()
    };
    let options = PackOptions {
        source,
        pictures,
        shard_bytes,
        shuffle,
        force: given.force,
        threads: given.threads.max(1),
        memory_bytes: given.memory_bytes,
        ..PackOptions::default()
    };
    let has_profiles = base.schema.fields().iter().any(|field| field.name == PictureRecorder::PROFILE);
    let has_segments = base.schema.optional_features() & SEGMENT_INDEXES != 0;
    Ok((options, FolderFields { has_profiles, has_segments, trials }))
}

fn typed<T>(entry: &Option<Entry<T>>) -> Option<&T> {
    entry.as_ref()?.typed()
}

/// Returns the label column that the caller named, otherwise the column that `pack` used. If the
/// dataset has a field for that column, the column is also stored as a field.
fn label_column(table: Option<&LabelTable>, schema: &Schema, given: &AddOptions) -> LabelColumn {
    let packed_with = || table?.label_column.clone();
    match given.label_column.clone().or_else(packed_with) {
        None => LabelColumn::Usual,
        Some(name) if schema.fields().iter().any(|field| field.name == name) => LabelColumn::AlsoField(name),
        Some(name) => LabelColumn::Named(name),
    }
}

/// Returns the columns of a table to read as text: the dataset's text fields and the column of class names. The
/// type of a column must not depend on the cells of the added table.
fn text_columns(schema: &Schema, classes: bool, labels: &LabelColumn) -> Vec<String> {
    let of_text = schema.fields().iter().filter(|field| field.kind == FieldKind::Text);
    let names: Vec<String> = of_text.map(|field| field.name.clone()).collect();
    let has = |name: &&str| schema.fields().iter().any(|field| field.name == *name);
    if let LabelColumn::Named(name) | LabelColumn::AlsoField(name) = labels {
        return names.into_iter().chain(classes.then(|| name.clone())).collect();
    }
    // If the dataset has a field `class`, the class names come from the column `label`.
    let naming = ["label", "class"].into_iter().filter(|name| classes && (*name == "label" || !has(name)));
    names.into_iter().chain(naming.map(str::to_owned)).collect()
}
