//! Errors of the packer as exceptions, in Python's words: the command's `--max-error 0.5` is
//! `max_error=0.5` here.

use crate::errors::{FormatError, LimitError, UsageError, without_limits};
use pyo3::exceptions::{PyBlockingIOError, PyOSError};
use pyo3::prelude::*;
use shardpack_pack::collect::CollectError;
use shardpack_pack::pack::SampleError;
use std::io;
use std::path::Path;

/// The exception for the error that stopped the packer.
pub(crate) fn raise_any(error: &anyhow::Error) -> PyErr {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Many errors repeat their cause in their own text.
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let text = in_keywords(&hints_last(&without_limits(&text)));
    for cause in error.chain() {
        if let Some(found) = cause.downcast_ref::<CollectError>() {
            return match found {
                CollectError::Io { action, path, source } => os_error(action, path, source),
                CollectError::Writer(found) => writer_error(found, text),
                CollectError::Encode { source, .. } if matches!(**source, SampleError::Picture { .. }) => {
                    FormatError::new_err(text)
                }
                _ => UsageError::new_err(text),
            };
        }
        if let Some(found) = cause.downcast_ref::<shardpack_writer::Error>() {
            return writer_error(found, text);
        }
        if let Some(found) = cause.downcast_ref::<shardpack_format::Error>() {
            return format_error(found, text);
        }
        if let Some(shardpack_reader::Error::Io { path, action, source, .. }) = cause.downcast_ref() {
            return os_error(action, path, source);
        }
        if let Some(found) = cause.downcast_ref::<shardpack_reader::Error>() {
            return if found.is_about_data() { FormatError::new_err(text) } else { UsageError::new_err(text) };
        }
        if let Some(found) = cause.downcast_ref::<io::Error>() {
            return io_error(found, &text);
        }
    }
    UsageError::new_err(text)
}

fn writer_error(error: &shardpack_writer::Error, text: String) -> PyErr {
    use shardpack_writer::Error;
    match error {
        Error::Io { action, path, source } => os_error(action, path, source),
        Error::NoSpace { source, .. } => io_error(source, &text),
        Error::Format(error) => format_error(error, text),
        Error::Damaged { .. } => FormatError::new_err(text),
        Error::Limit { .. } => LimitError::new_err(text),
        Error::Locked { .. } => PyBlockingIOError::new_err(text),
        _ => UsageError::new_err(text),
    }
}

fn format_error(error: &shardpack_format::Error, text: String) -> PyErr {
    use shardpack_format::Error;
    match error {
        Error::Format { .. } => FormatError::new_err(text),
        Error::Limit { .. } => LimitError::new_err(text),
        _ => UsageError::new_err(text),
    }
}

fn io_error(error: &io::Error, text: &str) -> PyErr {
    match error.raw_os_error() {
        // Python puts the number before the text, and uses it to pick the subclass.
        Some(errno) => PyOSError::new_err((errno, text.replace(&format!(" (os error {errno})"), ""))),
        None => PyOSError::new_err(text.to_owned()),
    }
}

fn os_error(action: &str, path: &Path, source: &io::Error) -> PyErr {
    let why = source.to_string();
    let why = why.split(" (os error ").next().unwrap_or_default();
    let text = format!("cannot {action}: {why}");
    match source.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, text, path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("`{}`: {text}", path.display())),
    }
}

/// Next steps, after everything else, each one once.
fn hints_last(text: &str) -> String {
    let (hints, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("hint:"));
    rest.into_iter().chain(hints).collect::<Vec<_>>().join("\n")
}

/// Options of the command that are switches.
const SWITCHES: [&str; 7] = ["force", "no-shuffle", "upright", "keep-metadata", "deep", "splits", "follow-links"];

/// `--values fixed --max-error E` as `values="fixed", max_error=E`; `--force` as `force=True`.
pub(crate) fn in_keywords(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Whether the option before was inside quotes that are still open.
    let mut goes_on = false;
    while let Some(at) = rest.find("--") {
        let (before, from) = rest.split_at(at);
        let name = from.get(2..).unwrap_or_default();
        let end = name.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(name.len());
        let (name, mut after) = name.split_at(end);
        let begins = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if name.is_empty() || !begins {
            out += before;
            out += "--";
            rest = from.get(2..).unwrap_or_default();
            continue;
        }
        out += before;
        out += &name.replace('-', "_");
        if let Some(tail) = placeholder(after) {
            after = tail;
        } else if SWITCHES.contains(&name) {
            out += "=True";
        } else if let Some((value, tail)) = value_of(after, goes_on || before.ends_with(['`', '\''])) {
            let is_word = value.starts_with(|c: char| c.is_ascii_lowercase());
            out += &if is_word { format!("=\"{value}\"") } else { format!("={value}") };
            // Another option in the same quotes.
            goes_on = tail.starts_with(" --");
            after = if goes_on { tail.get(1..).unwrap_or_default() } else { tail };
            if goes_on {
                out += ", ";
            }
        } else {
            goes_on = false;
        }
        rest = after;
    }
    out += rest;
    out
}

/// Clap's placeholder for a value, in angle brackets after the name: it means nothing in Python.
fn placeholder(after: &str) -> Option<&str> {
    Some(after.strip_prefix(" <")?.split_once('>')?.1)
}

/// The value that follows the name of an option inside quotes.
fn value_of(after: &str, quoted: bool) -> Option<(&str, &str)> {
    let value = after.strip_prefix(' ').filter(|_| quoted)?;
    let end = value.find([' ', '`', '\'', '\n']).unwrap_or(value.len());
    let (value, tail) = value.split_at(end);
    let plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "-.=".contains(c));
    (plain && !value.starts_with("--")).then_some((value, tail))
}
