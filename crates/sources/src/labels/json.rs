//! Reads JSON Lines, with one object per line, or a single list of objects. All objects have the same names.
//! Values have their JSON types. Lists and objects are stored as text.
//!
//! JSON has no NaN or infinity. The strings `NaN`, `Infinity` and `-Infinity` represent them, as in Protocol
//! Buffers and in the output of `unpack`, but only in columns that otherwise contain only numbers and nulls.

use super::{MAX_COLUMNS, MAX_LINE, MAX_LIST, TableRows, cells};
use crate::columns::{ColumnValues, TableColumn, Texts};
use crate::error::{Result, SourceError};
use crate::words::short;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use shardpack_format::{Limits, check_json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read};

#[derive(Debug, PartialEq)]
enum Cell {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A list or an object.
    Json(String),
    /// A value that does not fit into any column.
    Unfit(Unfit),
}

/// Why a value does not fit into any column. This is only reported for packed samples, once the column is known.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unfit {
    Null,
    /// The value is too large for int64 and would lose digits as float64.
    Huge,
}

impl Unfit {
    const fn reason(self) -> (&'static str, &'static str) {
        match self {
            Self::Null => ("expected a value, found null", "fill in the missing value, or remove the column"),
            Self::Huge => ("the integer does not fit into int64", "write the integers of this column as strings"),
        }
    }
}

impl Cell {
    fn of(raw: &RawValue) -> serde_json::Result<Self> {
        let text = raw.get();
        if text.starts_with(['[', '{']) {
            // A table may contain any JSON, so check the limits of readers.
            return match check_json(text.as_bytes(), &Limits::default()) {
                Ok(()) => Ok(Self::Json(in_one_line(text))),
                Err(error) => Err(serde::de::Error::custom(error)),
            };
        }
        serde_json::from_str(text)
    }
}

