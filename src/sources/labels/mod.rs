//! `--labels FILE`: a table with one row for each sample, in CSV with a header or in JSON Lines.
//!
//! One column names the sample: `key`, else `path`, `file` or `filename`. The others become fields. A text column `label`, or without one
//! `class`, becomes the classes of the source. Every sample has exactly one row, and every row a sample.

mod cells;
mod csv;
mod json;

use super::classes::{self, Classes};
use super::columns::{Column, Values};
use super::error::{Result, SourceError};
use super::words::{list, plural, verb};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Names of the column that holds the key, best first.
const KEY_NAMES: &[&str] = &["key", "path", "file", "filename"];

/// Names of fields that `pack` makes itself. The table may not have such columns.
pub const RESERVED_NAMES: &[&str] =
    &["key", "image", "icc", "cube", "mask", "meta", "media_type", "height", "width", "orientation", "gpu_jpeg"];

/// What a table holds, in the order of the samples.
#[derive(Debug, PartialEq)]
pub(crate) struct Labels {
    pub(crate) columns: Vec<Column>,
    pub(crate) classes: Option<Classes>,
}

impl Labels {
    /// Whether the table has labels, so that folder names are not asked.
    pub(crate) fn has_label(&self) -> bool {
        self.classes.is_some() || self.columns.iter().any(|column| column.name == "label")
    }
}

/// Reads `file` for the samples `keys`, which are sorted. Rows of the samples in `left_out` are passed over.
pub(crate) fn read(file: &Path, keys: &[&str], left_out: &HashSet<&str>) -> Result<Labels> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(file).map_err(SourceError::io("open", file))?);
    let start = input.fill_buf().map_err(SourceError::io("read", file))?;
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let is_json = start.trim_ascii_start().starts_with(b"{");
    let mut rows = Rows { file, keys, left_out, line_of: vec![0; keys.len()], row_of: vec![0; keys.len()], count: 0 };
    let columns = if is_json { json::read(input, &mut rows)? } else { csv::read(input, &mut rows)? };
    rows.finish()?;
    let columns =
        columns.into_iter().map(|column| Column { values: column.values.permuted(&rows.row_of), ..column }).collect();
    Ok(with_classes(columns))
}

fn with_classes(mut columns: Vec<Column>) -> Labels {
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    let mut found = None;
    if let Some(place) = place("label").or_else(|| place("class"))
        && let Some(Column { values: Values::Text(texts), .. }) = columns.get(place)
    {
        found = Some(classes::by_text(texts));
        columns.remove(place);
    }
    Labels { columns, classes: found }
}

/// Which row belongs to which sample.
struct Rows<'a> {
    file: &'a Path,
    keys: &'a [&'a str],
    left_out: &'a HashSet<&'a str>,
    /// For each sample the line of its row; 0 = none yet.
    line_of: Vec<u64>,
    /// For each sample its row, counted from 0.
    row_of: Vec<u32>,
    count: u32,
}

impl Rows<'_> {
    fn error(&self, line: Option<u64>, message: impl Into<String>, hint: impl Into<String>) -> SourceError {
        SourceError::Labels { file: self.file.to_owned(), line, message: message.into(), hint: hint.into() }
    }

    /// Gives the row in `line` to the sample `key`; whether there is such a sample.
    fn accept(&mut self, key: &str, line: u64) -> Result<bool> {
        let Ok(sample) = self.keys.binary_search(&key) else {
            if self.left_out.contains(key) {
                return Ok(false);
            }
            let example = self.keys.first().copied().unwrap_or_default();
            let hint =
                format!("keys are paths below the source, extension included, such as `{}`", example.escape_debug());
            return Err(self.error(Some(line), format!("no sample has the key `{}`", key.escape_debug()), hint));
        };
        if let (Some(first), Some(row)) = (self.line_of.get_mut(sample), self.row_of.get_mut(sample)) {
            if *first != 0 {
                let message = format!("a second row for `{}`: the first is in line {first}", key.escape_debug());
                return Err(self.error(Some(line), message, ""));
            }
            (*first, *row) = (line, self.count);
        }
        self.count = self.count.checked_add(1).ok_or_else(|| self.error(Some(line), "more than 2^32 rows", ""))?;
        Ok(true)
    }

    /// Checks that every sample has its row.
    fn finish(&self) -> Result<()> {
        let missing = || self.keys.iter().zip(&self.line_of).filter(|(_, line)| **line == 0).map(|(key, _)| key);
        let count = missing().count() as u64;
        if count == 0 {
            return Ok(());
        }
        let (all, have) = (plural(self.keys.len() as u64, "sample"), verb(count, "has", "have"));
        let message = format!("{count} of {all} {have} no row: {}", list(missing().copied(), 5));
        Err(self.error(None, message, "add the rows, or take the files out of the source"))
    }

    /// Checks the names of all columns, in line 1 or so; gives the place of the key's.
    fn key_column(&self, names: &[&str], line: u64) -> Result<usize> {
        let list = || names.iter().map(|name| format!("`{}`", name.escape_debug())).collect::<Vec<_>>().join(", ");
        let Some(place) = KEY_NAMES.iter().find_map(|wanted| names.iter().position(|name| name == wanted)) else {
            let message = format!("expected a column `key` (or `path`, `file`, `filename`), found {}", list());
            return Err(self.error(Some(line), message, ""));
        };
        for (i, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(self.error(Some(line), format!("column {} has no name", i + 1), ""));
            }
            if names.iter().take(i).any(|other| other == name) {
                return Err(self.error(Some(line), format!("two columns of the name `{}`", name.escape_debug()), ""));
            }
            if i != place && RESERVED_NAMES.contains(name) {
                let message = format!("the name of the column `{name}` is taken by a field that `pack` makes");
                return Err(self.error(Some(line), message, "rename the column"));
            }
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests;
