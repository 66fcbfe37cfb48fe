//! What `pack` and `report` are told about reading a source.

use super::value::Named;
use super::{ArgumentError, MAX_BYTES, Result, Value};
use shardpack_format::{Hint, Setting};
use shardpack_recipe::Word;
use shardpack_sources::cubes::CubeOptions;
use shardpack_sources::{LabelColumn, SourceKind, SourceOptions};
use std::path::PathBuf;

/// How a source is read.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceArguments {
    /// What it holds. Default: told from the contents of the files.
    pub kind: Option<SourceKind>,
    /// Table of labels. Default: none.
    pub labels: Option<PathBuf>,
    /// Name of the column of `labels` that holds the keys. Default: the first that has one of the
    /// usual names.
    pub key_column: Option<String>,
    /// Name of the column of `labels` that holds the labels. Default: see [`LabelColumn`].
    pub label_column: Option<String>,
    /// Whether the names of first-level folders are labels. Default: for pictures that are all in
    /// such folders.
    pub class_folders: Option<bool>,
    /// Folder of label masks. Default: none.
    pub masks: Option<PathBuf>,
    /// Follow symbolic links that lead out of the source. Default: false.
    pub follow_links: bool,
    /// Variables to read from files that can hold several: of each file the first that it has.
    /// Default: the only array of three axes.
    pub variable: Vec<String>,
    /// Height and width of the picture, for matrices of bands × pixels. Default: none.
    pub spatial: Option<(u64, u64)>,
    /// Largest cube to accept, in decoded bytes. Default 4 GiB.
    pub max_cube: u64,
}

impl Default for SourceArguments {
    fn default() -> Self {
        Self {
            kind: None,
            labels: None,
            key_column: None,
            label_column: None,
            class_folders: None,
            masks: None,
            follow_links: false,
            variable: Vec::new(),
            spatial: None,
            max_cube: MAX_BYTES,
        }
    }
}

impl SourceArguments {
    /// Names of the options.
    pub(super) const NAMES: [&str; 10] = [
        "kind",
        "labels",
        "key_column",
        "label_column",
        "class_folders",
        "masks",
        "follow_links",
        "variable",
        "spatial",
        "max_cube",
    ];

    pub(super) fn set(&mut self, given: Named<'_>) -> Result<bool> {
        match given.option {
            "kind" => self.kind = Some(given.word()?),
            "labels" => self.labels = Some(given.path()),
            "key_column" => self.key_column = Some(given.text()),
            "label_column" => self.label_column = Some(given.text()),
            "class_folders" => self.class_folders = given.word()?,
            "masks" => self.masks = Some(given.path()),
            "follow_links" => self.follow_links = given.switch()?,
            "variable" => self.variable.push(given.text()),
            "spatial" => self.spatial = Some(given.spatial()?),
            "max_cube" => self.max_cube = given.size()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The options that differ from their defaults, in the order of their names.
    #[must_use]
    pub fn given(&self) -> Vec<(&'static str, Value)> {
        let word = |word: &'static str| Value::Text(word.to_owned());
        let mut out = Vec::new();
        out.extend(self.kind.map(|kind| ("kind", word(kind.spelled()))));
        out.extend(self.labels.clone().map(|path| ("labels", Value::Path(path))));
        out.extend(self.key_column.clone().map(|name| ("key_column", Value::Text(name))));
        out.extend(self.label_column.clone().map(|name| ("label_column", Value::Text(name))));
        out.extend(self.class_folders.map(|on| ("class_folders", word(Some(on).spelled()))));
        out.extend(self.masks.clone().map(|path| ("masks", Value::Path(path))));
        out.extend(self.follow_links.then_some(("follow_links", Value::Switch(true))));
        out.extend(self.variable.iter().map(|name| ("variable", Value::Text(name.clone()))));
        out.extend(self.spatial.map(|(height, width)| ("spatial", Value::Text(format!("{height}x{width}")))));
        out.extend((self.max_cube != MAX_BYTES).then(|| ("max_cube", Value::Integer(self.max_cube.into()))));
        out
    }

    pub(super) fn check(&self) -> Result<()> {
        check_columns(self.key_column.as_ref(), self.label_column.as_ref(), self.labels.is_some())
    }

    /// The same for reading the source; what is not said here is left at its default.
    #[must_use]
    pub fn options(&self) -> SourceOptions {
        SourceOptions {
            kind: self.kind,
            labels: self.labels.clone(),
            key_column: self.key_column.clone(),
            label_column: self.label_column.clone().map_or_else(LabelColumn::default, LabelColumn::Named),
            class_folders: self.class_folders,
            masks: self.masks.clone(),
            follow_links: self.follow_links,
            cubes: CubeOptions {
                variable: self.variable.clone(),
                spatial: self.spatial,
                max_bytes: self.max_cube,
                ..CubeOptions::default()
            },
            ..SourceOptions::default()
        }
    }
}

/// Refuses columns of a table that is not there.
pub(super) fn check_columns(key: Option<&String>, label: Option<&String>, has_table: bool) -> Result<()> {
    let given = [("key_column", key), ("label_column", label)];
    match given.into_iter().find(|(_, column)| column.is_some() && !has_table) {
        None => Ok(()),
        Some((option, _)) => {
            let hint = Hint::set([Setting::any("labels", "FILE")]).then(" names it");
            Err(ArgumentError::new(option, "a table of labels that it is a column of", "none").with_hint(hint))
        }
    }
}