/// Joins the lines of a value, because `unpack` needs it on one line. JSON strings never contain line breaks.
fn in_one_line(text: &str) -> String {
    if text.contains('\n') { text.lines().map(str::trim).collect() } else { text.to_owned() }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Cell;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
                Ok(Cell::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
                Ok(Cell::Int(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
                Ok(i64::try_from(value).map_or(Cell::Unfit(Unfit::Huge), Cell::Int))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
                Ok(Cell::Float(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Cell, E> {
                Ok(Cell::Text(text.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Cell, E> {
                Ok(Cell::Unfit(Unfit::Null))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

struct JsonRow<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for JsonRow<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = JsonRow<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRow<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if pairs.len() == MAX_COLUMNS {
                        let found = format!("the object has more than {MAX_COLUMNS} values");
                        return Err(serde::de::Error::custom(found));
                    }
                    pairs.push((name, map.next_value()?));
                }
                Ok(JsonRow(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

pub(super) fn read(mut input: impl BufRead, rows: &mut TableRows<'_>) -> Result<Vec<TableColumn>> {
    let mut table = JsonTable::default();
    let (mut text, mut line) = (Vec::new(), 0);
    loop {
        rows.cancel.check()?;
        text.clear();
        let mut piece = input.by_ref().take(MAX_LINE);
        if piece.read_until(b'\n', &mut text).map_err(SourceError::io("read", rows.file))? == 0 {
            break;
        }
        line += 1;
        if text.len() as u64 == MAX_LINE && !text.ends_with(b"\n") {
            return Err(rows.error(Some(line), format!("the line has more than {MAX_LINE} bytes"), ""));
        }
        let bytes = if line == 1 { text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text) } else { &text };
        if !bytes.trim_ascii().is_empty() {
            table.add(bytes, line, rows)?;
        }
    }
    Ok(table.finish(rows))
}

/// Returns true if a table that starts like this is a list of objects.
pub(super) fn is_list(start: &[u8]) -> bool {
    let within = start.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    within.is_some_and(|within| within.starts_with(b"{") || within.starts_with(b"]"))
}

/// Reads a list of objects, at most `MAX_LIST` bytes, into memory. Each object is a row.
pub(super) fn read_list(input: impl BufRead, rows: &mut TableRows<'_>) -> Result<Vec<TableColumn>> {
    let mut text = Vec::new();
    input.take(MAX_LIST + 1).read_to_end(&mut text).map_err(SourceError::io("read", rows.file))?;
    if text.len() as u64 > MAX_LIST {
        let message = format!("the list has more than {MAX_LIST} bytes");
        return Err(rows.error(
            None,
            message,
            "write the table as JSON Lines (one object on each line), which may be of any length",
        ));
    }
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    let objects: Vec<&RawValue> = serde_json::from_slice(text).map_err(|error| {
        let message = format!("not a list of JSON objects: {} (column {})", without_place(&error), error.column());
        rows.error(Some(error.line() as u64), message, "")
    })?;
    let (mut table, mut line, mut rest) = (JsonTable::default(), 1, text);
    for object in objects {
        rows.cancel.check()?;
        // The object is a slice of the text, so its address shows in which line it starts.
        let start = object.get().as_ptr().addr().saturating_sub(rest.as_ptr().addr());
        let (before, after) = rest.split_at_checked(start).unwrap_or((rest, &[]));
        line += before.iter().filter(|byte| **byte == b'\n').count() as u64;
        rest = after;
        table.add(object.get().as_bytes(), line, rows)?;
    }
    Ok(table.finish(rows))
}

#[derive(Default)]
struct JsonTable {
    header: Option<(ColumnNames, usize)>,
    /// Values of the columns. The types are set by the first row that belongs to a packed sample.
    columns: Vec<Option<ColumnValues>>,
}

impl JsonTable {
    fn add(&mut self, bytes: &[u8], line: u64, rows: &mut TableRows<'_>) -> Result<()> {
        let JsonRow(pairs) = serde_json::from_slice(bytes).map_err(|error| {
            let (message, hint) = no_object(&error);
            rows.error(Some(line), message, hint)
        })?;
        let (names, key_place) = match &mut self.header {
            Some(header) => header,
            None => {
                let names: Vec<_> = pairs.iter().map(|(name, _)| name.as_str()).collect();
                let key_place = rows.key_column(&names, line)?;
                self.columns = pairs.iter().map(|_| None).collect();
                self.header.insert((ColumnNames::new(&names), key_place))
            }
        };
        let cells: Vec<(String, Cell)> = pairs
            .into_iter()
            .map(|(name, raw)| match Cell::of(raw) {
                Ok(cell) => Ok((name, cell)),
                Err(error) => {
                    let message = format!("`{}`: {}", short(&name), without_place(&error));
                    Err(rows.error(Some(line), message, ""))
                }
            })
            .collect::<Result<_>>()?;
        let cells = names.in_order(cells).map_err(|message| rows.error(Some(line), message, ""))?;
        let key = match cells.get(*key_place) {
            Some(Cell::Text(key)) => Cow::Borrowed(key.as_str()),
            Some(Cell::Int(key)) => Cow::Owned(key.to_string()),
            _ => {
                let name = names.list.get(*key_place).map_or("", |n| n);
                let message = format!("the key in `{}` must be a string or an integer", short(name));
                return Err(rows.error(Some(line), message, ""));
            }
        };
        if !rows.accept(&key, line)? {
            return Ok(());
        }
        for ((column, cell), name) in self.columns.iter_mut().zip(cells).zip(&names.list) {
            push(column, cell).map_err(|(message, hint)| {
                rows.error(Some(line), format!("`{}`: {message}", name.escape_debug()), hint)
            })?;
        }
        Ok(())
    }

    fn finish(self, rows: &TableRows<'_>) -> Vec<TableColumn> {
        let Some((names, key_place)) = self.header else { return Vec::new() };
        let named = names.list.into_iter().zip(self.columns).enumerate().filter(|(i, _)| *i != key_place);
        let column = |name: String, values| TableColumn { values: finished(values, rows.is_text(&name)), name };
        named.map(|(_, (name, values))| column(name, values)).collect()
    }
}

struct ColumnNames {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl ColumnNames {
    fn new(names: &[&str]) -> Self {
        let list: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let places = list.iter().cloned().zip(0..).collect();
        Self { list, places }
    }

    /// Puts the cells of a row into column order. The row must have exactly the names of the
    /// columns.
    fn in_order(&self, pairs: Vec<(String, Cell)>) -> Result<Vec<Cell>, String> {
        let mut cells: Vec<Option<Cell>> = self.list.iter().map(|_| None).collect();
        let mut unknown = None;
        for (i, (name, cell)) in pairs.into_iter().enumerate() {
            // Most tables have the same order in all rows, so try that first.
            let place = if self.list.get(i) == Some(&name) { Some(i) } else { self.places.get(&name).copied() };
            match place.and_then(|place| cells.get_mut(place)) {
                None => _ = unknown.get_or_insert(name),
                Some(Some(_)) => return Err(format!("`{}` occurs twice", short(&name))),
                Some(empty) => *empty = Some(cell),
            }
        }
        if let Some((name, _)) = self.list.iter().zip(&cells).find(|(_, cell)| cell.is_none()) {
            return Err(format!("`{}` is missing, but the first row has it", short(name)));
        }
        match unknown {
            Some(name) => Err(format!("this row has `{}`, but the first row does not", short(&name))),
            None => Ok(cells.into_iter().flatten().collect()),
        }
    }
}

/// Parses one of the three strings for floats that JSON lacks.
fn not_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn all_not_finite(values: &ColumnValues) -> Option<Vec<f64>> {
    match values {
        ColumnValues::Text(texts) if !texts.is_empty() => texts.iter().map(not_finite).collect(),
        _ => None,
    }
}

fn finished(values: Option<ColumnValues>, is_text: bool) -> ColumnValues {
    let values = values.unwrap_or(ColumnValues::Text(Texts::new()));
    let floats = if is_text { None } else { all_not_finite(&values) };
    floats.map_or(values, ColumnValues::Float)
}

const fn empty_like(cell: &Cell) -> Result<ColumnValues, Unfit> {
    Ok(match cell {
        Cell::Bool(_) => ColumnValues::Bool(Vec::new()),
        Cell::Int(_) => ColumnValues::Int(Vec::new()),
        Cell::Float(_) => ColumnValues::Float(Vec::new()),
        Cell::Text(_) => ColumnValues::Text(Texts::new()),
        Cell::Json(_) => ColumnValues::Json(Texts::new()),
        Cell::Unfit(unfit) => return Err(*unfit),
    })
}

/// Adds a cell to a column. A column may mix integers and other numbers if no digits are lost. On failure,
/// returns the problem and a hint.
fn push(column: &mut Option<ColumnValues>, cell: Cell) -> Result<(), (String, &'static str)> {
    const INEXACT: &str =
        "the column mixes integers above 2^53 with fractional numbers, so the integers would lose digits";
    let inexact = || (INEXACT.to_owned(), "");
    let like = empty_like(&cell).map_err(|unfit| {
        let (what, hint) = unfit.reason();
        (what.to_owned(), hint)
    })?;
    let found = like.type_name();
    let column = column.get_or_insert(like);
    let number = matches!(cell, Cell::Int(_) | Cell::Float(_));
    if number && let Some(floats) = all_not_finite(column) {
        *column = ColumnValues::Float(floats);
    }
    let cell = match (&*column, cell) {
        (ColumnValues::Int(_) | ColumnValues::Float(_), Cell::Text(text)) => {
            not_finite(&text).map_or(Cell::Text(text), Cell::Float)
        }
        (_, cell) => cell,
    };
    match (&mut *column, cell) {
        (ColumnValues::Bool(values), Cell::Bool(value)) => values.push(value),
        (ColumnValues::Int(values), Cell::Int(value)) => values.push(value),
        (ColumnValues::Float(values), Cell::Float(value)) => values.push(value),
        (ColumnValues::Float(values), Cell::Int(value)) => values.push(cells::exact(value).ok_or_else(inexact)?),
        (ColumnValues::Int(values), Cell::Float(value)) => {
            let mut floats =
                values.iter().map(|&value| cells::exact(value)).collect::<Option<Vec<_>>>().ok_or_else(inexact)?;
            floats.push(value);
            *column = ColumnValues::Float(floats);
        }
        (ColumnValues::Text(texts), Cell::Text(text)) | (ColumnValues::Json(texts), Cell::Json(text)) => {
            texts.push(&text)
        }
        (column, _) => {
            let expected = column.type_name();
            return Err((format!("expected {expected} as in earlier rows, found {found}"), ""));
        }
    }
    Ok(())
}

/// Describes the problem with a line that is not an object, and returns a hint.
fn no_object(error: &serde_json::Error) -> (String, &'static str) {
    let message = without_place(error);
    match error.classify() {
        Category::Syntax | Category::Eof => {
            let hint = "write one JSON object on each line";
            (format!("not valid JSON: {message} (column {})", error.column()), hint)
        }
        Category::Data | Category::Io => (message, ""),
    }
}

/// Returns the text of an error without a position such as "at line 1 column 7", because the line is always 1.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or_else(|| text.clone(), |(message, _)| message.to_owned())
}
