//! The Python class of the loader. Its methods release the interpreter and check for signals while they wait.

use crate::batch::PyBatch;
use crate::dataset::PyDataset;
use crate::errors::raise;
use crate::options::Options;
use crate::watch::{detached, heard, watch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardpack_format::{Error, to_usize};
use shardpack_loader::order::OrderState;
use shardpack_loader::{EpochPhase, Watch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Interval between checks for signals, short enough for Ctrl-C to end a wait within a second.
const PATIENCE: Duration = Duration::from_millis(100);

/// Wraps the library's loader. `inner` is `None` once the loader is closed.
#[pyclass(name = "Loader", module = "shardpack._shardpack", frozen)]
pub(crate) struct PyLoader {
    inner: Mutex<Option<shardpack_loader::Loader>>,
    /// A thread holds this lock only while it waits for `inner`.
    entrance: Mutex<()>,
    /// Number of the latest iteration. It changes only while `inner` is locked.
    turn: AtomicU64,
    pid: u32,
    /// True if the loader has threads. A forked process lacks them. Readable without the lock.
    has_threads: AtomicBool,
}

/// A state for Python: fingerprint, seed, epoch, samples consumed, and the unit of that count.
type Resume = (String, u64, u32, u64, String);

#[pymethods]
impl PyLoader {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come")]
    fn new(py: Python<'_>, dataset: &Bound<'_, PyDataset>, options: Options<'_>) -> PyResult<Self> {
        let (dataset, is_far) = (dataset.get().inner.clone(), dataset.get().is_far);
        let options = options.loader_options(py, &dataset)?;
        let takes_long = options.resources.resident && !is_far;
        let open = move |cancel: &Arc<AtomicBool>| {
            let watch = Watch { cancel, progress: &|_, _| {} };
            shardpack_loader::Loader::open_watched(&dataset, options, watch)
        };
        let opened = match takes_long {
            true => watch(py, None, |(), _| Ok(()), |cancel, _: &(dyn Fn(()) + Sync)| open(cancel))?,
            false => heard(py, is_far, open)?,
        };
        let inner = opened.map_err(raise)?;
        let (pid, has_threads) = (std::process::id(), AtomicBool::new(false));
        let (inner, entrance, turn) = (Mutex::new(Some(inner)), Mutex::new(()), AtomicU64::new(0));
        Ok(Self { inner, entrance, turn, pid, has_threads })
    }

    /// Begins an iteration over the current epoch if none of its batches has been handed out, otherwise over the next
    /// epoch. Returns the iteration's number, which `next` requires. Earlier iterations get no more batches.
    fn begin(&self, py: Python<'_>) -> PyResult<u64> {
        let begun = self.with(py, |loader| {
            if loader.phase() != EpochPhase::Fresh {
                let epoch = loader.state().epoch;
                let most = format!("a number from 0 to {}", u32::MAX);
                let next = epoch.checked_add(1);
                let next = next
                    .ok_or_else(|| Error::usage(format!("epoch: expected {most}, found {}", u64::from(epoch) + 1)))?;
                loader.set_epoch(next)?;
            }
            Ok::<_, shardpack_reader::Error>(self.replace_iterations())
        });
        begun?.map_err(raise)
    }

    /// Returns the next batch of the epoch to the iteration with this number, or `None` at the end. Several
    /// threads may call it at the same time. Each batch is returned once.
    fn next(&self, py: Python<'_>, turn: u64) -> PyResult<Option<PyBatch>> {
        let next = |loader: &mut shardpack_loader::Loader| {
            let is_latest = self.turn.load(Ordering::Relaxed) == turn;
            is_latest.then(|| {
                self.has_threads.store(true, Ordering::Relaxed);
                loader.next_batch_timeout(PATIENCE)
            })
        };
        loop {
            match self.with(py, next)? {
                None => {
                    return Err(PyRuntimeError::new_err(
                        "this iteration over the loader has ended, because a newer one was started",
                    ));
                }
                Some(Poll::Ready(None)) => return Ok(None),
                Some(Poll::Ready(Some(batch))) => return Ok(Some(PyBatch { inner: batch.map_err(raise)? })),
                Some(Poll::Pending) => py.check_signals()?,
            }
        }
    }

    /// Continues the iterations of another loader with this one.
    fn follow(&self, other: &Bound<'_, Self>) {
        self.turn.store(other.get().turn.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the number of batches in the whole epoch, even after a state was restored.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |loader| to_usize(loader.epoch_len()))
    }

    /// Starts the next iteration at the beginning of this epoch. If a state of the epoch was restored and
    /// nothing has been handed out since, the next iteration starts at that state instead. All other
    /// iterations end.
    fn set_epoch(&self, py: Python<'_>, epoch: u32) -> PyResult<()> {
        let set = self.with(py, |loader| {
            self.replace_iterations();
            match loader.phase() {
                EpochPhase::Fresh if loader.state().epoch == epoch => Ok(()),
                _ => loader.set_epoch(epoch),
            }
        });
        set?.map_err(raise)
    }

    /// Returns the state of the loader (fingerprint, seed, epoch, samples consumed and their unit), and the
    /// phase of the epoch: fresh, running, ended or broken.
    fn state(&self, py: Python<'_>) -> PyResult<(Resume, &'static str)> {
        let (state, phase) = self.with(py, |loader| (loader.state(), loader.phase()))?;
        let unit = state.unit.to_string();
        let phase = match phase {
            EpochPhase::Fresh => "fresh",
            EpochPhase::Ended => "ended",
            EpochPhase::Broken => "broken",
            _ => "running",
        };
        Ok(((state.fingerprint.to_string(), state.seed, state.epoch, state.samples_consumed, unit), phase))
    }

    /// Returns true if the loader has threads. In a fork, returns true if it had threads before the fork.
    #[getter]
    fn has_threads(&self) -> bool {
        self.has_threads.load(Ordering::Relaxed)
    }

    /// Returns the number of samples or patches per epoch, over all ranks.
    fn positions(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.positions())
    }

    fn restore(
        &self,
        py: Python<'_>,
        fingerprint: String,
        seed: u64,
        epoch: u32,
        samples_consumed: u64,
        unit: String,
    ) -> PyResult<()> {
        let fingerprint = fingerprint.try_into().map_err(PyValueError::new_err)?;
        let unit = unit.try_into().map_err(PyValueError::new_err)?;
        let state = OrderState { fingerprint, seed, epoch, samples_consumed, unit };
        let restored = self.with(py, |loader| loader.restore(&state).inspect(|()| _ = self.replace_iterations()));
        restored?.map_err(raise)
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |loader| loader.names().map(str::to_owned).collect())
    }

    fn predicted_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.predicted_bytes())
    }

    fn predicted_device_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.predicted_device_bytes())
    }

    /// Returns the rows that the host decoded instead of the device. For each reason, this is the number of rows
    /// and the keys of the first rows.
    fn refusals(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, Vec<String>)>> {
        let all = self.with(py, |loader| loader.refusals())?;
        Ok(all.into_iter().map(|refusal| (refusal.reason, refusal.rows, refusal.first)).collect())
    }

    /// Returns the number of pictures that have more than 8 bits per sample and have been decoded to 8 bits so far.
    fn narrowed_pictures(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.narrowed_pictures())
    }

    /// Returns statistics since the loader was opened.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, |loader| loader.stats())?;
        let dict = PyDict::new(py);
        let counts = [
            ("batches", stats.batches),
            ("samples", stats.samples),
            ("read_bytes", stats.read_bytes),
            ("output_bytes", stats.output_bytes),
            ("skipped", stats.skipped),
            ("narrowed_pictures", stats.narrowed_pictures),
            ("wrong_indexes", stats.wrong_indexes),
            ("extra_slots", stats.extra_slots),
            ("grown_slots", stats.grown_slots),
            ("device_rows", stats.device_rows),
            ("resident_values", stats.resident_values),
            ("peak_run_bytes", stats.peak_run_bytes),
            ("peak_rss_bytes", stats.peak_rss_bytes),
            ("predicted_bytes", stats.predicted_bytes),
            ("window_in_page_cache", u64::from(stats.window_in_page_cache)),
            ("requests", stats.traffic.requests),
            ("retried_requests", stats.traffic.retries),
            ("hedged_requests", stats.traffic.hedges),
            ("fetched_bytes", stats.traffic.fetched_bytes),
            ("peak_requests_in_flight", stats.traffic.peak_in_flight),
            ("peak_fetched_bytes_held", stats.traffic.peak_held_bytes),
            ("cache_hits", stats.traffic.cache.hits),
            ("cache_misses", stats.traffic.cache.misses),
            ("cache_hit_bytes", stats.traffic.cache.hit_bytes),
            ("cache_evicted", stats.traffic.cache.evicted),
            ("cache_dropped", stats.traffic.cache.dropped),
            ("cache_failed_writes", stats.traffic.cache.failed_writes),
        ];
        let figures = [
            ("read_s", stats.read_s),
            ("crc_s", stats.crc_s),
            ("decode_s", stats.decode_s),
            ("idle_for_consumer_s", stats.idle_for_consumer_s),
            ("idle_for_data_s", stats.idle_for_data_s),
            ("consumer_wait_s", stats.consumer_wait_s),
            ("queue_fill", stats.queue_fill),
        ];
        for (name, value) in counts {
            dict.set_item(name, value)?;
        }
        for (name, value) in figures {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Ends the loader's threads and the worker processes of its transform. Batches stay valid.
    fn close(&self, py: Python<'_>, workers: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.check_process()?;
        // Close the loader before the processes end. A thread that waits for a batch then raises the error for a closed
        // loader, not for an ended process.
        let inner = detached(py, || self.lock().take())?;
        let ended = workers.map(|workers| workers.call_method0("close")).transpose();
        detached(py, || drop(inner))?;
        ended.map(drop)
    }
}

