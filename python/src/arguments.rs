//! Converts the keyword arguments of Python functions to options of the packer.

use crate::errors::{UsageError, raise};
use crate::watch::watch_quietly;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use shardpack::place::Destination;
use shardpack_format::Note;
use shardpack_pack::collect::AppendOptions;
use shardpack_pack::grow::AddOptions;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::{OptionValue, StorageOptions};
use shardpack_writer::Output;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns the options by name. Python has already checked their types. An option whose value is a list appears once
/// for each element.
fn given(options: &Bound<'_, PyDict>) -> PyResult<Vec<(String, OptionValue)>> {
    let mut all = Vec::new();
    for (name, given) in options {
        let name: String = name.extract()?;
        match given.cast::<PyList>() {
            Ok(list) => {
                for one in list.iter() {
                    all.push((name.clone(), value(&one)?));
                }
            }
            Err(_) => all.push((name, value(&given)?)),
        }
    }
    Ok(all)
}

fn value(given: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    // Check for a bool first, because a Python bool is also an int.
    if given.is_instance_of::<PyBool>() {
        return given.extract().map(OptionValue::Switch);
    }
    if given.is_instance_of::<PyInt>() {
        return given.extract().map(OptionValue::Integer);
    }
    if given.is_instance_of::<PyFloat>() {
        return given.extract().map(OptionValue::Float);
    }
    if given.is_instance_of::<PyString>() {
        return given.extract().map(OptionValue::Text);
    }
    if given.is_instance_of::<PyTuple>() {
        return given.extract().map(|(first, second)| OptionValue::Pair(first, second));
    }
    given.extract::<PathBuf>().map(OptionValue::Path)
}

/// Returns the number of cores that this process may use, from its affinity and its cgroup. This is the default number
/// of loader threads.
#[pyfunction]
pub(crate) fn cores() -> usize {
    shardpack_io::cores()
}

/// The keywords `spool`, `take_over` and `storage_options` of functions that change a dataset.
pub(crate) type StoreKeywords = (Option<PathBuf>, bool, Vec<(String, String)>);

/// A dataset to write or to change, and the settings of its store.
pub(crate) struct Target {
    pub(crate) to: Destination,
    pub(crate) storage_options: Vec<(String, String)>,
}

impl Target {
    pub(crate) fn new(path: PathBuf, (spool, take_over, storage_options): StoreKeywords) -> Self {
        Self { to: Destination { path, spool, take_over }, storage_options }
    }

    /// Returns the output. Setting `stop` cancels its requests to a store.
    pub(crate) fn output(&self, stop: &Arc<AtomicBool>) -> shardpack_reader::Result<Output> {
        self.to.output(&self.storage_options, Some(Arc::clone(stop)))
    }

    /// Runs `work` on the output, as [`watch_quietly`] does.
    pub(crate) fn quietly<R: Send>(
        &self,
        py: Python<'_>,
        stop: &Arc<AtomicBool>,
        work: impl FnOnce(Output) -> R + Send,
    ) -> PyResult<R> {
        let out = self.output(stop).map_err(raise)?;
        watch_quietly(py, stop, || work(out))
    }
}

pub(crate) struct Packing {
    /// Options by name, except the options that have a field below.
    pub(crate) given: Vec<(String, OptionValue)>,
    spool: Option<PathBuf>,
    pub(crate) take_over: bool,
    pub(crate) note: Option<Note>,
}

impl Packing {
    /// Reads the keywords, after the options of a recipe. Keywords must not repeat options of the recipe.
    pub(crate) fn read(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (mut all, mut note) = (Vec::new(), None);
        let options = options.copy()?;
        let (spool, take_over) = store_keywords(&options)?;
        if let Some(recipe) = taken(&options, "recipe")? {
            let recipe: String = recipe.extract()?;
            let of_recipe = shardpack::recipe_options(&recipe).map_err(raise)?;
            note = of_recipe.note;
            for (name, value) in of_recipe.options {
                if options.contains(&name)? {
                    let said = format!("{name}: the recipe `{recipe}` already sets this option");
                    return Err(UsageError::new_err(said));
                }
                let known = PackOptions::canonical(&name, &value).map_err(raise)?;
                if known.is_none() {
                    let said = format!(
                        "recipe: `{recipe}` sets the option `{}`, but `pack` has no such option",
                        name.escape_debug()
                    );
                    return Err(UsageError::new_err(said));
                }
                all.push((name, value));
            }
        }
        all.extend(given(&options)?);
        Ok(Self { given: all, spool, take_over, note })
    }

    pub(crate) fn options(&self, out: &Path) -> PyResult<PackOptions> {
        PackOptions::read(&self.given, out).map_err(raise)
    }

    pub(crate) fn destination(&self, path: PathBuf) -> Destination {
        Destination { path, spool: self.spool.clone(), take_over: self.take_over }
    }
}

/// Removes `spool` and `take_over` from the options, and returns them.
fn store_keywords(options: &Bound<'_, PyDict>) -> PyResult<(Option<PathBuf>, bool)> {
    let spool = taken(options, "spool")?.map(|spool| spool.extract()).transpose()?;
    let take_over = taken(options, "take_over")?.map_or(Ok(false), |on| on.extract())?;
    Ok((spool, take_over))
}

fn taken<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = options.get_item(name)?;
    if found.is_some() {
        options.del_item(name)?;
    }
    Ok(found)
}

pub(crate) fn reporting(options: &Bound<'_, PyDict>) -> PyResult<ReportArguments> {
    ReportArguments::read(&given(options)?).map_err(raise)
}

pub(crate) fn adding(options: &Bound<'_, PyDict>) -> PyResult<AddOptions> {
    AddOptions::read(&given(options)?).map_err(raise)
}

/// Returns the options of an addition to the dataset at `path`, and where it writes.
pub(crate) fn appending(options: &Bound<'_, PyDict>, path: PathBuf) -> PyResult<(AppendOptions, Destination)> {
    let options = options.copy()?;
    let (spool, take_over) = store_keywords(&options)?;
    let read = AppendOptions::read(given(&options)?).map_err(raise)?;
    Ok((read, Destination { path, spool, take_over }))
}

/// Returns the names of the options of `pack`, `report` or `add`, or of those that `shrink` pictures.
#[pyfunction]
pub(crate) fn option_names(of: &str) -> PyResult<Vec<&'static str>> {
    match of {
        "pack" => Ok(PackOptions::names().collect()),
        "report" => Ok(ReportArguments::about().map(|about| about.name).collect()),
        "add" => Ok(AddOptions::about().map(|about| about.name).collect()),
        "shrink" => Ok(StorageOptions::shrinking().collect()),
        other => Err(PyTypeError::new_err(format!("expected pack, report, add or shrink, found {other:?}"))),
    }
}
