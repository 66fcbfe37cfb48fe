//! The Python class of a dataset: its samples by index, its columns and its metadata.

use crate::errors::{UsageError, raise};
use crate::values::{Decoded, Decoders, indices, json, ndarray, vector};
use crate::watch::heard;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use shardpack_array::ArrayDecoder;
use shardpack_format::{Dtype, Field, to_usize};
use shardpack_loader::order::{Attribute, Split};
use shardpack_pack::export::{FileContent, content, frames};
use shardpack_pack::pack::is_figure;
use shardpack_reader::{DatasetOptions, Error};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

#[pyclass(name = "Dataset", module = "shardpack._shardpack", frozen)]
pub(crate) struct PyDataset {
    pub(crate) inner: shardpack_reader::Dataset,
    /// True if any part of the dataset is behind a URL. Reads may then wait for a server.
    pub(crate) is_far: bool,
    /// The fields of a sample: all fields except packing figures such as `cube.max_abs_error`.
    fields: Arc<[Field]>,
    /// Names of the fields in which pictures of more than 8 bits have been reduced to 8 bits so far.
    narrowed: Arc<Mutex<Vec<String>>>,
}

/// The values by which a split groups or stratifies samples: the name of a column, or one string per sample.
#[derive(FromPyObject)]
enum AttributeOption {
    Column(String),
    Values(Vec<String>),
}

impl From<AttributeOption> for Attribute {
    fn from(given: AttributeOption) -> Self {
        match given {
            AttributeOption::Column(name) => Self::Column(name),
            AttributeOption::Values(values) => Self::Values(values),
        }
    }
}

/// Name, kind and element type of a field.
type Described = (String, String, Option<&'static str>);

impl PyDataset {
    fn over(inner: shardpack_reader::Dataset, is_far: bool) -> Self {
        let schema = inner.schema();
        let fields = schema.user_fields().filter(|field| !is_figure(schema, &field.name)).cloned().collect();
        Self { inner, is_far, fields, narrowed: Arc::default() }
    }

    /// Runs a read without holding the interpreter. Ctrl-C can interrupt it.
    fn read<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&shardpack_reader::Dataset) -> Result<R, Error> + Send + 'static,
    ) -> PyResult<R> {
        let inner = self.inner.clone();
        heard(py, self.is_far, move |_| work(&inner))?.map_err(raise)
    }

    fn decode(&self, py: Python<'_>, indices: Vec<u64>, fields: Arc<[Field]>) -> PyResult<Vec<Decoded>> {
        let all = Arc::clone(&self.narrowed);
        self.read(py, move |dataset| {
            let mut decoders = Decoders::new(dataset.limits().clone());
            let samples = dataset.get_many(&indices)?;
            // Stop early if the read was cancelled, because nothing uses the result.
            let wanted = samples.iter().take_while(|_| !shardpack_io::is_cancelled());
            let decoded = wanted.map(|sample| decoders.sample(sample, &fields)).collect();
            if !decoders.narrowed.is_empty() {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let fresh = decoders.narrowed.into_iter().filter(|field| !all.contains(field)).collect::<Vec<_>>();
                all.extend(fresh);
            }
            decoded
        })
    }

    /// Returns the fields `names`, in this order. By default, returns all fields of a sample.
    fn named(&self, names: Option<Vec<String>>) -> PyResult<Arc<[Field]>> {
        let Some(names) = names else { return Ok(Arc::clone(&self.fields)) };
        let all = self.inner.schema().fields();
        let find = |name: String| match all.iter().find(|field| field.name == name) {
            Some(field) => Ok(field.clone()),
            None => {
                let known: Vec<&str> = self.fields.iter().map(|field| field.name.as_str()).collect();
                let known = known.join(", ");
                let text = format!("the dataset has no field `{}`; its fields are {known}", name.escape_debug());
                Err(UsageError::new_err(text))
            }
        };
        names.into_iter().map(find).collect()
    }
}

