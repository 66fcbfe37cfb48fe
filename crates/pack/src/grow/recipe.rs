//! The options of a dataset, out of its recipe.

use super::AddOptions;
use crate::pack::picture_maker::recipe_of_pictures;
use crate::pack::{Jpeg, PackOptions, PictureOptions, Share};
use anyhow::{Context, bail};
use serde_json::Value;
use shardpack_array::Trial;
use shardpack_format::{FieldKind, Hint, Hinted, Manifest, Recipe, Schema, Setting};
use shardpack_jpeg::{ChromaSampling, Quality, ReencodeOptions, Resize, TileOptions};
use shardpack_sources::cubes::CubeOptions;
use shardpack_sources::{Kind, LabelColumn, OnBadInput, SourceOptions};
use std::path::Path;

/// What a recipe says that packing more with it must know.
pub(super) struct Known {
    pub(super) options: PackOptions,
    /// How `cube` is stored, if there are cubes, and `mask` if there is that field.
    pub(super) trials: Vec<(String, Trial)>,
}

/// Reads the recipe of `dataset`, whose newest generation is `base`.
pub(super) fn read(dataset: &Path, base: &Manifest, given: &AddOptions) -> anyhow::Result<Known> {
    let (name, recipe, classes) = (dataset.display(), &base.shard_recipe(), base.classes.is_some());
    let Some(kind) = kind(recipe) else {
        bail!(Hinted::new(
            format!(
                "`{name}` was not packed from a folder of pictures or cubes: its recipe does not say how files become samples"
            ),
            "add to it as it was made: `shardpack convert FORMAT SRC OUT --append`, in Python `convert(…, append=True)` or `Writer(…, append=True)`; `concat` takes two datasets as one"
        ));
    };
    let strange =
        |what: &str| format!("`{name}`: the recipe says something about {what} that this version does not know");
    let pictures = match (kind, recipe.get("image")) {
        (Kind::Images, Some(image)) => pictures(image).with_context(|| strange("pictures"))?,
        (Kind::Images, None) => bail!("{}", strange("pictures")),
        (Kind::Cubes, _) => PictureOptions::default(),
    };
    let mut trials = Vec::new();
    let arrays: &[&str] = if kind == Kind::Cubes { &["cube", "mask"] } else { &["mask"] };
    for &field in arrays {
        let Some(entry) = recipe.get(field) else { continue };
        let trial = trial(entry).with_context(|| strange(&format!("the field `{field}`")))?;
        trials.push((field.to_owned(), trial));
    }
    if kind == Kind::Cubes && !recipe.contains_key("cube") {
        bail!("{}", strange("the field `cube`"));
    }
    if recipe.contains_key("labels") && given.labels.is_none() {
        let columns = recipe.get("labels").and_then(|labels| labels.get("columns")).unwrap_or(&Value::Null);
        let text =
            format!("`{name}` has its labels and columns from a table: expected one for the new samples, found none");
        let hint = Hint::set([Setting::any("labels", "FILE")]).then(format!(" with the columns {columns}"));
        bail!(Hinted::new(text, hint));
    }
    let shuffle = match recipe.get("order") {
        Some(Value::String(_)) => None,
        Some(order) => Some(order.get("shuffle_seed").and_then(Value::as_u64).with_context(|| strange("the order"))?),
        None => bail!("{}", strange("the order")),
    };
    let shard_bytes = recipe.get("shard_bytes").and_then(Value::as_u64).with_context(|| strange("the shards"))?;
    let skips = recipe.get("on_bad_input").and_then(Value::as_str) == Some("skip");
    let policy = if skips { OnBadInput::Skip } else { OnBadInput::Stop };
    let label_column = label_column(recipe, &base.schema, given);
    let source = SourceOptions {
        kind: Some(kind),
        labels: given.labels.clone(),
        key_column: given.key_column.clone().or_else(|| key_column(recipe)),
        text_columns: text_columns(&base.schema, classes, &label_column),
        label_column,
        masks: given.masks.clone(),
        follow_links: given.follow_links,
        clips: recipe.get("clips").and_then(Value::as_bool) == Some(true),
        class_folders: Some(classes && given.labels.is_none()),
        on_bad_input: given.on_bad_input.unwrap_or(policy),
        cubes: CubeOptions {
            variable: variables(recipe),
            spatial: recipe.get("spatial").and_then(spatial),
            max_bytes: given.max_cube,
            ..CubeOptions::default()
        },
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
    Ok(Known { options, trials })
}

/// The column of the keys that was named when the dataset was packed.
fn key_column(recipe: &Recipe) -> Option<String> {
    recipe.get("labels")?.get("key_column")?.as_str().map(str::to_owned)
}

/// The column of the labels: the one that is given, or that the dataset was packed with. One that
/// the dataset has as a field stays one.
fn label_column(recipe: &Recipe, schema: &Schema, given: &AddOptions) -> LabelColumn {
    let packed_with = || recipe.get("labels")?.get("label_column")?.as_str().map(str::to_owned);
    match given.label_column.clone().or_else(packed_with) {
        None => LabelColumn::Usual,
        Some(name) if schema.fields().iter().any(|field| field.name == name) => LabelColumn::AlsoField(name),
        Some(name) => LabelColumn::Named(name),
    }
}

/// The variables that were named when the dataset was packed.
fn variables(recipe: &Recipe) -> Vec<String> {
    match recipe.get("variable") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The columns of a table that are text: those that are in the dataset, and the one that names its
/// classes. What the cells of one week look like does not change what the column is.
fn text_columns(schema: &Schema, classes: bool, labels: &LabelColumn) -> Vec<String> {
    let of_text = schema.fields().iter().filter(|field| field.kind == FieldKind::Text);
    let names: Vec<String> = of_text.map(|field| field.name.clone()).collect();
    let has = |name: &&str| schema.fields().iter().any(|field| field.name == *name);
    if let LabelColumn::Named(name) | LabelColumn::AlsoField(name) = labels {
        return names.into_iter().chain(classes.then(|| name.clone())).collect();
    }
    // A dataset with a field `class` has its classes out of `label`.
    let naming = ["label", "class"].into_iter().filter(|name| classes && (*name == "label" || !has(name)));
    names.into_iter().chain(naming.map(str::to_owned)).collect()
}

fn kind(recipe: &Recipe) -> Option<Kind> {
    let name = recipe.get("kind")?.as_str()?;
    [Kind::Images, Kind::Cubes].into_iter().find(|kind| kind.to_string() == name)
}

fn spatial(value: &Value) -> Option<(u64, u64)> {
    Some((value.get(0)?.as_u64()?, value.get(1)?.as_u64()?))
}

pub(crate) fn trial(entry: &Value) -> Option<Trial> {
    Some(Trial {
        settings: serde_json::from_value(entry.get("settings")?.clone()).ok()?,
        table: serde_json::from_value(entry.get("candidates")?.clone()).ok()?,
    })
}

/// The options that [`recipe_of_pictures`] wrote; `None` if these are not they.
pub(crate) fn pictures(image: &Value) -> Option<PictureOptions> {
    let text = |name: &str| image.get(name).and_then(Value::as_str);
    let switch = |name: &str| image.get(name).and_then(Value::as_bool).unwrap_or(false);
    let share = |name: &str| {
        let found = text(name);
        [Share::None, Share::Sample, Share::All]
            .into_iter()
            .find(|share| Some(share.name()) == found)
            .unwrap_or_default()
    };
    let keep_metadata = switch("keep_metadata");
    let jpeg = match text("jpeg")? {
        "keep" => Jpeg::Keep,
        "tile" => Jpeg::Tile,
        "reencode" => Jpeg::Reencode(reencode(image.get("reencode")?, keep_metadata)?),
        _ => return None,
    };
    let options = PictureOptions {
        jpeg,
        keep_metadata,
        upright: switch("upright"),
        check_pixels: share("check_pixels"),
        score: share("score"),
    };
    (recipe_of_pictures(&options) == *image).then_some(options)
}

fn reencode(how: &Value, keep_metadata: bool) -> Option<ReencodeOptions> {
    let number = |name: &str| how.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let quality = how.get("quality")?;
    Some(ReencodeOptions {
        quality: match quality.as_u64() {
            Some(fixed) => Quality::Fixed(u8::try_from(fixed).ok()?),
            None => Quality::Ssimulacra2(quality.get("ssimulacra2")?.as_f64()?),
        },
        subsampling: match how.get("subsampling")?.as_str()? {
            "keep" => ChromaSampling::Keep,
            "4:2:0" => ChromaSampling::S420,
            "4:4:4" => ChromaSampling::S444,
            _ => return None,
        },
        resize: match (number("short_side"), number("long_side")) {
            (Some(side), None) => Resize::ShortSide(side),
            (None, Some(side)) => Resize::LongSide(side),
            _ => Resize::No,
        },
        tile: TileOptions { keep_metadata, ..TileOptions::default() },
    })
}
