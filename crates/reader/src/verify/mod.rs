//! Reads every byte of a dataset, and reports errors by file, sample and offset.
//!
//! The records are divided into spans of consecutive records, and each thread verifies one span after another. It reads
//! a span in pieces of 512 KiB, and checks them while they are in the CPU cache, so the CRC32 costs only a few percent
//! of the read. After a damaged record, it continues with the next one.

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

/// A picture decoder provided by the caller. It receives the media type and the bytes of a picture, and returns an
/// error message if decoding fails.
pub type DecodePicture<'a> = dyn Fn(&str, &[u8]) -> Result<(), String> + Sync + 'a;

/// Progress callback. The verifying threads call it after each piece of work.
pub type OnProgress<'a> = dyn Fn(Progress) + Sync + 'a;

/// Callback for each shard with an intact header, footer and index. The verifying threads call it with the
/// index of the target.
pub type OnShard<'a> = dyn Fn(usize, &Shard) + Sync + 'a;

/// The progress of a running verification.
///
/// ```
/// use shardpack_reader::Progress;
/// let progress = Progress { bytes_done: 1 << 20, bytes_total: 4 << 20, samples_done: 9, samples_total: None };
/// assert!(progress.bytes_done <= progress.bytes_total);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Number of bytes read so far.
    pub bytes_done: u64,
    /// Total bytes of all shards.
    pub bytes_total: u64,
    /// Number of samples checked so far.
    pub samples_done: u64,
    /// Number of samples according to the manifest, or `None` for a lone shard.
    pub samples_total: Option<u64>,
}

/// Options for verifying a dataset.
#[derive(Default, Clone)]
pub struct VerifyOptions<'a> {
    /// Limits on the sizes that a file may declare.
    pub limits: Limits,
    /// Generation of the dataset to verify, counted from 1. Default: the newest.
    pub generation: Option<u32>,
    /// Decode every field: arrays with their codec, text as UTF-8, JSON, and pictures with this function. With
    /// `None`, only structure and CRC32s are checked.
    pub deep: Option<&'a DecodePicture<'a>>,
    /// Compare the SHA-256 of each shard with the manifest. Each shard is then read by a single thread.
    pub digest: bool,
    /// Number of threads. Default: 0, which means one per core.
    pub threads: usize,
    /// Allow shards to be symlinks to any file.
    pub follow_symlinks: bool,
    /// Called with each shard that could be opened, in any order. The caller can, for example, compute fidelity
    /// statistics from the columns and compare them with the manifest.
    pub on_shard: Option<&'a OnShard<'a>>,
    /// Called after each piece of work with the progress so far.
    pub on_progress: Option<&'a OnProgress<'a>>,
    /// Stops the verification early when set to true. The report is then marked as cancelled.
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

/// The problems and totals that a verification found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerifyReport {
    /// Number of shards that the dataset should have.
    pub shards: u64,
    /// Number of samples checked, whether intact or damaged.
    pub samples: u64,
    /// Number of samples with at least one problem.
    pub damaged_samples: u64,
    /// Number of samples that the manifest counts but that were not found, because their shard is missing or truncated.
    pub missing_samples: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// All problems, sorted by shard and offset. Empty if the dataset is intact.
    pub problems: Vec<Problem>,
    /// Remarks that are not problems, such as files in the folder that are not in the manifest.
    pub notes: Vec<String>,
    /// True if the verification was stopped early.
    pub cancelled: bool,
    /// The verified manifest and its path, if the manifest exists and is readable. The file itself may have
    /// been replaced in the meantime.
    pub manifest: Option<(PathBuf, Manifest)>,
}

impl VerifyReport {
    /// Returns true if the verification was not cancelled and found no problems.
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
/// All bytes are checked: header, footer and index of each shard; frame, CRC32, head and padding of each record;
/// records against the index; fields against the schema; labels against the classes; keys and sample ids for
/// duplicates; and shards against the manifest. SHA-256 digests are checked only with [`VerifyOptions::digest`]. Two
/// values in the manifest are not checked: the minor version, and the fidelity statistics, which
/// [`VerifyOptions::on_shard`] can check.
///
/// Needs memory for a buffer per thread (512 KiB or the largest record), the indexes of the shards being checked, and
/// 56 bytes per sample.
///
/// # Errors
/// Only if there is nothing to verify: `Io` if `path` cannot be opened, `Usage` if it contains neither a
/// manifest nor a shard. All problems in the data, including missing and unreadable files, are listed in the
/// report.
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

/// Verifies the dataset in `storage`, or the manifest or lone shard `name` in it.
///
/// # Errors
/// Same as [`verify`].
pub fn verify_in(storage: Arc<dyn Storage>, name: Option<&str>, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    dataset::verify_in(storage, name, options)
}
