//! Runs long work without holding the interpreter. The work runs on its own thread, while the caller's thread
//! checks for signals and reports progress.
//!
//! Work that writes receives a request to stop, and the caller waits until it has ended ([`watch`]). Work that only
//! reads is abandoned ([`leave`], [`heard`]), so that a silent or slow server cannot block a caller. Short work runs on
//! the caller's thread ([`detached`]). All of these functions turn a panic into an exception, so no other file may
//! release the interpreter (checked by `tests/integration/layers.rs`).

use crate::errors::raise;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardpack_format::Error;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval between checks for signals, and between reports of progress.
const PATIENCE: Duration = Duration::from_millis(100);

/// State shared by the working thread and the waiting thread.
struct Told<P> {
    has_ended: Mutex<bool>,
    changed: Condvar,
    /// The latest progress, until it is reported.
    latest: Mutex<Option<P>>,
}

impl<P> Default for Told<P> {
    fn default() -> Self {
        Self { has_ended: Mutex::default(), changed: Condvar::new(), latest: Mutex::default() }
    }
}

/// Signals the end of the work when it is dropped, even after a panic.
struct EndOnDrop<'a, P>(&'a Told<P>);

impl<P> Drop for EndOnDrop<'_, P> {
    fn drop(&mut self) {
        *self.0.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl<P> Told<P> {
    /// Waits for up to [`PATIENCE`]. Returns true if the work has ended.
    fn wait(&self) -> bool {
        let ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(ended, PATIENCE, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn tell(&self, now: P) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn look(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        describe: &impl Fn(&P, &Bound<'_, PyDict>) -> PyResult<()>,
    ) -> PyResult<()> {
        py.check_signals()?;
        let now = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(now), Some(progress)) = (now, progress) {
            let dict = PyDict::new(py);
            describe(&now, &dict)?;
            progress.call1((dict,))?;
        }
        Ok(())
    }
}

fn defect(panic: &(dyn Any + Send)) -> PyErr {
    raise(Error::panicked("this call", panic))
}

fn named() -> thread::Builder {
    thread::Builder::new().name("shardpack".into())
}

/// Runs `work` on this thread without holding the interpreter. A panic is raised as a Python error.
pub(crate) fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| defect(&*panic))
}

/// Runs `work` without holding the interpreter. `work` receives a flag that tells it to stop, and a function to report
/// its progress. `progress` is called on this thread with each report, as a dict.
///
/// An exception from `progress` or from a signal (Ctrl-C) stops the work, and is raised once the work has stopped.
pub(crate) fn watch<P: Send, R: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    describe: impl Fn(&P, &Bound<'_, PyDict>) -> PyResult<()>,
    work: impl FnOnce(&Arc<AtomicBool>, &(dyn Fn(P) + Sync)) -> R + Send,
) -> PyResult<R> {
    watch_with(py, &Arc::default(), progress, describe, work)
}

/// Like [`watch_with`], for work that reports no progress.
pub(crate) fn watch_quietly<R: Send>(
    py: Python<'_>,
    cancel: &Arc<AtomicBool>,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    watch_with(py, cancel, None, |_: &(), _: &Bound<'_, PyDict>| Ok(()), |_, _| work())
}

/// Like [`watch`], but asks the work to stop by setting `cancel`. The lower layers check this flag.
pub(crate) fn watch_with<P: Send, R: Send>(
    py: Python<'_>,
    cancel: &Arc<AtomicBool>,
    progress: Option<&Bound<'_, PyAny>>,
    describe: impl Fn(&P, &Bound<'_, PyDict>) -> PyResult<()>,
    work: impl FnOnce(&Arc<AtomicBool>, &(dyn Fn(P) + Sync)) -> R + Send,
) -> PyResult<R> {
    let told = Told::default();
    thread::scope(|scope| {
        let told = &told;
        let worker = named().spawn_scoped(scope, move || {
            let _end = EndOnDrop(told);
            work(cancel, &|now| told.tell(now))
        })?;
        let mut raised = None;
        loop {
            let is_over = py.detach(|| told.wait());
            if raised.is_none()
                && let Err(error) = told.look(py, progress, &describe)
            {
                cancel.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
            if is_over {
                break;
            }
        }
        let result = py.detach(|| worker.join());
        match (raised, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => Ok(result),
            (None, Err(panic)) => Err(defect(&*panic)),
        }
    })
}

/// Like [`watch`], for work that only reads. An exception is raised at once, and the work and its reads from a store
/// receive a request to stop. A request to a silent server times out later on its own thread.
pub(crate) fn leave<P: Send + 'static, R: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    describe: impl Fn(&P, &Bound<'_, PyDict>) -> PyResult<()>,
    work: impl FnOnce(&Arc<AtomicBool>, &(dyn Fn(P) + Sync)) -> R + Send + 'static,
) -> PyResult<R> {
    let (told, cancel) = (Arc::new(Told::default()), Arc::new(AtomicBool::new(false)));
    let (telling, flag) = (Arc::clone(&told), Arc::clone(&cancel));
    let worker = named().spawn(move || {
        let _end = EndOnDrop(&*telling);
        shardpack_io::cancellable(&flag, || work(&flag, &|now| telling.tell(now)))
    })?;
    loop {
        let is_over = py.detach(|| told.wait());
        if let Err(error) = told.look(py, progress, &describe) {
            cancel.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if is_over {
            return py.detach(|| worker.join()).map_err(|panic| defect(&*panic));
        }
    }
}

/// Runs `work`, which only reads, without holding the interpreter. If `work` may wait for a network (`is_far`), Ctrl-C
/// interrupts it as in [`leave`]. Otherwise it runs on this thread. In both cases a panic is raised as a Python error.
pub(crate) fn heard<R: Send + 'static>(
    py: Python<'_>,
    is_far: bool,
    work: impl FnOnce(&Arc<AtomicBool>) -> R + Send + 'static,
) -> PyResult<R> {
    if !is_far {
        return detached(py, || work(&Arc::default()));
    }
    leave(py, None, |(): &(), _| Ok(()), move |cancel, _| work(cancel))
}
