//! Lets conversions list and read the objects in a folder of a store.

use crate::errors::raise;
use crate::watch::heard;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shardpack_format::to_usize;
use shardpack_io::{Listed, ReadAt, Storage};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Objects {
    storage: Arc<dyn Storage>,
    listed: Mutex<HashMap<String, Listed>>,
}

#[pymethods]
impl Objects {
    #[new]
    fn new(url: &str, storage_options: Vec<(String, String)>) -> PyResult<Self> {
        let storage = shardpack::place::storage(url, &storage_options).map_err(raise)?;
        Ok(Self { storage, listed: Mutex::default() })
    }

    /// Returns the sorted paths below the folder. Later reads use the listed version of each object.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let storage = Arc::clone(&self.storage);
        let found = heard(py, true, move |_| storage.list())?.map_err(raise)?;
        let mut names: Vec<String> = found.iter().map(|listed| listed.name.clone()).collect();
        names.sort_unstable();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        *listed = found.into_iter().map(|listed| (listed.name.clone(), listed)).collect();
        Ok(names)
    }

    fn open(&self, py: Python<'_>, name: String) -> PyResult<Object> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let (storage, path) = (Arc::clone(&self.storage), self.storage.path().join(&name));
        let inner = heard(py, true, move |_| match &listed {
            Some(listed) => storage.open_listed(listed),
            None => storage.open(&name),
        });
        Ok(Object { inner: inner?.map_err(raise)?, path })
    }
}

#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Object {
    inner: Arc<dyn ReadAt>,
    path: PathBuf,
}

#[pymethods]
impl Object {
    fn __len__(&self) -> usize {
        to_usize(self.inner.len())
    }

    /// Announces a read of `count` bytes from `offset`, so that the store can fetch them in advance.
    fn announce(&self, offset: u64, count: u64) {
        self.inner.advise_soon(offset, count);
    }

    /// Reads at least one byte and at most `count` bytes. Returns nothing if the object ends at `offset`.
    fn read<'py>(&self, py: Python<'py>, offset: u64, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let count = count.min(to_usize(self.inner.len().saturating_sub(offset)));
        let inner = Arc::clone(&self.inner);
        let read = heard(py, true, move |_| {
            let mut bytes = vec![0; count];
            let read = inner.read_at(&mut bytes, offset);
            read.map(|read| {
                bytes.truncate(read);
                bytes
            })
        });
        let bytes =
            read?.map_err(|source| raise(shardpack_reader::Error::io_at(&self.path, "read", offset, source)))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
