//! Batches and their tensors: views into a slot of the loader, exported through DLPack, NumPy's array interface and the
//! CUDA array interface.

use crate::device;
use crate::dlpack::{self, CPU, CUDA, Elements, LentTensor};
use crate::errors::raise;
use crate::values::{FieldValue, vector};
use crate::watch::detached;
use numpy::PyArray1;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use shardpack_format::{Dtype, ElementType};
use shardpack_loader::Object;
use shardpack_loader::stage::StreamHandle;
use std::ptr::NonNull;

/// A batch of the loader. Its slot returns to the loader once this object and all tensors made from it are dropped.
#[pyclass(name = "Batch", module = "shardpack._shardpack", frozen)]
pub(crate) struct PyBatch {
    pub(crate) inner: shardpack_loader::Batch,
}

/// A field of a batch, as a C-contiguous tensor in host or device memory.
#[pyclass(name = "Tensor", module = "shardpack._shardpack", frozen)]
pub(crate) struct PyTensor {
    batch: shardpack_loader::Batch,
    field: String,
    dtype: ElementType,
    shape: Vec<u64>,
}

#[pymethods]
impl PyBatch {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn names(&self) -> Vec<String> {
        self.inner.names().map(str::to_owned).collect()
    }

    /// Returns the keys of the samples. Padding rows have an empty key.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.inner.keys().collect())
    }

    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        vector(py, self.inner.mask().to_vec())
    }

    fn present<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Bound<'py, PyArray1<bool>>> {
        Ok(vector(py, self.field(field)?.mask().collect()))
    }

    /// Returns the views of all rows as four lists: height and width of the picture; x, y, width and height of the
    /// visible part (which includes the borders of a padded picture); height and width of the result; and true for
    /// mirrored rows. Rows without a picture have zeros.
    fn shown<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Shown<'py>> {
        let rows = detached(py, || self.inner.shown(field))?.map_err(raise)?;
        let (mut sources, mut crops, mut sizes, mut flipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let crop = row.map(|row| row.crop);
            sources.extend(row.map_or([0; 2], |row| row.source).map(i64::from));
            let covered = crop.map(|crop| crop.covered());
            crops.extend(covered.map_or([0.0; 4], |area| [area.x, area.y, area.width, area.height]));
            sizes.extend(crop.map_or([0; 2], |crop| [crop.height, crop.width]).map(i64::from));
            flipped.push(crop.is_some_and(|crop| crop.flip));
        }
        Ok((vector(py, sources), vector(py, crops), vector(py, sizes), vector(py, flipped)))
    }

    /// Returns the number of axes and two flat lists with one value per row and axis: the position of the row's patch,
    /// and the size of its scene. Rows without a patch have -1.
    fn patches<'py>(&self, py: Python<'py>) -> Option<Patches<'py>> {
        let rows = self.inner.patches()?;
        let axes = self.inner.patch_axes();
        let (mut origins, mut scenes) = (Vec::new(), Vec::new());
        for row in rows {
            let (origin, scene) = row.map_or(([u64::MAX; 3], [u64::MAX; 3]), |at| (at.origin, at.scene));
            let integer = |&side: &u64| i64::try_from(side).unwrap_or(-1);
            origins.extend(origin.iter().skip(3 - axes).map(integer));
            scenes.extend(scene.iter().skip(3 - axes).map(integer));
        }
        Some((axes, vector(py, origins), vector(py, scenes)))
    }

    /// Returns one value per row of a field that is not a tensor, or `None` for a row without a value.
    fn objects<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Bound<'py, PyList>> {
        let rows = self.inner.objects(field).ok_or_else(|| PyKeyError::new_err(field.to_owned()))?;
        let object = |row: Option<&Object>| row.cloned().map_or(FieldValue::Missing, FieldValue::from).into_object(py);
        PyList::new(py, rows.into_iter().map(object).collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the weights of each row's values of an aligned field, or `None` for rows that have no value.
    fn weights<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Vec<Option<Bound<'py, PyArray1<f32>>>>> {
        let rows = self.inner.weights(field).ok_or_else(|| PyKeyError::new_err(field.to_owned()))?;
        Ok(rows.into_iter().map(|row| row.map(|weights| vector(py, weights))).collect())
    }

    /// Returns the index of each row's sample, or -1 for padding rows.
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        vector(py, self.inner.indices().iter().map(|&index| i64::try_from(index).unwrap_or(-1)).collect())
    }

    /// Returns the device that contains all fields, in DLPack's notation, or `None` if they are in host memory.
    fn device(&self) -> Option<(i32, i32)> {
        self.inner.device().map(|device| (device.kind, device.number))
    }

    /// Registers a device stream on which a consumer uses the batch. When the batch is dropped, its slot is not reused
    /// until the work queued on the stream at that time has finished.
    #[expect(unsafe_code, reason = "a promise of the program in Python")]
    fn used_on(&self, stream: u64) {
        // SAFETY: the documentation of `Batch.used_on` requires the program to pass a valid stream that lives long
        // enough.
        self.inner.used_on(unsafe { dlpack::stream(device::waited_for(stream)) });
    }

    fn is_ragged(&self, field: &str) -> PyResult<bool> {
        Ok(self.field(field)?.shape().is_none())
    }

    /// Returns the field as one tensor. A ragged field is flattened to one axis.
    fn tensor(&self, field: &str) -> PyResult<PyTensor> {
        let tensor = self.field(field)?;
        let bytes = tensor.on_device().map_or_else(|| tensor.memory().len(), |there| there.bytes);
        let dtype = tensor.dtype();
        let shape = tensor.shape().unwrap_or_else(|| vec![bytes as u64 / dtype.bytes()]);
        Ok(PyTensor { batch: self.inner.clone(), field: field.to_owned(), dtype, shape })
    }

    /// Returns the index of each row's first element in a field, and the shapes of all rows in one list.
    fn rows<'py>(&self, py: Python<'py>, field: &str) -> PyResult<Rows<'py>> {
        let tensor = self.field(field)?;
        let width = usize::try_from(tensor.dtype().bytes()).unwrap_or(1);
        let integer = shardpack_format::saturating_i64::<u64>;
        let starts = tensor.offsets().map(|offset| integer((offset / width) as u64)).collect();
        let rows = (0..self.inner.len()).filter_map(|row| tensor.row_shape(row));
        let shapes = rows.flat_map(|shape| shape.iter().map(|&axis| integer(axis))).collect();
        Ok((vector(py, starts), vector(py, shapes)))
    }
}

