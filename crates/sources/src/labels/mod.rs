//! Reads the table of `--labels FILE`, with one row per sample: CSV with a header, JSON Lines, or a list of
//! JSON objects.
//!
//! One column names the sample: the column that the user chose, otherwise the first one whose name is in
//! `KEY_NAMES`. The other columns become fields. `names.rs` finds the sample of a row, and `label_column.rs`
//! finds the label column. Each sample must have exactly one row.

mod cells;
mod csv;
mod json;
mod label_column;
mod names;

use crate::cancel::Cancel;
use crate::classes::Classes;
use crate::columns::{TableColumn, Texts};
use crate::error::{Result, SourceError};
use crate::options::SourceOptions;
use crate::words::{list, plural, short, verb};
use names::KeyIndex;
use shardpack_format::{Hint, Setting};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Names for the key column, in order of preference.
const KEY_NAMES: &[&str] =
    &["key", "path", "file", "filename", "file_name", "file_path", "image", "image_path", "image_id", "id"];

/// Maximum number of columns, equal to the readers' default limit on fields.
const MAX_COLUMNS: usize = 1024;

const LISTED_COLUMNS: usize = 20;

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 64 << 20;

/// Maximum size of a list in bytes. Unlike a file of lines, a list is read into memory whole.
const MAX_LIST: u64 = 1 << 30;

/// Names of fields that `pack` itself adds. Columns of the table must not use them.
const RESERVED_NAMES: &[&str] =
    &["key", "image", "icc", "cube", "mask", "meta", "media_type", "height", "width", "orientation", "gpu_jpeg"];

/// The columns of a table, in sample order.
#[derive(Debug, PartialEq)]
pub(crate) struct Labels {
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) classes: Option<Classes>,
    /// Name of the label column, if any. Folder names are then not used as labels.
    pub(crate) label_column: Option<String>,
}

/// Reads `file` for the sorted samples `keys`, skipping rows for samples in `left_out`. `options.key_column`
/// names the key column. The columns in `options.text_columns` are text even if all their cells are numbers.
/// Stops when `cancel` is set.
pub(crate) fn read(
    file: &Path,
    options: &SourceOptions,
    keys: &[&str],
    left_out: &HashSet<&str>,
    cancel: Cancel<'_>,
) -> Result<Labels> {
    let key_column = options.key_column.as_deref();
    options.files.check(file)?;
    let table = options.files.open_named(file).map_err(SourceError::io("open", file))?;
    let mut input = BufReader::with_capacity(1 << 20, &table);
    let start = input.fill_buf().map_err(SourceError::io("read", file))?;
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    let (is_lines, is_list) = (start.trim_ascii_start().starts_with(b"{"), json::is_list(start));
    let (line_of, row_of) = (vec![0; keys.len()], vec![0; keys.len()]);
    let mut left_out: Vec<&str> = left_out.iter().copied().collect();
    left_out.sort_unstable();
    let (names, left_out) = (KeyIndex::new(keys), KeyIndex::new(&left_out));
    let mut rows = TableRows {
        file,
        key_column,
        text_columns: &options.text_columns,
        keys,
        names,
        left_out,
        cancel,
        line_of,
        row_of,
        count: 0,
        names_of: Default::default(),
    };
    let columns = match (is_lines, is_list) {
        (true, _) => json::read(input, &mut rows)?,
        (_, true) => json::read_list(input, &mut rows)?,
        _ => csv::read(input, &mut rows)?,
    };
    rows.finish()?;
    let permuted = columns.into_iter().map(|column| {
        cancel.check()?;
        Ok(TableColumn { values: column.values.permuted(&rows.row_of), ..column })
    });
    let columns = permuted.collect::<Result<_>>()?;
    cancel.check()?;
    label_column::find(columns, &options.label_column, &rows)
}

