//! Errors of the packer as exceptions.

use crate::errors::{FormatError, LimitError, UsageError, os_error};
use pyo3::exceptions::{PyBlockingIOError, PyOSError};
use pyo3::prelude::*;
use shardpack::explain::explain_where;
use shardpack_format::{Hint, Voice};
use shardpack_pack::collect::CollectError;
use shardpack_pack::pack::SampleError;
use std::io;

/// The exception for the error that stopped the packer.
pub(crate) fn raise_any(error: &anyhow::Error) -> PyErr {
    raise_where(error, |_| true)
}

/// The same, with those hints alone that can be followed by who called.
pub(crate) fn raise_where(error: &anyhow::Error, can_follow: impl Fn(&Hint) -> bool) -> PyErr {
    let text = explain_where(error, Voice::Python, can_follow);
    for cause in error.chain() {
        if let Some(found) = cause.downcast_ref::<CollectError>() {
            return match found {
                CollectError::Io { action, path, source } => os_error(action, path, source),
                CollectError::Writer(found) => writer_error(found, text),
                CollectError::Reader(found) => reader_error(found, text),
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
        if let Some(found) = cause.downcast_ref::<shardpack_reader::Error>() {
            return reader_error(found, text);
        }
        if let Some(found) = cause.downcast_ref::<io::Error>() {
            return io_error(found, &text);
        }
    }
    UsageError::new_err(text)
}

fn reader_error(error: &shardpack_reader::Error, text: String) -> PyErr {
    match error {
        shardpack_reader::Error::Io { path, action, source, .. } => os_error(action, path, source),
        error if error.is_about_data() => FormatError::new_err(text),
        _ => UsageError::new_err(text),
    }
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

/// A text with its URLs as messages may show them: without user, password and query.
#[pyfunction]
pub(crate) fn plain_urls(text: &str) -> String {
    shardpack_format::plain_urls(text).into_owned()
}
