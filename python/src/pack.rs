//! Python functions that pack, merge, verify and grow datasets.

use crate::arguments::{Packing, StoreKeywords, Target, adding};
use crate::errors::{UsageError, raise, raise_where};
use crate::watch::{leave, watch, watch_quietly};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;
use shardpack::place::{for_adding, for_packing};
use shardpack_format::{Note, Voice};
use shardpack_pack::grow::{AddOptions, RewriteOptions};
use shardpack_pack::pack::{FidelityTotals, Hooks, PackOptions};
use shardpack_recipe::parse_size;
use shardpack_writer::Output;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Packs a source. Returns the JSON that `shardpack pack --json` prints, and the notes for the user.
#[pyfunction]
pub(crate) fn pack(
    py: Python<'_>,
    mut src: PathBuf,
    out: PathBuf,
    options: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
    storage_options: Vec<(String, String)>,
) -> PyResult<(String, Vec<String>)> {
    let packing = Packing::read(options)?;
    let mut options = packing.options(&out)?;
    let out = packing.destination(out);
    let packed = watch(py, progress, crate::writer::describe, |cancel, tell| {
        options.source.cancel = Some(Arc::clone(cancel));
        let hooks = Hooks { on_plan: &|_| {}, on_progress: &|now| tell(*now), cancel };
        let stop = Some(Arc::clone(cancel));
        let out = for_packing(&mut src, &mut options.source, &out, &storage_options, stop)?;
        if !options.source.splits {
            let packed = shardpack_pack::pack::pack(&src, out, &options, &hooks)?;
            return Ok((packed.to_json(), packed.notes));
        }
        let packed = shardpack_pack::pack::pack_splits(&src, out, &options, &hooks)?;
        let of_splits = packed
            .splits
            .iter()
            .flat_map(|(name, packed)| packed.notes.iter().map(move |note| note.clone().about(name)));
        Ok((packed.to_json(), packed.notes.iter().cloned().chain(of_splits).collect()))
    })?;
    let (json, mut notes) = packed.map_err(|e: shardpack::Error| raise(e))?;
    notes.splice(0..0, packing.note);
    Ok((json.to_string(), in_python(&notes)))
}

/// Predicts the time, size and memory of packing a source. Returns the JSON that `shardpack plan --json` prints.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    mut src: PathBuf,
    out: PathBuf,
    parts: i64,
    options: &Bound<'_, PyDict>,
    storage_options: Vec<(String, String)>,
) -> PyResult<String> {
    let fitting = u32::try_from(parts).ok().filter(|parts| (1..=1_000_000).contains(parts));
    let wrong = || UsageError::new_err(format!("parts: expected a number from 1 to 1000000, found {parts}"));
    let parts = fitting.ok_or_else(wrong)?;
    let packing = Packing::read(options)?;
    let read = PackOptions::read_for_plan(&packing.given, &out, packing.take_over);
    let mut options = read.map_err(raise)?;
    let out = packing.destination(out);
    let stop = Arc::new(AtomicBool::new(false));
    options.source.cancel = Some(Arc::clone(&stop));
    let found = watch_quietly(py, &stop, || {
        let out = for_packing(&mut src, &mut options.source, &out, &storage_options, Some(Arc::clone(&stop)))?;
        shardpack_pack::pack::forecast(&src, out.path(), &options, parts)
    })?;
    Ok(found.map_err(raise)?.to_json().to_string())
}

pub(crate) fn in_python(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| note.told(Voice::Python)).collect()
}

/// Parses a size as the command line does, such as `4GiB`, and returns it in bytes.
#[pyfunction]
pub(crate) fn size(text: &str) -> PyResult<u64> {
    parse_size(text).map_err(pyo3::exceptions::PyValueError::new_err)
}

/// Joins the parts of a dataset. Returns the JSON that `shardpack merge --json` prints.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, out: PathBuf, store: StoreKeywords) -> PyResult<String> {
    let merged = Target::new(out, store).quietly(py, &Arc::default(), shardpack_writer::merge::<FidelityTotals>)?;
    let report = merged.map_err(|error| {
        let array = match &error {
            shardpack_writer::Error::Unfinished(unfinished) => unfinished.parts.map(|_| unfinished.array()),
            _ => None,
        };
        let error = raise(error);
        match array.map_or(Ok(()), |array| error.value(py).setattr("array", array)) {
            Ok(()) => error,
            Err(other) => other,
        }
    })?;
    Ok(shardpack_pack::pack::report_json(&report).to_string())
}

