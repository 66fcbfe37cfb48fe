//! CUDA devices that make and decode batches, and the streams of other libraries that use the batches.

use crate::errors::NoDeviceError;
use crate::watch::detached;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardpack_gpu::CudaStage;
use shardpack_gpu::GpuError;
use shardpack_loader::stage::Stage as _;
use std::sync::Arc;

/// Number of the legacy default stream in the driver and in DLPack.
pub(crate) const LEGACY: u64 = 1;
/// Number of the default stream of the calling thread.
const PER_THREAD: u64 = 2;

/// Wraps a CUDA device that makes the batches of loaders and, unless the host decodes, decodes them.
#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Stage {
    pub(crate) inner: Arc<CudaStage>,
    number: u32,
}

#[pymethods]
impl Stage {
    /// Opens the driver and the device with this number.
    #[new]
    #[pyo3(signature = (number, decodes = true))]
    fn new(py: Python<'_>, number: u32, decodes: bool) -> PyResult<Self> {
        let opened = detached(py, || CudaStage::open(number))?;
        let opened = opened.map(|stage| if decodes { stage } else { stage.decoding_on_host() });
        let inner = opened.map_err(|error| match error {
            GpuError::NoDriver | GpuError::NoDevice { .. } | GpuError::TooOld { .. } => {
                NoDeviceError::new_err(error.to_string())
            }
            other => PyRuntimeError::new_err(other.to_string()),
        });
        Ok(Self { inner: Arc::new(inner?), number })
    }

    #[getter]
    fn decodes(&self) -> bool {
        self.inner.decodes()
    }

    #[getter]
    const fn number(&self) -> u32 {
        self.number
    }
}

/// Returns the stream to wait for before a slot is reused, if a consumer works on `stream`.
///
/// The per-thread default stream has no handle for other threads, but any thread may drop a batch. So the slot waits
/// for the legacy stream, which waits for the default streams of all threads.
pub(crate) const fn waited_for(stream: u64) -> u64 {
    if stream == PER_THREAD { LEGACY } else { stream }
}

/// Reads the stream argument of `__dlpack__` for a CUDA device, as the array API defines it. Returns `None`
/// if no wait is required.
///
/// # Errors
/// `ValueError` for 0, which could mean either default stream, and for a value that is not a handle.
pub(crate) fn stream(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    let Some(given) = given else { return Ok(Some(LEGACY)) };
    match given.extract::<i64>()? {
        -1 => Ok(None),
        0 => Err(PyValueError::new_err(
            "stream: expected None, -1, 1, 2 or a handle, found 0\n\
             hint: pass 1 for the legacy default stream, or 2 for the per-thread default stream",
        )),
        number => match u64::try_from(number) {
            Ok(handle) => Ok(Some(waited_for(handle))),
            Err(_) => Err(PyValueError::new_err(format!("stream: expected None, -1 or a handle, found {number}"))),
        },
    }
}
