//! The Python function that makes a report.

use crate::arguments::reporting;
use crate::errors::raise;
use crate::pack::in_python;
use crate::watch::watch;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Creates a report and writes the page to `output`. Returns the JSON that `shardpack report --json` prints, the HTML
/// for a notebook, and the notes for the user.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    src: PathBuf,
    output: Option<PathBuf>,
    options: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, Vec<String>)> {
    let arguments = reporting(options)?;
    let describe = |now: &(u64, u64, &'static str), dict: &Bound<'_, PyDict>| {
        dict.set_item("done", now.0)?;
        dict.set_item("total", now.1)?;
        dict.set_item("doing", now.2)
    };
    let reported = watch(py, progress, describe, |cancel, tell| {
        let on_progress = |done, of, what| tell((done, of, what));
        shardpack::report(&src, output.as_deref(), &arguments, &on_progress, cancel)
    })?;
    let reported = reported.map_err(raise)?;
    let json = serde_json::to_string(&reported.data).map_err(raise)?;
    Ok((json, reported.fragment, in_python(&reported.notes)))
}
