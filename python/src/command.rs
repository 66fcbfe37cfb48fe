//! Runs the shardpack command, for `python -m shardpack` and the console script.

use crate::watch::detached;
use pyo3::prelude::*;

/// Runs the command line `args` and returns its exit code. The first argument is the program's name.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> PyResult<u8> {
    detached(py, || shardpack::cli::main_from(args))
}
