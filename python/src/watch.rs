//! Long work without the interpreter: it runs on its own thread, while the caller's thread checks
//! for signals and reports progress.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often signals are checked, and progress is reported.
const PATIENCE: Duration = Duration::from_millis(100);

/// Raised when the work has ended, even by a panic.
#[derive(Default)]
struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

struct EndOnDrop<'a>(&'a Ended);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Ended {
    /// Waits a moment, and returns whether the work has ended.
    fn wait(&self) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, PATIENCE, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Runs `work` without the interpreter. `work` gets a flag that is raised when it has to stop, and
/// a function to report how far it is. `progress` is called with that report, as a dict, on this
/// thread.
///
/// An exception from `progress`, or from a signal (Ctrl-C), stops the work. It is raised here once
/// the work has stopped.
pub(crate) fn watch<P: Send, R: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    describe: impl Fn(&P, &Bound<'_, PyDict>) -> PyResult<()>,
    work: impl FnOnce(&Arc<AtomicBool>, &(dyn Fn(P) + Sync)) -> R + Send,
) -> PyResult<R> {
    let (cancel, ended, latest) = (Arc::new(AtomicBool::new(false)), Ended::default(), Mutex::new(None::<P>));
    let tell = |now: P| *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    let look = || -> PyResult<()> {
        py.check_signals()?;
        let now = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(now), Some(progress)) = (now, progress) {
            let dict = PyDict::new(py);
            describe(&now, &dict)?;
            progress.call1((dict,))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let (cancel, ended, tell) = (&cancel, &ended, &tell);
        let name = thread::Builder::new().name("shardpack".into());
        let worker = name.spawn_scoped(scope, move || {
            let _end = EndOnDrop(ended);
            work(cancel, tell)
        })?;
        let mut raised = None;
        loop {
            let is_over = py.detach(|| ended.wait());
            if raised.is_none()
                && let Err(error) = look()
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
            (None, Err(panic)) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                Err(PyRuntimeError::new_err(format!("a defect of shardpack: {text}")))
            }
        }
    })
}
