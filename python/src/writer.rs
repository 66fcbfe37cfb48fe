//! The Python class of the writer. It converts Python values to a sample, and encodes the sample without holding the
//! interpreter.

use crate::arguments::{Packing, Target, appending};
use crate::errors::{UsageError, raise, raise_of_sample, voice};
use crate::values::ndarray;
use crate::watch::{detached, heard, watch_with};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shardpack_array::Array;
use shardpack_format::{Dtype, told};
use shardpack_pack::collect::{
    AppendOptions, CollectError, CollectOptions, Collector, Kind, Number, Sample, SampleValue,
};
use shardpack_pack::grow::OnKnownKey;
use shardpack_recipe::{ArgumentError, Word};
use shardpack_sources::cubes::{CubeOptions, CubeProblem, mask_of as mask_of_bytes};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Wraps the library's collector of samples. `inner` is `None` once the writer is closed.
#[pyclass(name = "Writer", module = "shardpack._shardpack", frozen)]
pub(crate) struct PyWriter {
    inner: Mutex<Option<Arc<Collector>>>,
    /// Report of the complete dataset, as JSON.
    report: Mutex<Option<String>>,
    /// Stops a commit, and cancels its requests to a store.
    stop: Arc<AtomicBool>,
    is_far: bool,
    pid: u32,
}

/// A value, as `_given.py` passes it.
#[derive(FromPyObject)]
enum WriterValue<'py> {
    /// The elements of an array as bytes, their type, the shape, and true if the array is the pixels of a picture.
    Array(Bound<'py, PyArray1<u8>>, String, Vec<u64>, bool),
    /// A number, with its type if the program gave one.
    Number(#[pyo3(from_py_with = crate::writer::number)] Number, Option<String>),
    /// A string, and true if it is a JSON document.
    Text(String, bool),
    /// The frames of a clip, as JPEG files.
    Frames((Vec<Bound<'py, PyBytes>>,)),
    Bytes(#[pyo3(from_py_with = crate::writer::bytes)] Vec<u8>),
}

fn number(value: &Bound<'_, PyAny>) -> PyResult<Number> {
    // Check for a bool first, because a Python bool is also an int.
    if value.is_instance_of::<pyo3::types::PyBool>() {
        return value.extract().map(Number::Bool);
    }
    if value.is_instance_of::<pyo3::types::PyFloat>() {
        return value.extract().map(Number::Float);
    }
    value.extract().map(Number::Int)
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(value.cast::<pyo3::types::PyBytes>()?.as_bytes().to_vec())
}

fn dtype(name: &str) -> PyResult<Dtype> {
    let found = Dtype::ALL.iter().copied().find(|dtype| dtype.name() == name);
    found.ok_or_else(|| {
        let known: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
        PyValueError::new_err(format!("unknown element type `{name}`: expected one of {}", known.join(", ")))
    })
}

impl WriterValue<'_> {
    fn value(self) -> PyResult<SampleValue> {
        Ok(match self {
            Self::Bytes(bytes) => SampleValue::Bytes(bytes),
            Self::Frames((frames,)) => {
                SampleValue::Frames(frames.iter().map(|frame| frame.as_bytes().to_vec()).collect())
            }
            Self::Text(text, false) => SampleValue::Text(text),
            Self::Text(text, true) => SampleValue::Json(text),
            Self::Number(value, name) => SampleValue::Number { value, dtype: name.as_deref().map(dtype).transpose()? },
            Self::Array(elements, name, shape, is_picture) => {
                let array = Array::new(dtype(&name)?, shape, elements.to_vec()?);
                let array = array.map_err(raise)?;
                if is_picture { SampleValue::Pixels(array) } else { SampleValue::Array(array) }
            }
        })
    }
}

/// Copies the progress into a dict.
pub(crate) fn describe(now: &shardpack_writer::Progress, dict: &Bound<'_, PyDict>) -> PyResult<()> {
    dict.set_item("samples", now.samples)?;
    dict.set_item("samples_total", now.samples_total)?;
    dict.set_item("skipped", now.skipped)?;
    dict.set_item("bytes_in", now.bytes_in)?;
    dict.set_item("bytes_in_total", now.bytes_in_total)?;
    dict.set_item("bytes_out", now.bytes_out)?;
    dict.set_item("shards", now.shards)?;
    dict.set_item("shards_total", now.shards_total)?;
    dict.set_item("bytes_sent", now.bytes_sent)?;
    dict.set_item("bytes_to_send", now.bytes_to_send)
}

#[pymethods]
impl PyWriter {
    /// Opens a writer with these packing `options`. With `on_known_key`, the writer adds samples to
    /// an existing dataset.
    #[new]
    #[pyo3(signature = (path, schema, classes, options, storage_options, on_known_key=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        schema: Option<Vec<(String, String)>>,
        classes: Option<Vec<String>>,
        options: &Bound<'_, PyDict>,
        storage_options: Vec<(String, String)>,
        on_known_key: Option<&str>,
    ) -> PyResult<Self> {
        let kind = |(name, kind): (String, String)| match kind.parse::<Kind>() {
            Ok(kind) => Ok((name, kind)),
            Err(error) => Err(PyValueError::new_err(format!("schema: field `{name}`: {error}"))),
        };
        let schema = schema.map(|schema| schema.into_iter().map(kind).collect::<PyResult<_>>()).transpose()?;
        let stop = Arc::default();
        if let Some(on_known_key) = on_known_key {
            let on_known_key =
                OnKnownKey::parse(on_known_key).map_err(|said| raise(ArgumentError::of("on_known_key", said)))?;
            let (options, to) = appending(options, path)?;
            let options = AppendOptions { classes, on_known_key, ..options };
            let target = Target { to, storage_options };
            let collector = target.quietly(py, &stop, |out| Collector::append(out, schema, options))?;
            return Ok(Self::of(collector.map_err(raise)?, stop, &target));
        }
        let packing = Packing::read(options)?;
        let options = CollectOptions { classes, ..packing.options(&path)?.into() };
        let target = Target { to: packing.destination(path), storage_options };
        let collector = target.quietly(py, &stop, |out| Collector::open(out, schema, options))?;
        Ok(Self::of(collector.map_err(raise)?, stop, &target))
    }

    /// Returns the fields and their kinds, if they are known from the existing dataset or from the first sample.
    fn fields(&self) -> PyResult<Option<Vec<(String, String)>>> {
        let fields = self.collector()?.fields();
        Ok(fields.map(|fields| fields.into_iter().map(|(name, kind)| (name, kind.to_string())).collect()))
    }

    /// Returns the class names, ordered by class number.
    fn classes(&self) -> PyResult<Option<Vec<String>>> {
        Ok(self.collector()?.classes().map(<[String]>::to_vec))
    }

    /// Returns true if samples are stored in the order in which they are written.
    fn keeps_order(&self) -> PyResult<bool> {
        Ok(self.collector()?.keeps_order())
    }

    /// Returns the number used as the key of the first sample without a key.
    fn first_number(&self) -> PyResult<u64> {
        Ok(self.collector()?.first_number())
    }

    /// Returns true if the existing dataset has a sample with this key.
    fn holds(&self, key: &str) -> PyResult<bool> {
        self.collector()?.holds(key).map_err(raise)
    }

    fn write(
        &self,
        py: Python<'_>,
        key: Option<String>,
        order: Option<u64>,
        values: Vec<(String, Option<WriterValue<'_>>)>,
    ) -> PyResult<()> {
        let collector = self.collector()?;
        let value =
            |(name, value): (String, Option<WriterValue<'_>>)| Ok((name, value.map(WriterValue::value).transpose()?));
        let values = values.into_iter().map(value).collect::<PyResult<_>>()?;
        let sample = Sample { key, order, values };
        detached(py, || collector.add(sample))?.map_err(|error| raise_of_sample(py, error))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.collector()?.len())?)
    }

    /// Writes the dataset and returns the report as JSON. After an error, the samples are kept.
    fn commit(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let report = || self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(report) = &*report() {
            return Ok(report.clone());
        }
        let collector = self.collector()?;
        let result = watch_with(py, &self.stop, progress, describe, |cancel, tell| {
            let done = collector.commit(Some(&|now| tell(*now)), Some(cancel))?;
            // An exception from `progress` may come too late to stop the work, so store the report of a complete
            // dataset here.
            *report() = Some(done.to_json().to_string());
            Ok::<_, CollectError>(())
        });
        // A later commit must be able to release the claim in the store.
        self.stop.store(false, Ordering::Relaxed);
        // Dropping the last reference releases the claim in a store. That waits for the network, so `abort` does it
        // without holding the interpreter.
        drop(collector);
        if report().is_some() {
            self.abort(py)?;
        }
        result?.map_err(raise)?;
        let report = report().clone();
        report.ok_or_else(|| {
            PyRuntimeError::new_err("internal error: no report (this is a bug in shardpack, please report it)")
        })
    }

    /// Discards all samples that have not been committed.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.pid == std::process::id() {
            heard(py, self.is_far, move |_| drop(taken))
        } else {
            // The collector belongs to the parent process, so this process must not touch the folder.
            std::mem::forget(taken);
            Ok(())
        }
    }
}

