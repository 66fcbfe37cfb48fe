//! Decodes the values of a sample without holding the interpreter, then converts them to Python objects.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use shardpack_array::{Array, ArrayDecoder};
use shardpack_format::{Dtype, Field, FieldKind, Limits};
use shardpack_jpeg::PictureDecoder;
use shardpack_loader::Object;
use shardpack_reader::{Error, RecordView, Sample, Scalar};

/// A decoded value of a sample that is not yet a Python object.
pub(crate) enum FieldValue {
    Missing,
    Scalar(Scalar),
    Array(Array),
    Text(String),
    Json(String),
    Bytes(Vec<u8>),
}

pub(crate) struct Decoded {
    key: String,
    values: Vec<(String, FieldValue)>,
}

/// The decoders of one call. They share their scratch memory for all samples.
pub(crate) struct Decoders {
    arrays: ArrayDecoder,
    pictures: PictureDecoder,
    /// Names of the fields in which pictures of more than 8 bits were reduced to 8 bits.
    pub(crate) narrowed: Vec<String>,
}

impl Decoders {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { arrays: ArrayDecoder::new(), pictures: PictureDecoder::new(limits), narrowed: Vec::new() }
    }

    /// Decodes the given fields of a sample, without the interpreter.
    pub(crate) fn sample(&mut self, sample: &Sample, fields: &[Field]) -> Result<Decoded, Error> {
        let view = sample.view();
        let fields = fields.iter();
        let values = fields.map(|field| Ok((field.name.clone(), self.value(&view, &field.name, field.kind)?)));
        Ok(Decoded { key: sample.key().to_owned(), values: values.collect::<Result<_, Error>>()? })
    }

    fn value(&mut self, view: &RecordView<'_>, name: &str, kind: FieldKind) -> Result<FieldValue, Error> {
        if kind == FieldKind::Scalar {
            return Ok(view.scalar_if_any(name)?.map_or(FieldValue::Missing, FieldValue::Scalar));
        }
        if view.field(name)?.is_none() {
            return Ok(FieldValue::Missing);
        }
        match kind {
            FieldKind::Image => {
                let before = self.pictures.narrowed();
                let pixels = view.pixels(name, &mut self.pictures)?;
                if self.pictures.narrowed() > before && !self.narrowed.iter().any(|known| known == name) {
                    self.narrowed.push(name.to_owned());
                }
                Ok(FieldValue::Array(pixels))
            }
            FieldKind::Array => view.array(name, &mut self.arrays).map(FieldValue::Array),
            FieldKind::Text => view.text(name).map(FieldValue::Text),
            FieldKind::Json => view.text(name).map(FieldValue::Json),
            _ => view.bytes(name).map(FieldValue::Bytes),
        }
    }
}

impl Decoded {
    /// Converts to a dict with `__key__` and every field by its name.
    pub(crate) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("__key__", self.key)?;
        for (name, value) in self.values {
            dict.set_item(name, value.into_object(py)?)?;
        }
        Ok(dict)
    }
}

impl From<Object> for FieldValue {
    fn from(object: Object) -> Self {
        match object {
            Object::Array(array) => Self::Array(array),
            Object::Text(text) => Self::Text(text),
            Object::Json(text) => Self::Json(text),
            Object::Bytes(bytes) => Self::Bytes(bytes),
            _ => Self::Missing,
        }
    }
}

impl FieldValue {
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Missing => py.None().into_bound(py),
            Self::Scalar(Scalar::Bool(value)) => value.into_pyobject(py)?.to_owned().into_any(),
            Self::Scalar(Scalar::Signed(value)) => value.into_pyobject(py)?.into_any(),
            Self::Scalar(Scalar::Unsigned(value)) => value.into_pyobject(py)?.into_any(),
            Self::Scalar(Scalar::Float(value)) => value.into_pyobject(py)?.into_any(),
            Self::Array(array) => {
                let (dtype, shape) = (array.dtype(), array.shape().to_vec());
                ndarray(py, dtype, &shape, array.into_bytes())?
            }
            Self::Text(text) => text.into_pyobject(py)?.into_any(),
            Self::Json(text) => json(py, &text)?,
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        })
    }
}

/// Returns a NumPy array that owns `bytes`, without copying them.
pub(crate) fn ndarray<'py>(
    py: Python<'py>,
    dtype: Dtype,
    shape: &[u64],
    bytes: Vec<u8>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = PyArray1::from_vec(py, bytes);
    if dtype == Dtype::U8 {
        return array.call_method1("reshape", (shape,));
    }
    array.call_method1("view", (dtype.name(),))?.call_method1("reshape", (shape,))
}

pub(crate) fn vector<'py, T: numpy::Element>(py: Python<'py>, values: Vec<T>) -> Bound<'py, PyArray1<T>> {
    PyArray1::from_vec(py, values)
}

/// Parses a JSON text with `json.loads`.
pub(crate) fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

pub(crate) fn indices(array: &Bound<'_, PyArray1<u64>>) -> PyResult<Vec<u64>> {
    Ok(array.readonly().as_array().to_vec())
}