#[pymethods]
impl PyDataset {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        verify_crc: bool,
        max_record: u64,
        generation: Option<u32>,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let limits = shardpack::read_limits(max_record);
        let options = DatasetOptions::new().verify_crc(verify_crc).limits(limits).generation(generation);
        let is_far = shardpack::place::is_url(&path);
        let opened = heard(py, is_far, move |_| shardpack::place::open(&path, &options, &settings))?;
        Ok(Self::over(opened.map_err(raise)?, is_far))
    }

    #[staticmethod]
    fn concat(py: Python<'_>, datasets: Vec<Bound<'_, Self>>) -> PyResult<Self> {
        let parts: Vec<_> = datasets.iter().map(|dataset| dataset.get().inner.clone()).collect();
        let is_far = datasets.iter().any(|dataset| dataset.get().is_far);
        let joined = heard(py, is_far, move |_| shardpack_reader::Dataset::concat(&parts))?;
        Ok(Self::over(joined.map_err(raise)?, is_far))
    }

    /// Returns the names of array fields whose shapes differ between samples and are not in the index.
    fn varying_arrays(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.read(py, |dataset| Ok(shardpack_loader::varying_arrays(dataset)?.into_iter().map(str::to_owned).collect()))
    }

    fn __len__(&self) -> usize {
        to_usize(self.inner.len())
    }

    /// Returns the path or URL of the manifest, or of the lone shard. A URL is a string, because `pathlib.Path` would
    /// remove one of its slashes.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let path = self.inner.path();
        if shardpack::place::is_url(path) {
            return Ok(path.to_string_lossy().into_pyobject(py)?.into_any());
        }
        Ok(path.into_pyobject(py)?.into_any())
    }

    /// Returns the path or URL of the folder, or `None` for a lone shard and for a concatenation.
    #[getter]
    fn folder(&self) -> Option<String> {
        self.inner.manifest()?;
        let path = self.inner.path().to_str()?;
        match path.rsplit_once('/') {
            Some((folder, _)) if shardpack::place::is_url(self.inner.path()) => Some(folder.to_owned()),
            _ => Some(self.inner.path().parent()?.to_str()?.to_owned()),
        }
    }

    /// Returns the id that all shards share, in hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.inner.dataset_id().to_string()
    }

    /// Returns a string that identifies the contents. It differs between datasets, between generations, and between
    /// copies of a dataset that have grown separately.
    #[getter]
    fn version(&self) -> String {
        self.inner.version_id().to_string()
    }

    #[getter]
    fn generation(&self) -> u32 {
        self.inner.generation()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        let of_shards = || self.inner.shards().map(|shard| shard.bytes).sum();
        self.inner.manifest().map_or_else(of_shards, |manifest| manifest.files().map(|(_, file)| file.bytes).sum())
    }

    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        self.inner.classes().map(<[String]>::to_vec)
    }

    fn schema(&self) -> Vec<Described> {
        let describe = |f: &Field| (f.name.clone(), format!("{:?}", f.kind).to_lowercase(), f.dtype.map(Dtype::name));
        self.fields.iter().map(describe).collect()
    }

    /// Returns the names of all scalar fields, including packing figures such as `cube.max_abs_error`.
    fn scalars(&self) -> Vec<String> {
        self.inner.schema().scalars().map(|(name, _)| name.to_owned()).collect()
    }

    fn recipe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, self.inner.recipe())
    }

    /// Returns the errors of lossy encoding by field, or `None` for a lone shard.
    fn fidelity<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner.fidelity().map(|figures| object(py, figures)).transpose()
    }

    fn get<'py>(&self, py: Python<'py>, index: u64, fields: Option<Vec<String>>) -> PyResult<Bound<'py, PyDict>> {
        let fields = self.named(fields)?;
        let decoded = self.decode(py, vec![index], fields)?.pop();
        decoded.map_or_else(|| Ok(PyDict::new(py)), |sample| sample.into_dict(py))
    }

    /// Returns decoded fields of several samples, in the order of the indexes.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        many: &Bound<'py, PyArray1<u64>>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (many, fields) = (indices(many)?, self.named(fields)?);
        let decoded = self.decode(py, many, fields)?;
        let samples = decoded.into_iter().map(|sample| sample.into_dict(py));
        PyList::new(py, samples.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the stored bytes of one field, or `None` if the sample has no value there.
    fn raw<'py>(&self, py: Python<'py>, index: u64, field: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let sample = self.read(py, move |dataset| dataset.get(index))?;
        let value = sample.field(field).map_err(raise)?;
        Ok(value.map(|value| PyBytes::new(py, value.bytes)))
    }

    /// Returns fields of a sample as the files that `unpack` writes: JPEGs with their profile and orientation, arrays
    /// as `.npy`, text and JSON unchanged. A clip is a list of its frames.
    fn files<'py>(&self, py: Python<'py>, index: u64, fields: Vec<String>) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let read = move |dataset: &shardpack_reader::Dataset| {
            let sample = dataset.get(index)?;
            let (view, mut decoder) = (sample.view(), ArrayDecoder::new());
            let known = dataset.schema().fields();
            let file = |name: &String| {
                let Some(field) = known.iter().find(|field| field.name == *name) else {
                    return view.field(name).map(|_| None);
                };
                if let Some(frames) = frames(&view, field)? {
                    return Ok(Some(Files::Frames(frames.iter().map(|(_, frame)| bytes(frame)).collect())));
                }
                Ok(content(&view, field, &mut decoder)?.map(|file| Files::One(bytes(&file))))
            };
            fields.iter().map(file).collect::<Result<Vec<_>, Error>>()
        };
        let files = self.read(py, read)?;
        files.into_iter().map(|files| files.map(|files| files.into_python(py)).transpose()).collect()
    }

    /// Returns the stored bytes of every field that has a payload.
    fn raw_all<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyDict>> {
        let sample = self.read(py, move |dataset| dataset.get(index))?;
        let dict = PyDict::new(py);
        let schema = self.inner.schema();
        for field in schema.stored().filter(|field| !schema.is_segment_index(field)) {
            let value = sample.field(&field.name).map_err(raise)?;
            dict.set_item(&field.name, value.map(|value| PyBytes::new(py, value.bytes)))?;
        }
        Ok(dict)
    }

    fn column<'py>(&self, py: Python<'py>, name: String) -> PyResult<Bound<'py, PyAny>> {
        let column = self.read(py, move |dataset| dataset.column(&name))?;
        let (dtype, rows) = (column.dtype(), column.len());
        ndarray(py, dtype, &[rows], column.into_bytes())
    }

    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        Ok(vector(py, self.read(py, shardpack_reader::Dataset::labels)?))
    }

    /// Returns the numbers of the samples in each part of a split.
    #[expect(clippy::too_many_arguments, reason = "how arguments come")]
    fn split<'py>(
        &self,
        py: Python<'py>,
        shares: Vec<f64>,
        seed: u64,
        stratify: Option<AttributeOption>,
        groups: Option<AttributeOption>,
        growing: bool,
        members: Option<&Bound<'py, PyArray1<u64>>>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<u64>>>> {
        let members = members.map(indices).transpose()?;
        let divide = move |dataset: &shardpack_reader::Dataset| {
            let mut split = Split::new(&shares, seed)?;
            if let Some(by) = stratify {
                split = split.stratify(by.into());
            }
            if let Some(by) = groups {
                split = split.groups(by.into());
            }
            if growing {
                split = split.growing();
            }
            split.parts(dataset, members.as_deref())
        };
        let parts = self.read(py, divide)?;
        Ok(parts.into_iter().map(|part| vector(py, part)).collect())
    }

    /// Returns the names of the fields with pictures of more than 8 bits per sample that have been decoded to 8 bits so
    /// far.
    fn narrowed(&self) -> Vec<String> {
        self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn key(&self, py: Python<'_>, index: u64) -> PyResult<String> {
        self.read(py, move |dataset| dataset.key(index))
    }

    fn index_of(&self, py: Python<'_>, key: String) -> PyResult<Option<u64>> {
        self.read(py, move |dataset| dataset.by_key(&key))
    }

    /// Returns up to three keys that resemble an unknown key. This reads all keys.
    fn keys_like(&self, py: Python<'_>, key: String) -> PyResult<Vec<String>> {
        self.read(py, move |dataset| Ok(dataset.keys_like(&key)))
    }
}

enum Files {
    One(Vec<u8>),
    Frames(Vec<Vec<u8>>),
}

impl Files {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::One(file) => Ok(PyBytes::new(py, &file).into_any()),
            Self::Frames(frames) => Ok(PyList::new(py, frames.iter().map(|frame| PyBytes::new(py, frame)))?.into_any()),
        }
    }
}

fn bytes(content: &FileContent<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(usize::try_from(content.len()).unwrap_or(0));
    // Writing to memory cannot fail.
    content.write_to(&mut out).unwrap_or_default();
    out
}

fn object<'py>(py: Python<'py>, object: &shardpack_format::Recipe) -> PyResult<Bound<'py, PyAny>> {
    json(py, &serde_json::Value::Object(object.clone()).to_string())
}
