//! How a dataset stores its samples, out of its recipe; and whether a caller says otherwise.

use crate::arguments::{ArgumentError, PackArguments, Value, Word};
use crate::collect::error::Result;
use crate::pack::picture_totals;
use shardpack_array::{ArrayOptions, ArraySettings, BandDifference, Trial};
use shardpack_format::{FieldKind, Manifest};
use shardpack_jpeg::{Quality, Resize};
use shardpack_recipe::{DatasetRecipe, Jpeg, Order, PictureOptions};
use std::collections::BTreeMap;

/// What the dataset says, and, where it says nothing, what the caller says.
pub(super) struct Stored {
    pub(super) pictures: PictureOptions,
    /// How arrays of a field are stored that has none yet.
    pub(super) arrays: ArrayOptions,
    /// What was asked for and chosen, by array field.
    pub(super) chosen: BTreeMap<String, (ArrayOptions, Trial)>,
    pub(super) shard_bytes: u64,
    pub(super) shuffle: Option<u64>,
}

/// Reads the recipe of a dataset.
pub(super) fn read(base: &Manifest, given: &[(String, Value)]) -> Result<Stored> {
    let mut arguments = PackArguments::default();
    for (name, value) in given {
        if !arguments.set(name, value)? {
            return Err(ArgumentError::of("storage", format!("there is no option `{}`", name.escape_debug())).into());
        }
    }
    let recipe = DatasetRecipe::read(&base.shard_recipe());
    let named = |names: &'static [&'static str]| {
        names.iter().copied().filter(|name| given.iter().any(|(given, _)| given == name))
    };
    let found = pictures(base, &recipe, &arguments)?;
    if let Some(pictures) = &found {
        let there = of_pictures(pictures);
        named(PackArguments::OF_PICTURES).try_for_each(|name| same(name, &[&there], &arguments))?;
    }
    let chosen = chosen(base, &recipe);
    let there: Vec<PackArguments> = chosen.values().map(|(asked, _)| of_arrays(*asked)).collect();
    let made: Vec<PackArguments> =
        chosen.values().map(|(asked, trial)| of_arrays(made(asked, &trial.settings))).collect();
    for name in named(PackArguments::OF_ARRAYS) {
        // What was chosen for all fields may also be named.
        let same_as_made = !made.is_empty() && made.iter().all(|made| told(name, made) == told(name, &arguments));
        if !same_as_made {
            same(name, &there.iter().collect::<Vec<_>>(), &arguments)?;
        }
    }
    let order = recipe.order().map(Order::seed);
    let shard_size = recipe.shard_bytes().filter(|&bytes| bytes > 0);
    let no_shuffle = order.map_or(arguments.no_shuffle, |order| order.is_none());
    let seed = order.map_or(arguments.seed, |seed| seed);
    let there = PackArguments {
        no_shuffle,
        seed,
        shard_size: shard_size.unwrap_or(arguments.shard_size),
        ..PackArguments::default()
    };
    named(&["shard_size", "no_shuffle", "seed"]).try_for_each(|name| same(name, &[&there], &arguments))?;
    Ok(Stored {
        pictures: found.unwrap_or_else(|| arguments.pictures()),
        arrays: arguments.arrays,
        chosen,
        shard_bytes: there.shard_size,
        shuffle: (!no_shuffle).then_some(seed.unwrap_or_default()),
    })
}

/// How pictures are stored, if there are any.
fn pictures(base: &Manifest, recipe: &DatasetRecipe, given: &PackArguments) -> Result<Option<PictureOptions>> {
    let fields = || base.schema.fields().iter().filter(|field| field.kind == FieldKind::Image);
    if let Some(known) = fields().find_map(|field| recipe.pictures(&field.name)) {
        return Ok(Some(known));
    }
    // The recipe of clips alone does not say it, and other programs may write no recipe at all: then the
    // columns tell.
    let has = |name: &str| fields().any(|field| picture_totals::has_figure(&base.schema, &field.name, name));
    if fields().next().is_none() {
        return Ok(None);
    }
    if has("score") {
        if given.jpeg == Jpeg::Reencode {
            return Ok(None);
        }
        let expected = "reencode, with the other options that the dataset was written with: it does not say them";
        return Err(ArgumentError::new("jpeg", expected, given.jpeg.spelled()).into());
    }
    let jpeg = if has("tiles_per_row") { Jpeg::Tile } else { Jpeg::Keep };
    let pictures = PackArguments { jpeg, ..given.clone() }.pictures();
    Ok(Some(match jpeg {
        Jpeg::Keep => PictureOptions::Keep,
        _ => pictures,
    }))
}

