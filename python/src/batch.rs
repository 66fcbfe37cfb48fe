//! Batches and their tensors: views into a slot of the loader, by DLPack and by NumPy's array
//! interface.

use crate::dlpack::{self, CPU, Part};
use crate::values::vector;
use numpy::PyArray1;
use pyo3::exceptions::{PyBufferError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shardpack_format::Dtype;
use std::ptr::NonNull;

/// A batch of the loader. Its slot is returned when this object, and every tensor made from it, is
/// gone.
#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Batch {
    pub(crate) inner: shardpack_reader::Batch,
}

/// A field of a batch: a C-contiguous tensor in CPU memory.
#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Tensor {
    batch: shardpack_reader::Batch,
    field: String,
    dtype: Dtype,
    shape: Vec<u64>,
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Names of the fields.
    fn names(&self) -> Vec<String> {
        self.inner.names().map(str::to_owned).collect()
    }

    /// Keys of the samples; empty for padding.
    fn keys(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.inner.keys().collect())
    }

    /// Whether each row holds a sample.
    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        vector(py, self.inner.mask().to_vec())
    }

    /// Whether each row has a value for the field.
    fn present<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Bound<'py, PyArray1<bool>>> {
        Ok(vector(py, self.field(field)?.mask().collect()))
    }

    /// Index of the sample of each row; -1 for padding.
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        vector(py, self.inner.indices().iter().map(|&index| i64::try_from(index).unwrap_or(-1)).collect())
    }

    /// Whether rows of the field differ in size.
    fn is_ragged(&self, field: &str) -> PyResult<bool> {
        Ok(self.field(field)?.shape().is_none())
    }

    /// The field as one tensor. A ragged field gets all elements on one axis.
    fn tensor(&self, field: &str) -> PyResult<Tensor> {
        let tensor = self.field(field)?;
        let (bytes, dtype) = (tensor.memory().len(), tensor.dtype());
        let shape = tensor.shape().unwrap_or_else(|| vec![bytes as u64 / dtype.bytes()]);
        Ok(Tensor { batch: self.inner.clone(), field: field.to_owned(), dtype, shape })
    }

    /// For a field: index of the first element of each row, and the shape of each row, row after
    /// row.
    fn rows<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Rows<'py>> {
        let tensor = self.field(field)?;
        let width = usize::try_from(tensor.dtype().bytes()).unwrap_or(1);
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let starts = tensor.offsets().map(|offset| integer((offset / width) as u64)).collect();
        let rows = (0..self.inner.len()).filter_map(|row| tensor.row_shape(row));
        let shapes = rows.flat_map(|shape| shape.iter().map(|&axis| integer(axis))).collect();
        Ok((vector(py, starts), vector(py, shapes)))
    }
}

type Rows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

impl Batch {
    fn field(&self, name: &str) -> PyResult<shardpack_reader::Tensor<'_>> {
        self.inner.field(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

impl Tensor {
    /// Where the elements are. This package never makes a slice of them, because other code may be
    /// writing to them.
    fn memory(&self) -> NonNull<[u8]> {
        let none = || NonNull::slice_from_raw_parts(NonNull::dangling(), 0);
        self.batch.field(&self.field).map_or_else(none, |field| field.memory())
    }
}

#[pymethods]
impl Tensor {
    /// The tensor as a capsule for another library to consume.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        // Streams are for devices that work asynchronously.
        drop(stream);
        if let Some(device) = dl_device.filter(|device| *device != CPU) {
            return Err(PyBufferError::new_err(format!("DLPack device: expected {CPU:?}, the CPU, found {device:?}")));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "DLPack: this tensor is lent, not copied\nhint: copy what you made of it",
            ));
        }
        let part = Part { batch: &self.batch, memory: self.memory(), dtype: self.dtype, shape: &self.shape };
        dlpack::export(py, &part, max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        CPU
    }

    /// NumPy's array interface. The array that NumPy makes from it holds this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kind = match self.dtype {
            Dtype::Bool => 'b',
            dtype if dtype.is_float() => 'f',
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 'i',
            _ => 'u',
        };
        let order = if self.dtype.bytes() == 1 { '|' } else { '<' };
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        dict.set_item("typestr", format!("{order}{kind}{}", self.dtype.bytes()))?;
        // NumPy turns the number back into a pointer.
        dict.set_item("data", (self.memory().cast::<u8>().as_ptr().expose_provenance(), false))?;
        Ok(dict)
    }
}