/// Verifies a dataset. Returns the JSON that `shardpack verify --json` prints.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn verify(
    py: Python<'_>,
    dataset: PathBuf,
    storage_options: Vec<(String, String)>,
    deep: bool,
    digest: bool,
    threads: usize,
    max_record: u64,
    generation: Option<u32>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let limits = shardpack::read_limits(max_record);
    let checks = shardpack::Checks { deep, digest, generation, limits, threads };
    let describe = |now: &shardpack_reader::Progress, dict: &Bound<'_, PyDict>| {
        dict.set_item("samples", now.samples_done)?;
        now.samples_total.map_or(Ok(()), |total| dict.set_item("samples_total", total))?;
        dict.set_item("bytes", now.bytes_done)?;
        dict.set_item("bytes_total", now.bytes_total)
    };
    let checked = leave(py, progress, describe, move |cancel, tell| {
        shardpack::check(&dataset, &storage_options, &checks, &tell, cancel)
    })?;
    Ok(checked.map_err(raise)?.to_json(deep, digest).to_string())
}

/// Adds samples to a dataset. Returns the JSON that `shardpack add --json` prints, and the notes for the user.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn add(
    py: Python<'_>,
    dataset: PathBuf,
    mut src: PathBuf,
    options: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
    store: StoreKeywords,
) -> PyResult<(String, Vec<String>)> {
    let mut options = adding(options)?;
    let target = Target::new(dataset, store);
    let added = watch(py, progress, crate::writer::describe, |cancel, tell| {
        options.cancel = Some(Arc::clone(cancel));
        let hooks = Hooks { on_plan: &|_| {}, on_progress: &|now| tell(*now), cancel };
        let out = for_adding(&mut src, &mut options, &target.to, &target.storage_options, Some(Arc::clone(cancel)))?;
        shardpack_pack::grow::add(out, &src, &options, &hooks)
    })?;
    let added = added.map_err(|e: shardpack::Error| raise_where(e, AddOptions::can_follow))?;
    Ok((added.to_json().to_string(), in_python(&added.packed.notes)))
}

/// Keywords of the functions that write a generation from the samples of the dataset.
pub(crate) struct Rewriting {
    pub(crate) target: Target,
    pub(crate) force: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) max_record: u64,
}

impl Rewriting {
    /// Runs the work as [`watch`] does.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(Output, &RewriteOptions<'_>) -> shardpack::Result<R> + Send,
    ) -> PyResult<R> {
        let done = watch(py, progress, crate::writer::describe, |cancel, tell| {
            let on_progress = |now: &shardpack_writer::Progress| tell(*now);
            let limits = shardpack::read_limits(self.max_record);
            let base = RewriteOptions::default();
            let options = RewriteOptions {
                force: self.force,
                threads: self.threads.unwrap_or(base.threads),
                limits,
                on_progress: Some(&on_progress),
                cancel: Some(cancel),
            };
            work(self.target.output(cancel)?, &options)
        })?;
        done.map_err(raise)
    }
}

/// Creates a generation without the samples with these keys. Returns the JSON that `shardpack remove --json`
/// prints, and the notes for the user.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn remove(
    py: Python<'_>,
    dataset: PathBuf,
    keys: Vec<String>,
    force: bool,
    threads: Option<usize>,
    max_record: u64,
    progress: Option<&Bound<'_, PyAny>>,
    store: StoreKeywords,
) -> PyResult<(String, Vec<String>)> {
    let rewriting = Rewriting { target: Target::new(dataset, store), force, threads, max_record };
    let removed = rewriting.run(py, progress, |out, options| shardpack_pack::grow::remove(out, &keys, options))?;
    Ok((json!(removed).to_string(), removed.notes))
}

/// Adds segment indexes to kept JPEGs. Returns a JSON object, and notes for the user.
#[pyfunction]
pub(crate) fn add_indexes(
    py: Python<'_>,
    dataset: PathBuf,
    force: bool,
    threads: Option<usize>,
    max_record: u64,
    progress: Option<&Bound<'_, PyAny>>,
    store: StoreKeywords,
) -> PyResult<(String, Vec<String>)> {
    let rewriting = Rewriting { target: Target::new(dataset, store), force, threads, max_record };
    let indexed = rewriting.run(py, progress, shardpack_pack::grow::add_indexes)?;
    Ok((json!(indexed).to_string(), indexed.notes))
}

/// Deletes all generations but the newest, and returns the JSON that `shardpack compact --json` prints.
#[pyfunction]
pub(crate) fn compact(py: Python<'_>, dataset: PathBuf, store: StoreKeywords) -> PyResult<String> {
    let gone = Target::new(dataset, store).quietly(py, &Arc::default(), shardpack_pack::grow::compact)?;
    Ok(json!(gone.map_err(raise)?).to_string())
}