type Shown<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<bool>>);
type Patches<'py> = (usize, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);
type Rows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

impl PyBatch {
    fn field(&self, name: &str) -> PyResult<shardpack_loader::Tensor<'_>> {
        self.inner.field(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

impl PyTensor {
    /// Returns a pointer to the elements. This package never makes a slice of them, because other code may write to
    /// them at any time.
    fn elements(&self) -> Elements {
        let field = self.batch.field(&self.field);
        if let Some(there) = field.and_then(|field| field.on_device()) {
            let device = (there.device.kind, there.device.number);
            return Elements::Device { device, address: there.address };
        }
        let none = || NonNull::slice_from_raw_parts(NonNull::dangling(), 0);
        Elements::Host(field.map_or_else(none, |field| field.memory()))
    }

    /// Returns the element type in NumPy's notation, such as `<f4`. For bfloat16, which NumPy lacks, returns
    /// `bfloat16`.
    fn type_text(&self) -> String {
        let ElementType::Dtype(dtype) = self.dtype else { return self.dtype.name().to_owned() };
        let kind = match dtype {
            Dtype::Bool => 'b',
            dtype if dtype.is_float() => 'f',
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 'i',
            _ => 'u',
        };
        let order = if dtype.bytes() == 1 { '|' } else { '<' };
        format!("{order}{kind}{}", dtype.bytes())
    }

    /// Returns the entries that NumPy's array interface and the CUDA array interface have in common.
    fn interface<'py>(&self, py: Python<'py>, address: usize) -> PyResult<Bound<'py, PyDict>> {
        if self.dtype == ElementType::Bf16 {
            return Err(PyAttributeError::new_err(format!(
                "the array interface has no type {}\n\
                 hint: use DLPack, with to=\"torch\" or to=\"jax\"",
                self.dtype
            )));
        }
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        dict.set_item("typestr", self.type_text())?;
        dict.set_item("data", (address, false))?;
        Ok(dict)
    }

