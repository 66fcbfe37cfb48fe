//! Reads storage options from a dataset's recipe and compares them with the caller's options.

use crate::collect::error::Result;
use crate::encode::picture_figures;
use shardpack_array::{ArrayOptions, ArraySettings, BandDifference, Trial};
use shardpack_format::{FieldKind, Hint, Manifest, SEGMENT_INDEXES, Setting};
use shardpack_recipe::{
    ArgumentError, DatasetRecipe, Declared, Jpeg, OptionValue, Order, PictureOptions, StorageOptions, values_of,
};
use std::collections::BTreeMap;

/// Options from the recipe, or from the caller where the recipe has none.
pub(super) struct AppendRecipe {
    pub(super) pictures: PictureOptions,
    pub(super) arrays: ArrayOptions,
    pub(super) chosen: BTreeMap<String, (ArrayOptions, Trial)>,
    pub(super) shard_bytes: u64,
    pub(super) shuffle: Option<u64>,
}

const CUBES: &str = "Cubes";
const PICTURES: &str = "Pictures";

pub(super) fn read(base: &Manifest, given: &[(String, OptionValue)]) -> Result<AppendRecipe> {
    if let Some((name, _)) = given.iter().find(|(name, _)| StorageOptions::option(name).is_none()) {
        return Err(unknown(name).into());
    }
    let recipe = DatasetRecipe::read(&base.shard_recipe());
    let found = pictures(base, &recipe, given)?;
    let pictures = match found {
        Some(pictures) => {
            let there = StorageOptions { pictures, ..StorageOptions::default() };
            compare(PICTURES, given, std::slice::from_ref(&there), &[])?;
            there.pictures
        }
        None => StorageOptions::read(given)?.pictures,
    };
    let chosen = chosen(base, &recipe);
    let of_arrays = |arrays: ArrayOptions| StorageOptions { arrays, ..StorageOptions::default() };
    let asked: Vec<StorageOptions> = chosen.values().map(|(asked, _)| of_arrays(*asked)).collect();
    let made: Vec<_> = chosen.values().map(|(asked, trial)| of_arrays(made(asked, &trial.settings))).collect();
    compare(CUBES, given, &asked, &made)?;
    // The recipe determines how pictures are stored, so ignore the caller's picture options.
    let others: Vec<_> = given.iter().filter(|(name, _)| group(name) != PICTURES).cloned().collect();
    let mut there = StorageOptions::read(&others)?;
    let arrays = there.arrays;
    if let Some(bytes) = recipe.shard_bytes().filter(|&bytes| bytes > 0) {
        there.shard_bytes = bytes;
    }
    if let Some(order) = recipe.order().map(Order::seed) {
        there.shuffle = order;
    }
    let StorageOptions { shard_bytes, shuffle, .. } = there;
    compare("Output", given, &[there], &[])?;
    Ok(AppendRecipe { pictures, arrays, chosen, shard_bytes, shuffle })
}

pub(super) fn unknown(name: &str) -> ArgumentError {
    ArgumentError::of("storage", format!("there is no option `{}`", name.escape_debug()))
}

fn group(name: &str) -> &'static str {
    StorageOptions::option(name).map_or("", |option| option.about.group)
}

/// Fails if the caller sets an option in `group` to a value that differs from the dataset's options `there`.
/// Also accepts a value that all settings in `made` have, because they are the settings that codec trials
/// chose.
fn compare(
    group: &str,
    given: &[(String, OptionValue)],
    there: &[StorageOptions],
    made: &[StorageOptions],
) -> Result<()> {
    for option in StorageOptions::OPTIONS.iter().filter(|option| option.about.group == group) {
        for value in values_of(given, option.about.name) {
            let found = StorageOptions::canonical(option, value)?;
            let is_made = !made.is_empty() && made.iter().all(|made| spelled(option, made) == found);
            let other = there.iter().map(|there| spelled(option, there)).find(|there| *there != found);
            if let Some(other) = other.filter(|_| !is_made) {
                let text = format!("the dataset was written with {other}, not {found}");
                let error = ArgumentError::of(option.about.name, text);
                return Err(error.with_hint("omit this option: its value comes from the recipe of the dataset").into());
            }
        }
    }
    Ok(())
}

fn spelled(option: &Declared<StorageOptions>, options: &StorageOptions) -> String {
    option.spelled(options).unwrap_or_else(|| "none".to_owned())
}

/// Returns the dataset's picture options, or `None` if there are no pictures or only the caller knows the options.
fn pictures(
    base: &Manifest,
    recipe: &DatasetRecipe,
    given: &[(String, OptionValue)],
) -> Result<Option<PictureOptions>> {
    let fields = || base.schema.fields().iter().filter(|field| field.kind == FieldKind::Image);
    if let Some(known) = fields().find_map(|field| recipe.pictures(&field.name)) {
        return Ok(Some(known));
    }
    // The recipes of clip datasets and of datasets from other programs may lack these options, so derive them
    // from the columns.
    let has = |name: &str| fields().any(|field| picture_figures::has_figure(&base.schema, &field.name, name));
    if fields().next().is_none() {
        return Ok(None);
    }
    let asked = values_of(given, "jpeg").last().map_or_else(|| "tile".to_owned(), ToString::to_string);
    if has("score") {
        if asked == "reencode" {
            return Ok(None);
        }
        let text = format!("the dataset was written with reencode, not {asked}");
        let hint = Hint::new("pass ")
            .and([Setting::word("jpeg", "reencode")])
            .then(" and all picture options that you passed for the first samples: the dataset does not record them");
        return Err(ArgumentError::of("jpeg", text).with_hint(hint).into());
    }
    let jpeg = if has("tiles_per_row") { Jpeg::Tile } else { Jpeg::Keep };
    let pictures = match jpeg {
        Jpeg::Keep => PictureOptions::Keep { segment_index: base.schema.optional_features() & SEGMENT_INDEXES != 0 },
        other => PictureOptions::of(other),
    };
    let mut options = StorageOptions { pictures, ..StorageOptions::default() };
    // The columns of tiled pictures do not reveal the other options, so use the caller's.
    let others: Vec<_> = given.iter().filter(|(name, _)| name != "jpeg" && group(name) == PICTURES).cloned().collect();
    if jpeg == Jpeg::Tile {
        options.apply(&others)?;
    }
    Ok(Some(options.pictures))
}

fn chosen(base: &Manifest, recipe: &DatasetRecipe) -> BTreeMap<String, (ArrayOptions, Trial)> {
    let arrays = base.schema.fields().iter().filter(|field| field.kind == FieldKind::Array);
    let entry = |name: &str| recipe.arrays(name).map(|entry| (entry.asked, entry.trial()));
    arrays.filter_map(|field| Some((field.name.clone(), entry(&field.name)?))).collect()
}

/// Returns the options that request exactly the chosen settings.
fn made(asked: &ArrayOptions, settings: &ArraySettings) -> ArrayOptions {
    ArrayOptions {
        coder: Some(settings.coder),
        level: settings.level,
        filter: Some(settings.filter),
        layout: Some(settings.layout),
        band_difference: if settings.band_difference { BandDifference::On } else { BandDifference::Off },
        ..*asked
    }
}
