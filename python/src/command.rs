//! The command, for `python -m shardpack` and the console script.

use pyo3::prelude::*;

/// Runs the command that `args` say, its own name first, and returns its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| shardpack::cli::main_from(args))
}