/// Returns a hint if a column name looks like several names, because the separator is not a comma.
fn separator_hint(names: &[&str]) -> Option<Hint> {
    let found = [(';', "semicolons"), ('\t', "tabs"), ('|', "vertical bars")];
    let (_, words) = found.into_iter().find(|(sign, _)| names.iter().any(|name| name.contains(*sign)))?;
    Some(format!("the cells seem to be separated by {words}: separate them with commas instead").into())
}

struct TableRows<'a> {
    file: &'a Path,
    key_column: Option<&'a str>,
    text_columns: &'a [String],
    keys: &'a [&'a str],
    names: KeyIndex<'a>,
    left_out: KeyIndex<'a>,
    cancel: Cancel<'a>,
    /// Line number of each sample's row, or 0 if it has no row yet.
    line_of: Vec<u64>,
    row_of: Vec<u32>,
    count: u32,
    /// Names of the key column and of the first other column.
    names_of: [String; 2],
}

impl TableRows<'_> {
    fn error(&self, line: Option<u64>, message: impl Into<String>, hint: impl Into<Hint>) -> SourceError {
        SourceError::Labels { file: self.file.to_owned(), line, message: message.into(), hint: hint.into() }
    }

    fn is_text(&self, name: &str) -> bool {
        self.text_columns.iter().any(|column| column == name)
    }

    /// Accepts the row of a sample. Returns false if the row belongs to a skipped sample.
    fn accept(&mut self, key: &str, line: u64) -> Result<bool> {
        let Some(sample) = self.sample(key, line)? else { return Ok(false) };
        if let (Some(first), Some(row)) = (self.line_of.get_mut(sample), self.row_of.get_mut(sample)) {
            if *first != 0 {
                let sample = self.keys.get(sample).copied().unwrap_or(key);
                let message = format!("`{}` already has a row on line {first}", short(sample));
                return Err(self.error(Some(line), message, self.one_row(sample)));
            }
            (*first, *row) = (line, self.count);
        }
        self.count =
            self.count.checked_add(1).ok_or_else(|| self.error(Some(line), "the table has more than 2^32 rows", ""))?;
        Ok(true)
    }

    /// Returns the hint for a sample with several rows. The hint suggests one row in JSON Lines with a list.
    fn one_row(&self, sample: &str) -> String {
        let [key, other] = &self.names_of;
        let [key, sample, other] = [key.as_str(), sample, other.as_str()].map(serde_json::Value::from);
        let line = format!("{{{key}: {sample}, {other}: [\"one\", \"another\"]}}");
        format!(
            "write one row for each sample; in JSON Lines, several values of a sample can be a list, such as `{line}`"
        )
    }

    /// Returns the position of the sample with this key, or `None` if the sample was skipped.
    fn sample(&self, key: &str, line: u64) -> Result<Option<usize>> {
        if let Some(sample) = self.names.exact(key) {
            return Ok(Some(sample));
        }
        if self.left_out.exact(key).is_some() {
            return Ok(None);
        }
        for way in names::OMISSIONS {
            let (found, others) = (self.names.by(*way, key), self.left_out.by(*way, key));
            match (found.as_slice(), others.as_slice()) {
                ([], []) => {}
                ([sample], []) => return Ok(Some(*sample)),
                ([], [_]) => return Ok(None),
                _ => {
                    let files =
                        found.iter().map(|&i| self.names.key(i)).chain(others.iter().map(|&i| self.left_out.key(i)));
                    let message = format!("`{}` matches several files: {}", short(key), list(files, 3));
                    return Err(self.error(
                        Some(line),
                        message,
                        "write the path relative to the source, with its extension",
                    ));
                }
            }
        }
        let example = self.keys.first().copied().unwrap_or_default();
        let hint = Hint::new(format!("write keys as paths relative to the source, such as `{}`", short(example)));
        let hint = match self.key_column {
            Some(_) => hint,
            None => hint.then(", or pass ").and([Setting::named("key_column")]).then(" to select the key column"),
        };
        Err(self.error(Some(line), format!("no sample has the key `{}`", short(key)), hint))
    }

    fn refuse_no_class(&self, name: &str, texts: &Texts) -> Result<()> {
        let empty = || texts.iter().enumerate().filter(|(_, text)| text.trim().is_empty()).map(|(sample, _)| sample);
        let line = |sample: usize| self.line_of.get(sample).copied().unwrap_or_default();
        let Some(sample) = empty().min_by_key(|&sample| line(sample)) else { return Ok(()) };
        let key = short(self.keys.get(sample).copied().unwrap_or_default());
        let more = match empty().count() as u64 - 1 {
            0 => String::new(),
            more => format!(" and {}", plural(more, "other sample")),
        };
        let message = format!("the column `{name}` has no class for `{key}`{more}");
        let hint = "fill in a class (such as `unknown`), or remove the file from the source";
        Err(self.error(Some(line(sample)), message, hint))
    }

    fn finish(&self) -> Result<()> {
        let missing = || self.keys.iter().zip(&self.line_of).filter(|(_, line)| **line == 0).map(|(key, _)| key);
        let count = missing().count() as u64;
        if count == 0 {
            return Ok(());
        }
        let (all, have) = (plural(self.keys.len() as u64, "sample"), verb(count, "has", "have"));
        let message = format!("{count} of {all} {have} no row in the table: {}", list(missing().copied(), 5));
        Err(self.error(None, message, "add the rows, or remove the files from the source"))
    }

    fn check_count(&self, columns: usize, line: u64) -> Result<()> {
        if columns <= MAX_COLUMNS {
            return Ok(());
        }
        let message = format!("the table has {columns} columns, but at most {MAX_COLUMNS} are allowed");
        Err(self.error(
            Some(line),
            message,
            "remove columns, or store the values of each sample as an array (such as a `.npy` file)",
        ))
    }

    /// Checks all names and returns the position of the key column.
    fn key_column(&mut self, names: &[&str], line: u64) -> Result<usize> {
        let list = || list(names.iter().copied(), LISTED_COLUMNS);
        let position = |wanted: &str| names.iter().position(|name| *name == wanted);
        let place = match self.key_column {
            Some(wanted) => position(wanted).ok_or_else(|| {
                let message =
                    format!("the table has no column `{}` for the keys; its columns are {}", short(wanted), list());
                let hint = separator_hint(names);
                let other =
                    || Hint::new("pass ").and([Setting::any("key_column", "NAME")]).then(" to select another column");
                self.error(Some(line), message, hint.unwrap_or_else(other))
            })?,
            None => KEY_NAMES.iter().find_map(|wanted| position(wanted)).ok_or_else(|| {
                let known = self::list(KEY_NAMES.iter().copied(), KEY_NAMES.len());
                let message =
                    format!("the table has none of the usual key columns ({known}); its columns are {}", list());
                let which =
                    || Hint::new("pass ").and([Setting::any("key_column", "NAME")]).then(" to select the key column");
                self.error(Some(line), message, separator_hint(names).unwrap_or_else(which))
            })?,
        };
        self.check_count(names.len(), line)?;
        let mut seen = HashSet::with_capacity(names.len());
        for (i, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(self.error(Some(line), format!("column {} has no name", i + 1), ""));
            }
            if !seen.insert(name) {
                return Err(self.error(Some(line), format!("two columns have the name `{}`", name.escape_debug()), ""));
            }
            if i != place && RESERVED_NAMES.contains(name) {
                let message = format!("the column name `{name}` is reserved for a field that `pack` writes");
                return Err(self.error(Some(line), message, "rename the column"));
            }
        }
        let other = names.iter().enumerate().find(|(i, _)| *i != place).map_or("captions", |(_, name)| *name);
        self.names_of = [names.get(place).copied().unwrap_or_default(), other].map(str::to_owned);
        Ok(place)
    }
}

#[cfg(test)]
mod tests;
