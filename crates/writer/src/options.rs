//! How to run a plan: nothing here changes a byte of the dataset.

use crate::error::{Error, Result};
use crate::report::Progress;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// One of several contiguous slices of a plan's shards, so that several machines can write one
/// dataset into one folder.
///
/// Counted from 0 here. Messages and file names count from 1, like the command line.
///
/// ```
/// use shardpack_writer::Part;
/// let part = Part::new(1, 4)?;
/// assert_eq!(part.to_string(), "2/4");
/// assert_eq!(part.shards(10), 2..5);
/// assert!(Part::new(4, 4).is_err());
/// # Ok::<(), shardpack_writer::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    index: u32,
    count: u32,
}

impl Part {
    /// Part `index`, from 0, of `count`.
    ///
    /// # Errors
    /// `Usage` unless `index < count`.
    pub fn new(index: u32, count: u32) -> Result<Self> {
        if index < count {
            return Ok(Self { index, count });
        }
        let found = format!("{}/{count}", u64::from(index) + 1);
        Err(Error::usage("part", format!("a number from 1 to {count}"), found, "the last of 4 parts is 4/4"))
    }

    /// Number of this part, from 0.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Number of parts.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The suffix of the names of this part's own files.
    pub(crate) fn suffix(self) -> String {
        format!("-{:05}-of-{:05}", u64::from(self.index) + 1, self.count)
    }

    /// The shards of this part, of `shards` in all: from `⌊shards · index / count⌋` up to, but not
    /// including, `⌊shards · (index + 1) / count⌋`.
    #[must_use]
    pub fn shards(self, shards: u32) -> Range<u32> {
        // At most `shards`, because no `i` is above the count.
        let edge = |i: u64| u32::try_from(u64::from(shards) * i / u64::from(self.count)).unwrap_or(shards);
        edge(u64::from(self.index))..edge(u64::from(self.index) + 1)
    }

    /// The part of `count` that has shard `number` of `shards`.
    pub(crate) fn of_shard(number: u32, shards: u32, count: u32) -> Result<Self> {
        // The largest index with ⌊shards · index / count⌋ ≤ number.
        let above = (u64::from(number) + 1) * u64::from(count);
        let index = above.div_ceil(u64::from(shards).max(1)).saturating_sub(1);
        Self::new(u32::try_from(index).unwrap_or(u32::MAX), count)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", u64::from(self.index) + 1, self.count)
    }
}

/// Options of [`write_dataset`](crate::write_dataset).
///
/// # Memory
/// With `T` threads, samples in flight take at most
/// `max(largest sample, min(memory_bytes, max(64 MiB, 2·T samples)))`.
/// A sample that is being encoded counts
/// [`memory_bytes`](crate::SampleSource::memory_bytes); one that is encoded and not yet written
/// counts the size of its record. Besides them there are at most `T + 1` used record buffers, 16
/// MiB of write buffers, and the index of the shard being written (about 32 bytes and the key per
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
    /// Set it to true, from anywhere, to stop: finished shards stay, and temporary files are
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
