//! Keywords of Python as options of the packer.

use crate::errors::UsageError;
use crate::words::raise_any;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use shardpack::place::Destination;
use shardpack_format::Note;
use shardpack_pack::arguments::{ArgumentError, PackArguments, ReportArguments, Value};
use shardpack_pack::collect::AppendOptions;
use shardpack_pack::grow::AddOptions;
use std::path::PathBuf;

/// Sets each keyword by `set`. Types were checked in Python; a list sets an option several times.
fn fill(options: &Bound<'_, PyDict>, set: &mut dyn FnMut(&str, &Value) -> Result<bool, ArgumentError>) -> PyResult<()> {
    for (name, given) in options {
        let name: String = name.extract()?;
        let values = match given.cast::<PyList>() {
            Ok(list) => list.iter().map(|one| value(&one)).collect::<PyResult<Vec<_>>>()?,
            Err(_) => vec![value(&given)?],
        };
        for value in values {
            if !set(&name, &value).map_err(|e| raise_any(&e.into()))? {
                return Err(PyTypeError::new_err(format!("there is no option {name:?}")));
            }
        }
    }
    Ok(())
}

fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    // The order matters: a bool is an int too.
    if given.is_instance_of::<PyBool>() {
        return given.extract().map(Value::Switch);
    }
    if given.is_instance_of::<PyInt>() {
        return given.extract().map(Value::Integer);
    }
    if given.is_instance_of::<PyFloat>() {
        return given.extract().map(Value::Float);
    }
    if given.is_instance_of::<PyString>() {
        return given.extract().map(Value::Text);
    }
    if given.is_instance_of::<PyTuple>() {
        return given.extract().map(|(first, second)| Value::Pair(first, second));
    }
    given.extract::<PathBuf>().map(Value::Path)
}

/// The cores that this process may use: as many as its affinity and its cgroup allow. A loader has as
/// many threads if it is not told how many.
#[pyfunction]
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The options of packing, and what the user should know of them. What a recipe says comes first, and
/// no keyword may say it again.
pub(crate) fn packing(options: &Bound<'_, PyDict>) -> PyResult<(PackArguments, Option<Note>)> {
    let mut note = None;
    let mut arguments = PackArguments::default();
    let options = options.copy()?;
    if let Some(recipe) = options.get_item("recipe")? {
        options.del_item("recipe")?;
        let recipe: String = recipe.extract()?;
        let of_recipe = shardpack::cli::recipe_options(&recipe).map_err(|e| raise_any(&e))?;
        note = of_recipe.note;
        for (name, value) in of_recipe.options {
            if options.contains(&name)? {
                let said = format!("{name}: expected what the recipe `{recipe}` says alone, found both");
                return Err(UsageError::new_err(said));
            }
            if !arguments.set(&name, &value).map_err(|e| raise_any(&e.into()))? {
                let said = format!("recipe: expected options of `pack` in `{recipe}`, found `{}`", name.escape_debug());
                return Err(UsageError::new_err(said));
            }
        }
    }
    fill(&options, &mut |name, value| arguments.set(name, value))?;
    Ok((arguments, note))
}

/// The options of a report.
pub(crate) fn reporting(options: &Bound<'_, PyDict>) -> PyResult<ReportArguments> {
    let mut arguments = ReportArguments::default();
    fill(options, &mut |name, value| arguments.set(name, value))?;
    Ok(arguments)
}

/// The options of adding.
pub(crate) fn adding(options: &Bound<'_, PyDict>) -> PyResult<AddOptions> {
    let mut arguments = AddOptions::default();
    fill(options, &mut |name, value| arguments.set(name, value))?;
    Ok(arguments)
}

/// The options of a writer that adds to a dataset.
pub(crate) fn appending(options: &Bound<'_, PyDict>) -> PyResult<AppendOptions> {
    let mut arguments = AppendOptions::default();
    fill(options, &mut |name, value| arguments.set(name, value))?;
    Ok(arguments)
}

/// Where the output is.
pub(crate) fn destination(out: PathBuf, arguments: &PackArguments) -> Destination {
    Destination { path: out, spool: arguments.spool.clone(), take_over: arguments.take_over }
}

/// Names of the options of `pack`, `report` or `add`.
#[pyfunction]
pub(crate) fn option_names(of: &str) -> PyResult<Vec<&'static str>> {
    match of {
        "pack" => Ok(PackArguments::names().collect()),
        "report" => Ok(ReportArguments::names().collect()),
        "add" => Ok(AddOptions::NAMES.to_vec()),
        other => Err(PyTypeError::new_err(format!("expected pack, report or add, found {other:?}"))),
    }
}
