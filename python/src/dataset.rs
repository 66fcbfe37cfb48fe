//! A dataset: samples by index, columns, what is known of it.

use crate::errors::raise;
use pyo3::prelude::*;
use shardpack_reader::DatasetOptions;
use std::path::{Path, PathBuf};

/// An open dataset.
#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Dataset {
    pub(crate) inner: shardpack_reader::Dataset,
}

#[pymethods]
impl Dataset {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, verify_crc: bool) -> PyResult<Self> {
        let options = DatasetOptions::new().verify_crc(verify_crc);
        let inner = py.detach(|| options.open(path)).map_err(raise)?;
        Ok(Self { inner })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.len()).unwrap_or(usize::MAX)
    }

    /// The manifest's path, or the lone shard's.
    #[getter]
    fn path(&self) -> &Path {
        self.inner.path()
    }

    /// The id that all shards share, in hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.inner.dataset_id().to_string()
    }
}