/// Releases the interpreter while the threads end, because a thread may be waiting for it to call a transform.
impl Drop for PyLoader {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Ignore a panic: there is no caller to report it to.
        Python::try_attach(|py| detached(py, || drop(inner)).ok());
    }
}

impl PyLoader {
    /// Ends all iterations and returns the number of the next one. The loader must be locked.
    fn replace_iterations(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns an error in a forked process, because a thread that exists only in the parent process may hold the lock.
    fn check_process(&self) -> PyResult<()> {
        match std::process::id() == self.pid {
            true => Ok(()),
            false => Err(PyRuntimeError::new_err(
                "this loader was started in the parent process and cannot be used after a fork\n\
                 hint: create the loader in the child process, or use the `spawn` start method for workers",
            )),
        }
    }

    /// Locks the loader. [`Self::next`] releases the lock every [`PATIENCE`], but takes it again at once, before a
    /// waiting thread wakes up. So a waiting thread holds the entrance, which makes it the next in line. Otherwise
    /// `close` would wait as long as a read hangs.
    fn lock(&self) -> MutexGuard<'_, Option<shardpack_loader::Loader>> {
        let _entrance = self.entrance.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the loader. Releases the interpreter, because another thread may hold the lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut shardpack_loader::Loader) -> T + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        detached(py, || self.lock().as_mut().map(work))?.ok_or_else(|| PyRuntimeError::new_err("the loader is closed"))
    }
}
