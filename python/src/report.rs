//! Reports from Python.

use crate::watch::watch;
use crate::words::raise_any;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Runs `shardpack report ARGS…`. Returns the object that `--json` prints, as text; a piece of HTML
/// for a notebook; and what the user should know.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    args: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, Vec<String>)> {
    let describe = |now: &(u64, u64, &'static str), dict: &Bound<'_, PyDict>| {
        dict.set_item("done", now.0)?;
        dict.set_item("total", now.1)?;
        dict.set_item("doing", now.2)
    };
    let reported = watch(py, progress, describe, |cancel, tell| {
        shardpack::cli::report(args, &|done, of, what| tell((done, of, what)), cancel)
    })?;
    let reported = reported.map_err(|e| raise_any(&e))?;
    let json = serde_json::to_string(&reported.data).map_err(|e| raise_any(&e.into()))?;
    let notes = reported.data.notes.iter().map(|note| crate::words::in_keywords(note)).collect();
    Ok((json, reported.fragment, notes))
}

/// The long options of `shardpack report`, and whether each takes a value.
#[pyfunction]
pub(crate) fn report_flags() -> Vec<(String, bool)> {
    shardpack::cli::report_flags().into_iter().map(|flag| (flag.name, flag.takes_value)).collect()
}
