//! Options of a run. No option affects the bytes of the dataset.

use crate::error::{Error, Result};
use crate::part::Part;
use crate::report::Progress;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of [`write_dataset`](crate::write_dataset).
///
/// # Memory
/// With `T` threads, samples in flight take at most `max(largest sample, min(memory_bytes, max(64 MiB, 2·T samples)))`.
/// While a sample is being encoded, it counts with its [`memory_bytes`](crate::SampleSource::memory_bytes). From then
/// until it is written, it counts with the size of its record. In addition, there are at most `T + 1` record buffers
/// for reuse, 16 MiB of write buffers, and the index of the current shard (about 32 bytes plus the key for each
/// sample).
#[derive(Clone, Copy)]
pub struct WriteOptions<'a> {
    /// Number of encoding threads, at least 1. Writing and hashing have their own threads. Default: the number of CPUs
    /// that the system reports.
    pub threads: usize,
    /// Memory budget for samples in flight, in bytes. Default 1 GiB. One sample is always admitted,
    /// regardless of its size.
    pub memory_bytes: u64,
    /// The part of the dataset that this run writes. Once all parts are written, [`merge`](crate::merge) finishes the
    /// dataset. Default: all shards.
    pub part: Option<Part>,
    /// If true, starts over: removes everything that an earlier run of this crate left in the folder, finished or not,
    /// damaged or not. With a part, only the files of an earlier run of that part are removed, and a complete dataset
    /// is not replaced. Default: false.
    pub force: bool,
    /// Progress callback. Called by the thread that started the run, about ten times a second and at the end.
    pub on_progress: Option<&'a dyn Fn(&Progress)>,
    /// Any thread can set this flag to stop the run. Finished shards stay, and temporary files are removed.
    pub cancel: Option<&'a AtomicBool>,
}

impl WriteOptions<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        match self.threads {
            0 => Err(Error::usage("the number of threads must be at least 1, not 0", "")),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self {
            threads: shardpack_io::cores(),
            memory_bytes: 1 << 30,
            part: None,
            force: false,
            on_progress: None,
            cancel: None,
        }
    }
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("threads", &self.threads)
            .field("memory_bytes", &self.memory_bytes)
            .field("part", &self.part)
            .field("force", &self.force)
            .finish_non_exhaustive()
    }
}
