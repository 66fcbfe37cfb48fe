//! Reads CSV with a header. Each column gets the narrowest type that fits all its cells: boolean,
//! integer, number, or text. Columns that the user declares as text remain text.

use super::{TableRows, cells};
use crate::columns::{ColumnValues, TableColumn, Texts};
use crate::error::{Result, SourceError};
use crate::words::plural;
use std::cell::Cell;
use std::io::{self, Read};

/// Maximum size of a row in bytes. An empty cell is one byte of the file, but takes eight more while its row is read.
const MAX_ROW: u64 = 16 << 20;

/// Number of bytes of the next row that the CSV reader may have buffered.
const BUFFER: usize = 8 << 10;

/// Limits the bytes of each row. Otherwise an unclosed quote would turn all following rows into a single cell.
struct Allowed<'a, R> {
    input: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Allowed<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        let left = self.left.get().checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.left.set(left);
        Ok(read)
    }
}

struct Building {
    texts: Texts,
    truths: bool,
    integers: bool,
    numbers: bool,
    filled: bool,
    /// Line number of the first empty cell.
    empty: Option<u64>,
}

impl Building {
    const fn new(is_text: bool) -> Self {
        let fits = !is_text;
        Self { texts: Texts::new(), truths: fits, integers: fits, numbers: fits, filled: false, empty: None }
    }

    fn push(&mut self, text: &str, line: u64) {
        self.texts.push(text);
        let text = text.trim();
        if text.is_empty() {
            self.empty.get_or_insert(line);
            return;
        }
        self.filled = true;
        self.truths = self.truths && cells::truth(text).is_some();
        self.integers = self.integers && cells::integer(text).is_some();
        self.numbers = self.numbers && cells::number(text).is_some();
    }

    fn finish(self, name: String, rows: &TableRows<'_>) -> Result<TableColumn> {
        let trimmed = || self.texts.iter().map(str::trim);
        let values = if !self.filled || !(self.truths || self.integers || self.numbers) {
            ColumnValues::Text(self.texts)
        } else if self.truths {
            ColumnValues::Bool(trimmed().filter_map(cells::truth).collect())
        } else if self.integers {
            ColumnValues::Int(trimmed().filter_map(cells::integer).collect())
        } else {
            ColumnValues::Float(trimmed().filter_map(cells::number).collect())
        };
        match (&values, self.empty) {
            (ColumnValues::Text(_), _) | (_, None) => Ok(TableColumn { name, values }),
            (_, Some(line)) => {
                let message = format!(
                    "the column `{}` has an empty cell, although its other values are {}",
                    name.escape_debug(),
                    values.type_name()
                );
                Err(rows.error(Some(line), message, "fill in the cell, or write `nan` for an unknown number"))
            }
        }
    }
}

pub(super) fn read(input: impl Read, rows: &mut TableRows<'_>) -> Result<Vec<TableColumn>> {
    let allowed = Cell::new(MAX_ROW + BUFFER as u64);
    let input = Allowed { input, left: &allowed };
    let mut options = ::csv::ReaderBuilder::new();
    let mut reader = options.trim(::csv::Trim::Headers).buffer_capacity(BUFFER).from_reader(input);
    let header = reader.headers().map_err(|error| damaged(rows, &error, 1, 0))?;
    rows.check_count(header.len(), 1)?;
    let header = header.clone();
    let names: Vec<&str> = header.iter().collect();
    let key_place = rows.key_column(&names, 1)?;
    // With CR LF line endings, the reader counts the LF as part of the next line.
    let inside = header.iter().flat_map(str::bytes).filter(|&byte| byte == b'\n').count() as u64;
    let behind = u64::from(reader.position().line() == 1 + inside);
    let mut columns: Vec<_> = names.iter().map(|name| Building::new(rows.is_text(name))).collect();
    let mut record = ::csv::StringRecord::new();
    loop {
        rows.cancel.check()?;
        allowed.set(MAX_ROW + BUFFER as u64);
        let start = reader.position().line();
        if !reader.read_record(&mut record).map_err(|error| damaged(rows, &error, start, behind))? {
            break;
        }
        let line = record.position().map_or(0, ::csv::Position::line) + behind;
        if !rows.accept(record.get(key_place).unwrap_or_default(), line)? {
            continue;
        }
        for (i, (column, text)) in columns.iter_mut().zip(&record).enumerate() {
            if i != key_place {
                column.push(text, line);
            }
        }
    }
    let named = names.iter().zip(columns).enumerate().filter(|(i, _)| *i != key_place);
    let finished = named.map(|(_, (name, column))| {
        rows.cancel.check()?;
        column.finish((*name).to_owned(), rows)
    });
    finished.collect()
}

/// Returns the error for a damaged row. `start` is the line number at which the reader says the row
/// starts. It is too low by `behind`.
fn damaged(rows: &TableRows<'_>, error: &::csv::Error, start: u64, behind: u64) -> SourceError {
    let line = error.position().map(|position| position.line() + behind);
    match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let hint = "put quotes around cells that contain commas";
            rows.error(line, format!("the row has {}, but the header has {expected_len}", plural(*len, "cell")), hint)
        }
        ::csv::ErrorKind::Utf8 { .. } => rows.error(line, "the text is not UTF-8", ""),
        ::csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let hint = "look for an opening quote without a closing one";
            rows.error(Some(start + behind), format!("the row has more than {MAX_ROW} bytes"), hint)
        }
        _ => rows.error(line, error.to_string(), ""),
    }
}
