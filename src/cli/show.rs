//! Prints a command's results on stdout and everything else on stderr.

use crate::explain::{explain, explain_where};
use serde::Serialize;
use serde_json::Value;
use shardpack_format::{Hint, Note, Voice, told, visible, visible_json, visible_lines};
use shardpack_reader::{Error as ReaderError, Scalar};
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes text to stdout, with invisible characters replaced by their numbers.
pub(super) fn print(text: &str) -> crate::Result<()> {
    write(&visible_lines(text))
}

fn write(text: &str) -> crate::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON object and a newline to stdout.
pub(super) fn json<T: Serialize>(value: &T) -> crate::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write(&visible_json(&text))
}

/// Writes a note to stderr. Ignores a closed stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible_lines(text));
}

pub(super) fn next(text: &str, hint: impl Into<Hint>) {
    note(&Note::new(text).with_hint(hint).told(Voice::Command));
}

pub(super) fn hint(hint: &Hint) {
    note(told("", [hint], Voice::Command).trim_start());
}

/// Writes an error and its causes to stderr, followed by the hints.
pub(super) fn error(error: &crate::Error) {
    error_where(error, |_| true);
}

/// Like [`error`], but writes only those hints whose options the command has.
pub(super) fn error_where(error: &crate::Error, can_follow: impl Fn(&Hint) -> bool) {
    note(&format!("error: {}", explain_where(error, Voice::Command, can_follow)));
}

pub(super) fn said(error: &ReaderError) -> String {
    explain(error, Voice::Command)
}

/// Returns true if the reader of our stdout has closed it, as `head` does. This is not a failure.
pub(super) fn is_broken_pipe(error: &crate::Error) -> bool {
    error.system_kind() == Some(io::ErrorKind::BrokenPipe)
}

/// Returns true if the bytes of a dataset caused the error, not the environment or the caller. The exit code is then 1.
pub(super) fn is_about_data(error: &crate::Error) -> bool {
    error.kind().is_about_data()
}

/// Formats text from a dataset on one line, without characters that a terminal interprets.
pub(super) fn plain(text: &str) -> String {
    visible(text).into_owned()
}

/// Returns a scalar as JSON. NaN and infinity become null, because JSON lacks them.
pub(super) fn scalar(value: Scalar) -> Value {
    match value {
        Scalar::Bool(v) => v.into(),
        Scalar::Unsigned(v) => v.into(),
        Scalar::Signed(v) => v.into(),
        Scalar::Float(v) => v.into(),
    }
}

/// Formats a table of two columns, padding the first.
pub(super) fn pairs(rows: &[(&str, String)]) -> String {
    let rows: Vec<_> = rows.iter().map(|(name, value)| (visible(name), visible(value))).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:<width$}  {value}\n")).collect()
}

/// Formats a table with a header. Columns of numbers are right-aligned.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let cells = |i: usize| rows.iter().filter_map(move |row| row.get(i));
    let columns: Vec<(usize, bool)> = header
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let width = cells(i).map(|c| c.chars().count()).max().unwrap_or(0).max(name.chars().count());
            let number = |c: &Cow<'_, str>| c.chars().next().is_some_and(|c| c.is_ascii_digit() || c == '-');
            (width, rows.is_empty() || cells(i).all(number))
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut out = String::from(" ");
        for (cell, (width, right)) in cells.into_iter().zip(&columns) {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if *right { (pad.as_str(), "") } else { ("", pad.as_str()) };
            out.push_str(&format!(" {before}{cell}{after}"));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    };
    let mut out = line(header.to_vec());
    rows.iter().for_each(|row| out.push_str(&line(row.iter().map(AsRef::as_ref).collect())));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Error as FormatError;

    #[test]
    fn tables_line_up() {
        let text = table(&["name", "bytes"], &[vec!["a".into(), "5".into()], vec!["longer".into(), "12345".into()]]);
        assert_eq!(text, "  name   bytes\n  a          5\n  longer 12345\n");
        assert_eq!(pairs(&[("a", "x".into()), ("bcd", "y".into())]), "  a    x\n  bcd  y\n");
    }

    #[test]
    fn errors_about_data_are_told_from_the_others_below_a_context() {
        let is_about_data = |error: crate::Error| is_about_data(&error.context("cannot open"));
        let format = FormatError::format("footer", "a whole one", "half");
        assert!(is_about_data(format.clone().into()) && is_about_data(ReaderError::from(format).into()));
        assert!(is_about_data(ReaderError::from(FormatError::limit("record", "max_record_bytes", 1, 2)).into()));
        assert!(!is_about_data(ReaderError::from(FormatError::usage("index: expected below 3, found 4")).into()));
        assert!(!is_about_data(io::Error::from(io::ErrorKind::NotFound).into()));
    }

    #[test]
    fn a_cell_of_a_table_stays_on_its_line() {
        let cell = || "a\nhint: \x1b[2J".to_owned();
        assert_eq!(pairs(&[("k\n", cell())]), "  k\\n  a\\nhint: \\u{1b}[2J\n");
        assert_eq!(table(&["name"], &[vec![cell()]]).lines().count(), 2);
    }

    #[test]
    fn a_broken_pipe_is_found_below_a_context() {
        let error = crate::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("while printing");
        assert!(is_broken_pipe(&error));
    }
}
