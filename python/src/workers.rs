//! Calls a transform written in Python in separate processes. Each process has its own interpreter, so the loader's
//! threads need none.
//!
//! After a thread has decoded a row, it sends the row to a process over a socket and overwrites it with the answer.
//! `python/shardpack/_workers.py` starts the processes and implements their side. The message for a row has two parts.
//! All integers are little-endian:
//!
//! 1. the length of a JSON object as u32, and the object: `index`, `key`, `epoch`, `seed`, and `fields`, a list of
//!    `[name, type, shape]`;
//! 2. the bytes of each field.
//!
//! The answer begins with the length of an error as u32. If the length is not 0, the text of the error follows. If it
//! is 0, the bytes of each field follow. A process that is ready sends a length of 0.

use crate::transform::{describe, seed, type_name};
use pyo3::prelude::*;
use serde_json::json;
use shardpack_format::Note;
use shardpack_loader::{Transform, TransformRow};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

/// Maximum size in bytes of an error from a process.
const MAX_ERROR: u32 = 1 << 20;

/// Processes that transform rows. They are started on demand. A process that has ended is replaced when the next row
/// needs it, unless no process has ever been ready.
pub(crate) struct Workers {
    /// Python object of class `shardpack._workers.Workers`.
    processes: Py<PyAny>,
    /// One slot per process: its number, and its socket if it is running.
    idle: Mutex<Vec<(usize, Option<UnixStream>)>>,
    returned: Condvar,
    /// Why the first process ended before it was ready. Other processes would end in the same way.
    failed: OnceLock<Note>,
    /// True after any process has been ready.
    had_one: AtomicBool,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workers")
    }
}

impl Workers {
    pub(crate) fn new(processes: Py<PyAny>, count: usize) -> Self {
        let idle = (0..count).rev().map(|number| (number, None)).collect();
        Self {
            processes,
            idle: Mutex::new(idle),
            returned: Condvar::new(),
            failed: OnceLock::new(),
            had_one: AtomicBool::new(false),
        }
    }

    /// Waits for a free slot, and prefers one with a running process.
    fn take(&self) -> (usize, Option<UnixStream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let there = idle.iter().rposition(|(_, process)| process.is_some());
            if let Some(place) = there.or_else(|| idle.len().checked_sub(1)) {
                return idle.swap_remove(place);
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, number: usize, process: Option<UnixStream>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((number, process));
        self.returned.notify_one();
    }

    fn start(&self, number: usize) -> Result<UnixStream, Note> {
        let (mut ours, theirs) =
            UnixStream::pair().map_err(|error| format!("cannot create a socket for a worker process: {error}"))?;
        let started = Python::try_attach(|py| {
            // The Python side now owns this descriptor.
            let started = self.processes.call_method1(py, "start", (number, theirs.into_raw_fd()));
            started.map(drop).map_err(|error| describe(py, &error))
        });
        started.ok_or("the Python interpreter is shutting down")??;
        let note = match error_of(&mut ours) {
            Ok(None) => {
                self.had_one.store(true, Ordering::Relaxed);
                return Ok(ours);
            }
            Ok(Some(text)) => {
                self.ended(number);
                format!("in a worker process: {text}").into()
            }
            Err(_) => Note::from(format!("a worker process {} before it was ready", self.ended(number))).with_hint(
                "read the output of the process for the reason; each worker process imports your program again, so \
                 move the code that uses the loader below `if __name__ == \"__main__\":`",
            ),
        };
        // Every later row would fail in the same way.
        match self.had_one.load(Ordering::Relaxed) {
            true => Err(note),
            false => Err(self.failed.get_or_init(|| note).clone()),
        }
    }

    /// Lets process `number` transform a row, and starts the process if necessary. Returns the process and,
    /// if the transform raised an exception, its message.
    fn changed(
        &self,
        number: usize,
        there: Option<UnixStream>,
        row: &mut TransformRow<'_>,
    ) -> Result<(UnixStream, Option<String>), Note> {
        let mut process = match (there, self.failed.get()) {
            (Some(process), _) => process,
            (None, Some(note)) => return Err(note.clone()),
            (None, None) => self.start(number)?,
        };
        match exchange(&mut process, row) {
            Ok(said) => Ok((process, said)),
            Err(_) => {
                // If the process is still running, closing the socket ends it.
                drop(process);
                Err(format!("a worker process {} while transforming a sample", self.ended(number)).into())
            }
        }
    }

    fn ended(&self, number: usize) -> String {
        let said = Python::try_attach(|py| self.processes.call_method1(py, "ended", (number,))?.extract::<String>(py));
        said.and_then(Result::ok).unwrap_or_else(|| "ended".to_owned())
    }
}

impl Transform for Workers {
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note> {
        let (number, there) = self.take();
        let (left, changed) = match self.changed(number, there, row) {
            Ok((process, said)) => (Some(process), said.map_or(Ok(()), |text| Err(text.into()))),
            Err(note) => (None, Err(note)),
        };
        self.give_back(number, left);
        changed
    }
}

/// Lets a process transform a row. If the transform raises an exception, returns its message and leaves the
/// row unchanged.
fn exchange(process: &mut UnixStream, row: &mut TransformRow<'_>) -> io::Result<Option<String>> {
    let fields: Vec<_> =
        row.fields.iter().map(|field| json!([field.name, type_name(field.dtype), field.shape])).collect();
    let epoch = row.draws.epoch & u64::from(u32::MAX);
    let said = json!({ "index": row.index, "key": row.key, "epoch": epoch, "seed": seed(row), "fields": fields });
    let said = said.to_string();
    let length = u32::try_from(said.len()).map_err(io::Error::other)?.to_le_bytes();
    // Do not use a vectored write. If the process has ended, it raises SIGPIPE in programs that have enabled this
    // signal.
    process.write_all(&[&length, said.as_bytes()].concat())?;
    for field in &row.fields {
        process.write_all(field.bytes)?;
    }
    if let Some(text) = error_of(process)? {
        return Ok(Some(text));
    }
    for field in &mut row.fields {
        process.read_exact(field.bytes)?;
    }
    Ok(None)
}

fn error_of(process: &mut UnixStream) -> io::Result<Option<String>> {
    let mut length = [0; 4];
    process.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length == 0 {
        return Ok(None);
    }
    if length > MAX_ERROR {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    process.take(u64::from(length)).read_to_end(&mut text)?;
    match text.len() as u64 == u64::from(length) {
        true => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
