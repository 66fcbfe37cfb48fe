//! Errors of the libraries as Python exceptions. Each derives from the matching built-in one.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardpack_format::{Hinted, Voice, told};
use shardpack_reader::Error;
use std::io;
use std::path::Path;

create_exception!(
    shardpack,
    FormatError,
    PyValueError,
    "The bytes of a file break the specification: it is damaged, or not what it says it is."
);
create_exception!(
    shardpack,
    LimitError,
    PyValueError,
    "The bytes of a file ask for more than the limits allow: more memory, more samples."
);
create_exception!(
    shardpack,
    NoDeviceError,
    PyRuntimeError,
    "There is no CUDA driver on this machine, no device of this number, or one that is too old."
);
create_exception!(shardpack, UsageError, PyValueError, "An argument does not fit the dataset, or another argument.");

/// The exception for an error of the system, with the hint that stands in it.
pub(crate) fn os_error(action: &str, path: &Path, source: &io::Error) -> PyErr {
    os_error_of(action, path, source, "")
}

/// The same, which says at its end what it is `of`.
fn os_error_of(action: &str, path: &Path, source: &io::Error, of: &str) -> PyErr {
    let why = source.to_string();
    // Python puts the number before the text.
    let why = why.split(" (os error ").next().unwrap_or_default();
    let hint = source.get_ref().and_then(|inner| Hinted::hint_in(inner));
    let text = told(format_args!("cannot {action}: {why}{of}"), &hint, Voice::Python);
    match source.raw_os_error() {
        // With an errno first, Python picks the subclass: FileNotFoundError, PermissionError.
        Some(errno) => PyOSError::new_err((errno, text, path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("`{}`: {text}", path.display())),
    }
}

/// The exception for an error of the reader.
pub(crate) fn raise(error: Error) -> PyErr {
    let hint = error.hint();
    let said = told(&error, &hint, Voice::Python);
    match error {
        Error::Io { path, action, offset, sample, source } => {
            let at = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
            let of = sample.map(|sample| format!(": {sample}")).unwrap_or_default();
            os_error_of(&format!("{action}{at}"), &path, &source, &of)
        }
        Error::Format(_) => FormatError::new_err(said),
        Error::Limit(_) => LimitError::new_err(said),
        Error::Usage { .. } => UsageError::new_err(said),
        _ => PyRuntimeError::new_err(said),
    }
}
