//! A transform written in Python. The loader's threads call it while they hold the interpreter.

use crate::values::vector;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shardpack_format::{ElementType, Note};
use shardpack_loader::{Transform, TransformRow};
use std::fmt;

/// Index of the random block that the seed of a row is drawn from. The previous block is for turning arrays.
const SEEDS: u32 = (1 << 31) + 3;

/// A function of `shardpack._transform`. It receives the arrays by field, and the number, key, epoch and seed of the
/// sample, and writes its result to the arrays.
pub(crate) struct Function(pub(crate) Py<PyAny>);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

impl Transform for Function {
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note> {
        let called = Python::try_attach(|py| self.call(py, row).map_err(|error| describe(py, &error).into()));
        called.unwrap_or_else(|| Err("the Python interpreter is shutting down".into()))
    }
}

impl Function {
    fn call(&self, py: Python<'_>, row: &mut TransformRow<'_>) -> PyResult<()> {
        let arrays = PyDict::new(py);
        let mut owners: Vec<Bound<'_, PyArray1<u8>>> = Vec::with_capacity(row.fields.len());
        for field in &mut row.fields {
            // The array owns a copy of the bytes, because the program may keep the array.
            let owner = vector(py, field.bytes.to_vec());
            let view = match field.dtype {
                ElementType::Bf16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
                ElementType::Dtype(_) => type_name(field.dtype).into_pyobject(py)?.into_any(),
            };
            let array = owner.call_method1("view", (view,))?;
            arrays.set_item(field.name, array.call_method1("reshape", (PyTuple::new(py, field.shape)?,))?)?;
            owners.push(owner);
        }
        let epoch = row.draws.epoch & u64::from(u32::MAX);
        self.0.call1(py, (arrays, row.index, row.key, epoch, seed(row)))?;
        for (field, owner) in row.fields.iter_mut().zip(owners) {
            let changed = owner.try_readonly().map_err(PyErr::from)?;
            let (from, to) = (changed.as_slice()?, field.bytes.len());
            let resized =
                || format!("the transform resized the array of field `{}`, but must keep its size", field.name);
            let from = from.get(..to).ok_or_else(|| PyValueError::new_err(resized()))?;
            field.bytes.copy_from_slice(from);
        }
        Ok(())
    }
}

/// Returns NumPy's name of a type. NumPy knows `bfloat16` only after `ml_dtypes` is imported.
pub(crate) const fn type_name(dtype: ElementType) -> &'static str {
    match dtype {
        ElementType::Bf16 => "bfloat16",
        ElementType::Dtype(dtype) => dtype.name(),
    }
}

/// Returns 53 random bits of this sample in this epoch.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 2⁵³")]
pub(crate) fn seed(row: &TransformRow<'_>) -> u64 {
    let [draw, _] = row.draws.draws().pair(SEEDS);
    (draw * (1_u64 << 53) as f64) as u64
}

/// Describes an exception on one line, with its type, its message, and the place where it was raised.
#[pyfunction]
pub(crate) fn described(error: Bound<'_, PyAny>) -> String {
    let py = error.py();
    describe(py, &PyErr::from_value(error))
}

pub(crate) fn describe(py: Python<'_>, error: &PyErr) -> String {
    let mut place = String::new();
    let mut next = error.traceback(py).map(Bound::into_any);
    while let Some(at) = next {
        let file = at.getattr("tb_frame").and_then(|frame| frame.getattr("f_code")?.getattr("co_filename")?.extract());
        let line = at.getattr("tb_lineno").and_then(|line| line.extract::<u32>());
        if let (Ok::<String, _>(file), Ok(line)) = (file, line) {
            place = format!(" (`{file}`, line {line})");
        }
        next = at.getattr("tb_next").ok().filter(|next| !next.is_none());
    }
    format!("{error}{place}")
}