/// What was asked for and chosen for each array field.
fn chosen(base: &Manifest, recipe: &DatasetRecipe) -> BTreeMap<String, (ArrayOptions, Trial)> {
    let arrays = base.schema.fields().iter().filter(|field| field.kind == FieldKind::Array);
    let entry = |name: &str| {
        let entry = recipe.arrays(name)?;
        Some((entry.asked, entry.trial()))
    };
    arrays.filter_map(|field| Some((field.name.clone(), entry(&field.name)?))).collect()
}

/// The options that say what was chosen.
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

fn of_arrays(arrays: ArrayOptions) -> PackArguments {
    PackArguments { arrays, ..PackArguments::default() }
}

fn of_pictures(pictures: &PictureOptions) -> PackArguments {
    let there =
        PackArguments { jpeg: pictures.jpeg(), keep_metadata: pictures.keeps_metadata(), ..PackArguments::default() };
    match pictures {
        PictureOptions::Keep => there,
        PictureOptions::Tile { upright, check_pixels, .. } => {
            PackArguments { upright: *upright, check_pixels: Some(*check_pixels), ..there }
        }
        PictureOptions::Reencode { how, score, .. } => PackArguments {
            quality: if let Quality::Fixed(quality) = how.quality { Some(quality) } else { None },
            target: if let Quality::Ssimulacra2(score) = how.quality { Some(score) } else { None },
            subsampling: Some(how.subsampling),
            short_side: if let Resize::ShortSide(side) = how.resize { Some(side) } else { None },
            long_side: if let Resize::LongSide(side) = how.resize { Some(side) } else { None },
            score: Some(*score),
            ..there
        },
    }
}

/// Refuses an option that says something else than the dataset.
fn same(name: &'static str, there: &[&PackArguments], given: &PackArguments) -> Result<()> {
    let found = told(name, given);
    let other = there.iter().map(|there| told(name, there)).find(|there| *there != found);
    other.map_or(Ok(()), |other| {
        let expected = format!("{other}, as in the dataset");
        let error = ArgumentError::new(name, expected, found).with_hint("leave the option out: the dataset says it");
        Err(error.into())
    })
}

/// An option, in words.
fn told(name: &str, of: &PackArguments) -> String {
    fn or_none(value: Option<impl ToString>) -> String {
        value.map_or_else(|| "none".to_owned(), |value| value.to_string())
    }
    let arrays = &of.arrays;
    match name {
        "jpeg" => of.jpeg.spelled().to_owned(),
        "quality" => or_none(of.quality),
        "target" => or_none(of.target.map(|score| format!("ssimulacra2={score}"))),
        "subsampling" => or_none(of.subsampling.map(Word::spelled)),
        "short_side" => or_none(of.short_side),
        "long_side" => or_none(of.long_side),
        "score" => or_none(of.score.map(Word::spelled)),
        "check_pixels" => or_none(of.check_pixels.map(Word::spelled)),
        "upright" => of.upright.to_string(),
        "keep_metadata" => of.keep_metadata.to_string(),
        "values" => arrays.values.spelled().to_owned(),
        "max_error" => or_none(arrays.max_error),
        "codec" => arrays.coder.spelled().to_owned(),
        "level" => or_none(arrays.level),
        "filter" => arrays.filter.spelled().to_owned(),
        "layout" => arrays.layout.spelled().to_owned(),
        "band_difference" => arrays.band_difference.spelled().to_owned(),
        "prefer" => arrays.prefer.spelled().to_owned(),
        "shard_size" => format!("{} bytes", of.shard_size),
        "no_shuffle" => of.no_shuffle.to_string(),
        "seed" => or_none(of.seed),
        _ => String::new(),
    }
}
