//! The Python function that adds columns to a dataset.

use crate::arguments::{StoreKeywords, Target};
use crate::errors::UsageError;
use crate::pack::Rewriting;
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use shardpack_format::Dtype;
use shardpack_pack::grow::{NewColumn, NewColumns};
use std::path::PathBuf;

/// A new column: its name, its element type, the shape of the value of a sample, and the bytes of all values.
type GivenColumn<'py> = (String, String, Vec<u64>, PyReadonlyArray1<'py, u8>);

/// Adds columns to the dataset in a folder. Returns the number of the new generation, and notes for the user.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn add_columns(
    py: Python<'_>,
    dataset: PathBuf,
    columns: Vec<GivenColumn<'_>>,
    keys: Option<Vec<String>>,
    generation: Option<u32>,
    force: bool,
    threads: Option<usize>,
    max_record: u64,
    progress: Option<&Bound<'_, PyAny>>,
    store: StoreKeywords,
) -> PyResult<(u32, Vec<String>)> {
    let columns = columns.iter().map(column).collect::<PyResult<Vec<_>>>()?;
    let new = NewColumns { columns: &columns, keys: keys.as_deref(), generation };
    let rewriting = Rewriting { target: Target::new(dataset, store), force, threads, max_record };
    let added = rewriting.run(py, progress, |out, options| shardpack_pack::grow::add_columns(out, &new, options))?;
    Ok((added.generation, added.notes))
}

fn column<'a>((name, dtype, shape, values): &'a GivenColumn<'_>) -> PyResult<NewColumn<'a>> {
    let known = Dtype::ALL.iter().copied().find(|known| known.name() == dtype);
    let unknown = || UsageError::new_err(format!("column `{name}`: values of type {dtype} cannot be stored"));
    let dtype = known.ok_or_else(unknown)?;
    debug_assert!(values.is_c_contiguous(), "Python has copied the values");
    Ok(NewColumn { name: name.clone(), dtype, shape: shape.clone(), bytes: values.as_slice()? })
}