    /// Returns a copy as a NumPy array. The tensor may be in host or device memory.
    fn copied<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = detached(py, || self.batch.field(&self.field).map(|field| field.to_host()))?;
        let bytes = bytes.transpose().map_err(raise)?.unwrap_or_default();
        let view = match self.dtype {
            // NumPy itself has no bfloat16. JAX and other libraries provide it through `ml_dtypes`.
            ElementType::Bf16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
            ElementType::Dtype(_) => self.type_text().into_pyobject(py)?.into_any(),
        };
        let array = vector(py, bytes).call_method1("view", (view,))?;
        array.call_method1("reshape", (PyTuple::new(py, &self.shape)?,))
    }
}

#[pymethods]
impl PyTensor {
    /// Returns the tensor as a DLPack capsule for another library. On a device, the slot is not reused until the work
    /// queued on `stream` when the tensor is dropped has finished.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let elements = self.elements();
        let here = elements.device();
        if dl_device == Some(CPU) && here != CPU && copy != Some(false) {
            // A NumPy copy exports the older form of the capsule. The specification requires consumers to accept
            // that form.
            return Ok(self.copied(py)?.call_method0("__dlpack__")?.unbind());
        }
        if let Some(device) = dl_device.filter(|device| *device != here) {
            let place = if here == CPU { "on the CPU, " } else { "on " };
            return Err(PyBufferError::new_err(format!(
                "cannot export to DLPack device {device:?}: the tensor is {place}device {here:?}"
            )));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "DLPack: this tensor cannot be copied during export\n\
                 hint: import the tensor without copy=True, then copy it",
            ));
        }
        // The values are already complete, so the consumer need not wait. Record its stream, so that the slot is not
        // reused before the consumer has finished. The CPU has no streams.
        if here.0 == CUDA
            && let Some(stream) = device::stream(stream.as_ref())?
        {
            // SAFETY: DLPack requires the consumer to pass one of its streams.
            #[expect(unsafe_code, reason = "a promise of the consumer")]
            self.batch.used_on(unsafe { dlpack::stream(stream) });
        }
        let lent = LentTensor { batch: &self.batch, elements, dtype: self.dtype, shape: &self.shape };
        dlpack::export(py, &lent, max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.elements().device()
    }

    #[getter]
    fn typestr(&self) -> String {
        self.type_text()
    }

    /// Returns NumPy's array interface. A NumPy array made from it keeps a reference to this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.elements() {
            // Expose the provenance, because NumPy turns the address back into a pointer.
            Elements::Host(memory) => self.interface(py, memory.cast::<u8>().as_ptr().expose_provenance()),
            Elements::Device { .. } => Err(PyAttributeError::new_err(
                "the tensor has no `__array_interface__`, because it is in GPU memory\nhint: call to_host() first",
            )),
        }
    }

    /// Returns the CUDA array interface, version 3. The values are complete, so there is no stream to wait for. The
    /// interface does not say which stream the consumer uses, so the slot waits for the legacy default stream, and with
    /// it for all streams that were not created as non-blocking.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Elements::Device { device: (CUDA, _), address } = self.elements() else {
            return Err(PyAttributeError::new_err(
                "the tensor has no CUDA array interface, because it is not on a CUDA device",
            ));
        };
        self.batch.used_on(StreamHandle::LEGACY);
        // By definition, the address of an empty array is 0.
        let address = if self.shape.contains(&0) { 0 } else { address };
        let dict = self.interface(py, usize::try_from(address)?)?;
        dict.set_item("strides", py.None())?;
        dict.set_item("stream", py.None())?;
        Ok(dict)
    }

    /// Returns a bfloat16 tensor as a uint16 tensor of the same memory, because NumPy has no bfloat16.
    fn bits(&self) -> PyResult<Self> {
        match self.dtype {
            ElementType::Bf16 => {
                let (batch, field, shape) = (self.batch.clone(), self.field.clone(), self.shape.clone());
                Ok(Self { batch, field, dtype: Dtype::U16.into(), shape })
            }
            other => Err(PyAttributeError::new_err(format!("bits: the tensor must be bfloat16, but is {other}"))),
        }
    }

    fn to_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.elements() {
            Elements::Device { .. } => self.copied(py),
            Elements::Host(_) => Err(PyAttributeError::new_err("to_host: the tensor is already on the host")),
        }
    }
}
