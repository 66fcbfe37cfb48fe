//! Options of a run. None of them changes a byte of the dataset.

use crate::part::Part;
use crate::report::Progress;
use std::fmt;
use std::sync::atomic::AtomicBool;

/// Options of [`write_dataset`](crate::write_dataset).
///
/// # Memory
/// With `T` threads, samples in flight take at most `max(largest sample, min(memory_bytes, max(64
/// MiB, 2·T samples)))`. A sample that is being encoded counts
/// [`memory_bytes`](crate::SampleSource::memory_bytes); an encoded sample that is not yet written
/// counts the size of its record. In addition there are at most `T + 1` used record buffers, 16 MiB
/// of write buffers, and the index of the shard being written (about 32 bytes and the key per
/// sample).
#[derive(Clone, Copy)]
pub struct WriteOptions<'a> {
    /// Threads that encode, at least 1; default: as many as the system reports. Writing and hashing
    /// have their own threads.
    pub threads: usize,
    /// Budget for samples in flight, in bytes; default 1 GiB. One sample is always allowed,
    /// whatever its size.
    pub memory_bytes: u64,
    /// Write only this slice of the shards; [`merge`](crate::merge) finishes the dataset. Default:
    /// all of it.
    pub part: Option<Part>,
    /// Start over: remove what an earlier run of this crate left in the folder, finished or not,
    /// damaged or not. With a part, remove only what an earlier run of that part left; a part does
    /// not replace a complete dataset. Default: false.
    pub force: bool,
    /// Called on the calling thread, about ten times a second and at the end.
    pub on_progress: Option<&'a dyn Fn(&Progress)>,
    /// Set it to true, from any thread, to stop: finished shards stay, and temporary files are
    /// removed.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
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