impl PyWriter {
    fn of(collector: Collector, stop: Arc<AtomicBool>, target: &Target) -> Self {
        let (inner, is_far) = (Mutex::new(Some(Arc::new(collector))), shardpack::place::is_url(&target.to.path));
        Self { inner, report: Mutex::default(), stop, is_far, pid: std::process::id() }
    }

    fn collector(&self) -> PyResult<Arc<Collector>> {
        if self.pid != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "this writer was created in the parent process and cannot be used after a fork\n\
                 hint: let workers return their samples to the parent, or use threads",
            ));
        }
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| PyValueError::new_err("the writer is closed"))
    }
}

impl Drop for PyWriter {
    fn drop(&mut self) {
        // As in `abort`, a fork must not touch the folder.
        if self.pid != std::process::id() {
            std::mem::forget(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

#[pyfunction]
pub(crate) fn is_mask(field: &str) -> bool {
    shardpack_reader::mask_names::is_mask(field)
}

/// Reads the class numbers of a mask file, as integers `[height, width]`, exactly as packing does. The name may tell the
/// format of the file. Errors do not contain it.
#[pyfunction]
pub(crate) fn mask_of<'py>(
    py: Python<'py>,
    name: PathBuf,
    content: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyAny>> {
    let content = content.as_bytes().to_vec();
    let mask = detached(py, || mask_of_bytes(&name, content, &CubeOptions::default()))?;
    let mask = mask.map_err(|error| {
        // Drop the hint of a limit, because it names an option of packing that the caller does not have.
        let hint = error.hint().filter(|_| !matches!(error.problem(), CubeProblem::Limit { .. }));
        UsageError::new_err(told(error.reason(), &hint, voice()))
    })?;
    let (dtype, shape) = (mask.array.dtype(), mask.array.shape().to_vec());
    ndarray(py, dtype, &shape, mask.array.into_bytes())
}
