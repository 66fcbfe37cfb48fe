//! Options of a run, none of which changes a byte of the dataset.

use crate::part::Part;
use crate::report::Progress;
use std::fmt;
use std::sync::atomic::AtomicBool;

/// Options of [`write_dataset`](crate::write_dataset).
///
/// # Memory
/// With `T` threads, samples in flight take at most `max(largest sample, min(memory_bytes, max(64 MiB, 2·T
/// samples)))`. A sample being encoded counts [`memory_bytes`](crate::SampleSource::memory_bytes); an encoded
/// sample counts its record size until written. In addition there are at most `T + 1` used record buffers, 16
/// MiB of write buffers, and the index of the current shard (about 32 bytes and the key per sample).
#[derive(Clone, Copy)]
pub struct WriteOptions<'a> {
    /// Number of encoding threads, at least 1. Default: the number that the system reports. Writing and
    /// hashing have their own threads.
    pub threads: usize,
    /// Budget for samples in flight, in bytes. Default 1 GiB. One sample is always allowed, whatever its size.
    pub memory_bytes: u64,
    /// Slice of the shards to write, after which [`merge`](crate::merge) finishes the dataset. Default: all shards.
    pub part: Option<Part>,
    /// True to start over: removes everything that an earlier run of this crate left in the folder, finished
    /// or not, damaged or not. With a part, removes only the files of an earlier run of that part; a part
    /// does not replace a complete dataset. Default: false.
    pub force: bool,
    /// Progress function, called on the calling thread about ten times a second and at the end.
    pub on_progress: Option<&'a dyn Fn(&Progress)>,
    /// Flag that stops the run when any thread sets it. Finished shards stay; temporary files are removed.
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
