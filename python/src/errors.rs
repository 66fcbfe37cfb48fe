//! Converts errors of the library to Python exceptions, each derived from the matching built-in exception.

use pyo3::create_exception;
use pyo3::exceptions::{PyBlockingIOError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardpack::explain::{explain, explain_where};
use shardpack::{ErrorKind, Explain};
use shardpack_format::{Hint, Voice, told};
use shardpack_pack::collect::{CollectError, SampleRefusal};

create_exception!(shardpack, FormatError, PyValueError, "A file is damaged, or is not in the expected format.");
create_exception!(shardpack, LimitError, PyValueError, "A file exceeds the limits for memory or samples.");
create_exception!(
    shardpack,
    NoDeviceError,
    PyRuntimeError,
    "This machine has no CUDA driver or no device with this number, or the driver or device is too old."
);
create_exception!(shardpack, UsageError, PyValueError, "An argument contradicts the dataset or another argument.");

create_exception!(shardpack, RepeatedKeyError, UsageError, "Two samples have the same key.");
create_exception!(shardpack, KnownKeyError, UsageError, "The dataset already has a sample with this key.");

pub(crate) fn raise(error: impl Into<shardpack::Error>) -> PyErr {
    raise_where(error, |_| true)
}

/// Like [`raise`], but drops hints that the caller cannot follow.
pub(crate) fn raise_where(error: impl Into<shardpack::Error>, can_follow: impl Fn(&Hint) -> bool) -> PyErr {
    let error = error.into();
    let text = explain_where(&error, voice(), &can_follow);
    match error.kind() {
        ErrorKind::Io => os_error(&error, text, can_follow),
        ErrorKind::Format => FormatError::new_err(text),
        ErrorKind::Limit => LimitError::new_err(text),
        ErrorKind::Busy => PyBlockingIOError::new_err(text),
        ErrorKind::Internal => PyRuntimeError::new_err(text),
        _ => UsageError::new_err(text),
    }
}

/// Raises an error of a sample. Its attribute `reason` is the message without the key, for callers that name samples in
/// another way.
pub(crate) fn raise_of_sample(py: Python<'_>, error: CollectError) -> PyErr {
    let text = explain(&error, voice());
    let reason = match &error {
        CollectError::RepeatedKey { .. } => return RepeatedKeyError::new_err(text),
        CollectError::Sample { refusal, .. } => explain(refusal, voice()),
        _ => return raise(error),
    };
    let raised = match error {
        CollectError::Sample { refusal: SampleRefusal::KnownKey(_), .. } => KnownKeyError::new_err(text),
        other => raise(other),
    };
    raised.value(py).setattr("without_key", reason).err().unwrap_or(raised)
}

/// Returns the front end of the calling program: `convert` and `export` are commands that are written in Python.
pub(crate) fn voice() -> Voice {
    let is_command =
        |py: Python<'_>| py.import("shardpack._voice")?.getattr("is_command")?.call_method0("get")?.extract();
    match Python::attach(is_command) {
        Ok(true) => Voice::Command,
        Ok(false) | Err(_) => Voice::Python,
    }
}

fn os_error(error: &shardpack::Error, text: String, can_follow: impl Fn(&Hint) -> bool) -> PyErr {
    let Some(system) = error.system_error() else { return PyOSError::new_err(text) };
    match (system.code, system.path) {
        // With an error code as the first argument, Python picks the subclass, such as FileNotFoundError or
        // PermissionError.
        (Some(code), Some(path)) => {
            let mut hints = error.hints();
            hints.retain(can_follow);
            PyOSError::new_err((code, told(&system.text, &hints, voice()), path.as_os_str().to_owned()))
        }
        // Python puts the code before the text, so remove it from the text.
        (Some(code), None) => PyOSError::new_err((code, text.replace(&format!(" (os error {code})"), ""))),
        (None, _) => PyOSError::new_err(text),
    }
}

/// Returns the text with user, password and query removed from its URLs, so that it is safe to show.
#[pyfunction]
pub(crate) fn plain_urls(text: &str) -> String {
    shardpack_format::plain_urls(text).into_owned()
}
