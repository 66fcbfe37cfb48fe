//! Options for reading a source, all declared in one table.

use super::{ArgumentError, Declared, OptionValue, Takes, Word, spelled_size, values_of, words};
use shardpack_format::{Hint, Setting};
use shardpack_recipe::{About, MAX_BYTES, is_given, read};
use shardpack_sources::cubes::CubeOptions;
use shardpack_sources::{LabelColumn, OnBadInput, SourceKind, SourceOptions};

type SourceOption = Declared<SourceOptions>;

const SOURCES: &str = "Sources";

/// Options for reading a source, shared by packing and reports.
pub const READING: &[SourceOption] = &[
    SourceOption::new(
        "kind",
        Takes::Word(words::<SourceKind>, ""),
        "Contents of SRC: images or cubes [default: detected]",
        |options, given| given.word().map(|kind| options.kind = Some(kind)),
    )
    .group(SOURCES),
    SourceOption::new(
        "labels",
        Takes::Path("FILE"),
        "Table with a row for each sample: CSV, JSON Lines or JSON",
        |options, given| given.path().map(|path| options.labels = Some(path)),
    )
    .group(SOURCES),
    SourceOption::new(
        "key_column",
        Takes::Value("NAME"),
        "Column of `labels` with the paths [default: key, path, file, …]",
        |options, given| given.text().map(|name| options.key_column = Some(name)),
    )
    .group(SOURCES),
    SourceOption::new(
        "label_column",
        Takes::Value("NAME"),
        "Column of `labels` with the labels [default: label, class, …]",
        |options, given| given.text().map(|name| options.label_column = LabelColumn::Named(name)),
    )
    .group(SOURCES),
    SourceOption::new(
        "class_folders",
        Takes::Word(words::<Option<bool>>, "WHEN"),
        "Use top-level folder names as labels: auto, on, off",
        |options, given| given.word().map(|when| options.class_folders = when),
    )
    .spelled_by(|options| Some(options.class_folders.spelled().to_owned()))
    .group(SOURCES),
    SourceOption::new(
        "masks",
        Takes::Path("DIR"),
        "Folder of label masks, named like the samples",
        |options, given| given.path().map(|path| options.masks = Some(path)),
    )
    .group(SOURCES),
    SourceOption::new("follow_links", Takes::Switch, "Follow symbolic links that lead out of SRC", |options, given| {
        given.switch().map(|on| options.follow_links = on)
    })
    .group(SOURCES),
    SourceOption::new(
        "variable",
        Takes::Several("NAME"),
        "Variable of .mat, .npz and HDF5 files; repeat for alternatives",
        |options, given| given.text().map(|text| options.cubes.variable.push(text)),
    )
    .group(SOURCES),
    SourceOption::new(
        "spatial",
        Takes::Value("HxW"),
        "Height and width of cubes stored as 2-D arrays in .mat files",
        |options, given| given.spatial().map(|size| options.cubes.spatial = Some(size)),
    )
    .group(SOURCES),
    SourceOption::new("max_cube", Takes::Value("SIZE"), "Largest decoded cube to accept", |options, given| {
        given.size().map(|bytes| options.cubes.max_bytes = bytes)
    })
    .spelled_by(|options| Some(spelled_size(options.cubes.max_bytes)))
    .group(SOURCES),
];

pub(super) const PACKING: &[SourceOption] = &[
    SourceOption::new(
        "splits",
        Takes::Switch,
        "Pack each folder of SRC (train, val, …) as its own dataset",
        |options, given| given.switch().map(|on| options.splits = on),
    )
    .without("listing"),
    SourceOption::new(
        "clips",
        Takes::Switch,
        "Pack each folder of JPEG frames as one sample, a clip",
        |options, given| given.switch().map(|on| options.clips = on),
    )
    .without("masks"),
    SourceOption::new(
        "on_bad_input",
        Takes::Word(words::<OnBadInput>, "POLICY"),
        "If a file cannot be packed: stop or skip",
        |options, given| given.word().map(|policy| options.on_bad_input = policy),
    )
    .spelled_by(|options| Some(options.on_bad_input.spelled().to_owned())),
    SourceOption::new(
        "listing",
        Takes::Path("FILE"),
        "File list: `plan` writes it, `pack` reads it instead of scanning SRC",
        |options, given| given.path().map(|path| options.listing = Some(path)),
    )
    .group("Output"),
];

/// Returns the default options of the front ends. They accept larger cubes than the library's defaults.
pub(super) fn defaults() -> SourceOptions {
    let cubes = CubeOptions { max_bytes: MAX_BYTES, ..CubeOptions::default() };
    SourceOptions { cubes, ..SourceOptions::default() }
}

/// Parses the options that affect how a source is read, and ignores the others.
///
/// # Errors
/// Fails if an option has an invalid value, or names a column without a table.
pub fn reading(given: &[(String, OptionValue)]) -> Result<SourceOptions, ArgumentError> {
    check_columns(given)?;
    let mut options = defaults();
    read(READING, given, &mut options)?;
    Ok(options)
}

/// Returns the options in `given` that affect how a source is read.
#[must_use]
pub fn of_reading(given: &[(String, OptionValue)]) -> Vec<(String, OptionValue)> {
    let all = READING.iter().flat_map(|option| {
        values_of(given, option.about.name).map(|value| (option.about.name.to_owned(), value.clone()))
    });
    all.filter(|(_, value)| *value != OptionValue::Switch(false)).collect()
}

pub(crate) fn check_columns(given: &[(String, OptionValue)]) -> Result<(), ArgumentError> {
    if is_given(given, "labels") {
        return Ok(());
    }
    match ["key_column", "label_column"].into_iter().find(|option| is_given(given, option)) {
        None => Ok(()),
        Some(option) => Err(no_table(option)),
    }
}

pub(crate) fn no_table(option: &'static str) -> ArgumentError {
    let hint = Hint::new("pass the table with ").and([Setting::any("labels", "FILE")]);
    ArgumentError::of(option, "the option has no effect without a table of labels").with_hint(hint)
}

pub(crate) fn abouts<O>(table: &'static [Declared<O>]) -> impl Iterator<Item = &'static About> {
    table.iter().map(|option| &option.about)
}
