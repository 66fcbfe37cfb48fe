//! Reads every byte of a dataset and says what is wrong: which file, which sample, which offset.
//!
//! The work is cut into spans of consecutive records that threads take in turn. Each thread reads
//! its span in pieces of 512 KiB into a buffer that stays in its cache, and checks there: the CRC32
//! then costs a few percent of the read. After a damaged record it goes on with the next one.

mod dataset;
mod fields;
mod problem;
mod shard;
mod statements;
mod target;
mod unique;
mod work;

pub use problem::Problem;
pub(crate) use shard::hash_file;

use crate::error::Result;
use crate::shard::Shard;
use shardpack_format::{Limits, Manifest};
use shardpack_io::Storage;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Decodes a picture of a media type. Handed in by the caller, who chooses the decoder. The error says
/// what is wrong.
pub type DecodePicture<'a> = dyn Fn(&str, &[u8]) -> Result<(), String> + Sync + 'a;

/// Called from the threads that verify, after each piece of work.
pub type OnProgress<'a> = dyn Fn(Progress) + Sync + 'a;

/// Called from the threads that verify with the number of each target and the shard, once its
/// header, footer and index were found right.
pub type OnShard<'a> = dyn Fn(usize, &Shard) + Sync + 'a;

/// How far a verification is.
///
/// ```
/// use shardpack_reader::Progress;
/// let progress = Progress { bytes_done: 1 << 20, bytes_total: 4 << 20, samples_done: 9, samples_total: None };
/// assert!(progress.bytes_done <= progress.bytes_total);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub bytes_done: u64,
    /// Bytes of all shards.
    pub bytes_total: u64,
    /// Samples checked so far.
    pub samples_done: u64,
    /// Samples that the manifest counts. `None` for a lone shard.
    pub samples_total: Option<u64>,
}

/// What to verify, and how.
#[derive(Default, Clone)]
pub struct VerifyOptions<'a> {
    /// What the files may ask for.
    pub limits: Limits,
    /// The generation of a dataset to verify, from 1; default the newest.
    pub generation: Option<u32>,
    /// Decode every field: arrays through their codec, text as UTF-8, JSON, and pictures by this
    /// function. `None`: structure and CRC32 only.
    pub deep: Option<&'a DecodePicture<'a>>,
    /// Compare the SHA-256 of each shard with the manifest. Each shard is then read by one thread.
    pub digest: bool,
    /// Threads; 0, the default, for as many as there are cores.
    pub threads: usize,
    /// Whether shards may be symlinks, to anywhere.
    pub follow_symlinks: bool,
    /// Called with each shard that opens, in any order: to compare what the manifest says with what
    /// only the caller can make of the columns.
    pub on_shard: Option<&'a OnShard<'a>>,
    /// Called after each piece of work.
    pub on_progress: Option<&'a OnProgress<'a>>,
    /// Set it to stop early; the report then says so.
    pub cancel: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for VerifyOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyOptions")
            .field("limits", &self.limits)
            .field("deep", &self.deep.is_some())
            .field("digest", &self.digest)
            .field("threads", &self.threads)
            .field("follow_symlinks", &self.follow_symlinks)
            .finish_non_exhaustive()
    }
}

/// What `verify` found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerifyReport {
    /// Shards that were looked for.
    pub shards: u64,
    /// Samples that were checked, whole or not.
    pub samples: u64,
    /// Samples with at least one problem of their own.
    pub damaged_samples: u64,
    /// Samples that the manifest counts and that were not found, because their shard is gone or
    /// cut.
    pub missing_samples: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Everything that is wrong, by shard and offset. Empty: the dataset is whole.
    pub problems: Vec<Problem>,
    /// What is worth knowing, but not wrong: files in the folder that the manifest does not name.
    pub notes: Vec<String>,
    /// Whether it was stopped before the end.
    pub cancelled: bool,
    /// The manifest that was verified, and where it was, if there is one and it can be read. Another
    /// may be in its place by now.
    pub manifest: Option<(PathBuf, Manifest)>,
}

impl VerifyReport {
    /// Whether everything was read and nothing is wrong.
    ///
    /// ```
    /// assert!(shardpack_reader::VerifyReport::default().is_whole());
    /// ```
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.problems.is_empty() && !self.cancelled
    }
}

/// Verifies the dataset at `path`: a folder, a manifest, or a lone shard.
///
/// Checked are all bytes: header, footer and index of each shard; frame, CRC32, head and padding of
/// each record; that record and index say the same; fields against the schema; labels against the
/// classes; keys and sample ids, which must be unique; shards against the manifest. Not checked is
/// what nothing in the dataset can confirm: the minor version in the manifest, and its figures of
/// fidelity, which are for [`VerifyOptions::on_shard`]; and, without [`VerifyOptions::digest`], its
/// SHA-256 digests. Memory: a buffer of 512 KiB, or the largest record, for each thread; the
/// indexes of the shards at work; 56 bytes a sample.
///
/// # Errors
/// Only if there is nothing to verify: `Io` if `path` cannot be opened, `Usage` if it holds neither
/// a manifest nor a shard. What is wrong with the data, files that are missing or cannot be read
/// included, stands in the report.
///
/// ```no_run
/// let report = shardpack_reader::verify("train", &Default::default())?;
/// for problem in &report.problems {
///     println!("{problem}");
/// }
/// assert!(report.is_whole());
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
pub fn verify(path: impl AsRef<Path>, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    dataset::verify(path.as_ref(), options)
}

/// Verifies what stands in `storage`: the dataset, or, with a `name`, that manifest or lone shard.
///
/// # Errors
/// As [`verify`].
pub fn verify_in(storage: Arc<dyn Storage>, name: Option<&str>, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    dataset::verify_in(storage, name, options)
}
