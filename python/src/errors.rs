//! Errors of the libraries as Python exceptions. Each derives from the matching built-in one.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardpack_reader::Error;

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
    "There is no CUDA driver on this machine, or no device of this number."
);
create_exception!(shardpack, UsageError, PyValueError, "An argument does not fit the dataset, or another argument.");

/// The text without the hint that names a limit: no argument of packing raises that limit.
pub(crate) fn without_limits(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("hint: raise `Limits::")).collect::<Vec<_>>().join("\n")
}

/// The text, with limits named by the arguments that raise them. No dataset of ours comes near a
/// limit without an argument.
pub(crate) fn in_arguments(text: &str) -> String {
    let limits = ["`Limits::max_record_bytes`", "`Limits::max_decoded_bytes`"];
    let text = limits.iter().fold(text.to_owned(), |text, limit| text.replace(limit, "`max_record` of the Dataset"));
    let text = text.replace("`Limits::max_batch_bytes (of LoaderOptions)`", "`max_batch` of the Loader");
    let text = text.replace("`max_batch_bytes` of the options", "`max_batch` of the Loader");
    without_limits(&text)
}

/// The exception for an error of the reader.
pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::Io { path, action, offset, source } => {
            let at = offset.map(|offset| format!(" at offset {offset}")).unwrap_or_default();
            let why = source.to_string();
            // Python puts the number before the text.
            let why = why.split(" (os error ").next().unwrap_or_default();
            let text = format!("cannot {action}{at}: {why}");
            match source.raw_os_error() {
                // With an errno first, Python picks the subclass: FileNotFoundError,
                // PermissionError.
                Some(errno) => PyOSError::new_err((errno, text, path.into_os_string())),
                None => PyOSError::new_err(format!("`{}`: {text}", path.display())),
            }
        }
        Error::Format(_) => FormatError::new_err(error.to_string()),
        Error::Limit(_) => LimitError::new_err(in_arguments(&error.to_string())),
        Error::Usage { .. } => UsageError::new_err(in_arguments(&error.to_string())),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}
